"""``alter``: one change of one live table outside of a release."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade.alter import alter, plan_alter
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import open_holds
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, no_spark, rows
from tests.support.online import OnlineJobs
from tests.support.product import Product
from tests.support.rows.tables import insert
from tests.support.upgrades import refused, two_releases, whole

A = CollectionName("a")
FIRST = "CREATE TABLE a (id BIGINT, v INT);"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, FIRST, "CREATE TABLE a (id BIGINT, v INT, CONSTRAINT pos CHECK (id > 0));", 'evolution("a")')
    insert(found.path("a"), [{"id": 1, "v": 2}])
    return found


#: statement, stage kinds of its outcome without backfill and validation, columns and rows afterwards
STATEMENTS = [
    ("ALTER TABLE a ADD COLUMN n STRING", ["expand", "commit"], {"id": 1, "v": 2, "n": None}),
    ("ALTER TABLE a ADD COLUMN n INT DEFAULT 7", ["change", "commit"], {"id": 1, "v": 2, "n": 7}),
    ("ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7", ["change", "change", "change", "commit"], {"id": 1, "v": 2, "n": 7}),
    ("ALTER TABLE a ADD CONSTRAINT pos CHECK (id > 0)", ["change", "commit"], {"id": 1, "v": 2}),
    ("ALTER TABLE a ALTER COLUMN id SET NOT NULL", ["change", "change", "commit"], {"id": 1, "v": 2}),
    ("ALTER TABLE a ALTER COLUMN v TYPE BIGINT", ["expand", "commit"], {"id": 1, "v": 2}),
    ("ALTER TABLE a RENAME COLUMN v TO w", ["cutover", "commit"], {"id": 1, "w": 2}),
    ("ALTER TABLE a DROP COLUMN v", ["commit", "contract"], {"id": 1}),
    ("ALTER TABLE a ADD UNIQUE (id)", ["commit"], {"id": 1, "v": 2}),
    ("ALTER TABLE a CLUSTER BY (v)", ["change", "cluster", "commit"], {"id": 1, "v": 2}),
]


@pytest.mark.parametrize(("statement", "kinds", "row"), STATEMENTS, ids=[statement for statement, _, _ in STATEMENTS])
def test_alter_a_statement(lake: Lake, statement: str, kinds: list[str], row: dict[str, object]) -> None:
    with unwritten(lake.env):
        report = plan_alter(lake.env, statement, jobs=OnlineJobs())
    assert (report.refusals, report.exit_code) == ((), 3)
    released = lake.state.release

    outcome = alter(lake.env, statement, jobs=OnlineJobs())

    assert [stage.kind for stage in outcome.stages if stage.kind not in ("validate", "backfill")] == kinds
    assert rows(lake.path("a")) == [row]
    unreleased = lake.state.unreleased_of(A)
    assert unreleased is not None
    assert unreleased.declared == lake.state.entry(A).declared
    assert lake.state.release == released
    whole(lake)


def test_readers_of_the_release_and_of_what_it_is_now(lake: Lake) -> None:
    alter(lake.env, "ALTER TABLE a DROP COLUMN v", jobs=no_spark)
    with pytest.raises(ReaderFenced) as fenced:
        lake.env.reader("a", "1.0.0").arrow()
    assert str(fenced.value).endswith("After `alter` open this reader without a release, or leave v out of its columns.")
    assert lake.env.reader("a").arrow().to_pylist() == lake.env.reader("a", "1.0.0").arrow(["id"]).to_pylist() == [{"id": 1}]


def test_the_next_release_has_to_contain_it(lake: Lake, tmp_path: Path) -> None:
    alter(lake.env, "ALTER TABLE a ADD CONSTRAINT pos CHECK (id > 0)", jobs=OnlineJobs())
    other = Product(tmp_path / "other")
    other.release("1.0.0", FIRST)
    without = other.release("1.1.0", FIRST.replace("v INT", "v INT, w INT"), 'evolution("a")')
    with refused("ahead_not_in_release", "a"):
        commands.preflight(lake.env, without, jobs=no_spark)
    commands.upgrade(lake.env, lake.second, jobs=no_spark)
    assert (lake.version, lake.state.unreleased_of(A)) == ("1.1.0", None)
    whole(lake)


def test_rolled_back_while_its_hold_is_open(lake: Lake) -> None:
    before = lake.state.entry(A)
    alter(lake.env, "ALTER TABLE a DROP COLUMN v", hold=timedelta(hours=1), jobs=OnlineJobs())
    assert lake.state.entry(A).declared != before.declared
    with refused("hold_open"):
        alter(lake.env, "ALTER TABLE a ADD COLUMN n INT", jobs=OnlineJobs())
    commands.rollback(lake.env)
    assert lake.state.entry(A).declared == before.declared
    assert lake.state.unreleased_of(A) is None
    assert rows(lake.path("a")) == [{"id": 1, "v": 2}]
    whole(lake)
    alter(lake.env, "ALTER TABLE a DROP COLUMN v", jobs=OnlineJobs())
    assert rows(lake.path("a")) == [{"id": 1}]


def test_one_after_the_other(lake: Lake) -> None:
    alter(lake.env, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", jobs=OnlineJobs())
    alter(lake.env, "ALTER TABLE a ADD CONSTRAINT few CHECK (n < 9)", jobs=OnlineJobs())
    alter(lake.env, "ALTER TABLE a RENAME COLUMN n TO m", jobs=OnlineJobs())
    unreleased = lake.state.unreleased_of(A)
    assert unreleased is not None
    assert [field.name for field in unreleased.released.fields] == ["id", "v"]
    assert rows(lake.path("a")) == [{"id": 1, "v": 2, "m": 7}]
    whole(lake)


def test_alter_statements_what_is_like_that_already(lake: Lake) -> None:
    with unwritten(lake.env):
        assert alter(lake.env, "ALTER TABLE a ALTER COLUMN v DROP NOT NULL", jobs=no_spark).generation is None


def test_alter_statements_it_waits_for_a_deployment(lake: Lake) -> None:
    generation = commands.preflight(lake.env, lake.second, jobs=OnlineJobs()).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    with refused("deployment_open"):
        alter(lake.env, "ALTER TABLE a ADD COLUMN n INT", jobs=OnlineJobs())


def test_an_upgrade_to_the_own_release_takes_back_no_alter_that_is_under_way(lake: Lake, tmp_path: Path) -> None:
    """A scheduled DAG of the release that is there already; whoever made the statement goes on."""
    statement, met = "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", 0
    for moment in range(0, 60, 3):
        folder = tmp_path / str(moment)
        shutil.copytree(lake.env.location.local_path or Path(), folder)
        found = replace(lake, env=Environment.open(str(folder)))
        try:
            alter(found.crashing_at(moment), statement, jobs=OnlineJobs())
            break
        except Crash:
            pass
        if found.state.is_promoted and found.state.intents:
            met += 1
            with refused("deployment_open"):
                commands.upgrade(found.env, found.first, jobs=OnlineJobs())
        if found.state.unreleased_of(A) is None:
            alter(found.env, statement, jobs=OnlineJobs())
        whole(found)
    assert met > 2


def test_a_claim_is_carried_out_once(lake: Lake) -> None:
    """Airflow's retry of a task whose answer was lost."""
    for _ in range(2):
        outcome = alter(lake.env, "ALTER TABLE a ADD COLUMN n INT", claim_id="dag/run", jobs=no_spark)
        assert outcome.generation == 2
    assert rows(lake.path("a")) == [{"id": 1, "v": 2, "n": None}]


