"""Another type on a live table (``change_type``): who writes while the columns change places, the way there and back, what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced, WriterFenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.spark.errors import BadValue, ConstraintViolated
from airflow_provider_schemamig.core.upgrade.execute import rename_swaps
from airflow_provider_schemamig.core.upgrade.rollback.errors import LossyRollback
from airflow_provider_schemamig.core.upgrade.tables import column_swap
from airflow_provider_schemamig.core.upgrade.tables.column_swap import OPEN_RACES, TRIES
from airflow_provider_schemamig.core.upgrade.tables.errors import NotInvertible, SwapRaced
from tests.support.lake import Crash, Lake, rows
from tests.support.online import OnlineJobs, die_after_the_swap
from tests.support.rows.tables import change, insert, set_property, snapshot
from tests.support.upgrades import refused, two_releases, whole

pytestmark = pytest.mark.some(5, of="types changed online")

A = CollectionName("a")
SHADOW, OUTDATED = "schemamig_new_s", "schemamig_old_s"
COLUMNS = ("id", "s")
STRIDE = 23


def texts(folder: Path, rule: str = "") -> Lake:
    """``s`` becomes a number."""
    old, new = (f"CREATE TABLE a (id BIGINT, s {found}{rule});" for found in ("STRING", "INT"))
    lake = two_releases(folder, old, new, 'evolution("a")')
    insert(lake.path("a"), [{"id": 1, "s": "007"}, {"id": 2, "s": None}])
    insert(lake.path("a"), [{"id": 3, "s": "3"}])
    return lake


def numbers(folder: Path) -> Lake:
    """``s`` becomes text, which a way back may find no number in."""
    old, new = "CREATE TABLE a (id BIGINT, s INT NOT NULL DEFAULT 4);", "CREATE TABLE a (id BIGINT, s STRING NOT NULL DEFAULT 4);"
    lake = two_releases(folder, old, new, 'evolution("a")')
    insert(lake.path("a"), [{"id": 1, "s": 7}])
    return lake


def table(lake: Lake) -> dict[int, Any]:
    return {row["id"]: row["s"] for row in rows(lake.path("a"), *COLUMNS)}


def columns(lake: Lake) -> list[str]:
    return [column["name"] for column in snapshot(lake.path("a")).fields]


def changed(lake: Lake, jobs: OnlineJobs | None = None) -> Generation:
    """Up to the cut-over."""
    jobs = jobs or OnlineJobs()
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=jobs)
    return generation


def swapped(lake: Lake, jobs: OnlineJobs | None = None) -> None:
    """Up to the swap, and not to the commit: the process dies in between."""
    die_after_the_swap(lake.env, lake.path("a"), changed(lake, jobs), jobs or OnlineJobs())


def upgraded(lake: Lake) -> Lake:
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert lake.version == "1.1.0"
    return lake


# --- the race of the swap ---------------------------------------------------------------------------------------------------------------


@dataclass
class Rival:
    """Somebody who writes right before the commit that swaps, ``times`` times: all rows have their value then."""

    lake: Lake
    write: Callable[[Path, int], object]
    times: int
    #: The column that takes the place of ``s``.
    comes: str = SHADOW
    written: int = field(default=0)

    @property
    def env(self) -> Environment:
        return replace(self.lake.env, on_write=self)

    def __call__(self, moment: str, what: str, key: str) -> None:
        path = self.lake.path("a")
        if moment != "before" or not key.startswith("_delta_log") or self.written == self.times:
            return
        now = snapshot(path)
        if self.comes in (column["name"] for column in now.fields) and all(_same(row[self.comes], row["s"]) for row in now.rows):
            self.written += 1
            self.write(path, self.written)


def _same(one: Any, other: Any) -> bool:
    return one is other is None or (None not in (one, other) and int(one) == int(other))


def first(to: str | None) -> Callable[[Path, int], object]:
    """An UPDATE of the first row."""
    return lambda path, number: change(path, lambda row: row | {"s": to} if row["id"] == 1 else row)


WRITES: dict[str, tuple[Callable[[Path, int], object], dict[int, Any]]] = {
    "insert": (lambda path, number: insert(path, [{"id": 10, "s": "10"}]), {1: 7, 2: None, 3: 3, 10: 10}),
    "update": (first("8"), {1: 8, 2: None, 3: 3}),
    "update to NULL": (first(None), {1: None, 2: None, 3: 3}),
    "delete": (lambda path, number: change(path, lambda row: None if row["id"] == 1 else row), {2: None, 3: 3}),
}


@pytest.mark.parametrize(("write", "expected"), WRITES.values(), ids=WRITES)
def test_a_write_between_the_fill_and_the_swap(tmp_path: Path, write: Callable[[Path, int], object], expected: dict[int, Any]) -> None:
    lake = texts(tmp_path)
    rival = Rival(lake, write, 1)
    commands.upgrade(rival.env, lake.second, jobs=OnlineJobs())
    assert (rival.written, lake.version, table(lake)) == (1, "1.1.0", expected)
    whole(lake)


def test_writers_that_are_always_faster_wait_the_third_time(tmp_path: Path) -> None:
    lake, acknowledged = texts(tmp_path), []

    def write(path: Path, number: int) -> None:
        with suppress(ConstraintViolated):
            insert(path, [{"id": 10 + number, "s": "1"}])
            acknowledged.append(10 + number)

    rival = Rival(lake, write, 9)
    upgraded(replace(lake, env=rival.env))
    assert len(acknowledged) == OPEN_RACES < rival.written
    assert table(lake) == {1: 7, 2: None, 3: 3} | dict.fromkeys(acknowledged, 1)
    assert not snapshot(lake.path("a")).sealed
    whole(lake)


def test_online_types_what_a_seal_lets_through_may_be_faster_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = texts(tmp_path)
    monkeypatch.setattr(column_swap, "OPEN_RACES", TRIES)
    monkeypatch.setattr(rename_swaps, "OPEN_RACES", TRIES)
    rival = Rival(lake, lambda path, number: insert(path, [{"id": 10 + number, "s": "1"}]), TRIES)
    generation = changed(lake)
    with pytest.raises(SwapRaced) as caught:
        commands.cutover(rival.env, generation, jobs=OnlineJobs())
    assert (caught.value.retryable, caught.value.tries, caught.value.collection) == (True, 5, "a")
    upgraded(lake)
    assert table(lake) == {1: 7, 2: None, 3: 3} | {10 + number: 1 for number in range(1, 6)}
    whole(lake)


# --- readers and writers of both releases -----------------------------------------------------------------------------------------------


def served(lake: Lake, release: str) -> bool:
    lake.env.reader("a", release=release).pin()
    return True


def fenced(lake: Lake, release: str) -> bool:
    """Neither a row is read nor one written in the shape of the release. Other columns are nobody's business."""
    env, value = lake.env, "9" if release == "1.0.0" else 9
    env.reader("a", release=release).pin(columns=["id"])
    with pytest.raises(ReaderFenced, match=r"\bs\b"):
        env.reader("a", release=release).pin()
    with pytest.raises(WriterFenced, match=r"\bs\b"):
        env.writer("a", release=release).append(pa.table({"id": [9], "s": [value]}))
    return True


