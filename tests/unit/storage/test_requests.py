"""What a verb costs in requests on an object store: so many a table, and none of those one after the other.

The numbers are budgets: at 50 ms a request they are what people wait for. Whoever needs more of them says why here.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import backup, restore
from airflow_provider_schemamig.core.ledger.admin.verify_tables import verify_tables
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from tests.support.stores.counting import Count, Lake

TABLES = 20
EVOLVES = 'evolution("{}")'


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """At 1.0.0."""
    found = Lake(tmp_path, monkeypatch, TABLES)
    found.upgrade(found.release("1.0.0"), create=True)
    return found


def within(count: Count, a_table: float, besides: int) -> None:
    """Check a budget: of requests a table, and of others, which alone may be made one by one."""
    assert count.all <= a_table * TABLES + besides, count
    assert count.one_by_one <= besides, count


def opening(lake: Lake) -> int:
    """What it costs to read the ledger."""
    return lake.count(lambda: LedgerReader(lake.env).state()).all


def test_the_ledger_stays_short_between_the_tasks_of_an_upgrade(lake: Lake) -> None:
    env, second = lake.env, lake.release("1.1.0", ", w STRING", does=EVOLVES)
    claim = commands.preflight(env, second, jobs=without_spark)
    assert claim.generation is not None
    commands.promote(env, claim.generation)
    commands.expand(env, claim.generation, jobs=without_spark)
    assert opening(lake) <= 4 + 2 * 4
    commands.cutover(env, claim.generation)
    assert opening(lake) <= 4 + 2 * 4
    commands.cleanup(env, claim.generation)
    assert opening(lake) <= 4 + 2 * 4


def test_the_requests_of_a_plan(lake: Lake) -> None:
    second = lake.release("1.1.0", ", w STRING", does=EVOLVES)
    within(lake.count(lambda: commands.plan(lake.env, second)), 1.2, 15)


def test_the_requests_of_an_upgrade(lake: Lake) -> None:
    second = lake.release("1.1.0", ", w STRING", does=EVOLVES)
    within(lake.count(lambda: lake.upgrade(second)), 4, 85)


def test_a_take_over_costs_nothing_later_on(lake: Lake) -> None:
    """The fences of before were looked for in whole logs by every task, which grew with each release."""
    releases = [lake.release(f"1.{n}.0", "".join(f", w{i} STRING" for i in range(n)), does=EVOLVES) for n in range(1, 6)]
    never = lake.count(lambda: lake.upgrade(releases[0], hold=timedelta(0)))
    env = lake.env
    claim = commands.preflight(env, releases[1], jobs=without_spark, claim_id="a")
    assert claim.generation is not None
    commands.promote(env, claim.generation)
    commands.expand(env, claim.generation, jobs=without_spark)
    taken_over = lake.count(lambda: lake.upgrade(releases[1], claim_id="b", hold=timedelta(0)))
    within(taken_over, 14, 260)
    later = [lake.count(lambda release=release: lake.upgrade(release, hold=timedelta(0))) for release in releases[2:]]  # type: ignore[misc]
    for count in later:
        assert count.all <= never.all + 5 * TABLES + 50, (never, later)
    alter = f"ALTER TABLE t{TABLES - 1} ADD COLUMN q INT"
    within(lake.count(lambda: commands.alter(lake.env, alter, jobs=without_spark)), 5, 160)


def test_the_requests_of_a_rollback(lake: Lake) -> None:
    lake.upgrade(lake.release("1.1.0", ", w STRING", does=EVOLVES))
    within(lake.count(lambda: commands.rollback(lake.env, jobs=without_spark)), 8, 70)
    assert opening(lake) <= 4


def test_rollback_of_removals(lake: Lake) -> None:
    """Writers of the tables that come back wait until all are open again."""
    lake.upgrade(lake.release("1.1.0", first=TABLES, does='removal("{}")'))
    within(lake.count(lambda: commands.rollback(lake.env, jobs=without_spark)), 12, 60)


def test_upgrade_that_removes(lake: Lake) -> None:
    """Writers of the tables that go wait from the first seal on."""
    second = lake.release("1.1.0", first=TABLES, does='removal("{}")')
    within(lake.count(lambda: lake.upgrade(second)), 9, 80)


def test_contract_that_drops_a_column(lake: Lake) -> None:
    lake.upgrade(lake.release("1.1.0", ", w STRING", does=EVOLVES), hold=timedelta(0))
    lake.upgrade(lake.release("1.2.0", does='evolution("{}", drop=["w"])'))
    within(lake.count(lambda: commands.contract(lake.env, at_once=True)), 5, 50)


def test_verify_of_ledger_and_tables(lake: Lake) -> None:
    lake.upgrade(lake.release("1.1.0", ", w STRING", does=EVOLVES))
    within(lake.count(lambda: verify_tables(LedgerReader(lake.env))), 5, 30)
    within(lake.count(lambda: commands.verify_environment(lake.env, without_spark)), 5, 30)


def test_tables_that_are_adopted_and_planned_of(lake: Lake, tmp_path: Path) -> None:
    """What their heads are is known from then on."""
    state, other = LedgerReader(lake.env).state(), Environment.open(lake.uri.replace("/lake", "/adopted"))
    given = [(name, f"{lake.uri}/{state.shards[item.shard].uri}") for name, item in state.objects.items()]
    within(lake.count(lambda: commands.adopt(other, tmp_path / "new", given, create=True)), 4, 60)
    other = Environment.open(other.location.uri)
    within(lake.count(lambda: commands.plan(other, tmp_path / "new")), 1.2, 15)


def test_a_backup_and_its_way_back(lake: Lake) -> None:
    """The ledger's files are copied side by side, of which each takes two requests and more."""
    for number in range(1, 6):
        lake.upgrade(lake.release(f"1.{number}.0", "".join(f", w{i} STRING" for i in range(number)), does=EVOLVES), hold=timedelta(0))
    place = lake.uri.replace("/lake", "/backup")
    found = lake.count(lambda: backup(lake.env, place))
    assert found.one_by_one <= 20, found
    found = lake.count(lambda: restore(Environment.open(lake.uri.replace("/lake", "/again")), place))
    assert found.one_by_one <= 90, found  # the log is put from its end backwards
