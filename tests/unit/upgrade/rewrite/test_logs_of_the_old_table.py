"""The old table of a rewrite, replacement or removal whose files were rearranged, or whose log was cleaned up, beside a RESTORE."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, no_spark
from tests.support.rows import tables
from tests.support.upgrades import refused, whole
from tests.unit.upgrade.plan.test_cleaned_logs import clean
from tests.unit.upgrade.rewrite.test_rows_in_the_old_table import retired


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
