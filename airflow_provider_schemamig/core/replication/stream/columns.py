"""The columns of the origin's table, followed through the commits of a stream: which row of the ledger says what an event is.

A row of ``schemas`` holds from its ``since_table_version`` on. That alone does not do in two cases: while an upgrade is under way the table
has columns that no row knows yet, and somebody else may change the table behind our back (drift). Commits of ours are tagged, so the two
are told apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.access.field_ids import Shape, match_fields
from airflow_provider_schemamig.core.access.releases import physical_shape_of, shape_of
from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits, first_metadata_version
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.delta.names import stored_names
from airflow_provider_schemamig.core.ledger.rows import Intent, IntentKind, SchemaEntry, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, CollectionName, ColumnPath, Fingerprint, ShardId
from airflow_provider_schemamig.core.replication.stream.provenance import provenance_of
from airflow_provider_schemamig.core.schema.delta_json import InvalidSchemaJson, UnknownDeltaType, declaration_from_delta
from airflow_provider_schemamig.core.schema.diff.drift import ABSENT, live_differences
from airflow_provider_schemamig.core.schema.diff.drift import Drift as Difference
from airflow_provider_schemamig.core.schema.diff.renames import is_outdated, is_stand_in
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import path_in_files
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.pool import cached_request


@dataclass(frozen=True, slots=True)
class OriginDrift:
    """``version``: the first commit of the origin that no row of its ledger covers."""

    version: int
    differences: tuple[str, ...]

    @property
    def detail(self) -> str:
        return "; ".join(self.differences)


def entry_at(state: State, shard: ShardId, version: int) -> SchemaEntry | None:
    """Return the row of ``schemas`` that is valid at a version of a shard's table; None before the first one."""
    return _valid(state.schemas_of(shard), version)


def _valid(entries: Sequence[SchemaEntry], version: int) -> SchemaEntry | None:
    return next((entry for entry in reversed(entries) if entry.since_table_version <= version), None)


