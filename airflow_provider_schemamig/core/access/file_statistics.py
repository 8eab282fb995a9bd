"""What a table's log tells about the rows of one version: did they keep a promise that its schema no longer makes?

Rows that came in while the schema made the promise keep it. So only the files added since are looked at, by their statistics; and where a
type was widened, not those that handles of a release with the type of before wrote, which say so in their commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.access.field_ids import Shape
from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction, json_object
from airflow_provider_schemamig.core.delta.log.commits import commits, nulls_since, unproven_since, values_in
from airflow_provider_schemamig.core.delta.log.head import Head, LogTruncated, read_head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ColumnPath, ShardId
from airflow_provider_schemamig.core.online.unfilled import filled_column
from airflow_provider_schemamig.core.schema.clauses import fills_itself
from airflow_provider_schemamig.core.schema.delta_json import InvalidSchemaJson, UnknownDeltaType
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Primitive, walk
from airflow_provider_schemamig.core.schema.paths import Slot, field_at, path_in_files, slot_at
from airflow_provider_schemamig.core.storage import ReadStore

#: Before a table's first version.
_EVER = -1


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """``read_mapping.Evidence`` for the version of ``head``; costs one small read a commit since the promise was taken back."""

    store: ReadStore
    head: Head
    live: Shape
    state: State
    shard: ShardId

    def no_null(self, path: ColumnPath) -> bool:
        since = self._promised_until(path, lambda slot: not slot.nullable)
        try:
            return nulls_since(self.store, self.head, path, since) is False
        except LogTruncated:  # nobody can tell any more
            return False

    def within(self, path: ColumnPath, narrow: Primitive, limits: tuple[int, int] | None) -> bool:
        def kept(slot: Slot) -> bool:
            return slot.type == narrow or is_widening(slot.type, narrow)

        try:
            since = self._promised_until(path, kept)
            since = self._kept_in_log_until(path, kept) if since == _EVER else since
            proven, fills = self._writers_of(path, kept), _Fills(self.store, path_in_files(path, self.live.stored)[0])
            files = unproven_since(
                self.store, since, self.head.version, lambda commit: fills.leave_it(commit) or _schema_hash(commit) in proven
            )
        except LogTruncated:
            return False
        if not files or limits is None:
            return not files
        found = values_in(files, self.head, path)
        return found is not None and limits[0] <= found[0] and found[1] <= limits[1]

    def _kept_in_log_until(self, path: ColumnPath, kept: Callable[[Slot], bool]) -> int:
        """Return what ``_promised_until`` does, by the table's log: the ledger has no entry for a type that was widened and rolled back
        before its commit. Raises LogTruncated."""
        wanted, ended, keeps = path_in_files(path, self.live.stored), _EVER, False
        for commit in commits(self.store, _EVER, self.head.version):
            if commit.metadata is None:
                continue
            before, keeps = keeps, self._holds(kept, wanted, commit.metadata)
            if before and not keeps:
                ended = commit.version - 1
        return ended

    def _writers_of(self, path: ColumnPath, kept: Callable[[Slot], bool]) -> frozenset[str]:
        """Return the schema hashes of the releases for which ``kept`` is true of the field at ``path``; none if the table fills in a
        default.

        Handles of these releases write only values that fit such a field.
        """
        wanted = path_in_files(path, self.live.stored)
        column = field_at(self.live.fields, path.partition(".")[0])
        if column is None or fills_itself(column):
            return frozenset()
        # Releases that look the same may have had another column by the name: one that wrote wide values there is enough to doubt all.
        found: dict[bool, set[str]] = {True: set(), False: set()}
        for item in self.state.schemas_of(self.shard):
            for slot in _slots(Shape(item.declared, dict(item.stored_names)), wanted):
                found[kept(slot)].add(fingerprint(item.declared))
        return frozenset(found[True] - found[False])

    def _promised_until(self, path: ColumnPath, promised: Callable[[Slot], bool]) -> int:
        """Return the version right before the end of the last schema for which ``promised`` is true of the field at ``path``.

        The commit that ended it may bring rows itself, if it is somebody's. In doubt, the version is too early.
        """
        wanted = path_in_files(path, self.live.stored)
        found = self.state.schemas_of(self.shard)
        for number in range(len(found) - 1, -1, -1):
            shape = Shape(found[number].physical, dict(found[number].stored_names))
            if not any(promised(slot) for slot in _slots(shape, wanted)):
                continue
            if number + 1 < len(found):
                return self._broken_at(path, promised, found[number].since_table_version, found[number + 1].since_table_version)
            # What ended it is not in the ledger yet: an upgrade on its way.
            bases = [intent.base_version for intent in self.state.intents_of(self.shard)]
            return max(min(bases, default=_EVER), found[number].since_table_version)
        return _EVER

    def _broken_at(self, path: ColumnPath, promised: Callable[[Slot], bool], begun: int, ended: int) -> int:
        """Return the version right before the commit that ended a promise.

        The schema of ``begun`` makes the promise, that of ``ended`` does not. The commit is that of ``ended`` if it is ours, else the first
        of somebody's whose changes were accepted then. ``begun`` where the log does not tell.
        """
        try:
            last = read_commit(self.store, ended)
            if last.metadata is not None and last.about is not None:
                return ended - 1
            wanted = path_in_files(path, self.live.stored)
            changed = ((commit.version, commit.metadata) for commit in commits(self.store, begun, ended))
            broken = (at for at, metadata in changed if metadata is not None and not self._holds(promised, wanted, metadata))
            return next((at - 1 for at in broken), ended)
        except LogTruncated:
            return begun

    def _holds(self, promised: Callable[[Slot], bool], wanted: tuple[str, ...], metadata: RawAction) -> bool:
        """Return whether the table's metadata of a commit makes the promise of the field that the data files call ``wanted``; not if it
        has a type that schemamig does not know."""
        there = replace(self.head, metadata=metadata)
        try:
            shape = Shape(there.declaration(self.live.declaration.name), there.stored_names)
        except (InvalidSchemaJson, UnknownDeltaType):
            return False
        return any(map(promised, _slots(shape, wanted)))


class _Fills:
    """Which of our batches leave a column as it is: those that fill another one. ``stored``: what the data files call it."""

    def __init__(self, store: ReadStore, stored: str) -> None:
        self._store = store
        self._stored = stored
        self._names: Mapping[ColumnPath, str] | None = None

    def leave_it(self, commit: LogCommit) -> bool:
        """Return whether that is so of a commit; to be asked of all commits in their order. Raises LogTruncated."""
        if commit.metadata is not None:
            self._names = None
        column = filled_column(commit)
        if column is None:
            return False
        if self._names is None:
            self._names = dict(read_head(self._store, commit.version).stored_names)
        return path_in_files(ColumnPath(column), self._names)[0] != self._stored


def _schema_hash(commit: LogCommit) -> str | None:
    """Return the schema hash of the release that a handle wrote for (``statement.Stamp``); None for everybody else's commit."""
    found = json_object(commit.info.get("userMetadata"))
    return str(found["schema_hash"]) if found is not None and {"schema_hash", "attempt"} <= found.keys() else None


def _slots(shape: Shape, wanted: tuple[str, ...]) -> list[Slot]:
    paths = (path for path in _places(shape.fields) if path_in_files(path, shape.stored) == wanted)
    return [slot for path in paths if (slot := slot_at(shape.fields, path)) is not None]


def _places(fields: tuple[Field, ...]) -> Iterator[str]:
    """Yield the path of every field, and of elements, keys and values in arrays and maps, which are no fields."""
    for path, field in walk(fields):
        yield path
        yield from _inside(path, field.type)


def _inside(path: str, data_type: DataType) -> Iterator[str]:
    match data_type:
        case Array(element=element):
            inner = {"element": element}
        case Map(key=key, value=value):
            inner = {"key": key, "value": value}
        case _:  # the fields of a struct are fields
            inner = {}
    for name, there in inner.items():
        yield f"{path}.{name}"
        yield from _inside(f"{path}.{name}", there)
