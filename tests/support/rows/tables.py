"""Rows in Delta tables without Spark: read by the log, and written by statements that meet each other as Delta's do.

A statement reads one version and commits on top of it. What was committed in between makes it fail where Delta's WriteSerializable would:
the same transaction id, other metadata, and for a statement that removes files any other commit that touched rows.
"""

from __future__ import annotations

import functools
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_schemamig.core.delta.names import physical_name
from airflow_provider_schemamig.core.spark.errors import (
    ConcurrentTransaction,
    ConcurrentWrite,
    ConstraintViolated,
    InputMissing,
    SourceVacuumed,
    TableMetadataChanged,
)
from tests.support.rows.nested_values import arrow_type, logical, missing, null_counts, stored

Row = dict[str, Any]
Action = dict[str, Any]

_SEAL = "delta.constraints.schemamig_moved_to_"


@dataclass(frozen=True)
class Snapshot:
    """A table at one version. ``files``: the ``add`` actions by path as the log has it; ``txns``: the highest version by app id."""

    path: Path
    version: int
    metadata: Mapping[str, Any]
    files: Mapping[str, Action]
    txns: Mapping[str, int]

    @property
    def fields(self) -> Sequence[Mapping[str, Any]]:
        fields: list[Mapping[str, Any]] = json.loads(self.metadata["schemaString"])["fields"]
        return fields

    @property
    def sealed(self) -> bool:
        return any(key.startswith(_SEAL) for key in self.metadata["configuration"])

    @property
    def rows(self) -> list[Row]:
        return [row for file in self.files for row in self.rows_of(file)]

    def rows_of(self, file: str) -> list[Row]:
        """Raises SourceVacuumed if the file is gone. A column that the file lacks is NULL."""
        name = unquote(urlparse(file).path) if file.startswith("file:") else unquote(file)
        try:
            found = _stored(str(self.path / name))
        except FileNotFoundError:
            raise SourceVacuumed(condition="DELTA_FILE_NOT_FOUND", detail=f"{name} is gone") from None
        return [{field["name"]: logical(row.get(physical_name(field)), field["type"]) for field in self.fields} for row in found]


@functools.lru_cache(maxsize=4096)
def _read(path: str, stamp: int) -> list[Row]:
    rows: list[Row] = pq.ParquetFile(path).read().to_pylist()
    return rows


def _stored(path: str) -> list[Row]:
    return _read(path, Path(path).stat().st_mtime_ns)


def folder_of(uri: str) -> Path:
    return Path(urlparse(uri).path)


def commit_path(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020}.json"


def commit_at(path: Path, version: int) -> list[Action]:
    return [json.loads(line) for line in commit_path(path, version).read_text().splitlines()]


def newest(path: Path) -> int:
    versions = [int(entry.stem) for entry in (path / "_delta_log").glob("*.json")]
    if not versions:
        raise InputMissing(condition="DELTA_TABLE_NOT_FOUND", detail=f"{path} is not a Delta table")
    return max(versions)


def snapshot(path: Path, version: int | None = None) -> Snapshot:
    """The newest one by default. Raises InputMissing, SourceVacuumed (the version's log is gone)."""
    version = newest(path) if version is None else version
    metadata: dict[str, Any] = {}
    files: dict[str, Action] = {}
    txns: dict[str, int] = {}
    for action in _actions_of(path, version):
        if "metaData" in action:
            metadata = action["metaData"]
        elif "add" in action:
            files[action["add"]["path"]] = action["add"]
        elif "remove" in action:
            files.pop(action["remove"]["path"], None)
        elif "txn" in action:
            txns[action["txn"]["appId"]] = max(action["txn"]["version"], txns.get(action["txn"]["appId"], 0))
    return Snapshot(path, version, metadata, files, txns)


def _actions_of(path: Path, version: int) -> Iterator[Action]:
    """From the first commit on; from a checkpoint on where that was cleaned up."""
    names = (path / "_delta_log").glob("*.checkpoint.parquet")
    checkpoints = [number for name in names if (number := int(name.name.partition(".")[0])) <= version]
    start = -1 if commit_path(path, 0).exists() else max(checkpoints, default=-1)
    if start >= 0:
        for row in pq.ParquetFile(path / "_delta_log" / f"{start:020}.checkpoint.parquet").read().to_pylist(maps_as_pydicts="strict"):
            yield {name: value for name, value in row.items() if value is not None and name != "remove"}
    for number in range(start + 1, version + 1):
        try:
            yield from commit_at(path, number)
        except FileNotFoundError:
            raise SourceVacuumed(condition="DELTA_VERSIONS_NOT_CONTIGUOUS", detail=f"{path} has no version {number}") from None


