"""What people read: plans, statuses and outcomes, word for word."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from airflow_provider_schemamig.cli.render.common import STAGES_SHOWN, show_diff, show_outcome
from airflow_provider_schemamig.cli.render.plan import COLUMNS_SHOWN, plan_tree
from airflow_provider_schemamig.cli.render.rows import duration, show_history
from airflow_provider_schemamig.cli.render.status import COLLECTIONS_SHOWN, status_view
from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.upgrade.plan.explain import Explanation


def text_of(show: Callable[[Console], object], width: int = 110) -> str:
    file = StringIO()
    show(Console(file=file, width=width, markup=False, emoji=False, highlight=False))
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def trees(stages: list[Explanation], *, explain: bool = False) -> str:
    return text_of(lambda to: to.print(*plan_tree(stages, explain=explain), sep="\n"))


ADD = ("add gust double", "rename origin to airport")
STAGES = [
    Explanation("build", "routes", "build a replacement shard, filled on Spark from flights", Cost.REWRITE),
    Explanation(
        "expand", "flights", "; ".join(ADD), Cost.INSTANT, ADD, breaks=("positional INSERT fails",), rollback=("gust stays hidden",)
    ),
    Explanation("expand", "planes", "add seats int", Cost.INSTANT, ("add seats int",)),
    Explanation("commit", None, "1.0.0 -> 1.1.0: one ledger append, all collections together", Cost.INSTANT),
    Explanation("contract", "flights", "after the hold: drop hour", Cost.INSTANT, ("drop hour",), irreversible=("hour is gone",)),
]


def test_a_plan_is_a_tree_of_moments() -> None:
    assert trees(STAGES) == (
        "Before promotion  no live table is touched\n"
        "└── routes  build a replacement shard, filled on Spark from flights  rewrite\n"
        "Expand  adds, relaxes and widens; nothing is taken away\n"
        "├── flights  instant\n"
        "│   ├── add gust double\n"
        "│   └── rename origin to airport\n"
        "└── planes  add seats int  instant\n"
        "Cut over and commit  in force from the commit on\n"
        "└── 1.0.0 -> 1.1.0: one ledger append, all collections together  instant\n"
        "Contract  what is taken away for good, and when\n"
        "└── flights  drop hour  instant\n"
    )


COPY = Explanation(
    "copy",
    "planes",
    "copy planes with airlines on Spark into a new shard",
    Cost.REWRITE,
    ("copied at one version and followed", "airlines is read at one version"),
    rollback=("what is written after the commit goes back",),
)


def test_a_copy_is_a_sentence_and_explain_says_how() -> None:
    assert trees([COPY]) == (
        "Before promotion  no live table is touched\n└── planes  copy planes with airlines on Spark into a new shard  rewrite\n"
    )
    assert trees([COPY], explain=True) == (
        "Before promotion  no live table is touched\n"
        "└── planes  copy planes with airlines on Spark into a new shard  rewrite\n"
        "    ├── costs     rewrite: every row is written into a new table by Spark\n"
        "    ├── how       copied at one version and followed\n"
        "    ├── how       airlines is read at one version\n"
        "    └── rollback  what is written after the commit goes back\n"
    )


def test_a_table_made_anew_is_shown_with_its_columns_and_to_the_end_with_explain() -> None:
    columns = ("convert dep_delay from DOUBLE to DECIMAL(8,2)", *(f"add c{number} INT" for number in range(COLUMNS_SHOWN)))
    copy = Explanation("copy", "a", "copy a", Cost.REWRITE, columns=columns, queries=(("up", "SELECT id\nFROM {a}"),))
    short, long = trees([copy]).splitlines(), trees([copy], explain=True).splitlines()
    assert short[2] == long[2] == "    ├── convert dep_delay from DOUBLE to DECIMAL(8,2)"
    assert short[-1] == "    └── and 1 more: --explain shows them"
    assert long[-4:] == [
        f"    ├── add c{COLUMNS_SHOWN - 1} INT",
        "    ├── costs     rewrite: every row is written into a new table by Spark",
        "    └── up        SELECT id",
        "                  FROM {a}",
    ]


def test_explain_says_why_and_for_whom() -> None:
    assert trees(STAGES[1:2] + STAGES[4:], explain=True) == (
        "Expand  adds, relaxes and widens; nothing is taken away\n"
        "└── flights  instant\n"
        "    ├── add gust double\n"
        "    ├── rename origin to airport\n"
        "    ├── costs     instant: one metadata commit a table; no row is read or written, however large the table is\n"
        "    ├── breaks    positional INSERT fails\n"
        "    └── rollback  gust stays hidden\n"
        "Contract  what is taken away for good, and when\n"
        "└── flights  drop hour  instant\n"
        "    └── for good  hour is gone\n"
    )


def test_rendering_what_is_so_of_several_collections_is_explained_once() -> None:
    both = ("writers in flight abort once",)
    a = Explanation("expand", "a", "add x int", Cost.INSTANT, ("add x int",), breaks=both)
    b = Explanation("expand", "b", "add y int", Cost.INSTANT, ("add y int",), breaks=(*both, "positional INSERT fails"))
    assert trees([a, b], explain=True) == (
        "Expand  adds, relaxes and widens; nothing is taken away\n"
        "├── a  add x int  instant\n"
        "│   └── costs     instant: one metadata commit a table; no row is read or written, however large the table is\n"
        "├── b  add y int  instant\n"
        "│   └── breaks    positional INSERT fails\n"
        "└── a, b\n"
        "    └── breaks    writers in flight abort once\n"
    )


def test_a_thousand_collections_alike_are_one_branch() -> None:
    stages = [Explanation("expand", f"c{number}", "add a int", Cost.INSTANT, ("add a int",)) for number in range(1000)]
    odd = Explanation("expand", "odd", "add [b] int", Cost.INSTANT, ("add [b] int",))
    assert trees([*stages, odd]) == (
        "Expand  adds, relaxes and widens; nothing is taken away\n"
        "├── c0, c1, c2 and 997 more  add a int  instant\n"
        "└── odd  add [b] int  instant\n"
    )


def outcome(stages: list[dict[str, Any]]) -> dict[str, Any]:
    hold = {"generation": 2, "from": "1.0.0", "to": "1.1.0", "until": "2026-11-22T10:00:00+00:00", "state": "open", "over": False}
    hold |= {"rollbacks": 1}
    return {"from": "1.0.0", "to": "1.1.0", "generation": 2, "epoch": 3, "stages": stages, "pending": [hold], "notes": ["a note"]}


def stage(kind: str, collection: str | None, version: int | None = None) -> dict[str, Any]:
    return {"kind": kind, "collection": collection, "table_version": version, "seconds": 0.25}


def test_render_an_outcome() -> None:
    document = outcome([stage("expand", "flights", 7), stage("commit", None)])
    assert text_of(lambda to: show_outcome(to, document)) == (
        "1.0.0 -> 1.1.0   generation 2, epoch 3\n"
        "\n"
        "stage   collection  table version  seconds\n"
        "expand  flights                 7     0.25\n"
        "commit                                0.25\n"
        "\n"
        "The way back to 1.0.0 is open until 2026-11-22 10:00 UTC: `schemamig rollback` takes it.\n"
        "note  a note\n"
    )


def test_an_older_hold_says_how_often_a_rollback_is_to_be_run() -> None:
    """It goes one release back: where two holds are open, once does not come to the older one's release."""
    document = outcome([])
    twice = {**document["pending"][0], "rollbacks": 2}
    told = text_of(lambda to: show_outcome(to, {**document, "pending": [twice]}))
    assert "The way back to 1.0.0 is open until 2026-11-22 10:00 UTC: `schemamig rollback`, run 2 times, takes it.\n" in told


