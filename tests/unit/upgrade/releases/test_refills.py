"""A replacement's fill at the cut-over: rows that came to what it reads since it ran."""

from __future__ import annotations

import contextlib
import functools
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.errors import AnotherTable
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import backup
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Event, silent
from airflow_provider_schemamig.core.transfer.errors import NeverSettles
from airflow_provider_schemamig.core.upgrade.errors import DataViolation, SourceTouched
from tests.support.lake import Crash, Lake, copy_of, no_spark
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import brought_back, two_releases, whole

T, S = "CREATE TABLE t (id BIGINT);", "CREATE TABLE s (id BIGINT);"
NEW = "CREATE TABLE s (id BIGINT, again BIGINT);"
FROM_T = 'replacement("s", fill="SELECT id, id AS again FROM {t}")'
#: What the fill reads -> the tables before and after, and the steps.
READS = {
    "another table": (T + S, T + NEW, FROM_T),
    "its own old table": (S, NEW, 'replacement("s", fill="SELECT id, id AS again FROM {s}")'),
    "a removed table": (T + S, NEW, f'{FROM_T}, removal("t")'),
    "another table, and is of a new one": (T, T + NEW, FROM_T),
    "a removed table, and is of a new one": (T, NEW, f'{FROM_T}, removal("t")'),
}
LAST_NOTE = "was filled again while writers of what it reads waited"


def filled(folder: Path, reads: str, jobs: OnlineJobs, steps: str = "") -> tuple[Lake, str, Generation]:
    """A lake whose fill ran for 1.1.0 with one row, up to the cut-over; and the collection that the fill reads."""
    before, after, known = READS[reads]
    lake = two_releases(folder, before, after, steps or known)
    source = "s" if reads == "its own old table" else "t"
    tables.insert(lake.path(source), [{"id": 1}])
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=jobs)
    return lake, source, generation


def ids(lake: Lake) -> list[int]:
    return sorted(lake.env.reader("s").arrow()["again"].to_pylist())


def just_before_the_seal(write: Callable[[], object]) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        if event.stage == "seal" and not event.done and "writers wait" in (event.note or ""):
            write()

    return listen


@pytest.mark.parametrize("reads", READS)
def test_refills_rows_that_came_before_the_cut_over_are_in_the_new_table(tmp_path: Path, reads: str) -> None:
    jobs = OnlineJobs()
    lake, source, generation = filled(tmp_path, reads, jobs)
    tables.insert(lake.path(source), [{"id": 2}])
    found = commands.cutover(lake.env, generation, jobs=jobs)
    assert (ids(lake), [note for note in found.notes if LAST_NOTE in note]) == ([1, 2], [])
    whole(lake)


@pytest.mark.parametrize("reads", [reads for reads in READS if reads != "another table, and is of a new one"])  # nothing is sealed for that
def test_refills_the_last_rows_of_what_is_sealed_are_in_the_new_table(tmp_path: Path, reads: str) -> None:
    jobs = OnlineJobs()
    lake, source, generation = filled(tmp_path, reads, jobs)
    listen = just_before_the_seal(lambda: tables.insert(lake.path(source), [{"id": 2}]))
    notes = " ".join(commands.cutover(lake.env, generation, jobs=jobs, listen=listen).notes)
    if reads == "another table":  # its writers do not wait
        assert ids(lake) == [1] and "s: has what t had at version 1; rows came to it since" in notes
    else:
        assert ids(lake) == [1, 2] and LAST_NOTE in notes
    whole(lake)


def test_refills_a_snapshot_keeps_its_rows_and_needs_no_spark(tmp_path: Path) -> None:
    lake, source, generation = filled(tmp_path, "another table", OnlineJobs(), FROM_T.replace('}")', '}", snapshot=True)'))
    tables.insert(lake.path(source), [{"id": 2}])
    assert commands.cutover(lake.env, generation, jobs=no_spark).notes == ()
    assert ids(lake) == [1]


def test_refills_start_spark_before_writers_wait(tmp_path: Path) -> None:
    """Only where what is sealed is read: the other ones need none, if no rows came."""
    started: list[bool] = []

    class Starts(OnlineJobs):
        def start(self, options: Mapping[str, str]) -> None:
            started.append(tables.snapshot(path).sealed)

    lake, _, generation = filled(tmp_path / "own", "its own old table", OnlineJobs())
    path = lake.path("s")
    commands.cutover(lake.env, generation, jobs=Starts())
    assert started == [False]
    lake, _, generation = filled(tmp_path / "other", "another table", OnlineJobs())
    commands.cutover(lake.env, generation, jobs=no_spark)
    assert ids(lake) == [1]


