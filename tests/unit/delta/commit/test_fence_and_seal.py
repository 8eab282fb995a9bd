"""Fence commits, seals, and what the log tells about the time since a version."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.commit.fence import EPOCH_STRIDE, Fenced, put_fence, read_fence
from airflow_provider_schemamig.core.delta.commit.seal import seal, unseal
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits, files_since, last_metadata_version, nulls_since
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.names import Epoch, Generation
from airflow_provider_schemamig.core.schema.changes import RenameColumn
from airflow_provider_schemamig.core.schema.model import Field, Struct
from airflow_provider_schemamig.core.storage import Store
from tests.unit.delta.tables import (
    BIGINT,
    INT,
    NAME,
    TAG,
    add_file,
    add_int,
    fence,
    flights,
    log_files,
    make_table,
    path,
    remove_file,
    table_store,
    txn,
    write,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = table_store(tmp_path)
    make_table(store)
    return store


def test_a_fence_is_a_transaction_identifier_and_nothing_else(store: Store) -> None:
    assert read_fence(store, fence().app_id) is None
    assert put_fence(store, fence(3), TAG) == 1
    commit = read_commit(store, 1)
    assert (commit.metadata, commit.protocol, commit.adds) == (None, None, ())
    assert [(t["appId"], t["version"]) for t in commit.txns] == [("schemamig:env-1:g1-flights", 3 * 2**32)]
    assert read_fence(store, fence().app_id) == fence(3).version


def test_a_fence_is_put_once_and_never_below_another(store: Store, tmp_path: Path) -> None:
    assert put_fence(store, fence(3), TAG) == 1
    assert put_fence(store, fence(3), TAG) == 1
    write(store, 2, txn(fence().app_id, fence(3).version + 7))
    assert put_fence(store, fence(3), TAG) == 2, "a statement of the same epoch fences as well"
    with pytest.raises(Fenced):
        put_fence(store, fence(2), TAG)
    assert put_fence(store, fence(4), TAG) == 3
    assert len(log_files(tmp_path)) == 4


def test_a_fence_steps_over_data_and_metadata(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put = store.put_if_absent

    def beaten(key: str, data: bytes) -> Any:
        monkeypatch.undo()
        write(store, 1, add_file("f"))
        commit_changes(store, read_head(store), [add_int("x")], fence(1), TAG, since=0)
        return put(key, data)

    monkeypatch.setattr(store, "put_if_absent", beaten)
    assert put_fence(store, fence(2), TAG) == 3


def test_a_later_fence_that_lands_first_is_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put = store.put_if_absent

    def beaten(key: str, data: bytes) -> Any:
        monkeypatch.undo()
        put_fence(store, fence(3), TAG)
        return put(key, data)

    monkeypatch.setattr(store, "put_if_absent", beaten)
    with pytest.raises(Fenced):
        put_fence(store, fence(2), TAG)


def test_two_leaders_put_their_fences_at_once_and_the_later_epoch_stands(tmp_path: Path) -> None:
    for round_ in range(15):
        store = table_store(tmp_path / str(round_))
        make_table(store)
        lost: list[int] = []

        def lead(epoch: int, store: Store = store, lost: list[int] = lost) -> None:
            try:
                put_fence(store, fence(epoch), TAG)
            except Fenced:
                lost.append(epoch)

        threads = [threading.Thread(target=lead, args=(epoch,)) for epoch in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert read_fence(store, fence().app_id) == 3 * EPOCH_STRIDE
        assert lost in ([], [2])


def test_numbers_of_an_epoch() -> None:
    assert fence(5).version == 5 * EPOCH_STRIDE
    fence(5).check_version(5 * EPOCH_STRIDE + EPOCH_STRIDE - 1)
    fence(5).check_version(None)
    with pytest.raises(Fenced):
        fence(5).check_version(6 * EPOCH_STRIDE)


# --- the seal ------------------------------------------------------------------------------------------------------------------------


def test_seal_and_unseal(store: Store) -> None:
    before = read_head(store)
    assert before.sealed_for is None
    committed = seal(store, before, "g2-abc", fence(), TAG, since=0)
    head = read_head(store)
    assert head == committed.head
    assert head.sealed_for == "g2-abc"
    assert head.declaration(NAME) == flights(), "our own constraint is no part of what the table declares"
    assert read_commit(store, 1).info["operationParameters"] == {"movedTo": "g2-abc"}
    opened = unseal(store, head, fence(), TAG, since=0).head
    assert opened.sealed_for is None
    assert opened.metadata == before.metadata


def test_a_seal_steps_over_data_but_not_over_metadata(store: Store) -> None:
    before = read_head(store)
    write(store, 1, add_file("f"))
    assert seal(store, before, "g2-abc", fence(), TAG, since=0).head.version == 2
    with pytest.raises(MetadataMoved):
        seal(store, before, "g2-abc", fence(), TAG, since=0)


def test_a_seal_is_fenced(store: Store) -> None:
    head = read_head(store)
    put_fence(store, fence(2), TAG)
    with pytest.raises(Fenced):
        seal(store, head, "g2-abc", fence(1), TAG, since=0)
    assert read_head(store).sealed_for is None


# --- since a version -----------------------------------------------------------------------------------------------------------------


def test_commits_in_order_and_a_gap_is_said(store: Store, tmp_path: Path) -> None:
    for version in range(1, 6):
        write(store, version, add_file(f"f{version}"))
    assert [commit.version for commit in commits(store, 1, 4)] == [2, 3, 4]
    assert [commit.version for commit in commits(store, 3)] == [4, 5]
    assert [add["path"] for commit in commits(store, 4) for add in commit.adds] == ["f5"]
    (tmp_path / "_delta_log/00000000000000000003.json").unlink()
    with pytest.raises(LogTruncated) as caught:
        list(commits(store, 1))
    assert caught.value.version == 3


def test_any_new_file_counts(store: Store) -> None:
    assert files_since(store, 0) is False
    write(store, 1, remove_file("f"), txn("job", 1))
    assert files_since(store, 0) is False
    write(store, 2, add_file("g", dataChange=False))  # OPTIMIZE writes files with all columns of then
    assert files_since(store, 0) is True
    assert files_since(store, 2) is False


def test_the_last_metadata_commit(store: Store) -> None:
    assert last_metadata_version(store, -1) == 0
    assert last_metadata_version(store, 0) is None
    write(store, 1, add_file("f"))
    commit_changes(store, read_head(store), [add_int("x")], fence(), TAG, since=0)
    write(store, 3, add_file("g"))
    assert last_metadata_version(store, 0) == 2
    assert last_metadata_version(store, 0, 1) is None


def stats(rows: int, **nulls: Any) -> dict[str, Any]:
    return {"numRecords": rows, "nullCount": nulls}


@pytest.mark.parametrize(
    "actions, answer",
    [
        ([], False),
        ([add_file("a", stats=stats(3, dep_delay=0))], False),
        ([add_file("a", stats=stats(3, dep_delay=1))], True),
        ([add_file("a", stats=stats(3, id=0))], None),
        ([add_file("a")], None),
        ([add_file("a", stats=stats(0))], False),
        ([add_file("a"), add_file("b", stats=stats(3, dep_delay=1))], True),
        ([add_file("a", stats=stats(3, dep_delay=1)), remove_file("a")], False),
        ([remove_file("a"), add_file("a", stats=stats(3, dep_delay=0))], False),
        ([add_file("a", partition={"dep_delay": None})], True),
        ([add_file("a", partition={"dep_delay": "7"})], False),
    ],
)
def test_nulls_by_statistics(store: Store, actions: list[dict[str, Any]], answer: bool | None) -> None:
    write(store, 1, add_file("older"))
    for number, action in enumerate(actions, start=2):
        write(store, number, action)
    assert nulls_since(store, read_head(store), "dep_delay", 1) is answer


def test_a_file_with_another_deletion_vector_is_another_file(store: Store) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1}
    write(store, 1, add_file("a", stats=stats(3, dep_delay=1)))
    write(store, 2, add_file("a", stats=stats(3, dep_delay=1), deletionVector=vector), remove_file("a"))
    assert nulls_since(store, read_head(store), "dep_delay", 0) is True
    write(store, 3, remove_file("a", deletionVector=vector))
    assert nulls_since(store, read_head(store), "dep_delay", 0) is False


def test_nulls_are_counted_under_physical_names(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    make_table(store, flights(Field("id", BIGINT), Field("s", Struct((Field("a", INT), Field("b", INT))))))
    renames = [RenameColumn(path("s.a"), "x"), RenameColumn(path("s"), "t")]
    commit_changes(store, read_head(store), renames, fence(), TAG, since=0)
    write(store, 2, add_file("f", stats=stats(3, s={"a": 2, "b": 0})))
    head = read_head(store)
    assert nulls_since(store, head, "t.x", 0) is True
    assert nulls_since(store, head, "t.b", 0) is False
    assert nulls_since(store, head, "s.a", 0) is None


def test_tags_name_generation_and_epoch(store: Store) -> None:
    from airflow_provider_schemamig.core.delta.commit.commit_info import Tag

    tag = Tag(Generation(7), Epoch(3), "cutover")
    assert tag.user_metadata == '{"schemamig":{"action":"cutover","epoch":3,"generation":7}}'
    assert tag.operation == "SCHEMAMIG CUTOVER"
