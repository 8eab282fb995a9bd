"""Another type of a column that a CHECK is about: the CHECK holds for the values of both types, whoever writes in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.errors import BadValue
from airflow_provider_schemamig.core.upgrade.rollback.errors import LossyRollback
from airflow_provider_schemamig.core.upgrade.tables.errors import NotInvertible
from tests.support.lake import Lake, rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import change, insert, snapshot
from tests.support.upgrades import refused, two_releases, whole
from tests.unit.upgrade.online.test_online_types import OUTDATED, SHADOW, Rival, columns, go_on, swapped, table, upgraded

A = CollectionName("a")
#: ``07`` is no ``7``, but as a number it is.
RULE = "CAST(s AS STRING) <> '7'"
NO_SEVEN = f"CONSTRAINT c CHECK ({RULE} OR s IS NULL)"


def lake_of(folder: Path, old: str, new: str, check: str = NO_SEVEN) -> Lake:
    before, after = (f"CREATE TABLE a (id BIGINT, s {found}, {check});" for found in (old, new))
    return two_releases(folder, before, after, 'evolution("a")')


def texts(folder: Path) -> Lake:
    lake = lake_of(folder, "STRING", "INT")
    insert(lake.path("a"), [{"id": 1, "s": "008"}, {"id": 2, "s": None}])
    insert(lake.path("a"), [{"id": 3, "s": "3"}])
    return lake


def constraints(lake: Lake) -> dict[str, str]:
    found = snapshot(lake.path("a")).metadata["configuration"]
    return {key: text for key, text in found.items() if key.startswith("delta.constraints.")}


def sound(lake: Lake) -> None:
    """The table has the CHECKs that are declared, and nobody sees a difference."""
    entry = lake.state.entry(A)
    assert entry.physical.checks == entry.declared.checks
    assert constraints(lake) == {f"delta.constraints.{check.name}": check.expression for check in entry.declared.checks}
    whole(lake)


def test_online_checks_there_and_back_and_there_while_others_write(tmp_path: Path) -> None:
    lake = texts(tmp_path)
    before = constraints(lake)
    upgraded(lake)
    assert table(lake) == {1: 8, 2: None, 3: 3}
    sound(lake)
    expected = go_on(lake) | {1: "008"}
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert (lake.version, table(lake), columns(lake)) == ("1.0.0", expected, ["id", "s", SHADOW])
    sound(lake)
    insert(lake.path("a"), [{"id": 6, "s": "06"}])
    upgraded(lake)
    assert table(lake) == {1: 8, 2: 22, 3: 33, 4: 44, 6: 6}
    sound(lake)
    commands.contract(lake.env, at_once=True)
    assert (columns(lake), constraints(lake)) == (["id", "s"], before)
    sound(lake)


def test_rows_that_break_it_are_found_before_anything_is_written(tmp_path: Path) -> None:
    lake = texts(tmp_path)
    insert(lake.path("a"), [{"id": 8, "s": "07"}, {"id": 9, "s": "nine"}])
    version = snapshot(lake.path("a")).version
    with pytest.raises(Exception, match="violate") as caught:
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert {(item.rule, item.count) for item in caught.value.refusals} == {("s as INT", 1), ("CHECK c with s as INT", 1)}  # type: ignore[attr-defined]
    assert snapshot(lake.path("a")).version == version


def test_online_checks_it_has_to_be_true_and_not_just_not_false(tmp_path: Path) -> None:
    """Delta takes NULL for a violation."""
    lake = lake_of(tmp_path, "INT", "STRING", "CONSTRAINT c CHECK (CASE WHEN CAST(s AS STRING) = s THEN NULL ELSE true END)")
    insert(lake.path("a"), [{"id": 1, "s": 5}])
    with refused("data_violation", "a") as found:
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert "CHECK c with s as STRING" in found[0].message


@pytest.mark.some(1)
@pytest.mark.parametrize("when", ["before the fill", "during the fill", "right before the swap"])
def test_a_row_that_breaks_it_leads_back(tmp_path: Path, when: str) -> None:
    """Nothing but our fill stands against it: to writers it is a good row until the swap."""
    lake, jobs = texts(tmp_path), OnlineJobs()
    bad, late = [{"id": 8, "s": "07"}], when == "right before the swap"

    def write(job: str, request: object) -> None:
        if job == "fill" and bad:
            insert(lake.path("a"), [bad.pop()])

    rival = Rival(lake, lambda path, number: insert(path, [bad.pop()]), 1 if late else 0)
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    if when == "before the fill":
        insert(lake.path("a"), [bad.pop()])
    jobs.before = write if when == "during the fill" else None
    if late:
        commands.change(lake.env, generation, jobs=jobs)
    with pytest.raises(BadValue, match="the CHECK c does not hold"):
        (commands.cutover if late else commands.change)(rival.env, generation, jobs=jobs)
    assert (bad, table(lake)) == ([], {1: "008", 2: None, 3: "3", 8: "07"})
    assert late or all("07" in (element.error or "") for element in lake.state.elements.values())
    assert constraints(lake).keys() == {"delta.constraints.c"}
    change(lake.path("a"), lambda row: None if row["id"] == 8 else row)
    commands.change(lake.env, generation, jobs=jobs)
    commands.cutover(lake.env, generation, jobs=jobs)
    assert table(lake) == {1: 8, 2: None, 3: 3}
    sound(lake)


@pytest.mark.some(1)
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("value", ["07", "two"])
def test_a_row_that_would_break_it_once_back(tmp_path: Path, value: str, committed: bool) -> None:
    """``two`` would be NULL, which this CHECK forbids: ``--allow-lossy`` is no way."""
    lake = lake_of(tmp_path, "INT", "STRING", f"CONSTRAINT c CHECK ({RULE})")
    insert(lake.path("a"), [{"id": 1, "s": 5}])
    upgraded(lake) if committed else swapped(lake)
    insert(lake.path("a"), [{"id": 2, "s": value}, {"id": 3, "s": "3"}])
    with pytest.raises(LossyRollback if committed else NotInvertible) as caught:
        commands.rollback(lake.env, jobs=OnlineJobs())
    assert not committed or "1 row(s) break the CHECK c with s as INT" in caught.value.message
    with pytest.raises(NotInvertible, match="the CHECK c does not hold"):
        commands.rollback(lake.env, jobs=OnlineJobs(), allow_lossy=True)
    assert table(lake) == {1: "5", 2: value, 3: "3"}
    change(lake.path("a"), lambda row: row | {"s": "2"} if row["id"] == 2 else row)
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert (lake.version, table(lake)) == ("1.0.0", {1: 5, 2: 2, 3: 3})
    sound(lake)


def test_a_row_that_breaks_it_between_the_look_and_the_way_back(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "INT", "STRING")
    insert(lake.path("a"), [{"id": 1, "s": 5}])
    upgraded(lake)
    insert(lake.path("a"), [{"id": 2, "s": "2"}])
    rival = Rival(lake, lambda path, number: insert(path, [{"id": 3, "s": "07"}]), 1, OUTDATED)
    with pytest.raises((LossyRollback, NotInvertible), match="the CHECK c does not hold"):
        commands.rollback(rival.env, jobs=OnlineJobs())
    change(lake.path("a"), lambda row: None if row["id"] == 3 else row)
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert table(lake) == {1: 5, 2: 2}
    sound(lake)


def test_a_check_over_two_that_change(tmp_path: Path) -> None:
    """As text ``9`` comes after ``10``; and one of the two has another name in the new release."""
    old = "CREATE TABLE a (id BIGINT, s INT, t INT, CONSTRAINT c CHECK (s < t));"
    new = "CREATE TABLE a (id BIGINT, s STRING, u STRING, CONSTRAINT c CHECK (s < u));"
    lake = two_releases(tmp_path, old, new, 'evolution("a", rename={"t": "u"})')
    insert(lake.path("a"), [{"id": 1, "s": 9, "t": 10}, {"id": 2, "s": 1, "t": 2}])
    with pytest.raises(Exception, match="violate"):
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    change(lake.path("a"), lambda row: row | {"t": 90} if row["id"] == 1 else row)
    upgraded(lake)
    assert constraints(lake) == {"delta.constraints.c": "s < u"}
    insert(lake.path("a"), [{"id": 3, "s": "10", "u": "9"}])
    with pytest.raises(LossyRollback, match="break the CHECK c"):
        commands.rollback(lake.env, jobs=OnlineJobs())
    change(lake.path("a"), lambda row: row | {"u": "91"} if row["id"] == 3 else row)
    commands.rollback(lake.env, jobs=OnlineJobs())
    found = [{"id": 1, "s": 9, "t": 90}, {"id": 2, "s": 1, "t": 2}, {"id": 3, "s": 10, "t": 91}]
    assert (lake.version, rows(lake.path("a"), "id", "s", "t")) == ("1.0.0", found)
    sound(lake)