def test_refills_that_take_longer_than_writers_may_wait_are_refused_and_nobody_stays_locked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = OnlineJobs()
    lake, source, generation = filled(tmp_path, "its own old table", jobs)
    tables.insert(lake.path(source), [{"id": 2}])
    seconds = iter(range(0, 100_000, 1000))
    monkeypatch.setattr("airflow_provider_schemamig.core.upgrade.prepare.fill.time.monotonic", lambda: float(next(seconds)))
    listen = just_before_the_seal(lambda: tables.insert(lake.path(source), [{"id": 3}]))
    with pytest.raises(NeverSettles):
        commands.cutover(lake.env, generation, jobs=jobs, listen=listen)
    monkeypatch.undo()
    assert not tables.snapshot(lake.path("s")).sealed
    commands.cutover(lake.env, generation, jobs=jobs)
    assert ids(lake) == [1, 2, 3]
    whole(lake)


def test_refills_after_a_restore_that_got_through_the_seal_are_made_anew(tmp_path: Path) -> None:
    jobs = OnlineJobs()
    lake, source, generation = filled(tmp_path, "its own old table", jobs)
    version = tables.newest(lake.path(source))

    def restored(job: str, request: Mapping[str, Any]) -> None:
        if job == "fill" and tables.snapshot(lake.path(source)).sealed:
            tables.restore(lake.path(source), version)

    listen = just_before_the_seal(lambda: tables.insert(lake.path(source), [{"id": 2}]))
    with pytest.raises(SourceTouched):
        commands.cutover(lake.env, generation, jobs=OnlineJobs(after=restored), listen=listen)
    commands.cutover(lake.env, generation, jobs=jobs)
    assert ids(lake) == [1]
    whole(lake)


@pytest.mark.parametrize("written", [True, False], ids=["its users wrote", "nobody wrote yet"])
def test_refills_of_a_twin_that_comes_late_change_nothing_of_the_table_that_is_its_users_by_then(tmp_path: Path, written: bool) -> None:
    """Its `change` found rows that came after the other one's last look; when its driver begins, that one has committed."""
    lake, source, generation = filled(tmp_path, "another table", OnlineJobs())
    is_asked, goes_on, late = threading.Event(), threading.Event(), OnlineJobs()

    def waits(job: str, request: Mapping[str, Any]) -> None:
        is_asked.set()
        assert goes_on.wait(60)

    late.before = waits
    twin = threading.Thread(target=commands.change, args=(Environment.open(lake.env.location.uri), generation), kwargs={"jobs": late})

    def rows_come() -> None:
        tables.insert(lake.path(source), [{"id": 2}])
        twin.start()
        assert is_asked.wait(60)

    commands.cutover(lake.env, generation, jobs=no_spark, listen=just_before_the_seal(rows_come))
    if written:
        tables.insert(lake.path("s"), [{"id": 9, "again": 9}])
    goes_on.set()
    twin.join(60)
    assert ids(lake) == ([1, 9] if written else [1])
    assert [request["mode"] for job, request in late.asked if job == "fill"] == ["overwrite"]
    whole(lake)


def test_refills_that_a_killed_process_made_are_looked_at_again(tmp_path: Path) -> None:
    """It died before it wrote them down, and rows came for hours."""
    lake, source, generation = filled(tmp_path, "another table", OnlineJobs())
    tables.insert(lake.path(source), [{"id": 2}])

    def dies(moment: str, what: str, key: str) -> None:
        if moment == "after":
            raise Crash("its answer is lost")

    with pytest.raises(Crash):
        commands.cutover(lake.env, generation, jobs=OnlineJobs(on_commit=dies))
    tables.insert(lake.path(source), [{"id": 3}])
    assert commands.cutover(lake.env, generation, jobs=OnlineJobs()).notes == ()
    assert ids(lake) == [1, 2, 3]
    whole(lake)


