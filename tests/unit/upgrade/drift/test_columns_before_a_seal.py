"""Somebody adds a column, maybe with rows, in the moment before a table is sealed: what takes its place does not have the column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import Intent, IntentKind
from airflow_provider_schemamig.exceptions import Conflict, Refusal, SchemamigError
from tests.support.lake import Crash, Lake, no_spark
from tests.support.rows import tables
from tests.support.rows.rewritten import SECOND, jobs, make_rewritten, upgrade
from tests.support.tables import foreign
from tests.support.upgrades import refused, two_releases
from tests.unit.ledger.samples import elsewhere

TABLES = "CREATE TABLE keyed (id BIGINT);\nCREATE TABLE other (id BIGINT);\n"
#: What a release makes of a table that goes.
GOING = {
    "removed": ("CREATE TABLE other (id BIGINT);", 'removal("keyed")'),
    "replaced": (TABLES.replace("keyed (id BIGINT", "keyed (id STRING"), 'replacement("keyed")'),
}
KINDS = [*GOING, "rewritten"]
#: Right after the seal was announced, or where its commit is made already.
MOMENTS = ["after", "before"]


def going(folder: Path, kind: str) -> Lake:
    return make_rewritten(folder).lake if kind == "rewritten" else two_releases(folder, TABLES, *GOING[kind])


def adding(lake: Lake, moment: str, path: Path) -> tuple[Environment, Callable[[], bool]]:
    """The environment, and whether a column came to the table in that moment."""
    announced, added = list[Intent](), list[str]()

    def hook(now: str, what: str, key: str) -> None:
        if not announced and now == "after" and what == "ledger":
            announced.extend(intent for intent in lake.state.intents.values() if intent.kind is IntentKind.SEAL)
        if announced and not added and now == moment:
            added.append(key)
            foreign.add_column(path, "z")

    return replace(elsewhere(lake.env), on_write=hook), lambda: bool(added)


def is_told(found: BaseException) -> bool:
    """Is it told as what it is, at once or by trying again?"""
    return isinstance(found, Refusal | Conflict) and found.code in ("drift", "metadata_moved")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_upgrade_seals_no_table_to_which_a_column_came(tmp_path: Path, kind: str, moment: str) -> None:
    lake = going(tmp_path, kind)
    path = lake.path("keyed")
    env, is_added = adding(lake, moment, path)
    with pytest.raises(SchemamigError) as first:
        commands.upgrade(env, lake.second, jobs=jobs())
    assert (is_told(first.value), is_added(), lake.version) == (True, True, "1.0.0")
    with pytest.raises(SchemamigError, match="z: expected nothing, found STRING"):
        commands.upgrade(elsewhere(lake.env), lake.second, jobs=jobs())
    foreign.drop_column(path, "z")
    commands.upgrade(elsewhere(lake.env), lake.second, jobs=jobs())
    assert lake.version == "1.1.0"


@pytest.mark.parametrize("kind", GOING)
def test_a_cut_over_that_drift_ends_leaves_no_table_sealed(tmp_path: Path, kind: str) -> None:
    """Not those that a killed run had sealed either: writers are not to wait for a person."""
    lake = going(tmp_path, kind)
    path = lake.path("keyed")

    def die_sealed(now: str, what: str, key: str) -> None:
        if tables.snapshot(path).sealed:
            raise Crash(key)

    with pytest.raises(Crash):
        commands.upgrade(replace(elsewhere(lake.env), on_write=die_sealed), lake.second, jobs=no_spark)
    foreign.add_column(path, "z")
    with refused("drift", "keyed"):
        commands.cutover(elsewhere(lake.env), SECOND, jobs=jobs())
    assert not tables.snapshot(path).sealed


@pytest.mark.parametrize("at", range(1, 7))
def test_a_killed_rollback_looks_for_columns_again(tmp_path: Path, at: int) -> None:
    found = make_rewritten(tmp_path)
    upgrade(found, found.env, jobs())
    path = found.path("keyed")
    with pytest.raises(Crash):
        commands.rollback(found.lake.crashing_at(at), jobs=jobs)
    assert not tables.snapshot(path).sealed
    foreign.add_column(path, "z")
    with refused("drift", "keyed"):
        commands.rollback(elsewhere(found.env), jobs=jobs)
    foreign.drop_column(path, "z")
    commands.rollback(elsewhere(found.env), jobs=jobs)
    found.check("1.0.0")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rollback_seals_no_table_to_which_a_column_came(tmp_path: Path, moment: str) -> None:
    found = make_rewritten(tmp_path)
    upgrade(found, found.env, jobs())
    path = found.path("keyed")
    env, is_added = adding(found.lake, moment, path)
    with pytest.raises(SchemamigError) as first:
        commands.rollback(env, jobs=jobs)
    assert (is_told(first.value), is_added(), found.version) == (True, True, "1.1.0")
    assert not found.state.intents, "its hold is open again"
    foreign.drop_column(path, "z")
    commands.rollback(elsewhere(found.env), jobs=jobs)
    found.check("1.0.0")
