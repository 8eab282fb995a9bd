"""A Delta table that is ours alone (ledger, history), through the same ``Store`` as all else.

Written by hand, because each request counts in an object store: to append takes two (the rows, and the commit by put-if-absent), to see
that nothing is new takes one (the log, listed from the version that is known), to open a log that was checkpointed takes four. It stays a
plain Delta table of protocol (1, 2), which delta-rs and Spark read (tests/unit/ledger/test_second_readers.py). Nothing else writes it: what
a file holds is looked at only if it has the digest that its commit says, since libraries in Rust abort the process over damaged Parquet.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.core.delta.actions import RawAction, encode_actions
from airflow_provider_schemamig.core.delta.errors import LogDamaged, LogTruncated
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.listing import (
    LOG,
    LogFiles,
    checkpoint_key,
    commit_key,
    last_checkpoint,
    list_from,
    list_log,
    list_on,
    read_commit,
)
from airflow_provider_schemamig.core.delta.log.snapshot import read_parquet
from airflow_provider_schemamig.core.ledger.row_files import (
    CHECKPOINT_KINDS,
    Column,
    ForeignColumns,
    decode_checkpoint,
    decode_rows,
    encode_checkpoint,
    encode_rows,
    schema_string,
)
from airflow_provider_schemamig.core.storage import ObjectMissing, open_store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import now_millis

Mode = Literal["append", "overwrite"]

#: Of a data file in its ``add``, of a checkpoint in ``_last_checkpoint``: both have tags for what others need not know.
_DIGEST = "sha256"
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_DAY_MILLIS = 24 * 60 * 60 * 1000
#: How long a file that was replaced stays for slow readers, and a commit for those who look back: Delta's own defaults.
_KEEP_FILES_MILLIS, _KEEP_LOG_MILLIS = 7 * _DAY_MILLIS, 30 * _DAY_MILLIS
#: A data file's name begins with the version that it was written for, so that its age is that of a commit.
_DATA_FILE = re.compile(r"(\d{20})-.+\.parquet")


@dataclass(frozen=True, slots=True)
class _DataFile:
    """``version``: that of the commit which added it, or of the checkpoint that was read first."""

    size: int
    digest: str
    version: int


@dataclass
class _Seen:
    """The table at the newest version that was seen. ``tag``: of its commit (``Store.listing``); None where that is not known."""

    version: int
    tag: str | None = None
    metadata: RawAction = field(default_factory=dict)
    files: dict[str, _DataFile] = field(default_factory=dict)
    #: ``remove`` actions of the last days, which a checkpoint repeats.
    removed: list[RawAction] = field(default_factory=list)

    def take(self, version: int, actions: Mapping[str, Sequence[RawAction]]) -> None:
        if not actions.get("add"):
            raise ValueError("it adds no file, as each commit and checkpoint of this software does")
        for protocol in actions.get("protocol", ()):
            if protocol["minReaderVersion"] != _PROTOCOL["minReaderVersion"]:
                raise ValueError(f"it is of reader version {protocol['minReaderVersion']}, and this software makes it of version 1")
        for metadata in actions.get("metaData", ()):
            self.metadata = _as_json(metadata)
        for remove in actions.get("remove", ()):
            self.files.pop(unquote(remove["path"]), None)
            self.removed.append(remove)
        for add in actions.get("add", ()):
            digest = str(dict(add.get("tags") or {}).get(_DIGEST, ""))
            self.files[unquote(add["path"])] = _DataFile(int(add["size"]), digest, version)
        self.version = version


class OwnTable:
    """Reads raise TableMissing, LogTruncated, LogDamaged or a storage error. One thread uses it at a time."""

    def __init__(self, env: EnvironmentRoot, uri: str, columns: Sequence[Column]) -> None:
        self.env = env
        self.columns = columns
        self.store = open_store(env.table_location(uri), env.options)
        self._seen: _Seen | None = None

    def exists(self) -> bool:
        """Return whether there is any commit or checkpoint; reads no file."""
        return bool(self.store.names(LOG))

    def refresh(self) -> int:
        """Look for what is new, and return the newest version: one request if there is nothing.

        Raises LogDamaged, too, where the commit that was seen last was replaced: it is the log of another table.
        """
        seen = self._seen
        if seen is None or seen.tag is None:
            seen = self._open(list_log(self.store))
        else:
            listed = list_on(self.store, seen.version, seen.tag)
            if listed is None:
                list_log(self.store)  # raises TableMissing where nothing is left
                raise LogDamaged(uri=self.store.location.uri, reason="another one was put in its place")
            self._replay(seen, listed)
        self._seen = seen
        return seen.version

    @property
    def version(self) -> int | None:
        """Return the newest version that was seen; None: nothing was looked at yet."""
        return None if self._seen is None else self._seen.version

    @property
    def tag(self) -> str | None:
        """Return the tag of the commit that made ``version``."""
        return None if self._seen is None else self._seen.tag

    def files(self) -> list[str]:
        """Return the data files at the version that was seen, relative to the table's folder."""
        return list(self._looked_at().files)

    def data_bytes(self) -> int:
        return sum(file.size for file in self._looked_at().files.values())

    def read(self, after: int = -1) -> list[list[Any]]:
        """Return the values of each column at the version that was seen, in no particular order; of files that came ``after`` alone."""
        seen = self._looked_at()
        wrong = self._wrong_columns(seen.metadata)
        if wrong:
            raise LogDamaged(uri=self.store.location.uri, reason=f"it has no column {', '.join(wrong)} as this software makes it")
        files = [(path, file.digest) for path, file in seen.files.items() if file.version > after]
        found: list[list[Any]] = [[] for _ in self.columns]
        for values in self.env.each(self._read_file, files):
            for column, more in zip(found, values, strict=True):
                column.extend(more)
        return found

    def check_file(self, path: str) -> None:
        """Raise LogDamaged unless this data file is what was written."""
        self._read_file((path, self._looked_at().files[path].digest))

    def create(self, rows: Sequence[Sequence[Any]], commit_id: str) -> None:
        """Write version 0. Raises ObjectExists where somebody else did."""
        metadata = {
            "id": commit_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_string(self.columns),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": now_millis(),
        }
        self._put(_Seen(-1), "CREATE TABLE", [{"protocol": _PROTOCOL}, {"metaData": metadata}], rows, commit_id)

    def commit(self, rows: Sequence[Sequence[Any]], commit_id: str, mode: Mode) -> None:
        """Make the version after the one that was seen. Raises ObjectExists where somebody else did.

        After any other exception the outcome is open: ask ``commit_id``.
        """
        seen = self._looked_at()
        now = now_millis()
        gone = [] if mode == "append" else [{"remove": {"path": path, "deletionTimestamp": now, "dataChange": True}} for path in seen.files]
        self._put(seen, "WRITE", gone, rows, commit_id)

    def commit_id(self, version: int) -> str | None:
        """Return the id of the commit that made ``version``; None if there is no such version, "" if it is not one of ours."""
        try:
            commit = read_commit(self.store, version)
        except LogTruncated:
            return None
        with self._damage(f"commit {version}"):
            return str(commit.info.get("userMetadata", ""))

    def checkpoint(self) -> None:
        """Write a checkpoint of the version that was seen. Written twice it is the same."""
        seen = self._looked_at()
        now = now_millis()
        recent = [remove for remove in seen.removed if remove["deletionTimestamp"] > now - _KEEP_FILES_MILLIS]
        adds = [
            {
                "path": path,
                "partitionValues": {},
                "size": file.size,
                "modificationTime": now,
                "dataChange": False,
                "tags": {_DIGEST: file.digest},
            }
            for path, file in seen.files.items()
        ]
        actions: list[Mapping[str, Any]] = [{"protocol": _PROTOCOL}, {"metaData": seen.metadata}]
        actions += [{"add": add} for add in adds] + [{"remove": remove} for remove in recent]
        data = encode_checkpoint(actions)
        self.store.put(checkpoint_key(seen.version), data)
        pointer = {"version": seen.version, "size": len(actions), "tags": {_DIGEST: _digest(data)}}
        self.store.put(f"{LOG}/_last_checkpoint", json.dumps(pointer).encode())

    def last_checkpoint(self) -> int:
        """Return the version of the newest checkpoint, 0 if there is none."""
        return int(last_checkpoint(self.store).get("version", 0))

    def delete_unreferenced(self) -> None:
        """Delete data files that no version of the last week needs, and commits older than 30 days below a checkpoint."""
        now = now_millis()
        files = list_from(self.store, 0)
        old = self._newest_before(files, now - _KEEP_FILES_MILLIS)
        if old is not None:
            needed = {path for path, _ in active_files(self.store, old)}
            for name in self.store.names(""):
                written = _DATA_FILE.fullmatch(name)
                if written is not None and int(written[1]) <= old and name not in needed:
                    self.store.delete(name)
        forgotten = self._newest_before(files, now - _KEEP_LOG_MILLIS)
        base = max((version for version in files.checkpoints if forgotten is not None and version <= forgotten), default=0)
        for version in sorted(version for version in files.commits | files.checkpoints.keys() if version < base):  # oldest first: no gap
            for name in files.checkpoints.get(version, ()):
                self.store.delete(f"{LOG}/{name}")
            if version in files.commits:
                self.store.delete(commit_key(version))

    # --- inside ----------------------------------------------------------------------------------------------------------------------

    def _looked_at(self) -> _Seen:
        if self._seen is None:
            self.refresh()
        assert self._seen is not None
        return self._seen

    def _open(self, listed: LogFiles) -> _Seen:
        seen = _Seen(-1)
        start = max(listed.checkpoints, default=-1)
        for name in listed.checkpoints.get(start, ()):
            with self._damage(name):
                seen.take(start, self._checkpoint(name, listed.hint))
        self._replay(seen, listed)
        return seen

    def _replay(self, seen: _Seen, listed: LogFiles) -> None:
        """Bring ``seen`` to the newest version that is listed."""
        versions = range(seen.version + 1, listed.version + 1)
        for version, data in zip(versions, self.env.each(self._commit_file, versions), strict=True):
            with self._damage(f"commit {version}"):
                actions: dict[str, list[RawAction]] = {}
                for line in filter(bytes.strip, data.splitlines()):
                    for kind, action in json.loads(line).items():
                        actions.setdefault(kind, []).append(action)
                seen.take(version, actions)
        seen.tag = listed.tag

    def _commit_file(self, version: int) -> bytes:
        try:
            return self.store.get(commit_key(version))
        except ObjectMissing:
            raise LogTruncated(uri=self.store.location.uri, version=version) from None

    def _put(self, seen: _Seen, operation: str, actions: Sequence[RawAction], rows: Sequence[Sequence[Any]], commit_id: str) -> None:
        version = seen.version + 1
        path, data, now = f"{version:020}-{commit_id}.parquet", encode_rows(self.columns, rows), now_millis()
        self.store.put(path, data)
        add = {
            "path": path,
            "partitionValues": {},
            "size": len(data),
            "modificationTime": now,
            "dataChange": True,
            "stats": json.dumps({"numRecords": len(rows)}),
            "tags": {_DIGEST: _digest(data)},
        }
        info = {
            "timestamp": now,
            "operation": operation,
            "operationParameters": {"mode": "Append" if not actions else "Overwrite"},
            "engineInfo": f"schemamig/{__version__}",
            "userMetadata": commit_id,
        }
        commit = encode_actions([{"commitInfo": info}, *actions, {"add": add}])
        receipt = self.store.put_if_absent(commit_key(version), commit)
        kinds = {kind for action in actions for kind in action}
        seen.take(version, {"add": [add], **{kind: [action[kind] for action in actions if kind in action] for kind in kinds}})
        seen.tag, self._seen = receipt.tag, seen

    def _read_file(self, file: tuple[str, str]) -> list[list[Any]]:
        path, digest = file
        with self._damage(path):
            data = self.store.get(path)
            if _digest(data) != digest:
                raise ValueError("it is not what was written")
            return decode_rows(self.columns, data)

    def _checkpoint(self, name: str, hint: Mapping[str, Any]) -> Mapping[str, Sequence[RawAction]]:
        data = self.store.get(f"{LOG}/{name}")
        tags = hint.get("tags")  # of whatever form: it is only a hint
        if isinstance(tags, dict) and tags.get(_DIGEST) == _digest(data):
            return decode_checkpoint(data)
        # What points to the checkpoint was lost, as in a ledger that was brought back: pyarrow takes time, and bears what is damaged.
        table = read_parquet(self.store, name, CHECKPOINT_KINDS)
        return {kind: [action for action in table.column(kind).to_pylist() if action is not None] for kind in table.column_names}

    def _wrong_columns(self, metadata: RawAction) -> list[str]:
        with self._damage("its metaData"):
            fields = json.loads(metadata["schemaString"])["fields"]
            found = {column["name"]: (column["type"], column["nullable"]) for column in fields}
            return [column.name for column in self.columns if found.get(column.name) != (column.type, column.nullable)]

    def _newest_before(self, files: LogFiles, millis: int) -> int | None:
        """Return the newest version that was committed before a time; None if there is none whose commit is left."""
        versions = sorted(files.commits)
        low, high = 0, len(versions)
        while low < high:
            middle = (low + high) // 2
            if (read_commit(self.store, versions[middle]).milliseconds or 0) < millis:
                low = middle + 1
            else:
                high = middle
        return versions[low - 1] if low else None

    @contextmanager
    def _damage(self, what: str) -> Iterator[None]:
        """Raise LogDamaged for whatever is wrong inside a file: its text may be anything."""
        try:
            yield
        except ForeignColumns as error:
            raise LogDamaged(uri=self.store.location.uri, reason=str(error)) from None
        except (ObjectMissing, ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError, RuntimeError) as error:
            raise LogDamaged(uri=self.store.location.uri, reason=f"{what}: {self.env.first_line(error)}") from None


def _as_json(metadata: RawAction) -> RawAction:
    """Return a ``metaData`` as a commit has it: a checkpoint's maps are lists of pairs."""
    layout = dict(metadata["format"])
    layout["options"] = dict(layout.get("options") or {})
    return {**metadata, "format": layout, "configuration": dict(metadata.get("configuration") or {})}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
