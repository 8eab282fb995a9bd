"""Columns that stand in for others while a type changes are told apart whatever columns are called, and by what they are in the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import rebuild
from airflow_provider_schemamig.exceptions import Conflict, Refusal, SchemamigError
from tests.support.lake import Lake, rows
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, refused, releases, two_releases, whole
from tests.unit.ledger.samples import elsewhere
from tests.unit.upgrade.rebuild.test_rebuild import lose

STEP = 'evolution("t")'


def declared(**types: str) -> str:
    return f"CREATE TABLE t (id BIGINT, {', '.join(f'{name} {kind}' for name, kind in types.items())});"


def upgrade(lake: Lake, release: Path) -> None:
    commands.upgrade(lake.env, release, jobs=OnlineJobs())


def rollback(lake: Lake) -> None:
    commands.rollback(lake.env, jobs=OnlineJobs())


def values(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[column] for column in ("id", *columns)) for row in tables.snapshot(lake.path("t")).rows)


@pytest.mark.some(2)
@pytest.mark.parametrize("other", ["e_2", "e_3", "schemamig", "new_e", "2_e", "f"])
def test_two_columns_get_another_type_and_their_own_values_back(tmp_path: Path, other: str) -> None:
    made = releases(tmp_path, (declared(e="INT", **{other: "INT"}), ""), (declared(e="STRING", **{other: "STRING"}), STEP))
    lake = deployed(tmp_path, *made)
    tables.insert(lake.path("t"), [{"id": 1, "e": 10, other: 11}])
    for number in (2, 3):  # the second time over what the first one left hidden
        upgrade(lake, made[1])
        tables.insert(lake.path("t"), [{"id": number, "e": f"{number}0", other: f"{number}1"}])
        rollback(lake)
        assert values(lake, "e", other) == [(found, 10 * found, 10 * found + 1) for found in range(1, number + 1)]


def test_what_a_rollback_left_is_in_no_other_columns_way(tmp_path: Path) -> None:
    text = declared(e="STRING", e_2="STRING")
    made = releases(tmp_path, (text, ""), (declared(e="INT", e_2="STRING"), STEP))
    mended = releases(tmp_path / "mended", (text, ""), (declared(e="BIGINT", e_2="BIGINT"), STEP))
    lake = deployed(tmp_path, made[0], made[1])
    tables.insert(lake.path("t"), [{"id": 1, "e": "10", "e_2": "11"}])
    upgrade(lake, made[1])
    tables.insert(lake.path("t"), [{"id": 2, "e": 20, "e_2": "21"}])
    rollback(lake)
    upgrade(lake, mended[1])
    assert values(lake, "e", "e_2") == [(1, 10, 11), (2, 20, 21)]
    rollback(lake)
    assert values(lake, "e", "e_2") == [(1, "10", "11"), (2, "20", "21")]


def test_what_was_hidden_when_the_ledger_was_lost_is_in_no_other_columns_way(tmp_path: Path) -> None:
    first, second = declared(e="INT", e_2="INT"), declared(e="STRING", e_2="INT")
    made = releases(tmp_path, (first, ""), (second, STEP), (first, STEP))
    lake = deployed(tmp_path, made[0], made[1])
    tables.insert(lake.path("t"), [{"id": 1, "e": 10, "e_2": 11}])
    upgrade(lake, made[1])
    lose(lake)
    rebuild(elsewhere(lake.env), made[1])
    again = replace(lake, env=elsewhere(lake.env))
    upgrade(again, made[2])
    tables.insert(again.path("t"), [{"id": 2, "e": 20, "e_2": 21}])
    rollback(again)
    assert values(again, "e", "e_2") == [(1, "10", 11), (2, "20", 21)]


def _renamed(path: Path) -> None:
    foreign.rename_column(path, "schemamig_old_e", "zork")


def _dropped(path: Path) -> None:
    foreign.drop_column(path, "schemamig_old_e")


@pytest.mark.parametrize("drift", [_renamed, _dropped], ids=["renamed", "dropped"])
def test_a_column_that_was_aside_when_somebody_changed_it_has_every_value_again(tmp_path: Path, drift: Any) -> None:
    """``revert`` puts the column back, but of a dropped one not the values: these are cast from the type that took its place."""
    made = releases(tmp_path, (declared(e="INT"), ""), (declared(e="STRING"), STEP))
    lake = deployed(tmp_path, *made)
    tables.insert(lake.path("t"), [{"id": 1, "e": 1}])
    upgrade(lake, made[1])
    tables.insert(lake.path("t"), [{"id": 2, "e": "2"}])
    drift(lake.path("t"))
    commands.revert(lake.env, "t", allow_lossy=True)
    tables.insert(lake.path("t"), [{"id": 3, "e": "3"}])
    rollback(lake)
    assert values(lake, "e") == [(1, 1), (2, 2), (3, 3)]


def test_a_way_back_that_meets_another_ones_is_a_conflict(tmp_path: Path) -> None:
    """Another leader, or somebody, takes the column away between the look at the ledger and the look at the table."""
    made = releases(tmp_path, (declared(e="INT"), ""), (declared(e="STRING"), STEP))
    lake = deployed(tmp_path, *made)
    tables.insert(lake.path("t"), [{"id": 1, "e": 1}])
    upgrade(lake, made[1])
    intents = []

    def faster(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("after", "ledger"):
            intents.append(key)
            if len(intents) == 1:  # the rollback has begun
                foreign.rename_column(lake.path("t"), "schemamig_old_e", "zork")

    with pytest.raises(SchemamigError) as found:
        commands.rollback(replace(lake.env, on_write=faster), jobs=OnlineJobs())
    assert isinstance(found.value, Conflict | Refusal)
    assert found.value.code in ("metadata_moved", "drift_found")


# --- somebody else's RESTORE ---------------------------------------------------------------------------------------------------------


def typed(tmp_path: Path) -> tuple[Lake, int]:
    """A lake in its hold after a change of type with one old row, and the version of before it."""
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT, s STRING);", "CREATE TABLE a (id BIGINT, s INT);", 'evolution("a")')
    tables.insert(lake.path("a"), [{"id": 1, "s": "007"}])
    before = tables.newest(lake.path("a"))
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs)
    return lake, before


@pytest.mark.parametrize("to", range(4))
def test_a_table_that_was_restored_to_before_the_swap_and_back_keeps_what_came_since_on_its_way_back(tmp_path: Path, to: int) -> None:
    lake, before = typed(tmp_path)
    tables.insert(lake.path("a"), [{"id": 2, "s": 8}])
    latest = tables.newest(lake.path("a"))
    tables.restore(lake.path("a"), before + to)
    tables.restore(lake.path("a"), latest)
    commands.rollback(lake.env, jobs=OnlineJobs)
    assert [(row["id"], row["s"]) for row in rows(lake.path("a"))] == [(1, "007"), (2, "8")]
    whole(lake)


@pytest.mark.parametrize(("to", "late"), [(1, []), (2, [{"id": 3, "s": "09"}])], ids=["not filled", "with a new row"])
def test_a_revert_of_a_restore_to_before_the_swap_says_which_values_it_loses(tmp_path: Path, to: int, late: list[dict[str, Any]]) -> None:
    lake, before = typed(tmp_path)
    tables.restore(lake.path("a"), before + to)
    tables.insert(lake.path("a"), late)
    with refused("lossy_revert", "a") as found:
        commands.revert(lake.env, "a")
    assert "s: it has NULL in rows whose values are in schemamig_new_s no more, or not yet (RESTORE TABLE to version" in found[0].message
