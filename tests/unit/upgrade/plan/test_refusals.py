"""Every reason against an upgrade that a plan can know: said at once, before anything is written, with what to do next."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.upgrade.errors import DataViolation, DriftFound, HoldInUse
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from airflow_provider_schemamig.exceptions import Refused
from tests.support.bytes import unwritten
from tests.support.lake import Lake, make_lake, no_spark
from tests.support.product import Product
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables import foreign
from tests.support.upgrades import deployed, heartbeat, make_holds_due, refused, releases, two_releases, whole

A = "CREATE TABLE a (id BIGINT);"
AX = "CREATE TABLE a (id BIGINT, x STRING);"


# --- not online ----------------------------------------------------------------------------------------------------------------------

NOT_ONLINE = [
    # columns before, columns after, op, path
    ("id BIGINT, n ARRAY<INT>", "id BIGINT, n STRING", "change_type", "n"),
    ("id BIGINT, s STRUCT<x: INT>", "id BIGINT, s STRUCT<x: INT, y: INT NOT NULL>", "add_column", "s.y"),
]


@pytest.mark.parametrize(("before", "after", "op", "path"), NOT_ONLINE, ids=[f"{after} {op}" for _, after, op, _ in NOT_ONLINE])
def test_refusals_what_no_operation_makes_is_refused(tmp_path: Path, before: str, after: str, op: str, path: str) -> None:
    b = "CREATE TABLE b (id BIGINT NOT NULL, PRIMARY KEY (id));"
    lake = two_releases(tmp_path, f"CREATE TABLE a ({before});{b}", f"CREATE TABLE a ({after});{b}", 'evolution("a")')
    with unwritten(lake.env), refused("not_online", "a") as found:
        commands.preflight(lake.env, lake.second, jobs=no_spark)
    assert isinstance(found[0], NotOnline)
    assert (found[0].op, found[0].path) == (op, path)


def test_a_rewrite_without_spark(tmp_path: Path) -> None:
    steps = 'rewrite("a", up="SELECT CAST(id AS STRING) AS id FROM {a}", down="SELECT CAST(id AS BIGINT) AS id FROM {a}")'
    lake = two_releases(tmp_path, A, "CREATE TABLE a (id STRING);", steps)
    planned = commands.plan(lake.env, lake.second)
    assert [stage.kind for stage in planned.plan.stages] == ["copy", "seal", "commit", "retire"]
    with unwritten(lake.env), refused("spark_not_given"):
        commands.preflight(lake.env, lake.second, jobs=without_spark)


# --- drift ---------------------------------------------------------------------------------------------------------------------------

PROPERTIES = "CREATE TABLE a (id BIGINT, y STRING) TBLPROPERTIES ('owned_by' = 'me');"
DRIFTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "column added by delta-rs": (lambda path: DeltaTable(str(path)).alter.add_columns(_field("sneaked")), "sneaked: expected nothing"),
    "column dropped": (lambda path: foreign.drop_column(path, "y"), "y: expected STRING, found nothing"),
    "CHECK added by delta-rs": (lambda path: DeltaTable(str(path)).alter.add_constraint({"odd": "id > 1"}), "CHECK odd"),
    "declared property changed": (lambda path: foreign.set_property(path, "owned_by", "you"), "property owned_by: expected me, found you"),
}


def _field(name: str) -> Field:
    return Field(name, PrimitiveType("string"))


@pytest.mark.parametrize("case", DRIFTS)
def test_a_table_changed_behind_our_back_stops_everything(tmp_path: Path, case: str) -> None:
    after = "CREATE TABLE a (id BIGINT, y STRING, x STRING) TBLPROPERTIES ('owned_by' = 'me');"
    lake = two_releases(tmp_path, PROPERTIES, after, 'evolution("a")')
    change, text = DRIFTS[case]
    change(lake.path("a"))
    with unwritten(lake.env), refused("drift", "a") as found:
        commands.preflight(lake.env, lake.second, jobs=no_spark)
    assert isinstance(found[0], DriftFound)
    assert text in found[0].message
    assert commands.status(lake.env).drifted == ("a",)
    report = commands.plan(lake.env, lake.second)
    assert report.exit_code == 1
    assert commands.plan(lake.env, lake.first).exit_code == 1, "also where there is nothing to do"


@pytest.mark.parametrize("change", ["rows", "undeclared property", "comment"])
def test_refusals_what_nobody_depends_on_is_no_drift(tmp_path: Path, change: str) -> None:
    lake = two_releases(tmp_path, A, AX, 'evolution("a")')
    match change:
        case "rows":
            foreign.write(lake.path("a"), [{"id": 1}])
        case "undeclared property":
            foreign.set_property(lake.path("a"), "team", "theirs")
        case _:
            DeltaTable(str(lake.path("a"))).alter.set_table_description("theirs")
    lake.upgrade(lake.second)
    whole(lake)


# --- a table that is not there -------------------------------------------------------------------------------------------------------


def test_a_missing_shard_is_a_note_where_nothing_is_to_be_done_to_it(tmp_path: Path) -> None:
    """In read-only mode it is skipped: a refusal would make the task fail on every try."""
    lake = make_lake(tmp_path)
    lake.upgrade(lake.first)
    shutil.rmtree(lake.path("untouched"))
    report = commands.plan(lake.env, lake.second)
    assert report.refusals == ()
    assert [note for note in report.plan.notes if note.startswith("untouched: there is no Delta table at ")]
    assert commands.status(lake.env).drifted == ("untouched",)
    lake.upgrade(lake.second)
    assert lake.version == "1.1.0"


@pytest.mark.parametrize("collection", ["stats", "legacy"])
def test_a_missing_shard_may_be_replaced_or_removed(tmp_path: Path, collection: str) -> None:
    lake = make_lake(tmp_path)
    lake.upgrade(lake.first)
    shutil.rmtree(lake.path(collection))
    lake.upgrade(lake.second)
    whole(lake)
    commands.rollback(lake.env)
    assert commands.status(lake.env).drifted == (collection,), "it was missing before, too"


def test_a_missing_shard_cannot_evolve(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    lake.upgrade(lake.first)
    shutil.rmtree(lake.path("flights"))
    with unwritten(lake.env), refused("shard_missing", "flights"):
        commands.preflight(lake.env, lake.second, jobs=no_spark)


# --- another release -----------------------------------------------------------------------------------------------------------------


def test_a_deployed_release_is_final(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, AX, 'evolution("a")')
    lake.upgrade(lake.second)
    _, edited = releases(tmp_path / "edited", (A, ""), ("CREATE TABLE a (id BIGINT, other STRING);", 'evolution("a")'))
    with unwritten(lake.env), refused("release_changed"):
        commands.plan(lake.env, edited)


#: What 1.1.0 of another branch is, and how the error says it; the environment's own 1.1.0 adds x to a.
OTHER_BRANCHES = {
    "another column": (
        "CREATE TABLE a (id BIGINT, other STRING);",
        'evolution("a")',
        "for 1.1.0 this release folder declares a differently",
    ),
    "another type": ("CREATE TABLE a (id STRING, x STRING);", 'replacement("a")', "for 1.1.0 this release folder declares a differently"),
    "another collection": (f"{AX} CREATE TABLE b (id BIGINT);", 'evolution("a")', "for 1.1.0 this release folder declares b differently"),
    "the same schema, of another column": (AX, 'evolution("a", rename={"y": "x"})', "for 1.1.0 this release folder has other steps"),
    "the same schema, of another table": (AX, 'replacement("a")', "for 1.1.0 this release folder has other steps"),
}


@pytest.mark.parametrize("case", OTHER_BRANCHES)
def test_the_next_release_of_another_branch_is_refused(tmp_path: Path, case: str) -> None:
    """Its steps start at a 1.1.0 that this environment never was at."""
    schema, steps, said = OTHER_BRANCHES[case]
    first = "CREATE TABLE a (id BIGINT, y STRING);"
    own = releases(tmp_path, (first, ""), (AX, 'evolution("a", drop=["y"])'))
    lake = deployed(tmp_path, *own)
    lake.upgrade(lake.second, hold=timedelta(0))
    steps = steps.replace('evolution("a")', 'evolution("a", drop=["y"])')
    branch = releases(tmp_path / "branch", (first, ""), (schema, steps), (schema.replace(");", ", z INT);", 1), 'evolution("a")'))
    for folder in branch[1:]:
        with unwritten(lake.env), refused("release_changed") as found:
            commands.plan(lake.env, folder)
        assert said in str(found[0])
        with unwritten(lake.env), refused("release_changed"):
            lake.upgrade(folder)


def test_a_release_made_anew_after_its_rollback_is_the_environments_own(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT, y STRING);", AX, 'evolution("a", rename={"y": "x"})')
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    _, anew = releases(tmp_path / "anew", ("CREATE TABLE a (id BIGINT, y STRING);", ""), (AX, 'evolution("a", drop=["y"])'))
    lake.upgrade(anew)
    with unwritten(lake.env), refused("release_changed"):
        commands.plan(lake.env, lake.second)


def test_refusals_another_product(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, AX, 'evolution("a")')
    other = Product(tmp_path / "other", "orders").release("1.0.0", A)
    with unwritten(lake.env), refused("wrong_release"):
        commands.plan(lake.env, other)
    with unwritten(lake.env), refused("wrong_release"):
        commands.accept(lake.env, other)  # although nothing drifted


def test_an_older_release(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, AX, 'evolution("a")')
    lake.upgrade(lake.second)
    with unwritten(lake.env), refused("downgrade_refused") as found:
        commands.preflight(lake.env, lake.first, jobs=no_spark)
    assert "rollback" in found[0].next_action


# --- a hold that is needed -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(tmp_path: Path) -> tuple[Lake, Path]:
    """At 1.1.0 with its hold open, and the folder of 1.2.0."""
    first, second, third = releases(
        tmp_path, (A, ""), (AX, 'evolution("a")'), ("CREATE TABLE a (id BIGINT);", 'evolution("a", drop=["x"])')
    )
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    return lake, third


def test_a_hold_that_a_node_needs_is_not_ended_unasked(held: tuple[Lake, Path]) -> None:
    lake, third = held
    heartbeat(lake.env, "1.0.0", name="old-dashboard")
    heartbeat(lake.env, "1.1.0", name="new-dashboard")
    with unwritten(lake.env), refused("hold_in_use") as found:
        commands.preflight(lake.env, third, end_hold=True, jobs=no_spark)
    assert isinstance(found[0], HoldInUse)
    assert found[0].nodes == ("old-dashboard",)
    assert found[0].generation == 2
    lake.upgrade(third, end_hold=True, ignore_nodes=True)
    assert lake.version == "1.2.0"
    whole(lake)


def test_a_node_whose_lease_ran_out_needs_nothing(held: tuple[Lake, Path]) -> None:
    lake, third = held
    heartbeat(lake.env, "1.0.0", seconds=-1)
    lake.upgrade(third, end_hold=True)
    assert lake.version == "1.2.0"


def test_a_node_that_comes_before_promotion_is_seen_there(held: tuple[Lake, Path]) -> None:
    lake, third = held
    generation = commands.preflight(lake.env, third, end_hold=True, jobs=no_spark).generation
    assert generation is not None
    heartbeat(lake.env, "1.0.0")
    before = lake.state.version
    with refused("hold_in_use"):
        commands.promote(lake.env, generation)
    assert lake.state.version == before
    commands.rollback(lake.env)
    assert lake.version == "1.0.0", "the way back is still there"


def test_a_hold_that_is_due_is_kept_while_a_node_needs_it(held: tuple[Lake, Path]) -> None:
    lake, _ = held
    heartbeat(lake.env, "1.0.0")
    assert commands.contract(lake.env).pending, "it is not due"
    make_holds_due(lake)
    with refused("hold_in_use"):
        commands.contract(lake.env)
    with refused("hold_in_use"):
        commands.contract(lake.env, at_once=True)
    commands.contract(lake.env, ignore_nodes=True)
    assert not commands.contract(lake.env).pending


# --- all at once, and before anything is written -------------------------------------------------------------------------------------


def test_every_reason_is_said_at_once(tmp_path: Path) -> None:
    first = "CREATE TABLE a (id BIGINT); CREATE TABLE b (id BIGINT); CREATE TABLE c (id BIGINT); CREATE TABLE d (id BIGINT);"
    second = (
        "CREATE TABLE a (id BIGINT NOT NULL); CREATE TABLE b (id BIGINT, x STRING); CREATE TABLE c (id BIGINT, x STRING NOT NULL);"
        "CREATE TABLE d (id BIGINT);"
    )
    lake = two_releases(tmp_path, first, second, 'evolution("a"), evolution("b"), evolution("c")')
    foreign.add_column(lake.path("d"), "sneaked")
    shutil.rmtree(lake.path("b"))
    with unwritten(lake.env), pytest.raises(Refused) as caught:
        lake.upgrade(lake.second)
    assert [(item.code, item.collection) for item in caught.value.refusals] == [("drift", "d"), ("shard_missing", "b"), ("not_online", "c")]
    document = commands.plan(lake.env, lake.second).to_json()
    assert [item["code"] for item in document["refusals"]] == ["drift", "shard_missing", "not_online"]


def test_a_refused_release_leaves_no_environment_behind(tmp_path: Path) -> None:
    folder = Product(tmp_path / "product").release("1.0.0", A)
    (folder / "schema.sql").write_text("CREATE TABLE a (id BIGINT")
    env = Environment.open(str(tmp_path / "lake"))
    with pytest.raises(Exception, match="sql_syntax"):
        commands.preflight(env, folder, jobs=no_spark)
    assert not LedgerReader(env).exists()
    assert not (tmp_path / "lake").exists()


# --- what only the rows know ---------------------------------------------------------------------------------------------------------


def test_rows_that_break_a_new_rule_are_shown(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, "CREATE TABLE a (id BIGINT NOT NULL);", 'evolution("a")')
    jobs = FakeJobs(violations=[{"collection": "a", "rule": "NOT NULL id", "count": 3, "sample": ["row 1", "row 2"]}])
    with unwritten(lake.env):
        report = commands.plan(lake.env, lake.second, jobs=jobs)
    assert [request["checks"] for _, request in jobs.asked] == [
        [{"collection": "a", "uri": f"file://{lake.path('a')}", "kind": "not_null", "column": "id"}]
    ]
    found = [refusal for refusal in report.refusals if isinstance(refusal, DataViolation)]
    assert [(item.collection, item.count) for item in found] == [("a", 3)]
    assert report.exit_code == 1


QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("id BIGINT", "id BIGINT, CONSTRAINT p CHECK (id > 0)", {"kind": "check", "expression": "id > 0", "rule": "p"}),
    ("id BIGINT", "id BIGINT, UNIQUE (id)", {"kind": "duplicate_key", "columns": ["id"], "rule": "UNIQUE (id)"}),
    ("id BIGINT NOT NULL", "id BIGINT, PRIMARY KEY (id)", {"kind": "duplicate_key", "columns": ["id"], "rule": "PRIMARY KEY (id)"}),
]


@pytest.mark.parametrize(("before", "after", "question"), QUESTIONS, ids=[question["rule"] for _, _, question in QUESTIONS])
def test_refusals_what_is_asked_of_the_rows(tmp_path: Path, before: str, after: str, question: dict[str, Any]) -> None:
    lake = two_releases(tmp_path, f"CREATE TABLE a ({before});", f"CREATE TABLE a ({after});", 'evolution("a")')
    jobs = FakeJobs()
    commands.plan(lake.env, lake.second, jobs=jobs)
    ((_, request),) = jobs.asked
    assert request["checks"] == [{"collection": "a", "uri": f"file://{lake.path('a')}", **question}]


def test_a_plan_that_has_no_question_starts_no_spark(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, AX, 'evolution("a")')
    assert commands.plan(lake.env, lake.second, jobs=no_spark).refusals == ()
