"""Which files come out of each kind of checkpoint, and what is said of odd ones."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_schemamig.core.delta.actions import FileId, RawAction, encode_actions, file_id
from airflow_provider_schemamig.core.delta.errors import LogDamaged, LogTruncated
from airflow_provider_schemamig.core.delta.log.files import absolute_paths, active_files, file_difference
from airflow_provider_schemamig.core.delta.log.listing import LOG, commit_key
from airflow_provider_schemamig.core.storage import Store
from tests.unit.delta.tables import add_file, make_table, remove_file, table_store, write


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return table_store(tmp_path / "t")


_VECTOR = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32()), ("sizeInBytes", pa.int32())])
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("stats_parsed", pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("id", pa.int64())]))])),
        ("deletionVector", _VECTOR),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
)
VECTOR = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40}
#: By statistics as text, as a struct, and without any.
FILES: tuple[dict[str, Any], ...] = (
    {"path": "p=1/a", "partitionValues": [("p", "1")], "stats": '{"minValues":{"id":1},"numRecords": 5}'},
    {"path": "p=2/b", "partitionValues": [("p", None)], "stats_parsed": {"numRecords": 6}, "deletionVector": VECTOR},
    {"path": "c", "partitionValues": []},
)
FOUND: dict[FileId, RawAction] = {
    file_id(action): action
    for action in (
        {"path": "p=1/a", "partitionValues": {"p": "1"}, "stats": '{"numRecords":5}'},
        {"path": "p=2/b", "partitionValues": {"p": None}, "stats": '{"numRecords":6}', "deletionVector": VECTOR},
        {"path": "c", "partitionValues": {}},
    )
}
REST = {"size": 9, "modificationTime": 1, "dataChange": False}


def parquet(store: Store, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A checkpoint's file: ``add``, ``remove`` (never read) and ``sidecar`` columns."""
    add = pa.array([({**REST, **row["add"]} if "add" in row else None) for row in rows], _ADD)
    remove = pa.array([row.get("remove") for row in rows], pa.struct([("path", pa.string())]))
    sidecar = pa.array([row.get("sidecar") for row in rows], pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())]))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"add": add, "remove": remove, "sidecar": sidecar}), sink)
    store.put(f"{LOG}/{name}", sink.getvalue().to_pybytes())


def classic(store: Store) -> None:
    parquet(store, f"{2:020}.checkpoint.parquet", [{"add": FILES[0]}, {"remove": {"path": "gone"}}, {"add": FILES[1]}, {"add": FILES[2]}])


def multi_part(store: Store) -> None:
    parquet(store, f"{2:020}.checkpoint.{1:010}.{2:010}.parquet", [{"add": FILES[0]}])
    parquet(store, f"{2:020}.checkpoint.{2:010}.{2:010}.parquet", [{"add": FILES[1]}, {"add": FILES[2]}])


def sidecars(store: Store) -> Iterator[dict[str, Any]]:
    for name, files in (("one.parquet", FILES[:1]), ("two%20.parquet", FILES[1:])):
        parquet(store, f"_sidecars/{name.replace('%20', ' ')}", [{"add": file} for file in files])
        yield {"sidecar": {"path": name, "sizeInBytes": 1}}


def v2_parquet(store: Store) -> None:
    parquet(store, f"{2:020}.checkpoint.{uuid.uuid4()}.parquet", list(sidecars(store)))


def v2_json(store: Store) -> None:
    data = encode_actions([{"checkpointMetadata": {"version": 2}}, *sidecars(store)])
    store.put(f"{LOG}/{2:020}.checkpoint.{uuid.uuid4()}.json", data)


@pytest.mark.parametrize("hint", [None, 2, 9], ids=["no hint", "hint", "hint beyond"])
@pytest.mark.parametrize("checkpoint", [classic, multi_part, v2_parquet, v2_json])
def test_files_come_out_of_every_kind_of_checkpoint(store: Store, checkpoint: Any, hint: int | None) -> None:
    checkpoint(store)
    if hint is not None:
        store.put(f"{LOG}/_last_checkpoint", json.dumps({"version": hint}).encode())
    write(store, 3, add_file("d"), remove_file("c"))
    wanted = {file: {**REST, **action} for file, action in FOUND.items()}
    assert active_files(store, 2) == wanted
    assert {path for path, _ in active_files(store, 3)} == {"p=1/a", "p=2/b", "d"}
    assert [file["size"] for file in file_difference(store, 2, 3).removed] == [9]
    with pytest.raises(LogTruncated):
        active_files(store, 1)
    with pytest.raises(LogTruncated):
        active_files(store, 4)