def test_the_other_release_is_fenced_and_the_own_is_served(tmp_path: Path) -> None:
    lake = upgraded(texts(tmp_path))
    assert fenced(lake, "1.0.0") and served(lake, "1.1.0")
    commands.rollback(lake.env)
    assert served(lake, "1.0.0") and fenced(lake, "1.1.0")
    upgraded(lake)
    commands.contract(lake.env, at_once=True)
    assert fenced(lake, "1.0.0") and served(lake, "1.1.0")
    assert (columns(lake), table(lake)) == (["id", "s"], {1: 7, 2: None, 3: 3})
    whole(lake)


# --- the way back -----------------------------------------------------------------------------------------------------------------------


def go_on(lake: Lake) -> dict[int, str | None]:
    """Others write numbers; what is in the table then, as text. ``007`` is copied, and stays what it was."""
    path = lake.path("a")
    insert(path, [{"id": 4, "s": 44}, {"id": 5, "s": None}])
    change(path, lambda row: row | {"s": 22} if row["id"] == 2 else row)
    change(path, lambda row: row | {"s": 33} if row["id"] == 3 else row)
    change(path, lambda row: None if row["id"] == 5 else row)
    return {1: "007", 2: "22", 3: "33", 4: "44"}


def test_rows_written_since_go_back(tmp_path: Path) -> None:
    lake = upgraded(texts(tmp_path))
    expected = go_on(lake)
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert (lake.version, table(lake), columns(lake)) == ("1.0.0", expected, ["id", "s", SHADOW])
    whole(lake)
    insert(lake.path("a"), [{"id": 6, "s": "06"}])
    upgraded(lake)
    assert (table(lake), columns(lake)) == ({1: 7, 2: 22, 3: 33, 4: 44, 6: 6}, ["id", "s", OUTDATED])
    whole(lake)


