"""The checks that the keys in force ask of one write, in its very statement or at the very version of its commit.

A statement that reads the table to look for keys conflicts with everyone who adds rows meanwhile; Delta then lets one of two writers of
the same key through, and the other finds the key when it tries again. So no condition may keep the
statement from reading a part of the table in which the key could be: the only one it has is that the keys are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.access.errors import RowsReferredTo
from airflow_provider_schemamig.core.access.read_mapping import Unfit
from airflow_provider_schemamig.core.access.resolved_table import PinnedTable
from airflow_provider_schemamig.core.access.write_mapping import Mode, WriteFit
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.online.keys import Keys, Reference, Unique, keys_in_force, live_names
from airflow_provider_schemamig.core.schema.clauses import clauses_of, readers_of
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


@dataclass(frozen=True, slots=True)
class UniqueCheck:
    """No key twice among the rows written nor, if ``in_table``, in another row of the table; the updated row (equal in ``same``) does not
    count. A merge that changes the key (``changes``) may update one row only, or all would get the same key.
    """

    rule: str
    columns: tuple[str, ...]
    in_table: bool
    same: tuple[str, ...] = ()
    changes: bool = False


@dataclass(frozen=True, slots=True)
class ReferencedRows:
    """What the rows refer to is there: in ``to`` of another table at ``head``, or (``head`` None) of this one with the rows written.

    ``in_table``: whether rows that this table has now are still there afterwards. ``in_rows``: whether the rows written have ``to``.
    """

    rule: str
    columns: tuple[str, ...]
    head: Head | None
    to: tuple[str, ...]
    in_table: bool = True
    in_rows: bool = False
    #: The other table's.
    store: ReadStore | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SingleMatchCheck:
    """No two rows of a merge are equal in what it is on (``columns``; NULL equals NULL): it could not say which one is written."""

    columns: tuple[str, ...]


KeyCheck = UniqueCheck | ReferencedRows
Check = KeyCheck | SingleMatchCheck


def checks_of(env: EnvironmentRoot, place: PinnedTable, fit: WriteFit, mode: Mode, on: Sequence[str]) -> tuple[Check, ...]:
    """Return what has to be looked at for a write of ``fit.columns``; of a collection without keys only in a merge. ``on``: of a merge.

    Raises Unfit where that cannot be known before the statement runs, RowsReferredTo, and TableMissing for what is referred to.
    """
    name = place.shard.collection
    _check_not_referred_to(place, frozenset(fit.columns), mode, frozenset(on))
    keys = keys_in_force(place.state, name)
    alone = (SingleMatchCheck(tuple(on)),) if mode is Mode.MERGE else ()
    if not keys:
        return alone
    asked = _Asked(env, place, frozenset(fit.columns), mode, tuple(on))
    return (*asked.checks(keys, live_names(place.state, name, place.head.schema)), *alone)


def _check_not_referred_to(place: PinnedTable, written: frozenset[str], mode: Mode, on: frozenset[str]) -> None:
    """Raise RowsReferredTo if the write could remove rows of a table that a foreign key refers to.

    Whether a row is referred to is not asked, just as TRUNCATE does not ask in other databases: at any moment the other table may get a row
    that refers to it, and nothing would make the two writers conflict.
    """
    if mode is Mode.APPEND:
        return
    state, name = place.state, place.shard.collection
    names = live_names(state, name, place.head.schema)
    fields, given = place.live.fields, written - on
    changed = given | {field.name for column in given for _, field in readers_of(fields, column)}
    for referring in sorted(state.objects):
        for key in keys_in_force(state, referring).references:
            if key.collection != name:
                continue
            updated = [names[column] for column in key.to if names.get(column) in changed]
            if mode is Mode.MERGE and updated:
                raise RowsReferredTo(collection=name, key=key.rule, referring=referring, column=updated[0])
            if mode is Mode.OVERWRITE and referring != name:  # the rows that come in refer to each other
                raise RowsReferredTo(collection=name, key=key.rule, referring=referring, column=None)


@dataclass(frozen=True, slots=True)
class _Asked:
    env: EnvironmentRoot
    place: PinnedTable
    written: frozenset[str]
    mode: Mode
    on: tuple[str, ...]

    def checks(self, keys: Keys, names: Mapping[str, str]) -> tuple[Check, ...]:
        found: list[Check] = []
        for key in keys:
            columns = self._columns(key, key.columns, names)
            if self._is_written(key, columns):
                found.append(self._unique(key, columns) if isinstance(key, Unique) else self._reference(key, columns, names))
        return tuple(found)

    def _columns(self, key: Unique | Reference, columns: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
        for column in columns:
            if column not in names:
                raise Unfit(column, f"belongs to {key.rule}, and is not in the table")
        return tuple(names[column] for column in columns)

    def _is_written(self, key: Unique | Reference, columns: Sequence[str]) -> bool:
        """Return False if the write leaves the key as it is in older rows, and NULL in new ones. Raises Unfit if only a part is known."""
        missing = [column for column in columns if column not in self.written]
        if not missing:
            return True
        live, head = self.place.live.declaration, self.place.head
        # Numbers of a column that nobody gives a value are new, but they may refer to nothing.
        unasked = head.identities_always if isinstance(key, Unique) else ()
        for column in missing:
            field = live.field(column)
            for clause, _ in clauses_of(field) if field is not None else ():
                raise Unfit(column, f"is left to its {clause.name}, which cannot be compared for {key.rule} before it is written")
            if column in head.identities and column not in unasked:
                raise Unfit(column, f"is left to Delta's counter, whose numbers cannot be compared for {key.rule} before they are written")
        if self.mode is Mode.MERGE and not set(columns).isdisjoint(self.written - set(self.on)):
            raise Unfit(missing[0], f"is not among the columns of the rows, and other columns of {key.rule} would be updated")
        return False

    def _unique(self, key: Unique, columns: tuple[str, ...]) -> UniqueCheck:
        match self.mode:
            case Mode.APPEND:
                return UniqueCheck(key.rule, columns, in_table=True)
            case Mode.OVERWRITE:
                return UniqueCheck(key.rule, columns, in_table=False)
            case Mode.MERGE:  # on exactly the key: where it is in the table, that row is updated
                return UniqueCheck(key.rule, columns, set(self.on) != set(columns), self.on, changes=not set(columns) <= set(self.on))

    def _reference(self, key: Reference, columns: tuple[str, ...], names: Mapping[str, str]) -> ReferencedRows:
        state = self.place.state
        if key.collection == self.place.shard.collection:
            to = self._columns(key, key.to, names)
            return ReferencedRows(key.rule, columns, None, to, self.mode is not Mode.OVERWRITE, self.written.issuperset(to))
        if key.collection not in state.objects:
            raise Unfit(columns[0], f"refers to {key.collection}, which has no table (adopt it, or upgrade to a release without the key)")
        shard = state.shard_of(key.collection)
        store = self.env.table_store(shard.uri, shard.table_id)
        head = read_head(store)
        return ReferencedRows(
            key.rule, columns, head, self._columns(key, key.to, live_names(state, key.collection, head.schema)), store=store
        )
