"""Storage: locations, put-if-absent on disks and in object stores, receipts, and errors without secrets."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.storage import (
    CONFIRM_SECONDS,
    InvalidLocation,
    InvalidStorageOption,
    LocalStore,
    Location,
    ObjectExists,
    ObjectMissing,
    PutIfAbsentIgnored,
    StorageForbidden,
    StorageFull,
    StorageOptions,
    StorageReadOnly,
    StorageUnreachable,
    Store,
    WriteReceipt,
    confirm,
    open_store,
    probe_put_if_absent,
)
from airflow_provider_schemamig.core.storage.objects import ObjectStore

NO_OPTIONS = StorageOptions()
DEAD_S3 = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "aws_secret_access_key": "very-secret-key",
    "AWS_REGION": "us-east-1",
    "timeout": "1s",
}


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    uri = f"memory://{tmp_path.name}" if request.param == "memory" else str(tmp_path / "lake")
    return open_store(Location.parse(uri), NO_OPTIONS)


# --- locations and options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, uri",
    [
        ("/data/lake", "file:///data/lake"),
        ("/data/lake/", "file:///data/lake"),
        ("/data/../lake", "file:///lake"),
        ("/data/my lake", "file:///data/my lake"),
        ("lake", f"file://{os.getcwd()}/lake"),
        ("file:/data/lake", "file:///data/lake"),
        ("file:///data/lake/", "file:///data/lake"),
        ("file://localhost/data", "file:///data"),
        ("FILE:///data", "file:///data"),
        ("s3://bucket", "s3://bucket"),
        ("s3a://bucket/a/b/", "s3a://bucket/a/b"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("abfss://c@account.dfs.core.windows.net/a", "abfss://c@account.dfs.core.windows.net/a"),
        ("memory://x/y", "memory://x/y"),
    ],
)
def test_a_location_has_one_form_with_its_scheme(text: str, uri: str) -> None:
    location = Location.parse(text)
    assert location.uri == uri
    assert Location.parse(location.uri) == location


@pytest.mark.parametrize(
    "text",
    ["", "  ", "ftp://host/a", "file://host/a", "s3:///a", "s3:/a", "s3://b/../c", "s3://b//c", "/a\nb", "/a`b", "/a?b", "s3://b/a#c"],
)
def test_a_location_that_could_lead_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(InvalidLocation):
        Location.parse(text)


@pytest.mark.parametrize("part", ["", ".", "..", "a/b", "a\0b", "x`y"])
def test_a_child_is_one_plain_name(part: str) -> None:
    with pytest.raises(InvalidLocation):
        Location.parse("/lake").child("ok", part)


def test_children_and_local_paths() -> None:
    assert Location.parse("/lake").child("flights", "g1").local_path == Path("/lake/flights/g1")
    assert Location.parse("s3://b").child("flights").uri == "s3://b/flights"
    assert Location.parse("s3://b").local_path is None


def test_options_never_show_their_values() -> None:
    options = StorageOptions(DEAD_S3)
    assert "very-secret-key" not in repr(options)
    assert "AKIDEXAMPLE" not in repr(open_store(Location.parse("s3://b"), options).options)
    assert "aws_secret_access_key" in repr(options)
    assert options.redact("signed with very-secret-key at us-east-1") == "signed with *** at us-east-1"
    assert dict(pickle.loads(pickle.dumps(options))) == DEAD_S3


# --- reading and writing, the same on both kinds -------------------------------------------------------------------------------------


def test_put_if_absent_is_won_once(store: Store) -> None:
    store.put_if_absent("a/b/c.json", b"first")
    with pytest.raises(ObjectExists):
        store.put_if_absent("a/b/c.json", b"second")
    assert store.get("a/b/c.json") == b"first"


def test_names_are_the_files_directly_below_in_order(store: Store) -> None:
    for name in ("2", "10", "1", "sub/3"):
        store.put(f"log/{name}", b"x")
    assert store.names("log") == ["1", "10", "2"]
    assert store.names("log", start_after="1") == ["10", "2"]
    assert store.names("nothing") == []


@pytest.mark.parametrize("name", [".00000000000000000000.json.0123456789abcdef0123456789abcdef.tmp", "00000000000000000000.json#1"])
def test_storage_what_a_killed_process_had_only_staged_is_not_there(tmp_path: Path, name: str) -> None:
    store = open_store(Location.parse(str(tmp_path)), StorageOptions())
    store.put("log/a.json", b"")
    (tmp_path / "log" / name).write_bytes(b"{}")
    assert store.names("log") == ["a.json"]


def test_folders_are_those_directly_below_in_order(store: Store) -> None:
    for key in ("b/x/1", "b/y/z/2", "a/3", "c"):
        store.put(key, b"")
    assert store.folders("") == ["a", "b"]
    assert store.folders("b") == ["x", "y"]
    assert store.folders("b/x") == store.folders("c") == store.folders("nowhere") == []


def test_put_replaces_and_delete_forgives(store: Store) -> None:
    store.put("a", b"1")
    store.put("a", b"2")
    assert store.get("a") == b"2"
    assert store.exists("a")
    store.delete("a")
    store.delete("a")
    assert not store.exists("a")
    with pytest.raises(ObjectMissing) as caught:
        store.get("a")
    assert caught.value.uri == f"{store.location.uri}/a"


def test_parts_of_an_object_can_be_read(store: Store) -> None:
    store.put("a", b"0123456789")
    with store.open_random("a") as file:
        file.seek(3)
        assert bytes(file.read(4)) == b"3456"
    with pytest.raises(ObjectMissing):
        store.open_random("b")


def test_large_and_empty_objects(store: Store) -> None:
    data = os.urandom(5_000_000)
    store.put_if_absent("big", data)
    store.put_if_absent("empty", b"")
    assert store.get("big") == data
    assert store.get("empty") == b""


def test_eight_threads_one_winner(store: Store) -> None:
    for number in range(20):
        won: list[int] = []
        barrier = threading.Barrier(8)

        def race(me: int, key: str = f"race/{number}", won: list[int] = won, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            try:
                store.put_if_absent(key, str(me).encode())
            except ObjectExists:
                return
            won.append(me)

        threads = [threading.Thread(target=race, args=(me,)) for me in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert store.get(f"race/{number}") == str(won[0]).encode()


def test_a_store_knows_its_probe_is_honoured_and_leaves_nothing(store: Store) -> None:
    probe_put_if_absent(store, "_schemamig")
    assert store.names("_schemamig") == []


def test_the_probe_finds_a_store_that_overwrites(tmp_path: Path) -> None:
    class Overwriting(LocalStore):
        def put_if_absent(self, key: str, data: bytes) -> WriteReceipt:
            self.put(key, data)
            return WriteReceipt(self.location, key, time.monotonic())

    store = Overwriting(Location.parse(str(tmp_path)), NO_OPTIONS)
    with pytest.raises(PutIfAbsentIgnored):
        probe_put_if_absent(store, "_schemamig")
    assert store.names("_schemamig") == []


# --- local disks ---------------------------------------------------------------------------------------------------------------------


def local(tmp_path: Path) -> LocalStore:
    return LocalStore(Location.parse(str(tmp_path / "lake")), NO_OPTIONS)


def test_keys_stay_inside_the_location(tmp_path: Path) -> None:
    for key in ("../outside", "a/../../b", "/etc/passwd"):
        with pytest.raises(InvalidLocation):
            local(tmp_path).get(key)


def test_a_write_syncs_file_and_folder_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = local(tmp_path)
    store.put("log/0", b"")
    events: list[str] = []
    fsync, link = os.fsync, os.link

    def spy_sync(descriptor: int) -> None:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        events.append("sync folder" if os.path.isdir(target) else "sync file")
        fsync(descriptor)

    def spy_link(source: str, target: str) -> None:
        events.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", spy_sync)
    monkeypatch.setattr(os, "link", spy_link)
    store.put_if_absent("log/1", b"data")
    assert events == ["sync file", "link", "sync folder"]
    assert sorted(os.listdir(tmp_path / "lake/log")) == ["0", "1"]


@pytest.mark.parametrize(
    "number, kind",
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EROFS, StorageReadOnly),
        (errno.EACCES, StorageForbidden),
        (errno.EPERM, StorageForbidden),
        (errno.EIO, StorageUnreachable),
    ],
)
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_failing_disk_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], call: str
) -> None:
    store = local(tmp_path)
    store.put("log/0", b"")

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    writes: list[Callable[[str, bytes], object]] = [store.put_if_absent, store.put]
    for write in writes:
        with pytest.raises(kind):
            write("log/1", b"x")
    monkeypatch.undo()
    assert os.listdir(tmp_path / "lake/log") == ["0"]


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(PutIfAbsentIgnored):
        local(tmp_path).put_if_absent("log/1", b"x")
    assert os.listdir(tmp_path / "lake/log") == []


def test_a_replaced_file_is_noticed_and_the_wait_is_one_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = local(tmp_path)
    receipts = [store.put_if_absent(f"log/{number}", b"ours") for number in range(5)]
    store.put("log/3", b"ours")  # rename over it, as Spark's LogStore does; not even the bytes differ
    (tmp_path / "lake/log/4").unlink()
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    assert confirm(receipts) == receipts[3:]
    assert len(waits) == 1
    assert waits[0] <= CONFIRM_SECONDS
    assert confirm([]) == []


def test_a_late_replacement_within_the_wait_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = local(tmp_path)
    receipt = store.put_if_absent("log/0", b"ours")
    monkeypatch.setattr(time, "sleep", lambda seconds: store.put("log/0", b"theirs"))
    assert confirm([receipt]) == [receipt]


KILLED = """
import os, signal, sys
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store
store = open_store(Location.parse(sys.argv[1]), StorageOptions())
os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store.put_if_absent("log/1", b"never")
"""


def test_killed_between_temporary_file_and_link_nothing_is_there(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.put("log/0", b"")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "lake")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not store.exists("log/1")
    visible = [name for name in store.names("log") if not name.startswith(".")]
    assert visible == ["0"]
    store.put_if_absent("log/1", b"next")


# --- object stores -------------------------------------------------------------------------------------------------------------------


def test_a_dead_endpoint_is_retryable_and_tells_no_secret() -> None:
    store = open_store(Location.parse("s3://bucket/lake"), StorageOptions(DEAD_S3))
    with pytest.raises(StorageUnreachable) as caught:
        store.get("a")
    assert caught.value.retryable
    text = f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {caught.value.to_json()}"
    assert "very-secret-key" not in text
    assert "AKIDEXAMPLE" not in text


@pytest.mark.parametrize("options", [{"aws_bogus": "secret-value"}, {"aws_skip_signature": "secret-value"}])
def test_an_option_that_does_not_fit_is_named_without_its_value(options: dict[str, str]) -> None:
    with pytest.raises(InvalidStorageOption) as caught:
        open_store(Location.parse("s3://bucket"), StorageOptions(options)).exists("a")
    assert "secret-value" not in str(caught.value)


def test_own_object_after_a_lost_answer_is_no_conflict() -> None:
    """The HTTP client repeats a request whose answer was lost; the second try meets the first one's object."""
    store = ObjectStore(Location.parse("memory://lost"), NO_OPTIONS)
    store.put("a", b"with an id of its own")
    store.put_if_absent("a", b"with an id of its own")
    with pytest.raises(ObjectExists):
        store.put_if_absent("a", b"somebody else")