def test_online_types_nothing_written_since_needs_no_spark(tmp_path: Path) -> None:
    lake = upgraded(texts(tmp_path))
    commands.rollback(lake.env)
    assert table(lake) == {1: "007", 2: None, 3: "3"}
    whole(lake)


def test_a_write_before_the_columns_change_places_again(tmp_path: Path) -> None:
    lake = upgraded(texts(tmp_path))
    rival = Rival(lake, lambda path, number: insert(path, [{"id": 10 + number, "s": number}]), 2, OUTDATED)
    commands.rollback(rival.env, jobs=OnlineJobs())
    assert (rival.written, table(lake)) == (2, {1: "007", 2: None, 3: "3", 11: "1", 12: "2"})
    whole(lake)


@pytest.mark.parametrize("way", ["rollback", "another generation"])
def test_rows_written_between_the_swap_and_the_commit(tmp_path: Path, way: str) -> None:
    lake = texts(tmp_path)
    swapped(lake)
    expected = go_on(lake)
    if way == "rollback":
        commands.rollback(lake.env, jobs=OnlineJobs())
        assert (lake.version, table(lake)) == ("1.0.0", expected)
    else:
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs(), claim_id="another")
        assert (lake.version, table(lake)) == ("1.1.0", {1: 7, 2: 22, 3: 33, 4: 44})
    whole(lake)


@pytest.mark.parametrize("committed", [True, False])
def test_a_value_that_does_not_go_back(tmp_path: Path, committed: bool) -> None:
    lake = numbers(tmp_path)
    upgraded(lake) if committed else swapped(lake)
    insert(lake.path("a"), [{"id": 2, "s": "two"}, {"id": 3, "s": "3"}])
    with pytest.raises(LossyRollback if committed else NotInvertible):
        commands.rollback(lake.env, jobs=OnlineJobs())
    assert table(lake) == {1: "7", 2: "two", 3: "3"}
    commands.rollback(lake.env, jobs=OnlineJobs(), allow_lossy=True)
    assert (lake.version, table(lake)) == ("1.0.0", {1: 7, 2: None, 3: 3})
    whole(lake)


def test_a_renamed_column_goes_back(tmp_path: Path) -> None:
    """A new type, and a new name, while its name goes to another column."""
    old, new = "CREATE TABLE a (id BIGINT, s STRING, b STRING);", "CREATE TABLE a (id BIGINT, t INT, s STRING);"
    lake = two_releases(tmp_path, old, new, 'evolution("a", rename={"s": "t", "b": "s"})')
    insert(lake.path("a"), [{"id": 1, "s": "01", "b": "x"}])
    upgraded(lake)
    assert rows(lake.path("a"), "id", "t", "s") == [{"id": 1, "t": 1, "s": "x"}]
    insert(lake.path("a"), [{"id": 2, "t": 2, "s": "y"}])
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert rows(lake.path("a"), "id", "s", "b") == [{"id": 1, "s": "01", "b": "x"}, {"id": 2, "s": "2", "b": "y"}]
    whole(lake)


def die(lake: Lake, moment: int) -> bool:
    try:
        commands.rollback(lake.crashing_at(moment), jobs=OnlineJobs())
    except Crash:
        return True
    return False