def clustered_by(path: Path) -> list[str]:
    """The clustering columns of the newest version; nested ones are not told apart."""
    found: Sequence[Sequence[str]] = ()
    for number in range(newest(path) + 1):
        for action in commit_at(path, number):
            if action.get("domainMetadata", {}).get("domain") == "delta.clustering":
                found = json.loads(action["domainMetadata"]["configuration"])["clusteringColumns"]
    logical = {physical_name(field): field["name"] for field in snapshot(path).fields}
    return [logical[column[0]] for column in found]


def data_file(path: Path, fields: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> Action:
    """A new file with these rows, as an ``add`` action. Raises ConstraintViolated for a NULL where none may be."""
    for field in fields:
        for name in missing(field, [row[field["name"]] for row in rows]):
            raise ConstraintViolated(condition="DELTA_NOT_NULL_CONSTRAINT_VIOLATED", detail=f"NULL in {name}")
    if not path.exists():
        raise InputMissing(condition="PATH_NOT_FOUND", detail=f"{path} is gone")
    columns = {
        physical_name(field): pa.array([stored(row[field["name"]], field["type"]) for row in rows], arrow_type(field["type"]))
        for field in fields
    }
    name = f"part-{uuid.uuid4()}.parquet"
    pq.write_table(pa.table(columns), path / name)
    counts = {physical_name(field): null_counts([row[field["name"]] for row in rows], field["type"]) for field in fields}
    stats = {"numRecords": len(rows), "nullCount": counts}
    size = (path / name).stat().st_size
    return {"path": name, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True, "stats": json.dumps(stats)}


@dataclass(frozen=True)
class Statement:
    """A statement that has read ``base`` and is about to commit: rows to insert, files to replace by what is left of them."""

    base: Snapshot
    inserted: Sequence[Row] = ()
    #: Files that go, each with the rows of it that stay.
    rewritten: Mapping[str, Sequence[Row]] | None = None
    #: (app id, version)
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    #: None: MERGE where files are replaced, else WRITE.
    operation: str | None = None

    def commit(self) -> int:
        """The version. Raises ConcurrentWrite and its kinds, ConstraintViolated."""
        base = self.base
        if base.sealed:
            raise ConstraintViolated(condition="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", detail=f"{base.path} is sealed")
        kept = [row for rows in (self.rewritten or {}).values() for row in rows]
        removes = [{"path": file, "dataChange": True, "deletionTimestamp": 1} for file in self.rewritten or {}]
        adds = [data_file(base.path, base.fields, rows) for rows in (kept, self.inserted) if rows]
        info: Action = {
            "timestamp": time.time_ns() // 1_000_000,
            "operation": self.operation or ("MERGE" if removes else "WRITE"),
            "operationMetrics": {"numOutputRows": str(len(kept) + len(self.inserted))},
            **({"userMetadata": self.user_metadata} if self.user_metadata is not None else {}),
        }
        actions: list[Action] = [{"commitInfo": info}]
        if self.txn is not None:
            actions.append({"txn": {"appId": self.txn[0], "version": self.txn[1]}})
        return put(base.path, base.version, [*actions, *({"remove": r} for r in removes), *({"add": a} for a in adds)], self._judge)

    def _judge(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if self.txn is not None and action.get("txn", {}).get("appId") == self.txn[0]:
                raise ConcurrentTransaction(condition="DELTA_CONCURRENT_TRANSACTION", detail=self.txn[0])
            if "metaData" in action or "protocol" in action:
                raise TableMetadataChanged(condition="DELTA_METADATA_CHANGED", detail=str(self.base.path))
            if self.rewritten and ("add" in action or "remove" in action):
                raise ConcurrentWrite(condition="DELTA_CONCURRENT_APPEND", detail=str(self.base.path))


def put(path: Path, base: int, actions: Sequence[Action], judge: Callable[[Sequence[Action]], None] = lambda actions: None) -> int:
    """Commit at the first free version above ``base``; ``judge`` raises if a commit that came in between forbids it."""
    version = base
    while True:
        version += 1
        target = path / "_delta_log" / f"{version:020}.json"
        if target.exists():
            judge(commit_at(path, version))
            continue
        target.write_text("".join(json.dumps(action) + "\n" for action in actions))
        return version


# --- foreign writers -----------------------------------------------------------------------------------------------------------------


def insert(path: Path, rows: Sequence[Row]) -> int:
    """INSERT INTO by somebody else. Raises ConstraintViolated on a sealed table."""
    base = snapshot(path)
    return Statement(base, [{field["name"]: row.get(field["name"]) for field in base.fields} for row in rows]).commit()


def change(path: Path, of: Callable[[Row], Row | None], *, inserted: Sequence[Row] = (), operation: str | None = None) -> int:
    """UPDATE, DELETE and (with rows that are ``inserted``) MERGE by somebody else: each row becomes ``of(row)`` or (None) goes, in files
    that hold such rows. ``operation``: what the commit says that it is; None: MERGE."""
    base = snapshot(path)
    rewritten = {}
    for file in base.files:
        before = base.rows_of(file)
        after = [row for row in map(of, map(dict, before)) if row is not None]
        if after != before:
            rewritten[file] = after
    new = [{field["name"]: row.get(field["name"]) for field in base.fields} for row in inserted]
    return Statement(base, new, rewritten, operation=operation).commit()


def optimize(path: Path, user_metadata: str | None = None, *, key: Callable[[Row], Any] = repr, **more: Any) -> int:
    """OPTIMIZE: all rows in one file, in the order of ``key``. ``more``: of the file's action."""
    base = snapshot(path)
    rows = sorted(base.rows, key=key)
    added = [{**data_file(path, base.fields, rows), "dataChange": False, **more}] if rows else []
    removes = [{"path": file, "dataChange": False, "deletionTimestamp": 1} for file in base.files]
    info = {
        "timestamp": time.time_ns() // 1_000_000,
        "operation": "OPTIMIZE",
        **({"userMetadata": user_metadata} if user_metadata is not None else {}),
    }
    return put(path, base.version, [{"commitInfo": info}, *({"remove": file} for file in removes), *({"add": file} for file in added)])


def restore(path: Path, version: int) -> int:
    """RESTORE TABLE TO VERSION: files and metadata of then, whatever constraint there is now; the protocol stays."""
    now, then = snapshot(path), snapshot(path, version)
    removes = [{"remove": {"path": file, "dataChange": True}} for file in now.files if file not in then.files]
    adds = [{"add": {**add, "dataChange": True}} for file, add in then.files.items() if file not in now.files]
    info = {"timestamp": time.time_ns() // 1_000_000, "operation": "RESTORE"}
    return put(path, now.version, [{"commitInfo": info}, {"metaData": then.metadata}, *removes, *adds])


def alter(path: Path, **metadata: Any) -> int:
    """Somebody changes the table's metadata."""
    now = snapshot(path)
    return put(path, now.version, [{"commitInfo": {"operation": "ALTER"}}, {"metaData": {**now.metadata, **metadata}}])


def set_property(path: Path, key: str, value: str | None) -> int:
    """None: it is unset."""
    after = {**snapshot(path).metadata["configuration"], key: value}
    return alter(path, configuration={key: value for key, value in after.items() if value is not None})


def enable_change_data(path: Path) -> int:
    """As ALTER TABLE SET TBLPROPERTIES does, with the table feature that it needs."""
    now = snapshot(path)
    (protocol,) = [action["protocol"] for number in range(now.version + 1) for action in commit_at(path, number) if "protocol" in action]
    if protocol["minWriterVersion"] >= 7:
        protocol = {**protocol, "writerFeatures": sorted({*protocol["writerFeatures"], "changeDataFeed"})}
    else:
        protocol = {**protocol, "minWriterVersion": max(protocol["minWriterVersion"], 4)}
    metadata = {**now.metadata, "configuration": {**now.metadata["configuration"], "delta.enableChangeDataFeed": "true"}}
    return put(path, now.version, [{"commitInfo": {"operation": "ALTER"}}, {"protocol": protocol}, {"metaData": metadata}])


def add_column(path: Path, name: str) -> int:
    field = {"name": name, "type": "string", "nullable": True, "metadata": {}}
    return alter(path, schemaString=json.dumps({"type": "struct", "fields": [*snapshot(path).fields, field]}))


def vacuum(path: Path) -> None:
    """Every file that the newest version does not have."""
    kept = {unquote(file) for file in snapshot(path).files}
    for file in path.glob("*.parquet"):
        if file.name not in kept:
            file.unlink()


def as_set(rows: Iterable[Row]) -> list[str]:
    """Rows that can be compared, duplicates and NULLs included."""
    return sorted(map(repr, (sorted(row.items()) for row in rows)))
