"""What differs between columns, at any depth: three schemas walked together, each difference noted where it stands.

The three are what the table has (``now``), what the release before declares (``old``) and what the new release declares (``new``).
For ``schema.diff`` now and old are the same; for ``schema.phases`` the table may be ahead: columns hidden since a rollback, types that
stayed wide, NOT NULLs that stayed dropped. A change is a difference between old and new; what the table has already is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import (
    AddColumn,
    Change,
    ChangeType,
    Cost,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetComment,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.clauses import CLAUSES, computed_columns, reads_others, renamed
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.diff.level import FieldLevel, Pair
from airflow_provider_schemamig.core.schema.diff.renames import in_order, newest_retired, retired_from, retired_name
from airflow_provider_schemamig.core.schema.errors import HiddenConflict, UnknownRename
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.ordering import key_columns
from airflow_provider_schemamig.core.schema.paths import Fields, join
from airflow_provider_schemamig.core.schema.sql import type_sql


@dataclass(frozen=True, slots=True)
class DroppedField:
    """A column to be dropped: its path on the table now, in the old declaration, and its struct's path after cut-over."""

    path: ColumnPath
    old_path: ColumnPath
    parent_after: str
    field: Field
    #: Set if another column takes its name at cut-over: what it is called from then until contract.
    retired_as: str | None

    @property
    def path_after(self) -> ColumnPath:
        return join(self.parent_after, self.retired_as or self.field.name)


@dataclass(frozen=True, slots=True)
class Reorder:
    change: ReorderColumns
    #: The struct gains a field with this release, so its order is more than a matter of taste.
    gains: bool


@dataclass(frozen=True, slots=True)
class TakenName:
    """A hidden field to be kept, at ``path`` on the table, and in words what would use its name or drop it."""

    path: ColumnPath
    by: str