def test_refills_of_a_table_that_is_renamed_already_do_not_stop_a_killed_cut_over(tmp_path: Path) -> None:
    first, second = "CREATE TABLE t (id BIGINT, a BIGINT);" + S, "CREATE TABLE t (id BIGINT, b BIGINT);" + NEW
    lake = two_releases(tmp_path, first, second, f'{FROM_T}, evolution("t", rename={{"a": "b"}})')
    tables.insert(lake.path("t"), [{"id": 1, "a": 1}])
    generation = commands.preflight(lake.env, lake.second, jobs=OnlineJobs()).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)

    def dies(moment: str, what: str, key: str) -> None:
        if "b" in {field["name"] for field in tables.snapshot(lake.path("t")).fields}:
            raise Crash("its table has the new name")

    with pytest.raises(Crash):
        commands.cutover(replace(lake.env, on_write=dies), generation, jobs=OnlineJobs())
    tables.insert(lake.path("t"), [{"id": 2, "b": 2}])
    assert "rows came to it since" in str(commands.cutover(lake.env, generation, jobs=OnlineJobs()).notes)
    whole(lake)


@pytest.mark.parametrize("moment", ["before", "at the seal"])
def test_refills_read_no_other_table_that_was_made_in_place(tmp_path: Path, moment: str) -> None:
    lake, source, generation = filled(tmp_path, "another table", OnlineJobs())
    path = lake.path(source)

    def made_anew() -> None:
        shutil.rmtree(path)
        write_deltalake(str(path), pa.table({"id": pa.array([77], pa.int64())}))

    listen = just_before_the_seal(made_anew)
    if moment == "before":
        made_anew()
        listen = silent
    with pytest.raises(AnotherTable):
        commands.cutover(lake.env, generation, jobs=OnlineJobs(), listen=listen)
    assert lake.version == "1.0.0"


def killed_once_it_was_closed(folder: Path, reads: str = "its own old table") -> tuple[Lake, Path, Generation]:
    """A cut-over that died right before its commit; and the table that the fill reads."""
    lake, source, generation = filled(folder, reads, OnlineJobs())

    def dies(moment: str, what: str, key: str) -> None:
        if any("fence" in str(action) for action in tables.commit_at(new_table(lake), tables.newest(new_table(lake)))):
            raise Crash("right before its commit")

    with pytest.raises(Crash):
        commands.cutover(replace(lake.env, on_write=dies), generation, jobs=OnlineJobs())
    return lake, lake.path(source), generation


def new_table(lake: Lake) -> Path:
    (row,) = lake.state.replacements.values()
    found = lake.env.table_location(lake.state.shards[row.shard].uri).local_path
    assert found is not None
    return found


def test_refills_after_a_cut_over_that_closed_the_table_begin_another_one(tmp_path: Path) -> None:
    lake, old, generation = killed_once_it_was_closed(tmp_path)
    before = lake.state.replacements
    commands.change(lake.env, generation, jobs=OnlineJobs())  # nothing is stale: the shard stays
    assert lake.state.replacements == before
    listen = just_before_the_seal(lambda: tables.insert(old, [{"id": 2}]))
    commands.cutover(lake.env, generation, jobs=OnlineJobs(), listen=listen)
    assert lake.state.replacements != before and ids(lake) == [1, 2]
    whole(lake)


@pytest.mark.parametrize("again", ["cutover", "upgrade"])
@pytest.mark.parametrize("dead", ["before its table was made", "before its fill was written down"])
def test_refills_of_another_table_that_was_begun_by_a_killed_process_go_on(tmp_path: Path, dead: str, again: str) -> None:
    lake, _, generation = killed_once_it_was_closed(tmp_path)
    closed = new_table(lake)

    def dies(*moment: Any) -> None:
        if dead.startswith("before its table") and new_table(lake) != closed:
            raise Crash(dead)

    def filled_by_then(job: str, request: Mapping[str, Any]) -> None:
        if job == "fill" and dead.startswith("before its fill"):
            raise Crash(dead)

    with pytest.raises(Crash):
        commands.cutover(replace(lake.env, on_write=dies), generation, jobs=OnlineJobs(after=filled_by_then))
    if again == "upgrade":
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    else:
        commands.cutover(lake.env, generation, jobs=OnlineJobs())
        commands.cleanup(lake.env, generation)  # of the one that was given up
    assert ids(lake) == [1]
    whole(lake)


def test_refills_that_were_refused_after_promotion_are_made_by_the_next_upgrade(tmp_path: Path) -> None:
    """Its read-only part made them in no epoch, whose numbers Delta takes no more."""
    lake = two_releases(tmp_path, T + S, T + NEW.replace("id BIGINT", "id BIGINT NOT NULL PRIMARY KEY"), FROM_T)
    tables.insert(lake.path("t"), [{"id": 1}])
    version = tables.newest(lake.path("t"))

    def twice(event: Event) -> None:
        if event.stage == "promote" and tables.newest(lake.path("t")) == version:
            tables.insert(lake.path("t"), [{"id": 1}])

    with pytest.raises(DataViolation):
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs(), listen=twice)
    tables.restore(lake.path("t"), version)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert ids(lake) == [1]
    whole(lake)


