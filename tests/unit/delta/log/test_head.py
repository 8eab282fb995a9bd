"""Reading heads: JSON backwards, checkpoints of every kind, checksums, and logs with something missing."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_schemamig.core.delta.actions import RawAction, encode_actions
from airflow_provider_schemamig.core.delta.commit.create import create_table
from airflow_provider_schemamig.core.delta.commit.fence import read_fence
from airflow_provider_schemamig.core.delta.features import CatalogManagedTable
from airflow_provider_schemamig.core.delta.log.head import Head, LogDamaged, LogTruncated, TableMissing, read_head
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.schema.changes import AddCheck
from airflow_provider_schemamig.core.schema.model import Check
from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, open_store
from tests.unit.delta.tables import (
    NAME,
    TAG,
    add_file,
    add_int,
    declared,
    flights,
    make_table,
    nested,
    raw,
    table_store,
    txn,
    write,
)

STRINGS = pa.map_(pa.string(), pa.string())
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRINGS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", STRINGS),
        ("createdTime", pa.int64()),
    ]
)
DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
ADD = pa.struct([("path", pa.string()), ("partitionValues", STRINGS), ("size", pa.int64()), ("stats", pa.string())])
CHECKPOINT = pa.schema([("txn", TXN), ("add", ADD), ("metaData", METADATA), ("protocol", PROTOCOL), ("domainMetadata", DOMAIN)])


def parquet_checkpoint(folder: Path, name: str, actions: Sequence[Mapping[str, Any]]) -> None:
    rows = [{kind: _as_maps(action.get(kind)) for kind in CHECKPOINT.names} for action in actions]
    pq.write_table(pa.Table.from_pylist(rows, schema=CHECKPOINT), folder / "_delta_log" / name)


def _as_maps(action: Any) -> Any:
    if not isinstance(action, dict):
        return action
    as_map = {"configuration", "options", "partitionValues"}
    return {key: list(v.items()) if key in as_map and isinstance(v, dict) else _as_maps(v) for key, v in action.items()}


def at(version: int, suffix: str) -> str:
    return f"{version:020d}{suffix}"


def moved(protocol: RawAction, metadata: RawAction, name: str) -> tuple[RawAction, RawAction]:
    found = edit(protocol, metadata, [add_int(name)])
    return found.protocol, found.metadata


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, Store, RawAction, RawAction]:
    """A table with protocol and metaData at 0, appends up to 12, a metadata commit at 5."""
    store = table_store(tmp_path)
    protocol, metadata = raw(nested())
    metadata = {key: value for key, value in metadata.items() if key != "unknownKey"}
    write(store, 0, {"protocol": protocol}, {"metaData": metadata})
    _, after = moved(protocol, metadata, "gate")
    for version in range(1, 13):
        extra = [{"metaData": after}] if version == 5 else [txn("job", version)]
        write(store, version, add_file(f"f{version}"), *extra)
    return tmp_path, store, protocol, after


def forget_json(folder: Path, upto: int) -> None:
    for version in range(upto + 1):
        (folder / "_delta_log" / at(version, ".json")).unlink()


def expect(head: Head, version: int, protocol: RawAction, metadata: RawAction) -> None:
    assert (head.version, head.protocol, head.metadata) == (version, protocol, metadata)
    assert head.declaration(NAME) == declared(metadata)


def test_head_json_only(log: tuple[Path, Store, RawAction, RawAction]) -> None:
    _, store, protocol, after = log
    expect(read_head(store), 12, protocol, after)


def test_everything_in_an_action_is_kept(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    metadata = make_table(store)
    assert read_head(store).metadata == metadata
    assert "unknownKey" in metadata


def test_the_newest_of_each_counts(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    protocol, metadata = raw(flights())
    newest, after, _ = edit(protocol, metadata, [AddCheck(Check("c", "id > 0"))])
    write(store, 0, {"protocol": protocol}, {"metaData": metadata})
    write(store, 1, {"protocol": newest})
    expect(read_head(store), 1, newest, metadata)
    write(store, 2, {"metaData": after})
    expect(read_head(store), 2, newest, after)


def test_head_no_table(tmp_path: Path) -> None:
    for folder in ("nothing", "empty"):
        (tmp_path / "empty/_delta_log").mkdir(parents=True, exist_ok=True)
        with pytest.raises(TableMissing):
            read_head(table_store(tmp_path / folder))


@pytest.mark.parametrize("kind", ["classic", "multi", "v2 parquet", "v2 json"])
@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("hint", [None, 10, 3, 11, 99, "damaged"])
def test_head_checkpoints(log: tuple[Path, Store, RawAction, RawAction], kind: str, cleaned: bool, hint: int | str | None) -> None:
    folder, store, protocol, after = log
    state = [txn("job", 10), {"protocol": protocol}, {"metaData": after}, *(add_file(f"f{number}") for number in range(1, 11))]
    match kind:
        case "classic":
            parquet_checkpoint(folder, at(10, ".checkpoint.parquet"), state)
        case "multi":  # the actions may be in any part; a part of an unfinished checkpoint counts for nothing
            parquet_checkpoint(folder, at(10, ".checkpoint.0000000001.0000000003.parquet"), state[3:])
            parquet_checkpoint(folder, at(10, ".checkpoint.0000000002.0000000003.parquet"), [state[2]])
            parquet_checkpoint(folder, at(10, ".checkpoint.0000000003.0000000003.parquet"), state[:2])
            parquet_checkpoint(folder, at(12, ".checkpoint.0000000001.0000000002.parquet"), state[3:])
        case "v2 parquet":
            parquet_checkpoint(folder, at(10, f".checkpoint.{uuid.uuid4()}.parquet"), state[:3])
        case "v2 json":
            lines = [{"checkpointMetadata": {"version": 10}}, *state[:3], {"sidecar": {"path": "x.parquet"}}]
            (folder / "_delta_log" / at(10, f".checkpoint.{uuid.uuid4()}.json")).write_bytes(encode_actions(lines))
    if cleaned:
        forget_json(folder, 9)
    if hint is not None:
        text = "{" if hint == "damaged" else json.dumps({"version": hint, "size": 13})
        (folder / "_delta_log/_last_checkpoint").write_text(text)
    expect(read_head(store), 12, protocol, after)
    assert read_fence(store, "job") == 12
    assert read_fence(store, "other") is None


def test_a_checkpoint_is_enough_without_any_json(log: tuple[Path, Store, RawAction, RawAction]) -> None:
    folder, store, protocol, after = log
    parquet_checkpoint(folder, at(12, ".checkpoint.parquet"), [{"protocol": protocol}, {"metaData": after}, txn("job", 12)])
    forget_json(folder, 12)
    expect(read_head(store), 12, protocol, after)
    assert read_fence(store, "job") == 12


def crc(folder: Path, version: int, protocol: RawAction, metadata: RawAction, **more: Any) -> None:
    document = {"txnId": "x", "numFiles": 3, "metadata": metadata, "protocol": protocol, **more}
    (folder / "_delta_log" / at(version, ".crc")).write_text(json.dumps(document))


def test_a_checksum_saves_the_way_back(log: tuple[Path, Store, RawAction, RawAction], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, store, protocol, after = log
    crc(folder, 11, protocol, after, setTransactions=[{"appId": "job", "version": 11}])
    read: list[str] = []
    get = store.get

    def spy(key: str) -> bytes:
        read.append(key)
        return get(key)

    monkeypatch.setattr(store, "get", spy)
    expect(read_head(store), 12, protocol, after)
    assert read == ["_delta_log/_last_checkpoint", "_delta_log/" + at(12, ".json"), "_delta_log/" + at(11, ".crc")]
    forget_json(folder, 11)
    assert read_fence(store, "job") == 12


DAMAGED = ("", "{", "[]", '{"metadata": null, "protocol": null}', '{"metadata": {}, "protocol": {}}', '{"numFiles": 1}')


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_checksum_is_passed_over(log: tuple[Path, Store, RawAction, RawAction], text: str) -> None:
    folder, store, protocol, after = log
    (folder / "_delta_log" / at(12, ".crc")).write_text(text)
    expect(read_head(store), 12, protocol, after)


def test_something_newer_than_the_checksum_wins(log: tuple[Path, Store, RawAction, RawAction]) -> None:
    folder, store, protocol, after = log
    crc(folder, 12, protocol, after)
    newer_protocol, newer = moved(protocol, after, "newer")
    write(store, 13, {"metaData": newer})
    expect(read_head(store), 13, newer_protocol, newer)


def test_clustering_is_found_wherever_it_was_written(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    head = create_table(store, flights(clustered_by=("id",)), "id", TAG)
    _, metadata = moved(head.protocol, head.metadata, "x")
    write(store, 1, {"metaData": metadata}, {"protocol": head.protocol})
    assert read_head(store).declaration(NAME).clustered_by == ("id",)
    crc(tmp_path, 1, head.protocol, metadata)  # without domainMetadata: not known from here
    assert read_head(store).declaration(NAME).clustered_by == ("id",)
    crc(tmp_path, 1, head.protocol, metadata, domainMetadata=list(head.domains.values()))
    assert read_head(store).declaration(NAME).clustered_by == ("id",)
    state = [{"protocol": head.protocol}, {"metaData": metadata}, {"domainMetadata": head.domains["delta.clustering"]}]
    parquet_checkpoint(tmp_path, at(1, ".checkpoint.parquet"), state)
    (tmp_path / "_delta_log" / at(1, ".crc")).unlink()
    forget_json(tmp_path, 1)
    assert read_head(store).declaration(NAME).clustered_by == ("id",)
    write(store, 2, {"domainMetadata": {"domain": "delta.clustering", "configuration": "{}", "removed": True}})
    assert read_head(store).declaration(NAME).clustered_by == ()


@pytest.mark.parametrize("gone", [3, 12])
def test_a_gap_is_never_read_over(log: tuple[Path, Store, RawAction, RawAction], gone: int) -> None:
    folder, store, _, after = log
    write(store, 13)
    (folder / "_delta_log" / at(gone, ".json")).unlink()
    if gone == 3:  # protocol is only at 0
        with pytest.raises(LogTruncated):
            read_head(store)
        return
    with pytest.raises(LogTruncated) as caught:
        read_head(store)
    assert caught.value.version == 12
    assert after


def test_damage_is_named(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    write(store, 0, add_file("x"))
    with pytest.raises(LogDamaged, match="no protocol"):
        read_head(store)
    (tmp_path / "_delta_log" / at(0, ".checkpoint.parquet")).write_bytes(b"PAR1 not parquet")
    with pytest.raises(LogDamaged):
        read_head(store)
    parquet_checkpoint(tmp_path, at(0, ".checkpoint.parquet"), [add_file("x")])
    with pytest.raises(LogDamaged, match="lacks protocol"):
        read_head(store)


def test_broken_json_is_damage(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    make_table(store)
    (tmp_path / "_delta_log" / at(1, ".json")).write_text('{"metaData": {')
    with pytest.raises(LogDamaged):
        read_head(store)


def test_catalog_managed_tables_are_refused_at_once(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    _, metadata = raw(flights())
    lists = {"readerFeatures": ["catalogManaged"], "writerFeatures": ["catalogManaged"]}
    write(store, 0, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **lists}}, {"metaData": metadata})
    with pytest.raises(CatalogManagedTable):
        read_head(store)


def test_other_files_in_the_log_do_not_matter(log: tuple[Path, Store, RawAction, RawAction]) -> None:
    folder, store, protocol, after = log
    for name in (".x.json", "00000000000000000099.json.tmp", "99.json", at(99, ".compacted.json"), ".00000000000000000013.json.abc.tmp"):
        (folder / "_delta_log" / name).write_text("{")
    (folder / "_delta_log/_staged_commits").mkdir()
    expect(read_head(store), 12, protocol, after)


def test_names_in_paths_and_statistics_do_not_confuse(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    metadata = make_table(store)
    write(store, 1, add_file('"metaData"', stats={"metaData": {"protocol": 1}}), add_file('{"protocol":'))
    assert read_head(store).metadata == metadata


def test_in_an_object_store(tmp_path: Path) -> None:
    store = open_store(Location.parse(f"memory://{tmp_path.name}-head"), StorageOptions())
    protocol, metadata = raw(flights())
    metadata = {key: value for key, value in metadata.items() if key != "unknownKey"}
    write(store, 0, {"protocol": protocol}, {"metaData": metadata})
    write(store, 1, add_file("x"))
    expect(read_head(store), 1, protocol, metadata)
    (tmp_path / "_delta_log").mkdir()
    parquet_checkpoint(tmp_path, "c.parquet", [{"protocol": protocol}, {"metaData": metadata}])
    store.put("_delta_log/" + at(1, ".checkpoint.parquet"), (tmp_path / "_delta_log/c.parquet").read_bytes())
    store.delete("_delta_log/" + at(0, ".json"))
    expect(read_head(store), 1, protocol, metadata)


def test_a_hundred_thousand_files_cost_next_to_nothing(tmp_path: Path) -> None:
    """Reads two columns of the checkpoint, never the adds."""
    store = table_store(tmp_path)
    protocol, metadata = raw(nested())
    metadata = {key: value for key, value in metadata.items() if key != "unknownKey"}
    write(store, 0, {"protocol": protocol})
    nothing = pa.nulls
    count = 100_000
    adds = pa.array([{"path": f"part-{n:06d}-{'x' * 60}.parquet", "size": n, "stats": '{"numRecords":1}'} for n in range(count)], type=ADD)
    head = pa.Table.from_pylist([_row(protocol=protocol), _row(metaData=_as_maps(metadata))], schema=CHECKPOINT)
    columns = [adds if name == "add" else nothing(count, type=CHECKPOINT.field(name).type) for name in CHECKPOINT.names]
    big = pa.concat_tables([head, pa.Table.from_arrays(columns, schema=CHECKPOINT)])
    pq.write_table(big, tmp_path / "_delta_log" / at(0, ".checkpoint.parquet"))
    best = min(_timed(store) for _ in range(5))
    expect(read_head(store), 0, protocol, metadata)
    assert best < 0.05


def _row(**action: Any) -> dict[str, Any]:
    return {name: action.get(name) for name in CHECKPOINT.names}


def _timed(store: Store) -> float:
    started = time.perf_counter()
    read_head(store)
    return time.perf_counter() - started