class Columns:
    """The table's columns at each of the commits that ``take`` is given, one after the other."""

    def __init__(self, store: ReadStore, state: State, shard: ShardId, upto: int) -> None:
        self._store = store
        self._shard = shard
        self._upto = upto
        #: The columns when they last were as they should be; None: not looked at yet.
        self._good: Shape | None = None
        #: What somebody made of them, and took back later; None: they are as they should be.
        self._astray: Shape | None = None
        #: What somebody made of them was taken over later, by this row.
        self._accepted: SchemaEntry | None = None
        #: The table's metadata at the last look at it; None: not looked at yet.
        self._table: RawAction | None = None
        #: What the table shows, by the row that is valid: the same for all commits under one metaData.
        self._shown: dict[str, SchemaEntry] = {}
        self._hashes: dict[str, Fingerprint] = {}
        self.renew(state)

    def renew(self, state: State) -> None:
        """Go on with a newer state of the ledger."""
        self._entries = state.schemas_of(self._shard)
        self._shown.clear()
        self._generations = frozenset(state.deployments)
        intents = state.intents_of(self._shard)
        self._in_flight = _in_flight_from(self._store, intents, self._upto)
        #: What the table may be on its way to by the end of a hold: that takes away what no release has any more.
        contracts = [found for found in intents if isinstance(found, TransitionIntent) and found.kind is IntentKind.CONTRACT]
        self._contracted = tuple(Shape(other) for found in contracts for other in found.leads_to)

    def in_flight(self, version: int) -> bool:
        """Return whether an upgrade that has not come to its end had changed the table by ``version``.

        The ledger has no row of that schema yet.
        """
        return self._in_flight is not None and version >= self._in_flight

    def entry(self, version: int) -> SchemaEntry | None:
        if self._accepted is not None and version < self._accepted.since_table_version:
            return self._accepted
        return _valid(self._entries, version)

    def was_rolled_back(self, version: int) -> bool:
        """Return whether the schema of then was taken back: a target that makes the release once more fills its own rows."""
        entry = self.entry(version)
        return entry is not None and entry.rolled_back is not None

    def shown(self, entry: SchemaEntry, version: int) -> SchemaEntry:
        """Return the schema shown by the table at ``version``, where ``entry`` is valid.

        It is the one before until columns of another type take their places, and a later one where an upgrade that was given up had added
        its columns already, which are on the table again.
        """
        found = self._shown.get(entry.key)
        if found is None:
            found = self._shown[entry.key] = self._find_shown(entry, version)
        return found

    def _find_shown(self, entry: SchemaEntry, version: int) -> SchemaEntry:
        before = _valid(self._entries, entry.since_table_version - 1)
        candidate = before is not None and bool(_new_fields(before, entry))
        upto = [found for found in self._entries if found.since_table_version <= version]
        if entry in upto:  # one that began at that very version, and was made when it was the newest, is a later one
            upto = upto[: upto.index(entry) + 1]
        # A field that was declared before, and is on the table all the same, is hidden: for the way back, or after it.
        known = frozenset[tuple[str, ...]]().union(*(_declared_fields(found) for found in upto))
        after = self._entries[len(upto) :]
        later = [(found, new) for found in after if (new := _declared_fields(found) - known)]
        if not (candidate or later):
            return entry
        if self._table is None:
            self._table = read_head(self._store, version).metadata
        there = self._columns_of(self._table)
        if not isinstance(there, Shape):  # of such a table nothing is brought
            return entry
        taken = match_fields(there, shape_of(entry))
        shown = {names for path, names in there.in_files.items() if not path.startswith(RESERVED_PREFIX)}
        if before is not None:
            # Some may come with the cut-over only, and of what was accepted later not one need be there yet (``absent``).
            begun = not candidate or entry.since_table_version > version or not shown.isdisjoint(_new_fields(before, entry))
            if not begun or any(is_stand_in(name) and not is_outdated(name) for name in taken.values()):
                return before
            if entry.since_table_version <= version and _missing(there, entry).intersection(_taken_names(before, entry)):
                return before
        # Of releases that follow each other, the first one that has all that is there: the attempt may have gone over several.
        found, new = max(later, key=lambda item: len(item[1] & shown), default=(entry, frozenset()))
        return found if new & shown else entry

    def absent(self, entry: SchemaEntry) -> frozenset[ColumnPath]:
        """Return the new fields of ``entry`` that the table does not have yet, at the last version looked at.

        Not those of another type that take the places of others: rows have their values there. But what was accepted changes no values.
        """
        before = _valid(self._entries, entry.since_table_version - 1)
        there = "" if self._table is None else self._columns_of(self._table)
        if before is None or not isinstance(there, Shape) or not (new := _new_fields(before, entry)):
            return frozenset()
        wanted = shape_of(entry).in_files
        found = frozenset(path for path in _missing(there, entry) if wanted[path] in new)
        return found if entry is self._accepted else found - _taken_names(before, entry)

    def written_as(self, schema_hash: Fingerprint, version: int) -> SchemaEntry | None:
        """Return the newest schema of this fingerprint that the table had until then."""
        found = (entry for entry in reversed(self._entries) if entry.since_table_version <= version)
        return next((entry for entry in found if self.hash_of(entry) == schema_hash), None)

    def default_changed(self, written: SchemaEntry, entry: SchemaEntry) -> bool:
        """Return whether a column that ``written`` lacks had another DEFAULT before the one of ``entry``: the table gave rows this one."""
        known, defaults = _declared_fields(written), dict[tuple[str, ...], set[str | None]]()
        for found in self._entries:
            if written.since_table_version <= found.since_table_version <= entry.since_table_version:
                names = shape_of(found).stored
                for column in found.declared.fields:
                    defaults.setdefault(path_in_files(column.name, names), set()).add(column.default)
        return any(len(defaults.get(name, ())) > 1 for name in _declared_fields(entry) - known)

    def hash_of(self, entry: SchemaEntry) -> Fingerprint:
        found = self._hashes.get(entry.key)
        if found is None:
            found = self._hashes[entry.key] = fingerprint(entry.declared)
        return found

    def lost(self, version: int) -> OriginDrift | None:
        """Return what keeps a row written at ``version`` from being read; None if nothing does.

        It is columns that were gone, or others, before all was put right again: of changes that were accepted those alone that are back.
        """
        if self._astray is None:
            return None
        assert self._good is not None  # or nobody could have gone astray
        found = [difference for difference in _differences(self._good, self._astray) if difference.expected != ABSENT]
        if self._accepted is not None:
            taken_over = {difference.path for difference in _differences(self._good, physical_shape_of(self._accepted))}
            found = [difference for difference in found if difference.path not in taken_over]
        return OriginDrift(version, tuple(f"{difference}, for a while" for difference in found)) if found else None

    def drift_at(self, head: Head) -> OriginDrift | None:
        """Return how the columns of ``head`` are not those of the row that is valid at its version; None if they are."""
        valid, live = _valid(self._entries, head.version), self._columns_of(head.metadata)
        if isinstance(live, Shape) and any(not _differences(other, replace(live, stored={})) for other in self._contracted):
            return None
        differences = () if valid is None else _told(physical_shape_of(valid), live)
        return OriginDrift(head.version, differences) if differences else None

    def begin(self, after: int) -> OriginDrift | None:
        """Look at the table's columns at ``after``, where a stream stands, and return their drift, if any.

        The stream may stand behind a change of somebody's that was accepted or taken back later, and beyond commits that a restored ledger
        does not know. What a log that was cleaned up does not tell is as it should be.
        """
        valid = _valid(self._entries, after)
        try:
            self._table = read_head(self._store, after).metadata
            if valid is None or self._is(physical_shape_of(valid), self._table):
                return None
            for version in range(after, valid.since_table_version - 1, -1):
                commit = read_commit(self._store, version)
                if commit.metadata is not None and self._is_ours(commit):
                    return None
                if commit.metadata is not None and not self._leaves_columns(commit):
                    return self._take(commit, physical_shape_of(valid))
        except LogTruncated:
            pass
        return None

    def _leaves_columns(self, commit: LogCommit) -> bool:
        """Return whether a commit with metaData left the columns as they were: it changed properties, say."""
        assert commit.metadata is not None
        before = self._columns_of(read_head(self._store, commit.version - 1).metadata) if commit.version else ""
        return isinstance(before, Shape) and self._is(before, commit.metadata)

    def take(self, commit: LogCommit) -> OriginDrift | None:
        """Return the drift of a commit with metaData that was never reverted: no later commit can be brought. Raises LogTruncated."""
        return self._take(commit, self._before(commit.version))

    def _take(self, commit: LogCommit, good: Shape) -> OriginDrift | None:
        assert commit.metadata is not None
        self._table = commit.metadata
        self._shown.clear()
        live = self._columns_of(commit.metadata)
        valid = _valid(self._entries, commit.version)
        known = [good, *([] if valid is None else [physical_shape_of(valid)])]
        ours = self._is_ours(commit) and self._astray is None and self.entry(commit.version) is valid and self._is_known()
        if isinstance(live, Shape) and (ours or any(not _differences(expected, live) for expected in known)):
            self._good, self._astray, self._accepted = live, None, None
            return None
        self._good = good
        later = next((entry for entry in self._entries if entry.since_table_version > commit.version), None)
        if self._is_taken_back(commit.version, good, later) and isinstance(live, Shape):
            self._astray, self._accepted = live, None
            return None
        if later is not None and later.since_table_version <= self._upto:
            self._astray, self._accepted = live if isinstance(live, Shape) else None, later
            return None
        return OriginDrift(commit.version, _told(good, live))

    def _is_ours(self, commit: LogCommit) -> bool:
        """Return whether the ledger knows what a commit was made for: not if it was restored from a backup of before."""
        made = provenance_of(commit)
        return made.action is not None and (not made.generation or made.generation in self._generations)

    @cached_request
    def _head(self) -> RawAction:
        """Return the table's metadata at the newest version."""
        return read_head(self._store, self._upto).metadata

    def _is_known(self) -> bool:
        """Return whether the table has the columns now that the ledger says, or is on its way there: else it is somebody else's work."""
        valid = _valid(self._entries, self._upto)
        return self._in_flight is not None or valid is None or self._is(physical_shape_of(valid), self._head)

    def _before(self, version: int) -> Shape:
        """Return the columns in force before a commit: all before it was as it should be, or the stream would not have come so far."""
        if self._good is not None:
            return self._good
        entry = self.entry(version)
        try:
            found = self._columns_of(read_head(self._store, version - 1).metadata)
        except LogTruncated:  # the log begins with this very commit
            found = ""
        if isinstance(found, Shape):
            return found
        return Shape(Declaration(CollectionName(""), ())) if entry is None else physical_shape_of(entry)

    def _is_taken_back(self, version: int, good: Shape, later: SchemaEntry | None) -> bool:
        """Return whether the table got its good columns back by the ledger's next row, for which all had to be in order.

        Without a next row, whether it has them now.
        """
        if later is None or later.since_table_version > self._upto:
            return self._is(good, self._head)
        following = commits(self._store, version, later.since_table_version)
        return any(self._is(good, commit.metadata) for commit in following if commit.metadata is not None)

    def _is(self, expected: Shape, metadata: RawAction) -> bool:
        found = self._columns_of(metadata)
        return isinstance(found, Shape) and not _differences(expected, found)

    def _columns_of(self, metadata: RawAction) -> Shape | str:
        """Return what the table says of itself; why nobody can tell, if somebody gave it a type that schemamig does not know."""
        try:
            return Shape(declaration_from_delta(CollectionName(""), metadata), stored_names(json.loads(metadata["schemaString"])))
        except (InvalidSchemaJson, UnknownDeltaType) as error:
            return error.message.rstrip(".")