def test_read_only_work_has_no_epoch() -> None:
    document = {**outcome([stage("tail", "planes", 4)]), "epoch": None}
    assert text_of(lambda to: show_outcome(to, document)).startswith("1.0.0 -> 1.1.0   generation 2\n")


def test_many_stages_are_a_number() -> None:
    count = STAGES_SHOWN + 1
    document = outcome([stage("expand", f"c{number}", 1) for number in range(count)])
    text = text_of(lambda to: show_outcome(to, document))
    assert f"expand  {count} collections                    {0.25 * count:.2f}" in text
    assert "c0" not in text


def test_render_a_diff() -> None:
    change = {"collection": "flights", "op": "drop_column", "path": "hour", "cost": "instant", "text": "drop hour"}
    document = {"outcome": "instant", "drops_data": True, "changes": [change]}
    assert text_of(lambda to: show_diff(to, document)) == "instant   drops data\nflights  drop hour  instant\n"
    assert text_of(lambda to: show_diff(to, {"outcome": "none", "drops_data": False, "changes": []})) == "none\n"


def collection(**parts: Any) -> dict[str, Any]:
    usual = {
        "uri": "file:///lake/flights/s1",
        "shard": "s1",
        "fingerprint": "sf1:0",
        "schema_id": 1,
        "table_version": 4,
        "declared": [{"name": "a", "type": "int", "nullable": True}],
        "physical": [],
        "hidden": [],
        "in_flight": [],
        "sealed": False,
        "drift": [],
    }
    return {**usual, **parts}