@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("rule", ["", ", CONSTRAINT c CHECK (CAST(s AS INT) < 99 OR s IS NULL)"], ids=["", "CHECK"])
def test_a_rollback_that_dies_anywhere(tmp_path: Path, stride: int, rule: str) -> None:
    """It is begun again, or the environment stays at the new release after all; rows keep coming in."""
    begun = upgraded(texts(tmp_path / "begun", rule))
    expected, moment, ended = go_on(begun), 0, False
    while not ended:
        for way in ("back", "on"):
            folder = tmp_path / f"{moment}-{way}"
            shutil.copytree(begun.env.location.local_path or Path(), folder)
            lake = replace(begun, env=Environment.open(str(folder)))
            ended = not die(lake, moment)
            if ended:
                break
            is_text = next(column["type"] for column in snapshot(lake.path("a")).fields if column["name"] == "s") == "string"
            insert(lake.path("a"), [{"id": 6, "s": "66" if is_text else 66}])
            if way == "back" and lake.version == "1.1.0":
                commands.rollback(lake.env, jobs=OnlineJobs())
            if way == "back":
                assert (lake.version, table(lake)) == ("1.0.0", expected | {6: "66"})
            else:
                upgraded(lake)
                assert table(lake) == {1: 7, 2: 22, 3: 33, 4: 44, 6: 66}
            whole(lake)
            assert lake.state.entry(A).physical.checks == lake.state.entry(A).declared.checks
            shutil.rmtree(folder)
        moment += stride
    assert moment > 2 * stride


# --- refused ----------------------------------------------------------------------------------------------------------------------------

REFUSED = {
    "a CHECK, uses it": (
        "id BIGINT, s STRING, CONSTRAINT c CHECK (to_json(struct(s)) <> '')",
        "id BIGINT, s INT, CONSTRAINT c CHECK (to_json(struct(s)) <> '')",
    ),
    "made of several": ("id BIGINT, s ARRAY<STRING>", "id BIGINT, s STRING"),
    "DEFAULT 'x' is nothing": ("id BIGINT, s INT DEFAULT 7", "id BIGINT, s STRING DEFAULT 'x'"),
}


@pytest.mark.parametrize(("reason", "before", "after"), [(reason, *found) for reason, found in REFUSED.items()], ids=REFUSED)
def test_online_types_what_is_refused(tmp_path: Path, reason: str, before: str, after: str) -> None:
    lake = two_releases(tmp_path, f"CREATE TABLE a ({before});", f"CREATE TABLE a ({after});", 'evolution("a")')
    with refused("not_online", "a") as found:
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert reason in found[0].message


def test_a_property_that_names_columns_is_refused(tmp_path: Path) -> None:
    lake = texts(tmp_path)
    set_property(lake.path("a"), "delta.dataSkippingStatsColumns", "id,s")
    with refused("not_online", "a"):
        commands.preflight(lake.env, lake.second, jobs=OnlineJobs())


def test_the_plan_says_what_it_takes(tmp_path: Path) -> None:
    lake = texts(tmp_path)
    report = commands.plan(lake.env, lake.second)
    (change_stage,) = (item for item in report.explained if item.kind == "change")
    assert "column mapping" in " ".join(change_stage.irreversible)
    assert "type widening" not in " ".join(change_stage.irreversible)
    assert "positional INSERT" in " ".join(change_stage.breaks) and "a declared rewrite" in " ".join(change_stage.breaks)
    assert "by a cast" in " ".join(change_stage.rollback)
    (contract,) = (stage for stage in report.to_json()["stages"] if stage["kind"] == "contract")
    assert [(item["op"], item["path"]) for item in contract["changes"]] == [("drop_column", OUTDATED)]


def test_values_that_are_no_number_are_found_before_anything_is_written(tmp_path: Path) -> None:
    lake = texts(tmp_path)
    insert(lake.path("a"), [{"id": 8, "s": "eight"}])
    version = snapshot(lake.path("a")).version
    with refused("data_violation", "a") as found:
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert "s as INT" in found[0].message
    assert snapshot(lake.path("a")).version == version


def test_a_value_that_comes_in_after_preflight_leads_back(tmp_path: Path) -> None:
    lake = texts(tmp_path)
    generation = commands.preflight(lake.env, lake.second, jobs=OnlineJobs()).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    insert(lake.path("a"), [{"id": 8, "s": "eight"}])
    commands.expand(lake.env, generation)
    with pytest.raises(BadValue):
        commands.change(lake.env, generation, jobs=OnlineJobs())
    assert all("eight" in (element.error or "") for element in lake.state.elements.values())
    change(lake.path("a"), lambda row: None if row["id"] == 8 else row)
    commands.change(lake.env, generation, jobs=OnlineJobs())
    commands.cutover(lake.env, generation, jobs=OnlineJobs())
    assert table(lake) == {1: 7, 2: None, 3: 3}
    whole(lake)