def test_an_empty_environment(tmp_path: Path) -> None:
    with refused("no_environment"):
        alter(Environment.open(str(tmp_path / "lake")), "ALTER TABLE a ADD COLUMN n INT", jobs=no_spark)


def test_killed_right_after_its_commit(lake: Lake) -> None:
    """Its hold was wanted for no time: it is in the way neither of its retry nor of the next statement."""

    def dies(moment: str, what: str, key: str) -> None:
        if open_holds(lake.state):
            raise Crash

    for column in ("n", "m"):
        with pytest.raises(Crash):
            alter(replace(lake.env, on_write=dies), f"ALTER TABLE a ADD COLUMN {column} INT", claim_id=column, jobs=no_spark)
        assert len(open_holds(lake.state)) == 1
        if column == "n":
            alter(lake.env, "ALTER TABLE a ADD COLUMN k INT", jobs=no_spark)
    assert alter(lake.env, "ALTER TABLE a ADD COLUMN m INT", claim_id="m", jobs=no_spark).generation == 4
    assert not open_holds(lake.state)
    assert rows(lake.path("a")) == [{"id": 1, "v": 2, "n": None, "k": None, "m": None}]
    whole(lake)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE a ADD COLUMN n INT",
        "ALTER TABLE a DROP COLUMN v",
        "ALTER TABLE a RENAME COLUMN v TO w",
        "ALTER TABLE a ADD CONSTRAINT few CHECK (v < 9)",
        "ALTER TABLE a RENAME TO c",
        "CREATE TABLE c (id BIGINT)",
        "DROP TABLE a",
    ],
)
@pytest.mark.parametrize("at", [HoldState.OPEN, HoldState.CONTRACTING])
def test_an_alter_that_was_killed_after_its_commit_is_found_done(lake: Lake, statement: str, at: HoldState) -> None:
    """Without a claim id: the same statement again, which its own work stands in the way of."""

    def dies(moment: str, what: str, key: str) -> None:
        if at in {hold.state for hold in open_holds(lake.state)}:
            raise Crash

    with pytest.raises(Crash):
        alter(replace(lake.env, on_write=dies), statement, jobs=OnlineJobs())
    before = lake.state.schemas
    with unwritten(lake.env), refused("unknown_name"):
        alter(lake.env, "ALTER TABLE nobody ADD COLUMN id INT", jobs=no_spark)
    assert alter(lake.env, statement, jobs=no_spark).generation == 2
    assert not open_holds(lake.state)
    assert {key for key in lake.state.schemas if key in before} == lake.state.schemas.keys()
    with pytest.raises(SchemamigError):
        alter(lake.env, statement, jobs=no_spark)  # it has ended: this is a second one
    whole(lake)


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE a ADD COLUMN n INT", "ALTER TABLE a DROP COLUMN v", "ALTER TABLE a ALTER COLUMN v SET DEFAULT 3", "DROP TABLE a"],
)
def test_an_alter_with_a_hold_is_found_done_as_long_as_that_is_open(lake: Lake, statement: str) -> None:
    day = timedelta(days=1)

    def dies(moment: str, what: str, key: str) -> None:
        if open_holds(lake.state):
            raise Crash

    with pytest.raises(Crash):
        alter(replace(lake.env, on_write=dies), statement, hold=day, jobs=OnlineJobs())
    for _ in range(2):
        assert alter(lake.env, statement, hold=day, jobs=no_spark).generation == 2
        assert [hold.state for hold in open_holds(lake.state)] == [HoldState.OPEN]
    commands.rollback(lake.env, jobs=OnlineJobs())
    whole(lake)


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("stride", [31, pytest.param(1, marks=pytest.mark.soak)])
def test_dies_anywhere_and_goes_on_or_back(lake: Lake, tmp_path: Path, stride: int) -> None:
    statement, moment, ended = "ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7", 0, False
    while not ended:
        for way in ("on", "back"):
            folder = tmp_path / f"{moment}-{way}"
            shutil.copytree(lake.env.location.local_path or Path(), folder)
            found = replace(lake, env=Environment.open(str(folder)))
            try:
                alter(found.crashing_at(moment), statement, jobs=OnlineJobs())
                ended = True
                break
            except Crash:
                pass
            if way == "back" and found.state.leader is not None and found.state.leader.generation > 1:
                if found.state.unreleased_of(A) is not None:
                    continue  # committed: without a hold there is no way back
                commands.rollback(found.env)
                assert found.state.unreleased_of(A) is None
                whole(found)
            if found.state.unreleased_of(A) is None:
                alter(found.env, statement, jobs=OnlineJobs())
            commands.contract(found.env)
            assert rows(found.path("a"), "id", "v", "n") == [{"id": 1, "v": 2, "n": 7}]
            whole(found)
        moment += stride
    assert moment > stride
