"""Reading the ledger: every version, without writing; and what is newer, damaged or on a full disk."""

from __future__ import annotations

import copy
import gc
import pickle
import shutil
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.ledger import table
from airflow_provider_schemamig.core.ledger.codec import RawRow, encode
from airflow_provider_schemamig.core.ledger.errors import (
    LedgerConflict,
    LedgerDamaged,
    LedgerTooNew,
    LedgerVersionUnknown,
)
from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage import LocalStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.bytes import tree
from tests.unit.ledger.samples import append_raw, counter, elsewhere, leader, openings, sound_environment

COUNTER = CollectionName("counter")


def root(env: EnvironmentRoot) -> Path:
    path = env.location.local_path
    assert path is not None
    return path


def increment(state: State) -> Sequence[Update]:
    row = state.objects.get(COUNTER)
    return [Put(counter(row.schema_id + 1 if row else 1))]


def test_as_of_every_version(writer: LedgerWriter) -> None:
    for value in range(1, 5):
        writer.transact(lambda state, value=value: [Put(counter(value))])  # type: ignore[misc]
    reader = LedgerReader(writer.env)
    assert [reader.state(at).version for at in range(5)] == [0, 1, 2, 3, 4]
    assert [row.schema_id if (row := reader.state(at).objects.get(COUNTER)) else None for at in range(5)] == [None, 1, 2, 3, 4]
    for version in (-1, 5):
        with pytest.raises(LedgerVersionUnknown):
            reader.state(version)


def test_a_reader_sees_what_others_append(writer: LedgerWriter) -> None:
    reader = LedgerReader(writer.env)
    first = reader.state()
    writer.transact(increment)
    assert (first.version, reader.state().version) == (0, 1)
    assert COUNTER not in first.objects


def test_a_reader_writes_nothing_at_all(tmp_path: Path) -> None:
    writer = sound_environment(tmp_path, "flights", "planes")
    before = tree(tmp_path)
    reader = LedgerReader(writer.env)
    state = reader.state()
    assert [*state.objects.values(), *state.schemas.values(), *state.shards.values(), *state.deployments.values()]
    reader.state(0)
    reader.rows()
    assert reader.exists()
    assert tree(tmp_path) == before
    assert not {name for name in dir(LedgerReader) if "append" in name or name in ("create", "transact", "rewrite")}


def newer_format(writer: LedgerWriter) -> None:
    """The ledger as a newer software would leave it: another format, and rows nobody here can read."""
    collection, key, value = encode(writer.state().config)
    newer = value.replace(f'"format_version":{FORMAT_VERSION}', f'"format_version":{FORMAT_VERSION + 1}')
    append_raw(
        writer.env,
        RawRow(collection, key, value, 1, -1),
        RawRow(collection, key, newer, 1, 1),
        RawRow("objects", "not even a key", "{", 1, 1),
    )


def test_a_newer_format_is_refused_by_reader_and_writer(writer: LedgerWriter) -> None:
    old = writer.state()
    newer_format(writer)
    before = tree(root(writer.env))
    for access in (
        lambda: LedgerReader(writer.env).state(),
        lambda: LedgerReader(writer.env).state(0),
        lambda: LedgerReader(writer.env).rows(),
        lambda: LedgerWriter(writer.env).create("env-9"),
        lambda: writer.transact(increment),
    ):
        with pytest.raises(LedgerTooNew, match=f"format {FORMAT_VERSION + 1}"):
            access()
    with pytest.raises(LedgerConflict):
        writer.compare_and_append(old, [Put(counter(1))])
    assert tree(root(writer.env)) == before


def test_damaged_rows_are_a_typed_error_and_stop_appends_before_they_write(writer: LedgerWriter) -> None:
    append_raw(writer.env, RawRow("objects", '"a"', "{}", 1, -1))
    state = LedgerReader(writer.env).state()
    assert state.leader is None
    with pytest.raises(LedgerDamaged, match="multiplicity -1"):
        len(state.objects)
    with pytest.raises(LedgerDamaged):
        writer.transact(lambda state: [Put(leader())])
    assert LedgerReader(writer.env).state().version == 1


def test_an_unreadable_log_or_file_is_damage(writer: LedgerWriter, tmp_path: Path) -> None:
    writer.transact(increment)
    folder = root(writer.env) / "_schemamig" / "ledger"
    for path in (folder / "_delta_log" / f"{1:020}.json", next(folder.glob("*.parquet"))):
        spare = tmp_path / "spare"
        shutil.copy(path, spare)
        path.write_bytes(b"\x00" * 64)
        with pytest.raises(LedgerDamaged):
            LedgerReader(elsewhere(writer.env)).state()
        shutil.copy(spare, path)
    assert LedgerReader(elsewhere(writer.env)).state().version == 1


