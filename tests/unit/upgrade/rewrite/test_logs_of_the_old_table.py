"""The old table of a rewrite, replacement or removal whose files were rearranged, or whose log was cleaned up, beside a RESTORE."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, no_spark
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.upgrades import refused, two_releases, whole
from tests.unit.upgrade.plan.test_cleaned_logs import clean
from tests.unit.upgrade.rewrite.test_rows_in_the_old_table import KINDS, retired


def older_seal(lake: Lake, old: Path, older: int) -> None:
    """There and back twice: the second seal has a row more, and the RESTORE brings the first back, closed."""
    first = tables.newest(old)
    commands.rollback(lake.env, jobs=no_spark)
    tables.insert(old, [{"id": 7}])
    commands.upgrade(lake.env, lake.second, jobs=no_spark)
    tables.restore(old, first)
    assert tables.snapshot(old).sealed


def begun(lake: Lake, old: Path, older: int) -> None:
    """The rollback is killed before it opens the table."""
    with contextlib.suppress(Crash):
        commands.rollback(lake.crashing_at(3), jobs=no_spark)
    tables.restore(old, older)


def written(lake: Lake, old: Path, older: int) -> None:
    tables.restore(old, older)
    tables.insert(old, [{"id": 4}])


def begun_and_written(lake: Lake, old: Path, older: int) -> None:
    begun(lake, old, older)
    tables.insert(old, [{"id": 4}])


RESTORES: Mapping[str, Callable[[Lake, Path, int], object]] = {
    "open": lambda lake, old, older: tables.restore(old, older),
    "open and written": written,
    "sealed": older_seal,
    "a rollback begun": begun,
    "a rollback begun, and written": begun_and_written,
}


@pytest.mark.parametrize("restores", RESTORES.values(), ids=RESTORES)
def test_an_old_table_whose_log_was_cleaned_up_after_a_restore_is_no_way_back(
    tmp_path: Path, restores: Callable[[Lake, Path, int], object]
) -> None:
    lake, old, older = retired(tmp_path, "replacement")
    restores(lake, old, older)
    clean(old)
    with unwritten(lake.env), refused("old_table_changed", "t") as errors:
        commands.rollback(lake.env, jobs=no_spark)
    assert "RESTORE" not in errors[0].next_action, "no log has that version any more"


def test_files_that_were_rearranged_before_a_restore_there_and_back_are_a_way_back(tmp_path: Path) -> None:
    lake, old, older = retired(tmp_path, "replacement")
    rearranged = tables.optimize(old)
    tables.restore(old, older)
    tables.restore(old, rearranged)
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
    whole(lake)


@pytest.mark.parametrize("kind", ["replacement", "removal", "rewrite"])
@pytest.mark.parametrize("moment", [3, 8])
def test_files_of_the_seal_that_a_restore_brought_back_after_a_new_seal_are_a_way_back(tmp_path: Path, moment: int, kind: str) -> None:
    """They were rearranged, a rollback was killed, and a VACUUM took what they had become."""
    lake, old, older = retired(tmp_path, kind)
    first = tables.newest(old)
    tables.optimize(old)
    with contextlib.suppress(Crash):
        commands.rollback(lake.crashing_at(moment), jobs=no_spark)
    commands.upgrade(lake.env, lake.second, jobs=no_spark)
    tables.restore(old, older)
    tables.restore(old, first)
    tables.vacuum(old)
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
    whole(lake)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restore_of_the_old_table_between_the_first_look_and_its_opening_is_seen(tmp_path: Path, kind: str) -> None:
    """At every other write of the rollback that meets the table sealed."""
    seen = 0
    for moment in range(1, 40, 2):
        lake, old, older = retired(tmp_path / str(moment), kind)
        sealed, writes, restored = tables.newest(old), count(), list[int]()

        def restore(at: str, what: str, key: str) -> None:
            if next(writes) == moment and tables.snapshot(old).sealed:  # noqa: B023 - called right here
                restored.append(tables.restore(old, older))  # noqa: B023

        told: list[SchemamigError] = []
        try:
            commands.rollback(replace(lake.env, on_write=restore), jobs=no_spark)
        except SchemamigError as error:
            told.append(error)
        assert bool(told) == bool(restored) and {error.code for error in told} <= {"old_table_changed", "metadata_moved"}, (moment, told)
        if not restored:
            continue
        seen += 1
        assert lake.version == "1.1.0"
        tables.restore(old, sealed)
        commands.rollback(lake.env, jobs=no_spark)
        assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
        whole(lake)
    assert seen > 2


def test_no_evolved_table_goes_back_before_all_old_tables_are_open(tmp_path: Path) -> None:
    """A rollback that ends by OldTableChanged has changed nothing; who was open by then is closed again."""
    first, second = (
        "".join(f"CREATE TABLE {name};" for name in found)
        for found in (("t (id INT)", "e (id INT)"), ("t (id STRING)", "e (id INT, m INT)"))
    )
    ended = set[str]()
    for moment in range(1, 40):
        lake = two_releases(tmp_path / str(moment), first, second, 'replacement("t"), evolution("e")')
        old, older = lake.path("t"), tables.insert(lake.path("t"), [{"id": 1}])
        tables.insert(old, [{"id": 2}])
        commands.upgrade(lake.env, lake.second, jobs=no_spark)
        writes = count()

        def restore(at: str, what: str, key: str) -> None:
            if next(writes) == moment:  # noqa: B023 - called right here
                tables.restore(old, older)  # noqa: B023

        told: list[str] = []
        try:
            commands.rollback(replace(lake.env, on_write=restore), jobs=no_spark)
        except SchemamigError as error:
            told.append(error.code)
        if told:
            assert [field["name"] for field in tables.snapshot(lake.path("e")).fields] == ["id", "m"], (moment, told)
            assert tables.snapshot(old).sealed or told == ["metadata_moved"]
        ended.update(told)
        if next(writes) <= moment:
            break
    assert ended == {"old_table_changed", "metadata_moved"}


@pytest.mark.parametrize("kind", ["replaced", "created"])
def test_a_restore_that_opens_what_the_release_brought_stops_the_rollback(tmp_path: Path, kind: str) -> None:
    """Rows that came then would stay behind in a table that its notes call sealed, unasked where rows are replaced."""
    brought = 'replacement("t"), evolution("e")' if kind == "replaced" else 'evolution("e")'
    first = "CREATE TABLE e (id INT);" + ("CREATE TABLE t (id INT);" if kind == "replaced" else "")
    stopped = 0
    for moment in range(1, 40):
        lake = two_releases(tmp_path / str(moment), first, "CREATE TABLE e (id INT, m INT); CREATE TABLE t (id STRING);", brought)
        commands.upgrade(lake.env, lake.second, jobs=no_spark)
        new, writes, left = lake.path("t"), count(), list[bool]()
        unsealed = tables.newest(new)

        def restore(at: str, what: str, key: str) -> None:
            if next(writes) == moment and what != "ledger" and lake.version == "1.1.0":  # noqa: B023 - called right here
                left.append(tables.snapshot(new).sealed)  # noqa: B023
                tables.restore(new, unsealed)  # noqa: B023
                tables.insert(new, [{"id": "9"}])  # noqa: B023

        told: list[str] = []
        try:
            commands.rollback(replace(lake.env, on_write=restore), jobs=no_spark)
        except SchemamigError as error:
            told.append(error.code)
        if not left:
            continue
        assert told in (["source_touched"], ["lossy_rollback"], ["metadata_moved"], []), (moment, told)
        assert told or kind == "created", moment
        stopped += told == ["source_touched"]
        if told:
            commands.rollback(lake.env, jobs=no_spark, allow_lossy=True)
        assert lake.version == "1.0.0" and tables.snapshot(new).sealed and tables.snapshot(new).rows == [{"id": "9"}]
    assert stopped > 2


def test_a_restore_between_the_seal_of_a_replaced_table_and_the_commit_stops_the_cut_over(tmp_path: Path) -> None:
    """A rewrite beside it is catching up, which takes a while."""
    up = "SELECT CAST(id AS STRING) AS id FROM {k}"
    first, second = ("".join(f"CREATE TABLE {name} (id {kind});" for name in "tk") for kind in ("BIGINT", "STRING"))
    lake = two_releases(tmp_path, first, second, f'replacement("t"), rewrite("k", up="{up}")')
    old, runner, restored = lake.path("t"), RowJobs({up: lambda row: [{"id": str(row["id"])}]}), list[int]()
    tables.insert(lake.path("k"), [{"id": 1}])
    older = tables.insert(old, [{"id": 2}])
    tables.insert(old, [{"id": 3}])

    def before(job: str, request: Mapping[str, Any]) -> None:
        if job == "digest" and tables.newest(lake.path("k")) == 1:
            tables.insert(lake.path("k"), [{"id": 2}])
        elif not restored and tables.snapshot(old).sealed:
            restored.append(tables.restore(old, older))

    runner.before = before
    with refused("source_touched", "t"):
        commands.upgrade(lake.env, lake.second, jobs=lambda: runner)
    assert restored and lake.version == "1.0.0" and not tables.snapshot(old).sealed
    commands.upgrade(lake.env, lake.second, jobs=lambda: runner)
    commands.rollback(lake.env, jobs=lambda: runner, allow_lossy=True)
    assert [row["id"] for row in tables.snapshot(old).rows] == [2], "as others restored it before the release"
    whole(lake)