def _differences(expected: Shape, found: Shape) -> tuple[Difference, ...]:
    """Return the differences of columns alone, as properties, CHECKs and partitioning make no row another one.

    A column that was dropped and added again by its name is another one, where columns have names of their own in the files.
    """
    both = {path for path, _ in walk(expected.fields)} & {path for path, _ in walk(found.fields)}
    other = sorted(path for path in both if expected.name_in_files(path) != found.name_in_files(path))
    return (
        *live_differences(_only_columns(expected.declaration), _only_columns(found.declaration)),
        *(Difference(path, "the column of before", "another one of its name") for path in other),
    )


def _told(expected: Shape, found: Shape | str) -> tuple[str, ...]:
    """Return the differences of columns in words. ``found``: or why nobody can tell it."""
    return (found,) if isinstance(found, str) else tuple(map(str, _differences(expected, found)))


def _only_columns(declaration: Declaration) -> Declaration:
    return replace(declaration, partitioned_by=(), checks=(), properties=())


def _in_flight_from(store: ReadStore, intents: Iterable[Intent], upto: int) -> int | None:
    """Return the first commit of what is under way on the table; None if nothing is, or nothing of it is done yet."""
    starts = []
    for intent in intents:
        if isinstance(intent, TransitionIntent) and intent.kind is not IntentKind.CONTRACT and _changes_columns(intent):
            try:
                starts.append(first_metadata_version(store, intent.base_version, upto))
            except LogTruncated:  # under way for longer than the log is kept
                starts.append(intent.base_version + 1)
    return min((start for start in starts if start is not None), default=None)


def _new_fields(before: SchemaEntry, after: SchemaEntry) -> frozenset[tuple[str, ...]]:
    """Return the fields that only ``after`` declares, at any depth, by their names in the data files."""
    return _declared_fields(after) - _declared_fields(before)


def _missing(there: Shape, entry: SchemaEntry) -> frozenset[ColumnPath]:
    """Return the fields of a schema that a table does not have."""
    wanted = shape_of(entry)
    return frozenset(wanted.in_files) - match_fields(there, wanted).keys()


def _taken_names(before: SchemaEntry, after: SchemaEntry) -> frozenset[ColumnPath]:
    """Return the fields of ``before`` that are no field of ``after`` any more: another one there may have the name."""
    kept = _declared_fields(after)
    return frozenset(path for path, names in shape_of(before).in_files.items() if names not in kept)


def _declared_fields(entry: SchemaEntry) -> frozenset[tuple[str, ...]]:
    """Return the columns that it declares and the fields inside of them, at any depth, by their names in the data files."""
    return frozenset(shape_of(entry).in_files.values())


def _changes_columns(intent: TransitionIntent) -> bool:
    return bool(intent.renames) or any(_differences(Shape(intent.before), Shape(other)) for other in intent.leads_to)
