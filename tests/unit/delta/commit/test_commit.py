"""Metadata commits: one file, winners judged, races, unknown outcomes, kills."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import FilesArrived, commit_changes
from airflow_provider_schemamig.core.delta.commit.fence import EPOCH_STRIDE, Fenced
from airflow_provider_schemamig.core.delta.features import UnsupportedFeature
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.log.listing import commit_key, read_commit
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddKey,
    Change,
    ChangeType,
    DropColumn,
    RenameColumn,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.model import Check, Key
from airflow_provider_schemamig.core.storage import Location as Place
from airflow_provider_schemamig.core.storage import (
    ObjectExists,
    StorageFull,
    StorageOptions,
    StorageUnreachable,
    Store,
    UnsafeLogStore,
    WriteReceipt,
    confirm,
    log_stores,
)
from tests.unit.delta.tables import (
    BIGINT,
    INT,
    NAME,
    TAG,
    add_file,
    add_int,
    declared,
    fence,
    flights,
    log_files,
    make_table,
    path,
    raw,
    table_store,
    txn,
    write,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = table_store(tmp_path)
    make_table(store)
    return store


def commit(store: Store, *changes: Change, **more: Any) -> Any:
    base = read_head(store)
    return commit_changes(store, base, changes, more.pop("fence", fence()), TAG, since=more.pop("since", base.version), **more)


def test_all_changes_are_one_commit_that_says_what_it_is(store: Store, tmp_path: Path) -> None:
    before = read_head(store)
    changes = (
        add_int("gate"),
        RenameColumn(path("dep_delay"), "delay"),
        ChangeType(path("id"), INT, BIGINT, True, True),
    )
    committed = commit(store, *changes)
    assert log_files(tmp_path) == ["00000000000000000000.json", "00000000000000000001.json"]
    assert committed.head == read_head(store)
    assert committed.head.metadata == {**before.metadata, **committed.head.metadata}, "no key was lost"
    assert declared(committed.head.metadata).fields[1].name == "delay"
    lines = [json.loads(line) for line in (tmp_path / "_delta_log/00000000000000000001.json").read_text().splitlines()]
    assert [next(iter(line)) for line in lines] == ["commitInfo", "protocol", "metaData"]
    info = lines[0]["commitInfo"]
    assert info["operation"] == "SCHEMAMIG EXPAND"
    assert info["readVersion"] == 0
    assert json.loads(info["userMetadata"])["schemamig"] == {"action": "expand", "epoch": 1, "generation": 1}
    assert json.loads(info["operationParameters"]["changes"])[1] == {"op": "rename_column", "path": "dep_delay", "name": "delay"}
    assert confirm([committed.receipt]) == []


def test_a_refused_change_writes_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotApplicable):
        commit(store, add_int("gate"), add_int("nope.x"))
    assert log_files(tmp_path) == ["00000000000000000000.json"]


def test_changes_of_nothing_disturb_nobody(store: Store) -> None:
    committed = commit(store, AddKey(Key(("id",)), True))
    found = read_commit(store, 1)
    assert (found.metadata, found.protocol) == (None, None)
    assert committed.head.version == 1


def test_data_that_came_in_between_is_stepped_over(store: Store) -> None:
    base = read_head(store)
    for version in (1, 2, 3):
        write(store, version, add_file(f"f{version}"))
    committed = commit_changes(store, base, [add_int("gate")], fence(), TAG, since=0)
    assert committed.head.version == 4
    assert read_commit(store, 4).info["readVersion"] == 0
    assert read_head(store) == committed.head


@pytest.mark.parametrize("kind", ["metaData", "protocol"])
def test_metadata_that_came_in_between_is_a_conflict(store: Store, kind: str) -> None:
    base = read_head(store)
    _, moved, _ = edit(base.protocol, base.metadata, [add_int("theirs")])
    write(store, 1, add_file("f1"))
    write(store, 2, {kind: moved if kind == "metaData" else {"minReaderVersion": 1, "minWriterVersion": 3}})
    with pytest.raises(MetadataMoved) as caught:
        commit_changes(store, base, [add_int("gate")], fence(), TAG, since=0)
    assert caught.value.version == 2
    assert caught.value.retryable
    assert read_head(store).version == 2


@pytest.mark.parametrize(
    "changes, more",
    [
        ((DropColumn(path("dep_delay")),), {"forget": [path("dep_delay")]}),
        ((SetNotNull(path("id")),), {}),
        ((AddCheck(Check("c", "id > 0")),), {}),
    ],
)
def test_metadata_commit_what_is_right_for_the_files_seen_only_does_not_follow_new_ones(
    store: Store, changes: tuple[Change, ...], more: Any
) -> None:
    base = read_head(store)
    write(store, 1, add_file("f1"))
    with pytest.raises(FilesArrived):
        commit_changes(store, base, changes, fence(), TAG, since=0, **more)
    with pytest.raises(FilesArrived):  # looked at earlier than the head
        commit(store, *changes, since=0, checked_at=0, **more)
    assert read_head(store).version == 1
    assert commit(store, *changes, since=0, checked_at=1, **more).head.version == 2


def test_a_rule_whose_rows_are_asked_later_follows_new_files(store: Store) -> None:
    base = read_head(store)
    write(store, 1, add_file("f1"))
    committed = commit_changes(store, base, [AddCheck(Check("c", "id > 0"))], fence(), TAG, since=0, asked_later=True)
    assert committed.head.version == 2


def test_a_forgotten_column_leaves_an_unmapped_table(store: Store) -> None:
    commit(store, add_int("x"))
    committed = commit(store, DropColumn(path("x")), forget=[path("x")])
    assert committed.head.protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert committed.head.declaration(NAME) == flights()


# --- the fence -----------------------------------------------------------------------------------------------------------------------


def later_txn(epoch: int, number: int = 0) -> dict[str, Any]:
    return txn(fence().app_id, epoch * EPOCH_STRIDE + number)


def test_a_later_epoch_stops_us_wherever_it_stands(store: Store) -> None:
    base = read_head(store)
    write(store, 1, later_txn(2))
    for head in (base, read_head(store)):  # in between, and before the head but after the intent
        with pytest.raises(Fenced) as caught:
            commit_changes(store, head, [add_int("gate")], fence(1), TAG, since=0)
        assert (caught.value.held_epoch, caught.value.current_epoch) == (1, 2)
        assert not caught.value.retryable
    assert read_head(store).version == 1


@pytest.mark.parametrize("action", [later_txn(1), later_txn(1, 5), txn("schemamig:env-1:other", 9 * EPOCH_STRIDE), txn("job", 2**62)])
def test_other_transactions_do_not(store: Store, action: dict[str, Any]) -> None:
    base = read_head(store)
    write(store, 1, action)
    assert commit_changes(store, base, [add_int("gate")], fence(1), TAG, since=0).head.version == 2


def test_a_fence_whose_commit_was_cleaned_up_is_found_in_the_state(store: Store, tmp_path: Path) -> None:
    write(store, 1, later_txn(2))
    write(store, 2, add_file("f"))
    head = read_head(store)
    document = {"protocol": head.protocol, "metadata": head.metadata, "setTransactions": [later_txn(2)["txn"]]}
    (tmp_path / "_delta_log/00000000000000000002.crc").write_text(json.dumps(document))
    (tmp_path / "_delta_log/00000000000000000001.json").unlink()
    with pytest.raises(Fenced):
        commit_changes(store, head, [add_int("gate")], fence(1), TAG, since=0)


# --- tables we must not write --------------------------------------------------------------------------------------------------------


def test_an_unknown_feature_is_read_but_not_written(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    _, metadata = raw(flights())
    write(store, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["someday"]}}, {"metaData": metadata})
    assert read_head(store).features == {"someday"}
    with pytest.raises(UnsupportedFeature, match="someday"):
        commit(store, add_int("gate"))
    assert log_files(tmp_path) == ["00000000000000000000.json"]


def test_where_a_spark_overwrites_nothing_is_committed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    base = read_head(store)
    monkeypatch.setattr(store, "location", Place.parse("s3://bucket/t"))
    monkeypatch.setitem(log_stores._newest, "s3://bucket/t", log_stores.SparkCommit(0, "Apache-Spark/4.2.0 Delta-Lake/4.4.0", False))
    with pytest.raises(UnsafeLogStore):
        commit_changes(store, base, [add_int("gate")], fence(), TAG, since=0)
    monkeypatch.setattr(store, "options", StorageOptions({"schemamig.conditional_log_store": "true"}))
    assert commit_changes(store, base, [add_int("gate")], fence(), TAG, since=0).head.version == 1


# --- timestamps ----------------------------------------------------------------------------------------------------------------------


def test_in_commit_timestamps_grow_whatever_the_clock_says(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    protocol, metadata = raw(flights(), delta__enableInCommitTimestamps="true")
    future = int(time.time() * 1000) + 3_600_000
    write(store, 0, {"protocol": protocol}, {"metaData": metadata}, inCommitTimestamp=future)
    base = read_head(store)
    write(store, 1, add_file("f"), inCommitTimestamp=future + 7)
    assert commit_changes(store, base, [add_int("gate")], fence(), TAG, since=0).head.version == 2
    text = (tmp_path / "_delta_log/00000000000000000002.json").read_text()
    assert text.startswith('{"commitInfo":{"inCommitTimestamp":')
    assert read_commit(store, 2).info["inCommitTimestamp"] == future + 8


# --- unknown outcomes and full disks -------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_looked_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put = store.put_if_absent
    base = read_head(store)

    def lost(key: str, data: bytes) -> WriteReceipt:
        put(key, data)
        raise StorageUnreachable(uri="s3://b", reason="connection reset")

    monkeypatch.setattr(store, "put_if_absent", lost)
    committed = commit_changes(store, base, [add_int("gate")], fence(), TAG, since=0)
    assert committed.head.version == 1
    assert read_head(store) == committed.head

    def repeated(key: str, data: bytes) -> WriteReceipt:
        put(key, data)
        raise ObjectExists(uri="s3://b")

    monkeypatch.setattr(store, "put_if_absent", repeated)
    assert commit_changes(store, committed.head, [add_int("more")], fence(), TAG, since=0).head.version == 2
    assert len(list(commits(store, -1))) == 3


def test_an_answer_lost_before_anything_landed_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    base = read_head(store)

    def fail(key: str, data: bytes) -> WriteReceipt:
        raise StorageUnreachable(uri="s3://b", reason="connection reset")

    monkeypatch.setattr(store, "put_if_absent", fail)
    with pytest.raises(StorageUnreachable):
        commit_changes(store, base, [add_int("gate")], fence(), TAG, since=0)


def test_a_full_disk_leaves_the_table_as_it_was(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = read_head(store)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFull):
        commit_changes(store, base, [add_int("gate")], fence(), TAG, since=0)
    monkeypatch.undo()
    assert log_files(tmp_path) == ["00000000000000000000.json"]


# --- races and kills -----------------------------------------------------------------------------------------------------------------


def test_committer_and_appenders_race_and_nobody_loses_anything(store: Store) -> None:
    """Ours is never starved by data, and never writes over anything."""
    stop = threading.Event()
    acknowledged: list[str] = []

    def appender(me: int) -> None:
        number = 0
        while not stop.is_set():
            name = f"{me}-{number}"
            version = read_head(store).version + 1
            try:
                write(store, version, add_file(name))
            except ObjectExists:
                continue
            acknowledged.append(name)
            number += 1
            time.sleep(random.random() / 500)

    threads = [threading.Thread(target=appender, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    added = []
    for number in range(30):
        added.append(f"c{number}")
        commit(store, add_int(added[-1]))
        time.sleep(0.002)
    stop.set()
    for thread in threads:
        thread.join()
    found = [add["path"] for one in commits(store, -1) for add in one.adds]
    assert sorted(found) == sorted(acknowledged)
    assert [f.name for f in read_head(store).declaration(NAME).fields] == ["id", "dep_delay", *added]


def _racer(folder: str, me: int, rounds: int, results: Any) -> None:
    store = table_store(Path(folder))
    won = []
    for number in range(rounds):
        name = f"p{me}_{number}"
        while True:
            try:
                commit(store, add_int(name))
                break
            except MetadataMoved:
                continue
        won.append(name)
    results.put(won)


def test_four_processes_race_and_every_column_is_there_once(store: Store, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    workers = [context.Process(target=_racer, args=(str(tmp_path), me, 8, results)) for me in range(4)]
    for worker in workers:
        worker.start()
    won = [name for _ in workers for name in results.get(timeout=60)]
    for worker in workers:
        worker.join(timeout=60)
    head = read_head(store)
    assert sorted(f.name for f in head.declaration(NAME).fields) == sorted(["id", "dep_delay", *won])
    assert head.version == len(won)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.unit.delta.commit.test_commit import add_int, commit
from tests.unit.delta.tables import table_store
moment, calls = sys.argv[2], {"fsync": os.fsync, "link": os.link, "unlink": os.unlink}
def dead(*_):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, moment, dead)
commit(table_store(Path(sys.argv[1])), add_int("gate"))
"""


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("moment, landed", [("fsync", False), ("link", False), ("unlink", True)])
def test_killed_at_any_moment_the_log_is_valid(store: Store, tmp_path: Path, moment: str, landed: bool) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment], check=False, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert done.returncode == -signal.SIGKILL
    head = read_head(store)
    assert head.version == int(landed)
    if not landed:
        commit(store, add_int("gate"))
    assert [f.name for f in read_head(store).declaration(NAME).fields] == ["id", "dep_delay", "gate"]
    assert store.exists(commit_key(1))
    assert not store.exists(commit_key(2))
