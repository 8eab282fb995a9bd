"""``verify`` on tables that break each condition of a consistent database, on those that break none, and on those of a broken engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
from airflow_provider_schemamig.core.upgrade.execute import online, online_schedule
from airflow_provider_schemamig.core.upgrade.verify import log as verify_log
from airflow_provider_schemamig.core.upgrade.verify import verify as verify_module
from airflow_provider_schemamig.core.upgrade.verify.findings import TableFinding, Verified
from airflow_provider_schemamig.core.upgrade.verify.table import look
from airflow_provider_schemamig.core.upgrade.verify.verify import verify, verify_environment
from tests.support.bytes import tree
from tests.support.lake import Lake, no_spark
from tests.support.online import OnlineJobs, die_after_the_swap
from tests.support.rows.tables import alter, change, commit_at, insert, newest, restore, snapshot
from tests.support.tables import foreign
from tests.support.upgrades import deployed, releases, two_releases
from tests.unit.online.filling import checkpoint
from tests.unit.upgrade.online.test_online import OPERATIONS, changed

A = CollectionName("a")


def one_release(folder: Path, schema: str, *rows: dict[str, Any]) -> Lake:
    lake = deployed(folder, *releases(folder, (schema, "")) * 2)
    for row in rows:
        insert(lake.path("a"), [row])
    return lake


def verified(lake: Lake, jobs: Any = None) -> Verified:
    """It writes nothing."""
    root = lake.env.location.local_path
    assert root is not None
    before = tree(root)
    found = verify(lake.env, lake.state, jobs or OnlineJobs())
    assert tree(root) == before
    return found


def told(found: Verified) -> list[tuple[int, str, int | None]]:
    return [(int(item.condition), item.element, item.rows) for item in found.findings]


def one(found: Verified) -> TableFinding:
    (finding,) = found.findings
    return finding


# --- nothing is broken ---------------------------------------------------------------------------------------------------------------


SHORT = ("column NOT NULL with a default", "text to a number")


@pytest.mark.parametrize(
    ("name", "every_write"),
    [(name, False) for name in SHORT]
    + [pytest.param(name, True, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]) for name in OPERATIONS],
)
def test_every_operation_in_every_state(tmp_path: Path, name: str, every_write: bool) -> None:
    """Of the upgrade after every version of the table (or around every write), after the rollback, the contract; writers in between."""
    operation = OPERATIONS[name]
    lake = operation.lake(tmp_path)
    seen: list[str] = []

    def watched(moment: str, what: str, key: str) -> None:
        if every_write or (moment == "after" and key.startswith("_delta_log/")):
            found = verify(lake.env, lake.state, OnlineJobs())
            assert found.findings == (), (moment, what, key)
            seen.append(key)

    commands.upgrade(replace(lake.env, on_write=watched), lake.second, jobs=OnlineJobs())
    assert told(verified(lake)) == []
    insert(lake.path("a"), [operation.made[0] | {name: 4 for name in ("id", "u", "v") if name in operation.made[0]}])
    assert told(verified(lake)) == []
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert told(verified(lake)) == []
    insert(lake.path("a"), [operation.given[0] | {name: 3 for name in ("id", "u", "v") if name in operation.given[0]}])
    commands.upgrade(replace(lake.env, on_write=watched if every_write else None), lake.second, jobs=OnlineJobs())
    assert told(verified(lake)) == []
    commands.contract(lake.env, at_once=True)
    assert told(verified(lake)) == []
    assert seen or operation.after.endswith("UNIQUE (u)"), "a key is no commit on the table"


def test_verify_what_the_log_tells_starts_no_jvm(tmp_path: Path) -> None:
    lake = one_release(tmp_path, "CREATE TABLE a (id BIGINT NOT NULL, n INT); CREATE TABLE b (id BIGINT PRIMARY KEY);", {"id": 1})
    found = verified(lake, no_spark)
    assert [(item.collection, item.element, item.version) for item in found.kept] == [
        ("a", "not_null:id", 1),
        ("b", "not_null:id", 0),
        ("b", "primary_key:id", 0),
    ]
    assert (found.findings, found.unasked) == ((), ())


def test_some_collections_only(tmp_path: Path) -> None:
    lake = one_release(tmp_path, "CREATE TABLE a (id BIGINT NOT NULL); CREATE TABLE b (id BIGINT NOT NULL);")
    assert [item.collection for item in verify(lake.env, lake.state, no_spark, [A]).kept] == ["a"]
    with pytest.raises(UnknownCollection):
        verify(lake.env, lake.state, no_spark, [CollectionName("c")])


# --- each condition broken -----------------------------------------------------------------------------------------------------------


def test_2_a_column_that_nobody_accounts_for(tmp_path: Path) -> None:
    lake = one_release(tmp_path, "CREATE TABLE a (id BIGINT);", {"id": 1})
    foreign.add_column(lake.path("a"), "stray")
    insert(lake.path("a"), [{"id": 2, "stray": "x"}, {"id": 3, "stray": None}])
    assert told(verified(lake, no_spark)) == [(2, "column:stray", None)], "of the first file the statistics do not tell"


def test_2_values_under_a_name_that_is_no_column(tmp_path: Path) -> None:
    """Without column mapping they would come back with a column of that name."""
    lake = one_release(tmp_path, "CREATE TABLE a (id BIGINT, n INT);", {"id": 1, "n": 1}, {"id": 2, "n": None})
    path = lake.path("a")
    before = snapshot(path).metadata
    foreign.drop_column(path, "n")
    found = one(verified(lake, no_spark))
    assert (found.condition, found.element, found.rows, len(found.files), found.commits[0].version) == (2, "column:n", 1, 1, 1)
    mapped = {"delta.columnMapping.mode": "name"}
    alter(path, configuration=before["configuration"] | mapped)
    assert told(verified(lake, no_spark)) == [], "with column mapping a name in the files is never used again"


def test_2_a_column_that_a_change_of_type_left_behind(tmp_path: Path) -> None:
    lake = OPERATIONS["text to a number"].lake(tmp_path)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    held = lake.state
    commands.contract(lake.env, at_once=True)
    path = lake.path("a")
    with_old = next(
        action["metaData"]
        for number in range(newest(path), -1, -1)
        for action in commit_at(path, number)
        if "schemamig_old_s" in action.get("metaData", {}).get("schemaString", "")
    )
    assert told(verify(lake.env, held, OnlineJobs())) == [], "as long as a hold is going to drop it"
    alter(path, **with_old)
    elements = [item.element for item in verified(lake).findings]
    assert elements == ["column:schemamig_old_s", "column:schemamig_old_s"], "nobody knows of it, and nobody drops it"


def broken_not_null(folder: Path, schema: str, row: dict[str, Any], **options: Any) -> Lake:
    """Its writer does not look at NOT NULL."""
    lake = one_release(folder, schema)
    foreign.write(lake.path("a"), [row], **options)
    return lake


def test_4_a_null_where_none_may_be(tmp_path: Path) -> None:
    lake = broken_not_null(tmp_path, "CREATE TABLE a (id BIGINT NOT NULL, n INT);", {"n": 1})
    found = one(verified(lake, no_spark))
    assert (found.condition, found.element, found.rows, found.commits[0].version) == (4, "not_null:id", 1, 1)
    assert len(found.files) == 1


def test_4_statistics_that_do_not_tell(tmp_path: Path) -> None:
    """The files are asked, as they are stored."""
    lake = broken_not_null(tmp_path, "CREATE TABLE a (id BIGINT NOT NULL, n INT);", {"n": 1}, statistics=False)
    (path,) = foreign.active_files(lake.path("a"))

    class Files(OnlineJobs):
        def _preflight(self, request: Any) -> dict[str, Any]:
            (check,) = request["checks"]
            assert (check["kind"], check["column"], [file.rpartition("/")[2] for file in check["files"]]) == (
                "missing_values",
                "id",
                [path],
            )
            assert check["schema"] == {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
            return {"violations": [{"collection": "a", "rule": check["rule"], "count": 1, "sample": [{}], "files": check["files"]}]}

    found = one(verified(lake, Files()))
    assert (found.condition, found.element, found.rows, found.sample, found.commits[0].version) == (4, "not_null:id", 1, (), 1)


def test_4_deletion_vectors_hide_what_statistics_count(tmp_path: Path) -> None:
    lake = broken_not_null(tmp_path, "CREATE TABLE a (id BIGINT NOT NULL, n INT);", {"n": 1})
    path = lake.path("a")
    (add,) = (action["add"] for action in commit_at(path, 1) if "add" in action)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 0}
    foreign.commit(path, {"remove": {"path": add["path"], "dataChange": True}}, {"add": {**add, "deletionVector": vector}})
    found = verified(lake, no_spark)
    assert (found.findings, [item.element for item in found.unasked]) == ((), ["not_null:id"])


def defaults(folder: Path) -> Lake:
    """Column ``n`` came with a default."""
    lake = OPERATIONS["column with a default"].lake(folder)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert told(verified(lake, no_spark)) == []
    return lake


def test_4_older_rows_without_the_default(tmp_path: Path) -> None:
    """A RESTORE brings files back from before the backfill."""
    lake = defaults(tmp_path)
    path, now = lake.path("a"), snapshot(lake.path("a"))
    restore(path, 2)
    alter(path, **now.metadata)
    found = one(verified(lake, no_spark))
    assert (found.condition, found.element, found.rows, len(found.files)) == (4, "column:n", 2, 2)
    assert "DEFAULT 7" in found.text
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert told(verified(lake, no_spark)) == [], "the next upgrade fills what is hidden now"


@pytest.mark.parametrize(
    ("default", "followed"),
    [
        *((text, True) for text in ("7", "-7.5", "'x'", "TRUE", "DATE '2020-01-01'")),
        *((text, False) for text in ("NULL", "7 / 0", "current_timestamp()", "CAST(NULL AS INT)", "'a' || NULL")),
    ],
)
def test_4_only_literals_are_sure_to_be_a_value(default: str, followed: bool) -> None:
    assert (verify_log._VALUE.fullmatch(default) is not None) == followed


def test_4_what_a_writer_wants_to_be_null_is_no_finding(tmp_path: Path) -> None:
    lake = defaults(tmp_path)
    change(lake.path("a"), lambda row: {**row, "n": None})
    insert(lake.path("a"), [{"id": 9, "n": None}])
    assert told(verified(lake, no_spark)) == []


def test_4_what_the_log_does_not_reach_any_more_is_not_looked_at(tmp_path: Path) -> None:
    """A checkpoint, and the commits after it: what is there now is known, not how it came."""
    lake = OPERATIONS["two types, NOT NULL on one of them, and more"].lake(tmp_path)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    checkpoint(lake.env.table_store(lake.state.shard_of(A).uri))
    log = lake.path("a") / "_delta_log"
    for version in range(newest(lake.path("a"))):
        (log / f"{version:020}.json").unlink()

    class Kept(OnlineJobs):
        """Of the rows nothing is wrong."""

        def _preflight(self, request: Any) -> dict[str, Any]:
            assert [check["kind"] for check in request["checks"]] == ["missing_values", "duplicate_key"]
            return {"violations": []}

    found = verified(lake, Kept())
    assert (found.findings, [item.element for item in found.kept]) == ((), ["not_null:s", "unique:u"])


def test_5_an_index_that_is_not_there(tmp_path: Path) -> None:
    lake = one_release(tmp_path, "CREATE TABLE a (id BIGINT, n INT) CLUSTER BY (n);", {"id": 1})
    assert told(verified(lake, no_spark)) == []
    domain = {"domain": "delta.clustering", "configuration": json.dumps({"clusteringColumns": [["id"]]}), "removed": False}
    foreign.commit(lake.path("a"), {"domainMetadata": domain})
    found = one(verified(lake, no_spark))
    assert (found.condition, found.element, found.rows) == (5, "clustering", None)
    assert "CLUSTER BY (n)" in found.text and "clustered by id" in found.text


RULES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "check": ("CREATE TABLE a (id BIGINT, CONSTRAINT pos CHECK (id > 0));", "check:pos", {"id": -1}, 1),
    "unique": ("CREATE TABLE a (id BIGINT UNIQUE);", "unique:id", {"id": 1}, 2),
    "primary key": ("CREATE TABLE a (id BIGINT PRIMARY KEY);", "primary_key:id", {"id": 1}, 2),
    "foreign key": (
        "CREATE TABLE a (id BIGINT, FOREIGN KEY (id) REFERENCES b); CREATE TABLE b (id BIGINT PRIMARY KEY);",
        "foreign_key:id",
        {"id": 5},
        2,
    ),
}


@pytest.mark.parametrize(("schema", "element", "row", "rows"), RULES.values(), ids=RULES)
def test_6_a_rule_is_violated(tmp_path: Path, schema: str, element: str, row: dict[str, Any], rows: int) -> None:
    lake = one_release(tmp_path, schema, {"id": 1})
    foreign.write(lake.path("a"), [row])
    assert told(verified(lake)) == [(6, element, rows)]


def test_6_a_rule_that_somebody_took_off_the_table_is_asked_all_the_same(tmp_path: Path) -> None:
    lake = one_release(tmp_path, "CREATE TABLE a (id BIGINT, CONSTRAINT pos CHECK (id > 0));")
    alter(lake.path("a"), configuration={})
    insert(lake.path("a"), [{"id": -1}])
    assert told(verified(lake)) == [(6, "check:pos", 1)]


def test_a_rule_over_what_is_not_there(tmp_path: Path) -> None:
    lake = one_release(tmp_path, "CREATE TABLE a (id BIGINT, n INT UNIQUE, CONSTRAINT pos CHECK (n > 0));")
    foreign.drop_column(lake.path("a"), "n")
    assert [item.element for item in verified(lake, no_spark).unasked] == ["check:pos", "unique:n"]


# --- a broken engine -----------------------------------------------------------------------------------------------------------------


def _no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online._Run, "_validate", lambda run, *given: snapshot(Path(run._store.location.local_path)).version)


def _no_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online_schedule, "backfill", lambda work, *given, **options: snapshot(_path(work)).version)


def _path(work: Any) -> Path:
    return Path(work.env.table_location(work.state.shard_of(A).uri).local_path)


MUTANTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], tuple[int, str]]] = {
    "CHECK without a scan": ("check", _no_scan, (6, "check:pos")),
    "NOT NULL without a scan": ("not null", _no_scan, (4, "not_null:id")),
    "UNIQUE without a scan": ("unique", _no_scan, (6, "unique:u")),
    "a default without a backfill": ("column with a default", _no_fill, (4, "column:n")),
    "a type without a backfill": ("text to a number", _no_fill, (4, "type:s")),
}


@pytest.mark.parametrize("committed", [False, True], ids=["public", "committed"])
@pytest.mark.parametrize(("name", "mutate", "expected"), MUTANTS.values(), ids=MUTANTS)
def test_an_engine_that_leaves_work_out_is_found_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    mutate: Callable[[pytest.MonkeyPatch], None],
    expected: tuple[int, str],
    committed: bool,
) -> None:
    operation = OPERATIONS[name]
    lake = operation.lake(tmp_path)
    mutate(monkeypatch)

    class Late(OnlineJobs):
        """A row comes in after preflight."""

        def run(self, job: Any, request: Any) -> dict[str, Any]:
            result = super().run(job, request)
            if operation.bad is not None:
                insert(lake.path("a"), [operation.bad])
            return result

    generation = changed(lake, Late())
    if committed:
        commands.cutover(lake.env, generation, jobs=OnlineJobs())
    elif expected[1].startswith("type:"):
        die_after_the_swap(lake.env, lake.path("a"), generation, OnlineJobs())
    assert expected in [(condition, element) for condition, element, _ in told(verified(lake))]


def test_a_batch_that_fills_in_nothing_is_found_out(tmp_path: Path) -> None:
    lake = OPERATIONS["column with a default"].lake(tmp_path)

    class Nothing(OnlineJobs):
        def _query(self, text: str, rows: Any) -> list[dict[str, Any]]:
            return [{**row, "n": None} if "n" in row else row for row in super()._query(text, rows)]

    commands.upgrade(lake.env, lake.second, jobs=Nothing())
    assert told(verified(lake, no_spark)) == [(4, "column:n", 2)]


# --- while it runs -------------------------------------------------------------------------------------------------------------------


def test_verify_what_is_found_while_the_ledger_moves_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It read the ledger, and only then somebody wrote down a change and made it."""
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, n INT);", 'evolution("a")')
    looks: list[int] = []

    def late(env: Any, state: Any, collection: CollectionName) -> Any:
        if not looks:
            lake.upgrade(lake.second)
        looks.append(state.version)
        return look(env, state, collection)

    monkeypatch.setattr(verify_module, "look", late)
    assert verify_environment(lake.env, no_spark).findings == ()
    assert len(looks) == 2