@pytest.mark.parametrize("checkpoint", [classic, multi_part, v2_parquet, v2_json])
def test_absolute_paths_come_out_of_every_kind_of_checkpoint(store: Store, checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.FILES", (*FILES[:2], {"path": "s3://bucket/other/c", "partitionValues": []}))
    checkpoint(store)
    assert absolute_paths(store, 2) == {"s3://bucket/other/c"}
    write(store, 3, add_file("/other/d"), remove_file("s3://bucket/other/c"), add_file("e"))
    assert absolute_paths(store, 3) == {"/other/d"}


def test_a_sidecar_that_is_gone_is_a_damaged_log(store: Store) -> None:
    v2_json(store)
    store.delete(f"{LOG}/_sidecars/one.parquet")
    with pytest.raises(LogDamaged, match=r"one\.parquet"):
        active_files(store, 2)


def odd(store: Store, **columns: pa.Array) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    store.put(f"{LOG}/{2:020}.checkpoint.parquet", sink.getvalue().to_pybytes())


PATH = pa.field("path", pa.string())
VALUES = pa.field("partitionValues", pa.map_(pa.string(), pa.string()))
ODD: dict[str, pa.Array] = {
    "a path that is null": pa.array([{"path": "/a"}, {"path": None}], pa.struct([PATH])),
    "no path": pa.array([{"size": 1}], pa.struct([("size", pa.int64())])),
    "no struct": pa.array(["a"]),
    "a path of bytes": pa.array([{"path": b"/a"}], pa.struct([("path", pa.binary())])),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("read", [active_files, absolute_paths])
@pytest.mark.parametrize("kind", ["add", "sidecar"])
def test_a_checkpoint_of_odd_actions_is_a_damaged_log(store: Store, read: Callable[..., object], kind: str, name: str) -> None:
    odd(store, **{kind: ODD[name]})
    with pytest.raises(LogDamaged, match=rf"{2:020}\.checkpoint\.parquet: "):
        read(store, 2)


def test_odd_values_of_a_checkpoint_are_a_damaged_log(store: Store) -> None:
    odd(store, add=pa.array([{"path": "a", "partitionValues": [("p", "1"), ("p", "2")]}], pa.struct([PATH, VALUES])))
    with pytest.raises(LogDamaged, match="duplicate"):
        active_files(store, 2)
    vector = pa.field("deletionVector", pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32())]))
    for odd_vector in ({"storageType": "u", "pathOrInlineDv": None}, {"offset": 1}):
        store.delete(f"{LOG}/{2:020}.checkpoint.parquet")
        odd(store, add=pa.array([{"path": "a", "deletionVector": odd_vector}], pa.struct([PATH, vector])))
        with pytest.raises(LogDamaged, match="deletion vector of a"):
            active_files(store, 2)


def test_paths_of_a_checkpoint_in_a_form_without_patterns_are_a_damaged_log(store: Store) -> None:
    odd(store, add=pa.StructArray.from_arrays([pa.array(["/a"], pa.string_view())], ["path"]))
    with pytest.raises(LogDamaged, match="string_view"):
        absolute_paths(store, 2)


@pytest.mark.parametrize(
    "action",
    [
        *({"add": {"path": None}}, {"add": {"size": 1}}, {"add": "a"}, {"sidecar": {}}, {"sidecar": "a"}, {"sidecar": []}),
        *({"add": {"path": "a", "deletionVector": "x"}}, {"add": {"path": "a", "deletionVector": {"storageType": "u"}}}),
    ],
)
def test_odd_actions_of_a_checkpoint_in_json_are_a_damaged_log(store: Store, action: dict[str, Any]) -> None:
    store.put(f"{LOG}/{2:020}.checkpoint.{uuid.uuid4()}.json", encode_actions([{"checkpointMetadata": {"version": 2}}, action]))
    with pytest.raises(LogDamaged, match="json: "):
        active_files(store, 2)


def test_an_action_that_is_null_is_none(store: Store) -> None:
    """Delta's own reader passes over it."""
    null: list[dict[str, Any]] = [{"sidecar": None}, {"add": None, "remove": None}]
    actions = [{"checkpointMetadata": {"version": 2}}, *null, {"add": {"path": "a"}}]
    store.put(f"{LOG}/{2:020}.checkpoint.{uuid.uuid4()}.json", encode_actions(actions))
    assert list(active_files(store, 2)) == [("a", "")]


@pytest.mark.parametrize(
    "text, rows",
    [
        ('{"numRecords":5,"minValues":{"numRecords":3}}', 5),
        (' { "numRecords" : 5 }', 5),
        ('{"minValues":{"numRecords":3},"numRecords":5}', 5),
        ('{"minValues":{"a":"\\"numRecords\\":3"},"numRecords":5}', 5),
        ('{"minValues":{"numRecords":3}}', None),
        ('{"minValues":{"a":3}}', None),
        ('{"numRecords":null}', None),
        ('{"minValues":{"numRecords":3', None),
    ],
)
def test_the_number_of_rows_of_a_file_is_no_columns_of_that_name(store: Store, text: str, rows: int | None) -> None:
    parquet(store, f"{2:020}.checkpoint.parquet", [{"add": {"path": "a", "stats": text}}])
    (found,) = active_files(store, 2).values()
    assert found.get("stats") == (None if rows is None else f'{{"numRecords":{rows}}}')


def test_commits_that_were_cleaned_up_are_a_gap(store: Store) -> None:
    make_table(store)
    for version in (1, 2, 3):
        write(store, version, add_file(str(version)))
    store.delete(commit_key(2))
    with pytest.raises(LogTruncated, match="version 2"):
        file_difference(store, 1, 3)
    with pytest.raises(LogTruncated, match="version 2"):
        active_files(store, 3)