def status(collections: dict[str, Any]) -> dict[str, Any]:
    deployment = {
        "generation": 1,
        "from": None,
        "to": "1.0.0",
        "state": "committed",
        "plan_digest": "0123456789abcdef" * 4,
        "created_at": "2026-11-21T10:00:00+00:00",
        "approved_by": None,
        "promoted_with": "0.1.0",
        "promoted_from": "flights@1a2b3c",
    }
    return {
        "version": "1.0.0",
        "leader": {"generation": 1, "epoch": 1, "since": "2026-11-21T10:00:00+00:00"},
        "preparing": [],
        "deployments": [deployment],
        "collections": collections,
        "retired": [],
        "progress": [],
        "controls": [],
        "pins": [],
        "holds": [],
        "elements": [],
        "nodes": [{"id": "loader", "release": "1.0.0"}],
    }


def test_render_a_status() -> None:
    document = status({"flights": collection(hidden=["hour"]), "planes": collection(drift=["column seats: unexpected"], sealed=True)})
    assert text_of(lambda to: to.print(status_view("file:///lake", document, cluster=True))) == (
        "file:///lake  at 1.0.0   generation 1 leads since 2026-11-21 10:00 UTC, epoch 1\n"
        "\n"
        "collection  shard  version  schema  columns  remarks\n"
        "flights     s1           4       1        1  hidden: hour\n"
        "planes      s1           4       1        1  drift; sealed\n"
        "drift  planes  column seats: unexpected\n"
        "\n"
        "generation  from  to     state      claimed               plan          approved by  promoted with\n"
        "         1  new   1.0.0  committed  2026-11-21 10:00 UTC  0123456789ab               0.1.0, flights@1a2b3c\n"
        "\n"
        "id      release\n"
        "loader  1.0.0\n"
    )


def test_rendering_what_is_copied_from_a_status_stays_in_one_piece_on_a_narrow_terminal() -> None:
    document = status({"flights": collection(shard="g2-1a2b3c4d5e6f", hidden=["hour", "minute", "schemamig_old_code"])})
    text = text_of(lambda to: to.print(status_view("file:///lake", document, cluster=False)), width=80)
    assert "0123456789ab " in text and "g2-1a2b3c4d5e6f " in text


def test_of_many_collections_only_those_that_need_attention_are_named() -> None:
    quiet = {f"c{number}": collection() for number in range(COLLECTIONS_SHOWN)}
    text = text_of(lambda to: to.print(status_view("file:///lake", status({**quiet, "planes": collection(sealed=True)}), cluster=False)))
    assert f"{COLLECTIONS_SHOWN} collections are as the ledger says." in text
    assert "planes" in text
    assert "c17" not in text