@dataclass
class ColumnDifferences:
    """Everything found. Paths in ``changes`` and ``renames`` are the table's now, in ``late`` and ``reorders`` those after the renames."""

    changes: list[Change] = field(default_factory=list)
    renames: list[RenameColumn] = field(default_factory=list)
    #: Additions whose name another column has until the renames are done.
    late: list[AddColumn] = field(default_factory=list)
    reorders: list[Reorder] = field(default_factory=list)
    drops: list[DroppedField] = field(default_factory=list)
    #: What stands in the way of hidden fields that have to stay as they are.
    taken: list[TakenName] = field(default_factory=list)
    #: path in ``new`` -> last name on the table now, where the two differ.
    now_names: dict[ColumnPath, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """One place as the three schemas name it."""

    now: str = ""
    old: str = ""
    after: str = ""

    def field(self, now: str, old: str, after: str) -> _Place:
        return _Place(join(self.now, now), join(self.old, old), join(self.after, after))

    def slot(self, part: str) -> _Place:
        return self.field(part, part, part)


def compare_columns(
    now: Declaration, old: Declaration, new: Declaration, renames: Mapping[ColumnPath, str], kept: frozenset[ColumnPath] = frozenset()
) -> ColumnDifferences:
    """Compare the columns of declarations. Raises UnknownRename, HiddenConflict.

    ``kept``: hidden fields of ``now`` that nobody may use again or drop.
    """
    comparison = _Comparison(old, new, renames, kept)
    now_fields, old_fields = (renamed(fields, renames) for fields in (now.fields, old.fields))  # a clause that only follows is no other one
    comparison.struct(now_fields, old_fields, new.fields, _Place(), None)
    unused = sorted(set(renames) - comparison.used_renames)
    if unused:
        raise UnknownRename(collection=old.name, path=unused[0], name=renames[unused[0]], reason="the old declaration has no such column")
    return comparison.found


class _Comparison:
    def __init__(self, old: Declaration, new: Declaration, renames: Mapping[ColumnPath, str], kept: frozenset[ColumnPath]) -> None:
        self._kept = kept
        self.found = ColumnDifferences()
        self.used_renames: set[ColumnPath] = set()
        self._collection = old.name
        self._renames = renames
        self._pinned_old, self._pinned_new = _pinned(old), _pinned(new)
        self._computed = computed_columns(old.fields)

    def struct(self, now: Fields, old: Fields, new: Fields, place: _Place, free: bool | None) -> None:
        """Compare the fields of a struct.

        ``free``: whether a shadow column can stand in for the column around it; None for the columns themselves.
        """
        if now == old == new and not self._renames:
            return
        level = FieldLevel(now, old, self._match(old, new, place))
        for pair in level.pairs:
            if pair.now == pair.old == pair.new and not self._renames:
                continue  # nearly all: a new column leaves the others as they are
            here = place.field(pair.now.name, pair.old.name, pair.new.name)
            self._field(pair.now, pair.old, pair.new, here, free)
            if pair.now.name != pair.new.name:
                self.found.now_names[ColumnPath(here.after)] = pair.now.name
        # What expand adds stands on the table before what takes longer; the order that is compared below is that one.
        for column in sorted(level.added(new), key=lambda column: AddColumn(ColumnPath(column.name), column).cost.rank):
            self._add(column, level, place)
        self._refuse_taken(level, place)
        self._drop(level, place)
        self.found.renames += [RenameColumn(join(place.now, before), after) for before, after in in_order(level.renames)]
        self._order(level, new, place)

    def _match(self, old: Fields, new: Fields, place: _Place) -> dict[str, Field]:
        """Name in ``old`` -> the field it becomes in ``new``: by declared rename first, else by name."""
        by_name = {f.name: f for f in new}
        matched: dict[str, Field] = {}
        for before in old:
            path = join(place.old, before.name)
            if path in self._renames:
                self.used_renames.add(path)
                after = by_name.pop(self._renames[path], None)
                if after is None:
                    reason = "the new declaration has no such column, or two columns are renamed to it"
                    raise UnknownRename(collection=self._collection, path=path, name=self._renames[path], reason=reason)
                matched[before.name] = after
        for before in old:
            if before.name not in matched and before.name in by_name:
                matched[before.name] = by_name[before.name]
        return matched

    def _field(self, now: Field, old: Field, new: Field, place: _Place, free: bool | None) -> None:
        path = ColumnPath(place.now)
        self._nullability(now.nullable, old.nullable, new.nullable, path)
        for clause in CLAUSES:
            if clause.of(new) not in (clause.of(old), clause.of(now)):
                self.found.changes.append(clause.change(path, clause.of(now), clause.of(new)))
        self._comment(now.comment, old.comment, new.comment, path)
        if free is None:
            free = old.name not in self._pinned_old and new.name not in self._pinned_new
        self._type(now.type, old.type, new.type, place, free)

    def _nullability(self, now: bool, old: bool, new: bool, path: ColumnPath) -> None:
        if old != new and now != new:
            self.found.changes.append(Relax(path) if new else SetNotNull(path))

    def _comment(self, now: str | None, old: str | None, new: str | None, path: ColumnPath) -> None:
        # Comments ride on a later commit, so the table may be behind; one that nobody declared is not ours to remove.
        if now != new and (old != new or new is not None):
            self.found.changes.append(SetComment(path, now, new))

    def _type(self, now: DataType, old: DataType, new: DataType, place: _Place, free: bool) -> None:
        match now, old, new:
            case Struct(), Struct(), Struct():
                self.struct(now.fields, old.fields, new.fields, place, free)
            case Array(), Array(), Array():
                inner = place.slot("element")
                self._nullability(now.contains_null, old.contains_null, new.contains_null, ColumnPath(inner.now))
                self._type(now.element, old.element, new.element, inner, free)
            case Map(), Map(), Map():
                inner = place.slot("value")
                self._type(now.key, old.key, new.key, place.slot("key"), False)  # two keys may become one
                self._nullability(now.value_contains_null, old.value_contains_null, new.value_contains_null, ColumnPath(inner.now))
                self._type(now.value, old.value, new.value, inner, free)
            case _ if new not in (old, now):
                inside = isinstance(now, Primitive) and isinstance(new, Primitive)
                self._other_type(now, old, new, ColumnPath(place.now), free and (inside or "." not in place.now))

    def _other_type(self, now: DataType, old: DataType, new: DataType, path: ColumnPath, free: bool) -> None:
        if is_widening(old, new) and is_widening(new, now):
            return  # left wider than needed by an earlier release: it holds every value already
        if self._is_computed(path):
            self.found.changes.append(ChangeType(path, now, new, widening=False, shadowable=False))
        elif is_widening(now, new):
            self.found.changes.append(ChangeType(path, now, new, widening=True, shadowable=free))
        else:  # maybe a widening, of a column that a rolled-back release has left wide in another way
            self.found.changes.append(ChangeType(path, now, new, widening=False, shadowable=free))

    def _is_computed(self, path: str) -> bool:
        """Return whether the column around ``path`` is computed, or read by one that is: Delta gives it no other type, nor a shadow."""
        return path.partition(".")[0] in self._computed

    def _add(self, column: Field, level: FieldLevel, place: _Place) -> None:
        hidden = level.hidden.get(column.name.lower())
        if hidden is not None and (path := join(place.now, hidden.name)) in self._kept:
            self.found.taken.append(TakenName(path, f"a new column {join(place.after, column.name)}"))
        elif hidden is not None:
            self._reuse(hidden, column, place.field(hidden.name, column.name, column.name))
        elif (aside := self._aside(column, level, place)) is not None:
            self._restore_name(aside, column, level, place)
        elif column.name.lower() in level.occupied:
            self.found.late.append(AddColumn(join(place.after, column.name), column))
            level.late.append(column.name)
        else:
            self.found.changes.append(AddColumn(join(place.now, column.name), column))
            level.early.append(column.name)

    def _reuse(self, hidden: Field, wanted: Field, place: _Place) -> None:
        """Use a column that the table has already, hidden since a rollback: only what is missing on it is left to do."""
        path = ColumnPath(place.now)
        if hidden.name != wanted.name or canonical_type(hidden.type) != canonical_type(wanted.type):
            raise self._conflict(path, hidden, f"{wanted.name} {type_sql(wanted.type)}")
        if AddColumn(path, wanted).cost is not Cost.INSTANT:
            self.found.changes.append(AddColumn(path, wanted))  # older rows still need a value
        else:
            self._field(hidden, hidden, wanted, place, False if place.now.count(".") else None)

    def _conflict(self, path: ColumnPath, hidden: Field, wanted: str) -> HiddenConflict:
        return HiddenConflict(collection=self._collection, path=path, found=f"{hidden.name} {type_sql(hidden.type)}", wanted=wanted)

    def _aside(self, column: Field, level: FieldLevel, place: _Place) -> Field | None:
        """Return the hidden column of the table for ``column``.

        It has a name of ours since a rollback gave its own to the column that came back.
        """
        found = [f for f in level.hidden.values() if retired_from(f.name) == column.name and join(place.now, f.name) not in self._kept]
        fitting = [f for f in found if canonical_type(f.type) == canonical_type(column.type)]
        newest = newest_retired(f.name for f in fitting or found)
        return next((f for f in found if f.name == newest), None)

    def _restore_name(self, aside: Field, wanted: Field, level: FieldLevel, place: _Place) -> None:
        """Give a column that made way its name again, with the cut-over: until then the name is another one's, or nobody's."""
        here = place.field(aside.name, aside.name, wanted.name)
        path = ColumnPath(here.now)
        if canonical_type(aside.type) != canonical_type(wanted.type):
            raise self._conflict(path, aside, f"{wanted.name} {type_sql(wanted.type)}")
        if AddColumn(path, wanted).cost is not Cost.INSTANT:
            raise self._conflict(path, aside, f"{wanted.name} {type_sql(wanted.type)} with a value in every row")
        level.pairs.append(Pair(aside, aside, wanted))
        self.found.now_names[ColumnPath(here.after)] = aside.name
        self._field(aside, aside, wanted, here, False if here.now.count(".") else None)

    def _refuse_taken(self, level: FieldLevel, place: _Place) -> None:
        """Refuse a rename to the name of a hidden column."""
        for _, name in level.renames:
            hidden = level.hidden.get(name.lower())
            if hidden is not None:
                path, wanted = join(place.now, hidden.name), f"a column renamed to {name}"
                if path in self._kept:
                    self.found.taken.append(TakenName(path, wanted))
                    continue
                raise HiddenConflict(collection=self._collection, path=path, found=type_sql(hidden.type), wanted=wanted)

    def _drop(self, level: FieldLevel, place: _Place) -> None:
        claimed = {name.lower() for _, name in level.renames} | {name.lower() for name in level.late}
        # A column that reads others goes before them.
        for column in sorted(level.leaving, key=lambda column: not reads_others(column)):
            retired_as = None
            if column.name.lower() in claimed:
                retired_as = retired_name(column.name, level.occupied)
                level.retired.add(column.name)
            path, old_path = join(place.now, column.name), join(place.old, column.name)
            inside = sorted(kept for kept in self._kept if kept.startswith(f"{path}."))
            self.found.taken += [TakenName(kept, f"the drop of {old_path} around it") for kept in inside]
            self.found.drops.append(DroppedField(path, old_path, place.after, column, retired_as))

    def _order(self, level: FieldLevel, new: Fields, place: _Place) -> None:
        wanted = tuple(f.name for f in new)
        declared, hidden = set(wanted), {f.name for f in level.hidden.values()}
        # Hidden fields stay behind the others whatever they are called, and may be gone by the time that this is done.
        present = tuple(name for name in level.order_after() if name in declared or name not in hidden)
        if tuple(name for name in present if name in declared) != wanted:
            change = ReorderColumns(ColumnPath(place.after), present, wanted)
            self.found.reorders.append(Reorder(change, gains=bool(level.early or level.late)))


def _pinned(declaration: Declaration) -> frozenset[str]:
    """Return the columns a shadow column cannot stand in for: the layout of files, keys and their references hang on them."""
    return (
        key_columns(declaration)
        | computed_columns(declaration.fields)
        | set(declaration.partitioned_by)
        | {path.partition(".")[0] for path in declaration.clustered_by}
    )