def test_refills_after_a_restore_of_the_ledger_leave_a_table_alone_that_was_its_users_by_then(tmp_path: Path) -> None:
    lake, source, generation = filled(tmp_path, "another table", OnlineJobs())
    backup(lake.env, str(tmp_path / "backup"))
    commands.cutover(lake.env, generation, jobs=OnlineJobs())
    theirs = lake.path("s")
    tables.insert(theirs, [{"id": 9, "again": 9}])
    tables.insert(lake.path(source), [{"id": 2}])
    lake, _ = brought_back(lake, tmp_path)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=OnlineJobs())
    commands.cutover(lake.env, generation, jobs=OnlineJobs())
    assert ids(lake) == [1, 2] and lake.path("s") != theirs
    assert [row["id"] for row in tables.snapshot(theirs).rows] == [1, 9]


@pytest.mark.parametrize("dies", ["", "once it was sealed"])
def test_refills_after_a_restore_of_the_ledger_take_no_seal_of_its_own_for_one_of_the_lost_history(tmp_path: Path, dies: str) -> None:
    """The seal says where the rows will be: they are there in the end, too."""
    lake, source, generation = filled(tmp_path, "its own old table", OnlineJobs())
    theirs, old = new_table(lake), lake.path(source)
    backup(lake.env, str(tmp_path / "backup"))
    lake, _ = brought_back(lake, tmp_path)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=OnlineJobs())

    def stops(*moment: Any) -> None:
        if dies and tables.snapshot(old).sealed:
            raise Crash(dies)

    listen = just_before_the_seal(lambda: tables.snapshot(old).sealed or tables.insert(old, [{"id": 2}]))
    with contextlib.suppress(Crash):
        commands.cutover(replace(lake.env, on_write=stops), generation, jobs=OnlineJobs(), listen=listen)
    commands.cutover(lake.env, generation, jobs=OnlineJobs(), listen=listen)
    assert lake.path("s") == theirs and ids(lake) == [row["id"] for row in tables.snapshot(old).rows]
    whole(lake)


@pytest.mark.parametrize("reads", [reads for reads in READS if reads.endswith("new one")])
def test_refills_of_a_new_collection_that_began_another_table_are_the_releases_and_go_back(tmp_path: Path, reads: str) -> None:
    lake, old, generation = killed_once_it_was_closed(tmp_path, reads)
    closed = new_table(lake)
    if reads.startswith("another"):
        tables.insert(old, [{"id": 2}])
    listen = just_before_the_seal(lambda: reads.startswith("another") or tables.insert(old, [{"id": 2}]))
    commands.cutover(lake.env, generation, jobs=OnlineJobs(), listen=listen)
    assert ids(lake) == [1, 2] and lake.path("s") == new_table(lake) != closed
    commands.rollback(lake.env, jobs=OnlineJobs(), allow_lossy=True)
    assert sorted(row["id"] for row in lake.env.reader("t").arrow().to_pylist()) == [1, 2]
    whole(lake)


@pytest.mark.some(1)
@pytest.mark.parametrize("reads", READS)
def test_refills_die_at_any_write_and_are_made_by_the_next_run(tmp_path: Path, reads: str) -> None:
    prepared, source, generation = filled(tmp_path, reads, OnlineJobs())
    tables.insert(prepared.path(source), [{"id": 2}])
    for number in range(100):
        lake = copy_of(prepared, tmp_path / f"dies at {number}")
        path, last = lake.path(source), [{"id": 3}]
        dying = lake.crashing_at(number)
        try:
            listen = just_before_the_seal(functools.partial(tables.insert, path, last))
            commands.cutover(dying, generation, jobs=OnlineJobs(on_commit=dying.on_write), listen=listen)
        except Crash:
            came = [row["id"] for row in tables.snapshot(path).rows]
            commands.cutover(lake.env, generation, jobs=OnlineJobs())
            assert ids(lake) == came or (reads.startswith("another table") and ids(lake) == [1, 2]), number
            whole(lake)
        else:
            assert number > 10
            return
    raise AssertionError("it never came to its end")
