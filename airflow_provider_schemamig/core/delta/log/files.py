"""A table's data files: those of a version, and what two versions differ in (the tail without change data).

The difference of files needs neither a change data feed nor a key: the rows of the files added minus the rows of the files removed are
exactly the net change. What only rearranged rows (``dataChange`` false: OPTIMIZE) is left out of it, so
that its cost follows what changed and not what was compacted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote

from airflow_provider_schemamig.core.delta.action_forms import is_vector
from airflow_provider_schemamig.core.delta.actions import FileId, LogCommit, RawAction, file_id, json_object, size_bytes
from airflow_provider_schemamig.core.delta.errors import LogDamaged, LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.log.listing import list_log
from airflow_provider_schemamig.core.delta.log.snapshot import damage, read_batches, read_json
from airflow_provider_schemamig.core.delta.properties import is_on
from airflow_provider_schemamig.core.schema.delta_rules.table_features import CHANGE_DATA_FEED
from airflow_provider_schemamig.core.storage import ReadStore

T = TypeVar("T")

#: What it takes to read a file.
_READ = ("path", "partitionValues", "size", "modificationTime", "dataChange", "deletionVector", "clusteringProvider")
_SIDECARS = "_sidecars"
_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"
#: As all writers have it: the first of the statistics. Behind others it could be a column's that is called so, too.
_NUM_RECORDS = re.compile(r'\s*\{\s*"numRecords"\s*:\s*(\d+)\s*[,}]')
#: What decoding raises over actions of another form than Delta's.
_ODD = (KeyError, TypeError, AttributeError, NotImplementedError, OverflowError)


@dataclass(frozen=True, slots=True)
class FileDifference:
    """``add`` actions whose rows, ``added`` minus ``removed``, are the net change between two versions, each sorted by path.

    ``changed``: whether any commit between them changed rows at all; without it there is nothing to tail. ``change_data_is_reliable``:
    whether the change data that these commits wrote, if any, can be relied on.
    """

    added: tuple[RawAction, ...]
    removed: tuple[RawAction, ...]
    changed: bool
    change_data_is_reliable: bool

    @property
    def wants_change_data(self) -> bool:
        """Return whether to read change data for it, if there is any. Files that only came are read as they are: nothing is cheaper."""
        return bool(self.removed) and self.change_data_is_reliable


def active_files(store: ReadStore, version: int, *, statistics: bool = False) -> Mapping[FileId, RawAction]:
    """Return the ``add`` actions of the table at a version; out of a checkpoint come of the statistics ``numRecords`` alone, but with
    ``statistics`` all that it has as JSON.

    Raises TableMissing, LogTruncated (the version's history is gone), LogDamaged.
    """
    files = list_log(store, version)
    start = max(files.checkpoints, default=-1)
    found = {} if start < 0 else {file_id(add): add for add in _checkpoint_files(store, files.checkpoints[start], statistics)}
    for commit in commits(store, start, version):
        for removed in commit.removes:
            found.pop(file_id(removed), None)
        for added in commit.adds:
            found[file_id(added)] = added
    return found


def has_files_of(store: ReadStore, version: int) -> bool:
    """Return whether the table has the files of ``version`` again, or still; False also where that version's history is gone."""
    try:
        return active_files(store, version).keys() == active_files(store, list_log(store).version).keys()
    except LogTruncated:
        return False


def absolute_paths(store: ReadStore, version: int) -> frozenset[str]:
    """Return the paths of a table's files that lie in other tables' folders, as a SHALLOW CLONE has them. Raises as ``active_files``.

    Of a checkpoint come these paths alone: all files of a table with a million take a gibibyte.
    """
    files = list_log(store, version)
    start = max(files.checkpoints, default=-1)
    found = set() if start < 0 else set(_absolute_in_checkpoint(store, files.checkpoints[start]))
    for commit in commits(store, start, version):
        found -= {str(removed["path"]) for removed in commit.removes}
        found |= {path for added in commit.adds if re.match(_ABSOLUTE, path := str(added["path"]))}
    return frozenset(found)


def file_difference(store: ReadStore, lo: int, hi: int) -> FileDifference:
    """Return what the commits ``lo + 1`` .. ``hi`` changed, from these commits alone wherever they tell.

    Raises as ``active_files`` does.
    """
    replay = _Replay()
    for commit in commits(store, lo, hi):
        replay.take(commit)
    if not replay.plain:
        before, after = active_files(store, lo), active_files(store, hi)
        added = [after[file] for file in after.keys() - before.keys()]
        removed = [before[file] for file in before.keys() - after.keys()]
        return FileDifference(_by_path(added), _by_path(removed), replay.changed, replay.change_data_is_reliable)
    removed = list(_complete(store, lo, replay))
    return FileDifference(_by_path(replay.added.values()), _by_path(removed), replay.changed, replay.change_data_is_reliable)


def batches(files: Iterable[RawAction], max_files: int, max_bytes: int) -> list[tuple[RawAction, ...]]:
    """Return the files by path, cut where a batch would exceed a limit; a file larger than ``max_bytes`` is a batch of its own."""
    return cut(_by_path(files), max_files, max_bytes)


def cut(files: Iterable[RawAction], max_files: int, max_bytes: int) -> list[tuple[RawAction, ...]]:
    """Cut files as ``batches`` does, but in the order they are given in."""
    found: list[tuple[RawAction, ...]] = []
    batch: list[RawAction] = []
    size = 0
    for file in files:
        if batch and (len(batch) == max_files or size + size_bytes(file) > max_bytes):
            found.append(tuple(batch))
            batch, size = [], 0
        batch.append(file)
        size += size_bytes(file)
    return [*found, tuple(batch)] if batch else found


def has_cdf(store: ReadStore, lo: int, hi: int) -> bool:
    """Return whether the change data feed was on for all of ``lo + 1`` .. ``hi``; the first of them may be the one that switches it on.

    Raises as ``read_head`` does.
    """
    if lo >= hi:
        return True
    first = read_head(store, lo + 1).metadata
    later = (commit.metadata for commit in commits(store, lo + 1, hi))
    return all(records_changes(metadata) for metadata in (first, *later) if metadata is not None)


def records_changes(metadata: RawAction) -> bool:
    """Return whether the change data feed is on under this metaData."""
    return is_on(metadata, CHANGE_DATA_FEED)


# --- replaying commits ---------------------------------------------------------------------------------------------------------------


@dataclass
class _Replay:
    """Files as they come and go, commit by commit. ``plain`` False: a file would have to count twice, so the commits alone do not tell."""

    added: dict[FileId, RawAction] = field(default_factory=dict)
    removed: dict[FileId, RawAction] = field(default_factory=dict)
    seen: dict[FileId, RawAction] = field(default_factory=dict)
    changed: bool = False
    plain: bool = True
    change_data_is_reliable: bool = True

    def take(self, commit: LogCommit) -> None:
        self.change_data_is_reliable = self.change_data_is_reliable and not _may_be_wrong(commit)
        adds = {file_id(add): add for add in commit.adds}
        removes = {file_id(remove): remove for remove in commit.removes}
        self.seen.update(adds)
        moved_out = [file for file, remove in removes.items() if not _changes_rows(remove)]
        # Compacted were files of these commits only: the new ones stand for them. Otherwise the old ones go on standing for the new.
        if moved_out and all(file in self.added for file in moved_out):
            for file in moved_out:
                del self.added[file]
            self._add({file: add for file, add in adds.items() if not _changes_rows(add)})
        self._remove({file: remove for file, remove in removes.items() if _changes_rows(remove)})
        self._add({file: add for file, add in adds.items() if _changes_rows(add)})
        self.changed = self.changed or any(map(_changes_rows, (*removes.values(), *adds.values())))

    def _add(self, files: Mapping[FileId, RawAction]) -> None:
        self._put(files, self.added, self.removed)

    def _remove(self, files: Mapping[FileId, RawAction]) -> None:
        self._put(files, self.removed, self.added)

    def _put(self, files: Mapping[FileId, RawAction], to: dict[FileId, RawAction], other: dict[FileId, RawAction]) -> None:
        for file, action in files.items():
            if other.pop(file, None) is None:
                self.plain = self.plain and file not in to
                to[file] = action


def _may_be_wrong(commit: LogCommit) -> bool:
    """Return whether it wrote change data as delta-rs does.

    Up to 1.6 that may lack rows, or have other values: it lacks a row that an UPDATE makes equal to another one of the table, and has for a
    NaN what the file's statistics say of its other values, if the predicate names the column.
    """
    return str(commit.info.get("engineInfo", "")).startswith("delta-rs") and bool(commit.actions("cdc"))


def _changes_rows(action: RawAction) -> bool:
    return bool(action.get("dataChange", True))


def _complete(store: ReadStore, lo: int, replay: _Replay) -> Iterator[RawAction]:
    """Yield the removed files as ``add`` actions. A ``remove`` may lack what it takes to read the file; the ``add`` before it has it."""
    before: Mapping[FileId, RawAction] | None = None
    for file, remove in replay.removed.items():
        if file in replay.seen:
            yield replay.seen[file]
        elif remove.get("partitionValues") is not None and remove.get("size") is not None:
            yield {"modificationTime": 0, **{key: remove[key] for key in _READ if remove.get(key) is not None}}
        else:
            before = active_files(store, lo) if before is None else before
            if file not in before:
                raise LogDamaged(uri=store.location.uri, reason=f"{file[0]} is removed after version {lo}, and was not there")
            yield before[file]


def _by_path(files: Iterable[RawAction]) -> tuple[RawAction, ...]:
    return tuple(sorted(files, key=file_id))


# --- checkpoints ---------------------------------------------------------------------------------------------------------------------


def _checkpoint_files(store: ReadStore, names: Sequence[str], statistics: bool) -> Iterator[RawAction]:
    """Yield the ``add`` actions of one checkpoint."""

    def read(name: str, sidecars: list[str]) -> Iterable[RawAction]:
        return _json_files(store, name, sidecars) if name.endswith(".json") else _parquet_files(store, name, statistics, sidecars)

    return _with_sidecars(names, read)


def _absolute_in_checkpoint(store: ReadStore, names: Sequence[str]) -> Iterator[str]:
    """Yield the absolute paths of one checkpoint's ``add`` actions."""

    def read(name: str, sidecars: list[str]) -> Iterable[str]:
        if name.endswith(".json"):
            return (path for add in _json_files(store, name, sidecars) if re.match(_ABSOLUTE, path := add["path"]))
        return _absolute_in_parquet(store, name, sidecars)

    return _with_sidecars(names, read)


def _with_sidecars(names: Sequence[str], read: Callable[[str, list[str]], Iterable[T]]) -> Iterator[T]:
    """Yield what ``read`` finds in the files of a checkpoint. Those of a V2 one lie in its sidecars, whose paths it adds to its list."""
    for name in names:
        sidecars: list[str] = []
        yield from read(name, sidecars)
        for sidecar in sidecars:
            yield from read(_sidecar(sidecar), [])


def _absolute_in_parquet(store: ReadStore, name: str, sidecars: list[str]) -> Iterator[str]:
    """Yield the absolute paths of a file's ``add`` actions; add those of its sidecars to ``sidecars``."""
    import pyarrow.compute as compute

    for batch in read_batches(store, name, ["sidecar.path", "add.path"]):
        found: list[str] = []
        with damage(store, name, *_ODD):
            if "add" in batch.schema.names:
                paths = _paths(batch["add"].drop_null())
                found = paths.filter(compute.match_substring_regex(paths, _ABSOLUTE)).to_pylist()
            if "sidecar" in batch.schema.names:
                sidecars += _paths(batch["sidecar"].drop_null()).to_pylist()
        yield from found


def _sidecar(path: str) -> str:
    return f"{_SIDECARS}/{unquote(path).rpartition('/')[2]}"


def _json_files(store: ReadStore, name: str, sidecars: list[str]) -> Sequence[RawAction]:
    """Return the ``add`` actions of a file; add the paths of its sidecars to ``sidecars``."""
    commit = read_json(store, name)
    sidecars += [sidecar["path"] for sidecar in commit.actions("sidecar")]
    return commit.adds


def _parquet_files(store: ReadStore, name: str, statistics: bool, sidecars: list[str]) -> Iterator[RawAction]:
    """Yield the same of a Parquet file."""
    columns = ["sidecar.path", *(f"add.{key}" for key in _READ), "add.stats", "add.stats_parsed.numRecords"]
    for batch in read_batches(store, name, columns):
        found: list[RawAction] = []
        with damage(store, name, *_ODD):
            if "add" in batch.schema.names:
                adds = batch["add"].drop_null()
                _paths(adds)
                keys = [field.name for field in adds.type]
                _check_sizes(adds)
                values = (adds.field(key).to_pylist(maps_as_pydicts="strict") for key in keys)  # by row it takes twice the time
                found = [_action(dict(zip(keys, add, strict=True)), statistics) for add in zip(*values, strict=True)]
            if "sidecar" in batch.schema.names:
                sidecars += _paths(batch["sidecar"].drop_null()).to_pylist()
        yield from found


def _check_sizes(adds: Any) -> None:
    """Raise ValueError for sizes that are no whole numbers."""
    import pyarrow.types as types

    at = adds.type.get_field_index("size")
    if at >= 0 and not types.is_integer(adds.type.field(at).type):
        raise ValueError(f"its sizes are no whole numbers but {adds.type.field(at).type}")


def _paths(actions: Any) -> Any:
    """Return the paths of a column of actions without nulls. Raises KeyError, ValueError where one has none."""
    import pyarrow.types as types

    paths = actions.field("path")
    if not (types.is_string(paths.type) or types.is_large_string(paths.type) or types.is_string_view(paths.type)):
        raise ValueError(f"its paths are no text but {paths.type}")
    if paths.null_count:
        raise ValueError("a file of it has no path")
    return paths


def _action(add: Mapping[str, Any], statistics: bool) -> RawAction:
    """Return an ``add`` action as JSON has it: what is null is left out, but for partition values."""
    action = {key: add[key] for key in _READ if add.get(key) is not None}
    vector = action.pop("deletionVector", None)
    if vector:
        found = {key: value for key, value in vector.items() if value is not None}
        if found and not is_vector(found):
            raise ValueError(f"the deletion vector of {add['path']} is not complete")
        action["deletionVector"] = found
    if statistics and add.get("stats"):
        return {**action, "stats": add["stats"]}
    rows = _rows(add)
    return action if rows is None else {**action, "stats": f'{{"numRecords":{rows}}}'}


def _rows(add: Mapping[str, Any]) -> int | None:
    """Return a file's number of rows. No other statistics are kept: they are most of a checkpoint's bytes."""
    parsed = (add.get("stats_parsed") or {}).get("numRecords")
    text = add.get("stats")
    if isinstance(parsed, int) or not text:
        return parsed if isinstance(parsed, int) else None
    found = _NUM_RECORDS.match(text)
    return _top_level_rows(text) if found is None else int(found[1])


def _top_level_rows(text: str) -> int | None:
    found = json_object(text) if "numRecords" in text else None
    rows = found.get("numRecords") if found is not None else None
    return rows if type(rows) is int else None
