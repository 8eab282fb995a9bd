"""How a table as it is now is shown in the shape of a release, or why it cannot be (docs/handles.md has the table).

The rule: a reader gets what its release promised it, or an error; what would have to be made up is never shown. NULL stands only for a
column that is younger than the rows. Where a promise was taken back (NOT NULL dropped, a type widened), it is still kept as long as every
row keeps it, which the files' statistics tell; that is asked anew for each pinned version, and decides over all rows of it at once.
Pure: no I/O but the questions to ``Evidence``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_provider_schemamig.core.access.field_ids import Shape, match_fields
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.columns import Origins
from airflow_provider_schemamig.core.schema.clauses import clauses_of
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening, limits_of, varchar_length
from airflow_provider_schemamig.core.schema.diff.renames import is_stand_in
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.paths import Fields, field_at, join
from airflow_provider_schemamig.core.schema.sql import type_sql

#: A column of a change of type that is not the one in use: rows written since the swap have no value in it, or one from before.
STAND_IN = "has another type in the table, and what is left of this one is for the way back only"
#: A column of a release that was rolled back, where a release since brought columns.
DOUBTFUL = "was taken back by a rollback, and a release since may have brought it under another name"


class Evidence(Protocol):
    """What the table's files say about their rows at the pinned version; False also where they do not tell. Paths are the table's."""

    def no_null(self, path: ColumnPath) -> bool:
        """Return whether no row has NULL there."""

    def within(self, path: ColumnPath, narrow: Primitive, limits: tuple[int, int] | None) -> bool:
        """Return whether every value there is one of ``narrow``.

        That is so if each came in while ``narrow`` was the type, or by a writer of a release that declares it; or if each is between
        ``limits`` (None: no bounds are known).
        """


class Unfit(Exception):
    """Why ``path`` (the release's; empty: the collection) cannot be shown or written. Inside this layer; handles make a fence of it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


class RowsUnfit(Unfit):
    """Why rows do not fit the release that they are written for."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A way to show a table. ``source``: the fields of it that are read. ``shown``: the release's columns, still in the table's type where
    that is wider. ``target``: the release's. ``renames``: path in ``source`` -> last name in ``shown`` (``release.projection``)."""

    source: Declaration
    shown: Declaration
    target: Declaration
    renames: dict[ColumnPath, str]

    @property
    def narrows(self) -> tuple[str, ...]:
        """Return the columns to cast from their type in ``shown`` to that in ``target``."""
        return tuple(f.name for f, wanted in zip(self.shown.fields, self.target.fields, strict=True) if f.type != wanted.type)


def fit_reader(
    live: Shape,
    wanted: Shape,
    evidence: Evidence,
    *,
    is_later: bool,
    lacking: Collection[ColumnPath] | None = None,
    gone: str = "was dropped",
) -> Fit:
    """Show ``live`` as ``wanted``. ``is_later``: the release is one that the environment is not at yet, or no longer; ``lacking``: what the
    table need not have then; ``gone``: what has become of a field that the release has and the table has not, in words. Raises Unfit."""
    fitter = _Fitter(live, wanted, evidence, None if is_later else gone, lacking)
    source, shown = fitter.fields(live.fields, wanted.fields, "", "")
    name = live.declaration.name
    return Fit(Declaration(name, source), Declaration(name, shown), Declaration(name, bare(wanted.fields)), fitter.renames)


def bare(fields: Sequence[Field]) -> Fields:
    """Return fields with only what a row has: names, types and nullability. Types are the stored ones, without the limit of a varchar."""
    return tuple(Field(f.name, bare_type(f.type), f.nullable) for f in fields)


def bare_type(data_type: DataType) -> DataType:
    match data_type:
        case Primitive():
            return _stored(data_type)
        case Array(element=element, contains_null=contains_null):
            return Array(bare_type(element), contains_null)
        case Map(key=key, value=value, value_contains_null=contains_null):
            return Map(bare_type(key), bare_type(value), contains_null)
        case Struct(fields=fields):
            return Struct(bare(fields))


def _stored(data_type: Primitive) -> Primitive:
    return data_type if varchar_length(data_type.name) is None else Primitive("string")


class _Fitter:
    def __init__(self, live: Shape, wanted: Shape, evidence: Evidence, gone: str | None, lacking: Collection[ColumnPath] | None) -> None:
        self._live = live
        self._origins: Origins = match_fields(live, wanted)
        self._evidence = evidence
        self._gone = gone
        self._lacking = lacking
        self._wanted = wanted
        self.renames: dict[ColumnPath, str] = {}

    def fields(self, live: Fields, wanted: Fields, origin: str, path: str) -> tuple[Fields, Fields]:
        """Return (the table's fields that are used, the release's as shown) of one struct, or of the columns."""
        by_path = {join(origin, f.name): f for f in live}
        source: list[Field] = []
        shown: list[Field] = []
        for field in wanted:
            here = join(path, field.name)
            if here in self._wanted.doubtful:
                raise Unfit(here, DOUBTFUL)
            there = self._origins.get(here)
            if there is None:
                shown.append(self._missing(field, here))
            else:
                before, after = self._kept(by_path[there], field, there, here)
                source.append(before)
                shown.append(after)
        return tuple(source), tuple(shown)

    def _missing(self, field: Field, path: ColumnPath) -> Field:
        if self._gone is not None and path not in (self._lacking or ()):
            raise Unfit(path, self._gone)
        if self._lacking is not None and path not in self._lacking:
            raise Unfit(path, "was dropped")
        if path in self._wanted.retyped:
            raise Unfit(path, "has another type in the table since a rollback")
        if not field.nullable:
            raise Unfit(path, "is NOT NULL, and the table does not have it yet")
        for clause, text in clauses_of(field):
            raise Unfit(path, f"gets its {clause.sql(text)} in older rows, and the table does not have it yet")
        return Field(field.name, bare_type(field.type))

    def _kept(self, live: Field, wanted: Field, origin: ColumnPath, path: ColumnPath) -> tuple[Field, Field]:
        if is_stand_in(live.name):
            raise Unfit(path, STAND_IN)
        if live.nullable and not wanted.nullable and (self._gone is None or not self._evidence.no_null(origin)):
            raise Unfit(path, "is NOT NULL for it, and may hold NULL in the table")
        before, after = self._type(live.type, wanted.type, origin, path)
        if live.name != wanted.name:
            self.renames[origin] = wanted.name
        return Field(live.name, before, wanted.nullable and live.nullable), Field(wanted.name, after, wanted.nullable)

    def _type(self, live: DataType, wanted: DataType, origin: ColumnPath, path: ColumnPath) -> tuple[DataType, DataType]:
        match live, wanted:
            case Primitive(), Primitive():
                return self._primitive(live, wanted, origin, path)
            case Struct(), Struct():
                before, after = self.fields(live.fields, wanted.fields, origin, path)
                return Struct(_as_stored(live.fields, before)), Struct(after)
            case Array(), Array():
                self._elements(live.contains_null, wanted.contains_null, join(path, "element"))
                old, new = self._type(live.element, wanted.element, join(origin, "element"), join(path, "element"))
                return Array(old, live.contains_null), Array(new, wanted.contains_null)
            case Map(), Map():
                return self._map(live, wanted, origin, path)
        raise Unfit(path, f"is {type_sql(wanted)} for it, and {type_sql(live)} in the table")

    def _map(self, live: Map, wanted: Map, origin: ColumnPath, path: ColumnPath) -> tuple[DataType, DataType]:
        self._elements(live.value_contains_null, wanted.value_contains_null, join(path, "value"))
        old_key, new_key = self._type(live.key, wanted.key, join(origin, "key"), join(path, "key"))
        if not isinstance(live.key, Primitive) and live.key != wanted.key:
            raise Unfit(join(path, "key"), "changed, and keys of another shape may no longer differ")
        old, new = self._type(live.value, wanted.value, join(origin, "value"), join(path, "value"))
        return Map(old_key, old, live.value_contains_null), Map(new_key, new, wanted.value_contains_null)

    def _elements(self, live: bool, wanted: bool, path: ColumnPath) -> None:
        """Raise Unfit where elements must not be NULL and may be in the table: statistics do not look into arrays and maps."""
        if live and not wanted:
            raise Unfit(path, "is NOT NULL for it, and may hold NULL in the table")

    def _primitive(self, live: Primitive, wanted: Primitive, origin: ColumnPath, path: ColumnPath) -> tuple[DataType, DataType]:
        old, new = _stored(live), _stored(wanted)
        if old == new or is_widening(old, new):
            return old, new
        widened = is_widening(new, old)
        if widened and self._gone is not None and self._evidence.within(origin, new, limits_of(wanted.name, live.name)):
            return old, old
        why = "whose values may not fit" if widened else "which does not go back"
        raise Unfit(path, f"is {type_sql(wanted)} for it, and {type_sql(live)} in the table, {why}")


def _as_stored(live: Fields, used: Fields) -> Fields:
    """Return a struct's fields in the table's order.

    A field unknown to the release gets a name that no field can have. None may be left out or change places: a projection that finds a
    struct to be as it is wanted shows all of it as it is, and a cast goes by position.
    """
    known = {f.name: f for f in used}
    return tuple(known.get(f.name, Field(f"{f.name} ", bare_type(f.type))) for f in live)


def only(shape: Shape, columns: Sequence[str] | None) -> Shape:
    """Return the shape with these columns alone, in this order. KeyError names one that is not there."""
    if columns is None:
        return shape
    fields = []
    for column in columns:
        found = field_at(shape.fields, column) if "." not in column else None
        if found is None:
            raise KeyError(column)
        fields.append(found)
    return replace(shape, declaration=Declaration(shape.declaration.name, tuple(fields)))