def test_of_many_collections_that_need_attention_the_worst_are_named_and_the_others_counted() -> None:
    """In the middle of an upgrade of 2,000 tables the way on is not to scroll away."""
    under_way = {f"c{number:04}": collection(in_flight=["expand"]) for number in range(2_000)}
    document = status({**under_way, "planes": collection(drift=["column seats: unexpected"])})
    text = text_of(lambda to: to.print(status_view("file:///lake", document, cluster=False)))
    assert "planes" in text and "1,961 more: in flight: expand (--json has all)" in text
    assert len(text.splitlines()) < COLLECTIONS_SHOWN + 12


def test_a_status_while_rows_are_copied() -> None:
    document = status({"planes": collection()})
    copying = {"collection": "planes", "generation": 2, "stage": "copy", "unit": "files", "done": 30, "total": 1200, "rows": 5_000_000}
    document["progress"] = [
        {**copying, "rows_per_second": 81_000, "eta_seconds": 11_100, "updated_at": "2026-11-21T10:00:00+00:00", "silent": False}
    ]
    document["controls"] = [
        {
            "collection": None,
            "last_step": False,
            "paused": True,
            "rows_per_second": None,
            "max_files": 8,
            "commits_per_minute": 4,
            "window": None,
            "paused_by": "ann",
            "paused_at": "2026-11-21T09:00:00+00:00",
            "reason": "disk full",
        }
    ]
    pin = {"collection": None, "shard": "s0", "holder": "2", "hours": 400, "pinned_by": "ann", "pinned_at": "2026-11-21T09:00:00+00:00"}
    document["pins"] = [pin]
    touched = {"shard": "s0", "collection": "flights", "uri": "file:///lake/flights/s0", "sealed": True, "foreign_commits": 1}
    document["retired"] = [touched, {**touched, "foreign_commits": 0}]
    assert text_of(lambda to: to.print(status_view("file:///lake", {**document, "deployments": []}, cluster=False))) == (
        "file:///lake  at 1.0.0   generation 1 leads since 2026-11-21 10:00 UTC, epoch 1\n"
        "\n"
        "collection  shard  version  schema  columns  remarks\n"
        "planes      s1           4       1        1\n"
        "drift  flights  old shard s0: 1 commit(s) of others since it was retired\n"
        "\n"
        "collection  stage            done       rows  rows/s        left  as of\n"
        "planes      copy   30/1,200 files  5,000,000  81,000  3 h 05 min  2026-11-21 10:00 UTC\n"
        "\n"
        "all collections  paused by ann since 2026-11-21 09:00 UTC (disk full), 8 files a batch, 4 commits a minute\n"
        "pin    s0  400 h for 2, by ann since 2026-11-21 09:00 UTC\n"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3569, "59 min"), (3599, "1 h 00 min"), (90_000, "25 h 00 min")]
)
def test_render_a_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_of_history_is_whole_and_a_long_detail_stands_below_in_one_piece() -> None:
    uri = "s3://lake/prod/" + "flights/" * 12
    entries = [history("rollback", "done", "to 1.0.0"), history("fill", "hold_in_use", uri), history("adopt", "done", "")]
    shown = text_of(lambda to: show_history(to, entries))
    assert shown.splitlines() == [
        "started                 took  what      collection  generation  outcome      who",
        "2026-11-25 09:16 UTC  12.0 s  rollback  flights             12  done         ann@host  to 1.0.0",
        "2026-11-25 09:16 UTC  12.0 s  fill      flights             12  hold_in_use  ann@host",
        f"    {uri}",
        "2026-11-25 09:16 UTC  12.0 s  adopt     flights             12  done         ann@host",
    ]


def history(what: str, outcome: str, detail: str) -> dict[str, Any]:
    about = {"collection": "flights", "generation": 12, "who": "ann@host", "seconds": 12.0, "started_at": "2026-11-25T09:16:00+00:00"}
    return {**about, "what": what, "outcome": outcome, "detail": detail}
