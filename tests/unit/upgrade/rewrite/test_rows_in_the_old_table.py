"""A rollback opens the table of before for its own statement. What others write there, and then it fails, is not deleted with the table."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.spark.errors import SparkJobFailed
from airflow_provider_schemamig.core.upgrade.errors import SourceTouched
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, no_spark
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import DOWN_KEYED, QUERIES, UP_KEYED, Rewritten, jobs, make_rewritten, upgrade
from tests.support.tables.adopting import Site
from tests.support.upgrades import refused, two_releases, whole
from tests.unit.upgrade.adopt.test_adopt import begin
from tests.unit.upgrade.plan.test_cleaned_logs import clean


@pytest.mark.parametrize(
    ("writes", "is_cleaned"), [(True, False), (True, True), (False, False)], ids=["others", "others, cleaned", "nobody"]
)
def test_rows_in_the_old_table_of_a_failed_rollback_are_left_alone(tmp_path: Path, writes: bool, is_cleaned: bool) -> None:
    found = make_rewritten(tmp_path)
    old = found.path("keyed")
    upgrade(found, found.env, jobs())
    found.insert("keyed", [{"id": 900, "v": 9}])
    failing = jobs()

    def before(job: str, request: Mapping[str, Any]) -> None:
        if job == "apply" and writes and not any(row["id"] == 4242 for row in tables.snapshot(old).rows):
            tables.insert(old, [{"id": 4242, "v": "4242"}])

    def after(job: str, request: Mapping[str, Any]) -> None:
        if job == "apply":
            raise SparkJobFailed(job="apply", tail="the cluster went away")

    failing.before, failing.after = before, after
    with pytest.raises(SparkJobFailed):
        commands.rollback(found.env, jobs=failing)
    assert tables.snapshot(old).sealed
    if is_cleaned:
        clean(old)
    outcome = commands.contract(found.env, None, at_once=True, ignore_nodes=True)
    assert old.exists() == writes
    why = "others may have written rows to it" if is_cleaned else "others wrote rows to it after its own had moved on"
    assert any(why in note for note in outcome.notes) == writes


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_rows_in_the_old_table_that_a_restore_opened_are_left_alone(tmp_path: Path, is_cleaned: bool) -> None:
    found = make_rewritten(tmp_path)
    old = found.path("keyed")
    before = tables.newest(old)
    upgrade(found, found.env, jobs())
    tables.restore(old, before)
    tables.insert(old, [{"id": 4242, "v": "4242"}])
    if is_cleaned:
        clean(old)
    outcome = commands.contract(found.env, None, at_once=True, ignore_nodes=True)
    assert any("it is open for writers, and in the ledger it is retired" in note for note in outcome.notes)
    assert any(row["id"] == 4242 for row in tables.snapshot(old).rows)


def test_rows_in_an_adopted_table_do_not_keep_it_sealed_for_its_owners(tmp_path: Path) -> None:
    site = Site(tmp_path)
    keyed = site.table("keyed", {"id": pa.array([1, 2], pa.int64()), "v": pa.array(["1", "2"])})
    legacy = site.table("legacy", {"n": pa.array([1], pa.int64())})
    site.adopt(keyed=keyed, legacy=legacy)
    up, down = (f"SELECT id, CAST(v AS {to}) AS v FROM {{keyed}}" for to in ("BIGINT", "STRING"))
    row_jobs = RowJobs({up: lambda row: [{**row, "v": int(row["v"])}], down: lambda row: [{**row, "v": str(row["v"])}]})
    declared = site.release / "schema.sql"
    declared.write_text("".join(text for text in re.split(r"(?<=;)\n", declared.read_text()) if "legacy" not in text))
    begin(site, "v STRING", "v BIGINT", f'rewrite("keyed", up="{up}", down="{down}"), removal("legacy")')
    site.upgrade(jobs=row_jobs)
    tables.insert(Path(site.uri("keyed").removeprefix("file://")), [{"id": 3, "v": 3}])
    opened: list[str] = []

    def owners(moment: str, what: str, key: str) -> None:
        if not opened and not tables.snapshot(legacy).sealed:
            opened.append(key)
            tables.insert(legacy, [{"n": 4242}])
            commands.pin(site.env, "keyed", "night", 1000)

    with pytest.raises(SourceTouched):
        commands.rollback(replace(site.env, on_write=owners), jobs=row_jobs)
    assert opened and tables.snapshot(legacy).sealed
    commands.contract(site.env, None, at_once=True, ignore_nodes=True)
    assert not tables.snapshot(legacy).sealed
    tables.insert(legacy, [{"n": 5}])
    assert sorted(row["n"] for row in tables.snapshot(legacy).rows) == [1, 5, 4242]


def test_a_removed_table_is_sealed_again_where_the_rollback_fails_after_it_was_opened(tmp_path: Path) -> None:
    one = "CREATE TABLE keyed (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)); CREATE TABLE legacy (id BIGINT);"
    two = "CREATE TABLE keyed (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id));"
    lake = two_releases(tmp_path, one, two, f'rewrite("keyed", up="{UP_KEYED}", down="{DOWN_KEYED}"), removal("legacy")')
    legacy = lake.path("legacy")
    tables.insert(lake.path("keyed"), [{"id": 1, "v": "1"}])
    tables.insert(legacy, [{"id": 1}])
    commands.upgrade(lake.env, lake.second, jobs=RowJobs(QUERIES))
    tables.insert(lake.path("keyed"), [{"id": 2, "v": 2}])
    pinned: list[str] = []

    def pins(moment: str, what: str, key: str) -> None:
        if not pinned and not tables.snapshot(legacy).sealed:
            pinned.append(key)
            commands.pin(lake.env, "keyed", "night", 1000)

    with pytest.raises(SourceTouched):
        commands.rollback(replace(lake.env, on_write=pins), jobs=RowJobs(QUERIES))
    assert pinned and tables.snapshot(legacy).sealed
    commands.unpin(lake.env, "keyed", "night")
    commands.rollback(lake.env, jobs=RowJobs(QUERIES))
    whole(lake)
    assert [row["id"] for row in tables.snapshot(lake.path("legacy")).rows] == [1]


KINDS = {
    "replacement": ("CREATE TABLE t (id STRING);", 'replacement("t")'),
    "removal": ("CREATE TABLE other (n INT);", 'removal("t")'),
    "rewrite": ("CREATE TABLE t (id STRING);", 'rewrite("t", up="SELECT CAST(id AS STRING) AS id FROM {t}")'),
}


def retired(folder: Path, kind: str) -> tuple[Lake, Path, int]:
    """A lake at its second release, the table of before with the rows 2 and 3, and the version of that when the row 1 was in it, too."""
    second, steps = KINDS[kind]
    others = "" if kind != "removal" else "CREATE TABLE other (n INT);"
    lake = two_releases(folder, f"CREATE TABLE t (id BIGINT);{others}", second, steps)
    old = lake.path("t")
    tables.insert(old, [{"id": 1}])
    older = tables.insert(old, [{"id": 2}])
    tables.change(old, lambda row: None if row["id"] == 1 else row)
    tables.insert(old, [{"id": 3}])
    runner = RowJobs({"SELECT CAST(id AS STRING) AS id FROM {t}": lambda row: [{"id": str(row["id"])}]})
    commands.upgrade(lake.env, lake.second, jobs=lambda: runner)
    assert tables.snapshot(old).sealed
    return lake, old, older


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_a_restore_took_from_the_old_table_are_no_way_back(tmp_path: Path, kind: str) -> None:
    lake, old, older = retired(tmp_path, kind)
    sealed = tables.newest(old)
    tables.restore(old, older)
    with unwritten(lake.env), refused("old_table_changed", "t") as errors:
        commands.rollback(lake.env, jobs=no_spark)
    assert f"RESTORE TABLE delta.`{lake.env.table_location(old.as_uri()).uri}` TO VERSION AS OF {sealed}" in errors[0].next_action
    assert commands.status(lake.env).drifted == ("t",)
    tables.restore(old, sealed)
    assert commands.status(lake.env).drifted == ()
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
    whole(lake)


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_table_that_a_restore_opened_gets_all_that_its_unsealing_brings(tmp_path: Path, kind: str) -> None:
    """All of its rows are there, and some that others wrote, which stay. What is known of streams and writers comes with that commit."""
    lake, old, _ = retired(tmp_path, kind)
    tables.restore(old, tables.newest(old) - 1)
    tables.insert(old, [{"id": 4}])
    last = tables.newest(old)
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3, 4]
    (after,) = commits(lake.env.table_store(old.as_uri(), None), last)
    assert after.about is not None and after.about["action"] == "unseal"
    whole(lake)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_the_old_table_that_others_rearranged_are_a_way_back(tmp_path: Path, kind: str) -> None:
    lake, old, _ = retired(tmp_path, kind)
    tables.optimize(old)
    assert commands.status(lake.env).drifted == ()
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
    whole(lake)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [False, True], ids=["at once", "after an upgrade"])
def test_rows_that_a_restore_took_during_a_rollback_that_was_killed_are_no_way_back(tmp_path: Path, kind: str, again: bool) -> None:
    """It had begun, and had not opened the old table yet. The upgrade seals that over the RESTORE, which makes it no better."""
    lost = 0
    for moment in range(1, 12):
        lake, old, older = retired(tmp_path / str(moment), kind)
        with contextlib.suppress(Crash):
            commands.rollback(lake.crashing_at(moment), jobs=no_spark)
        sealed = tables.newest(old)
        if not tables.snapshot(old).sealed:
            break
        tables.restore(old, older)
        if again:
            commands.upgrade(lake.env, lake.second, jobs=no_spark)
        with refused("old_table_changed", "t") as errors:
            commands.rollback(lake.env, jobs=no_spark)
        assert f"TO VERSION AS OF {sealed} in Spark" in errors[0].next_action
        tables.restore(old, sealed)
        commands.rollback(lake.env, jobs=no_spark)
        assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
        whole(lake)
        lost += 1
    assert lost > 3


def test_rows_that_a_rollback_brought_back_and_a_restore_took_out_are_asked_for(tmp_path: Path) -> None:
    """The rollback is killed after it brought rows back, and somebody restores the old table to where it was sealed."""
    found = make_rewritten(tmp_path)
    old = found.path("keyed")
    upgrade(found, found.env, jobs())
    sealed = tables.newest(old)
    found.insert("keyed", [{"id": 900, "v": 9}])
    dying = jobs()

    def after(job: str, request: Mapping[str, Any]) -> None:
        if any(row["id"] == 900 for row in tables.snapshot(old).rows):
            raise Crash("the worker is killed")

    dying.after = after
    with pytest.raises(Crash):
        commands.rollback(found.env, jobs=dying)
    brought = tables.newest(old)
    wanted = sorted(map(repr, tables.snapshot(old).rows))
    tables.restore(old, sealed)
    with refused("old_table_changed", "keyed") as errors:
        commands.rollback(found.env, jobs=jobs())
    assert f"TO VERSION AS OF {brought} in Spark" in errors[0].next_action
    tables.restore(old, brought)
    commands.rollback(found.env, jobs=jobs())
    assert sorted(map(repr, tables.snapshot(old).rows)) == wanted
    found.check_clean()


def test_rows_that_a_rollback_brings_back_beside_a_restore_are_not_lost_by_its_advice(tmp_path: Path) -> None:
    """A RESTORE of the open old table while Spark brings rows back: no version of it has all of them, so none is advised."""
    found, old, older = upgraded_with_rows(tmp_path)
    wanted, racing, restored = ids_of(found.path("keyed")), jobs(), list[int]()

    def before(job: str, request: Mapping[str, Any]) -> None:
        if job == "apply" and not restored:
            restored.append(tables.restore(old, older))

    racing.before = before
    for _ in range(2):
        with refused("old_table_changed", "keyed") as errors:
            commands.rollback(found.env, jobs=racing)
        assert "RESTORE" not in errors[0].next_action and "backup" in errors[0].next_action
        assert ids_of(found.path("keyed")) == wanted and not tables.snapshot(found.path("keyed")).sealed, "the release goes on"
    tables.restore(old, restored[0] - 1)
    with refused("old_table_changed", "keyed"):
        commands.rollback(found.env, jobs=jobs())


def test_a_restore_between_the_opening_of_the_old_table_and_its_rows_is_seen_before_these_come(tmp_path: Path) -> None:
    found, old, older = upgraded_with_rows(tmp_path)
    wanted, restored = ids_of(found.path("keyed")), list[int]()

    def restore(at: str, what: str, key: str) -> None:
        if not restored and not tables.snapshot(old).sealed:
            restored.append(tables.restore(old, older))

    with refused("old_table_changed", "keyed") as errors:
        commands.rollback(replace(found.env, on_write=restore), jobs=jobs())
    assert f"TO VERSION AS OF {restored[0] - 1} in Spark" in errors[0].next_action
    tables.restore(old, restored[0] - 1)
    commands.rollback(found.env, jobs=jobs())
    assert ids_of(old) == wanted
    found.check_clean()


def upgraded_with_rows(folder: Path) -> tuple[Rewritten, Path, int]:
    """At 1.1.0 with a row that came there; the table of before, and its version before its last row."""
    found = make_rewritten(folder)
    old = found.path("keyed")
    older = tables.newest(old)
    found.insert("keyed", [{"id": 800, "v": "8"}])
    upgrade(found, found.env, jobs())
    found.insert("keyed", [{"id": 900, "v": 9}])
    return found, old, older


def ids_of(table: Path) -> list[int]:
    return sorted(row["id"] for row in tables.snapshot(table).rows)


def test_an_old_table_with_columns_of_another_release_is_no_way_back(tmp_path: Path) -> None:
    lake, old, _ = retired(tmp_path, "replacement")
    sealed = tables.newest(old)
    schema = tables.snapshot(old).metadata["schemaString"]
    tables.alter(old, schemaString=schema.replace('"id"', '"key"'))
    with unwritten(lake.env), refused("old_table_changed", "t"):
        commands.rollback(lake.env, jobs=no_spark)
    tables.restore(old, sealed)
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
    whole(lake)


def test_files_that_were_added_again_are_counted_once(tmp_path: Path) -> None:
    """A backfill of row tracking adds each file again and removes none: the RESTORE to nothing after it is seen, and the one back."""
    lake, old, _ = retired(tmp_path, "replacement")
    base = tables.snapshot(old)
    info = {"timestamp": 1, "operation": "ROW TRACKING BACKFILL"}
    tables.put(old, base.version, [{"commitInfo": info}, *({"add": {**add, "dataChange": False}} for add in base.files.values())])
    tables.restore(old, 0)
    assert tables.snapshot(old).rows == []
    with unwritten(lake.env), refused("old_table_changed", "t"):
        commands.rollback(lake.env, jobs=no_spark)
    tables.restore(old, base.version)
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
    whole(lake)


def test_an_old_table_whose_identity_column_counted_on_is_a_way_back(tmp_path: Path) -> None:
    """An INSERT writes how far it has counted into the schema, and no RESTORE takes that back."""
    lake, old, older = retired(tmp_path, "replacement")
    base = tables.snapshot(old)
    tables.restore(old, older)
    counted = base.metadata["schemaString"].replace('"metadata":{', '"metadata":{"delta.identity.highWaterMark":9', 1)
    assert counted != base.metadata["schemaString"]
    tables.alter(old, schemaString=counted)
    with unwritten(lake.env), refused("old_table_changed", "t"):
        commands.rollback(lake.env, jobs=no_spark)
    tables.restore(old, base.version)
    tables.alter(old, schemaString=counted, configuration=base.metadata["configuration"])
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]


def test_rows_that_others_added_while_a_rollback_had_the_old_table_open_and_took_out_again_are_no_hindrance(tmp_path: Path) -> None:
    """Killed after it opened the table: an INSERT, and a RESTORE that takes it out. One to before all of it is refused."""
    for moment in range(1, 12):
        lake, old, older = retired(tmp_path / str(moment), "rewrite")
        with contextlib.suppress(Crash):
            commands.rollback(lake.crashing_at(moment), jobs=no_spark)
        if not tables.snapshot(old).sealed:
            break
    opened = tables.newest(old)
    added = tables.insert(old, [{"id": 100}])
    tables.restore(old, older)
    with refused("old_table_changed", "t") as errors:
        commands.rollback(lake.env, jobs=no_spark)
    assert f"TO VERSION AS OF {added} in Spark" in errors[0].next_action
    tables.restore(old, added)
    tables.restore(old, opened)
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
    whole(lake)


def test_rows_that_others_added_to_the_old_table_and_deleted_are_no_hindrance(tmp_path: Path) -> None:
    lake, old, _ = retired(tmp_path, "removal")
    tables.restore(old, tables.newest(old) - 1)
    for number in (100, 101):
        tables.insert(old, [{"id": number}])
    tables.change(old, lambda row: None if row["id"] == 101 else row)
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3, 100]
    whole(lake)


def test_rows_are_to_be_restored_to_the_newest_version_that_has_them(tmp_path: Path) -> None:
    """A VACUUM after an OPTIMIZE deletes the files that the seal found."""
    lake, old, older = retired(tmp_path, "replacement")
    tables.restore(old, tables.newest(old) - 1)
    sealed, rearranged = tables.snapshot(old).files, tables.optimize(old)
    tables.restore(old, older)
    with refused("old_table_changed", "t") as errors:
        commands.rollback(lake.env, jobs=no_spark)
    assert f"TO VERSION AS OF {rearranged} in Spark" in errors[0].next_action
    for name in sealed:
        (old / name).unlink()
    tables.restore(old, rearranged)
    commands.rollback(lake.env, jobs=no_spark)
    assert sorted(row["id"] for row in tables.snapshot(old).rows) == [2, 3]
    whole(lake)