def in_a_process_that_may_write_no_byte(code: str) -> str:
    """Run ``code`` under a file size limit of 0, which is what a full disk looks like; its last line of output."""
    script = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1]


def test_a_full_disk_is_said_to_be_full_and_changes_nothing(writer: LedgerWriter, tmp_path: Path) -> None:
    code = """
        import os
        from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
        from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
        from airflow_provider_schemamig.exceptions import SchemamigError
        from tests.unit.ledger.samples import counter
        writer = LedgerWriter(EnvironmentRoot.open({place!r}))
        try:
            {action}
        except SchemamigError as error:
            os.write(1, error.code.encode())
    """
    append = "writer.transact(lambda state: [Put(counter(1))])"

    assert in_a_process_that_may_write_no_byte(code.format(place=str(root(writer.env)), action=append)) == "storage_full"
    assert LedgerReader(writer.env).state().version == 0
    place = str(tmp_path / "new")
    assert in_a_process_that_may_write_no_byte(code.format(place=place, action="writer.create('env-1')")) == "storage_full"
    assert not LedgerReader(EnvironmentRoot.open(place)).exists()


# --- another ledger in its place ----------------------------------------------------------------------------------------------------------


def _moved(env: EnvironmentRoot, commits: int, env_id: str) -> LedgerWriter:
    """A ledger of so many commits beside ``env``'s, as another process makes one."""
    writer = LedgerWriter(EnvironmentRoot.open(f"{root(env)}-{env_id}"))
    writer.create(env_id)
    for value in range(commits):
        writer.transact(lambda state, value=value: [Put(counter(value + 1))])  # type: ignore[misc]
    return writer


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 2), (3, 0), (3, 1), (3, 3), (3, 5), (12, 0), (12, 5), (12, 12), (110, 0)])
def test_a_process_that_knew_the_lost_ledger_reads_the_one_in_its_place(writer: LedgerWriter, before: int, after: int) -> None:
    for _ in range(before):
        writer.transact(increment)
    ledger = root(writer.env) / "_schemamig" / "ledger"
    other = _moved(writer.env, after, "env-2")
    assert LedgerReader(writer.env).state().config.env_id == "env-1"
    ledger.rename(ledger.with_name("lost"))
    shutil.copytree(root(other.env) / "_schemamig" / "ledger", ledger)
    state = LedgerReader(writer.env).state()
    assert (state.config.env_id, state.version) == ("env-2", after)


@pytest.mark.parametrize("before", [0, 1, 7])
def test_whoever_makes_the_ledger_anew_reads_his_own(writer: LedgerWriter, before: int) -> None:
    for _ in range(before):
        writer.transact(increment)
    shutil.rmtree(root(writer.env) / "_schemamig" / "ledger")
    state = writer.create("env-2")
    assert (state.config.env_id, state.version, COUNTER in state.objects) == ("env-2", 0, False)


def test_a_cleaned_log_is_no_other_ledger(writer: LedgerWriter) -> None:
    for _ in range(3):
        writer.transact(increment)
    reader = LedgerReader(writer.env)
    assert reader.state().version == 3
    other = LedgerWriter(elsewhere(writer.env))
    other.transact(increment)
    other.table.checkpoint()
    for version in range(4):
        (root(writer.env) / table.LOG / f"{version:020}.json").unlink()
    assert reader.state().version == 4


def test_a_look_at_what_did_not_change_reads_no_commit(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.state()
    monkeypatch.setattr(LocalStore, "get", lambda *_: pytest.fail("an object was read"))
    for _ in range(3):
        assert writer.state().version == 0


@pytest.mark.parametrize("others", [1, 6])
def test_an_environment_keeps_its_ledger_open_as_long_as_it_lives(
    writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """However many others are looked at in between; and none of them is of another object's ledger."""
    opened = openings(monkeypatch)
    environments = [elsewhere(writer.env) for _ in range(1 + others)]
    for _ in range(2):
        for env in environments:
            assert LedgerReader(env).state() is LedgerWriter(env).state()
    assert len(opened) == 1 + others


def test_threads_share_nothing_that_an_environment_has_open(writer: LedgerWriter) -> None:
    here = LedgerReader(writer.env)
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(lambda: (here.table, here.state())).result()
    assert there[0] is not here.table
    assert there[1] is not here.state()
    assert there[1].raw == here.state().raw


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "deep", "pickle"])
def test_an_environment_may_be_copied_and_sent(writer: LedgerWriter, copied: Callable[[EnvironmentRoot], EnvironmentRoot]) -> None:
    state = writer.state()
    assert LedgerReader(copied(writer.env)).state().raw == state.raw


def test_ledger_reading_what_an_environment_has_open_goes_with_it(writer: LedgerWriter) -> None:
    env = elsewhere(writer.env)
    table_of = weakref.ref(LedgerReader(env).table)
    del env
    gc.collect()
    assert table_of() is None
