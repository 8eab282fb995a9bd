"""How rows in the shape of a release go into a table as it is now, or why they cannot (docs/handles.md has the table).

Two fits, one after the other: the rows as given become the release's columns by name, and those the table's by identity. Types only widen,
nothing is left behind, and what the release does not know the table has to be able to fill itself. Whether a value may be NULL is left to
Delta, which checks every row of every writer. Pure values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from airflow_provider_schemamig.core.access.field_ids import Shape, match_fields
from airflow_provider_schemamig.core.access.read_mapping import DOUBTFUL, STAND_IN, Fit, RowsUnfit, Unfit, bare, bare_type, only
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.columns import Origins
from airflow_provider_schemamig.core.schema.clauses import fills_itself
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.diff.renames import is_stand_in
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct, walk
from airflow_provider_schemamig.core.schema.paths import Fields, join
from airflow_provider_schemamig.core.schema.sql import type_sql

#: Infinity and NaN are values of both; every other DOUBLE becomes the nearest FLOAT, if there is one.
BEYOND_FLOAT = "a finite DOUBLE is beyond FLOAT, which goes from -3.4028235e38 to 3.4028235e38"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True, slots=True)
class WriteFit:
    """``given`` makes the release's columns of the rows, ``into`` the table's of those. ``left_out``: the table's fields, inside of columns
    that are written, that the release does not have; rows that come in have NULL there."""

    given: Fit
    into: Fit
    left_out: tuple[ColumnPath, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the table's names of the columns that are written."""
        return tuple(field.name for field in self.into.target.fields)

    def column_of(self, name: str) -> str | None:
        """Return the table's name of the release's column ``name``; None if it is not written."""
        names = {wanted.name: column for wanted, column in zip(self.given.target.fields, self.columns, strict=True)}
        return names.get(name)


def fit_writer(given: Fields, wanted: Shape, live: Shape, *, is_later: bool, gone: str = "was dropped") -> WriteFit:
    """Fit rows of type ``given`` into ``live``, as the release declares ``wanted``. Raises Unfit."""
    origins = match_fields(live, wanted) if live.identities else {}
    known = {field.name: field for field in wanted.fields}
    for field in given:
        if field.name not in known:
            raise RowsUnfit(field.name, "is none of the release's columns")
    present = {field.name for field in given}
    for field in wanted.fields:
        is_numbered = origins.get(ColumnPath(field.name)) in live.identities
        if field.name not in present and not (field.nullable or fills_itself(field) or is_numbered):
            raise RowsUnfit(field.name, "is NOT NULL, and not among the columns of the rows")
    written = only(wanted, [field.name for field in given])
    for path, _ in walk(written.fields):
        if path in wanted.doubtful:
            raise Unfit(path, DOUBTFUL)
    return WriteFit(_given(given, written), *_into(written, live, "is not in the table yet" if is_later else gone))


# --- the rows as the release's columns -----------------------------------------------------------------------------------------------


def _given(rows: Fields, written: Shape) -> Fit:
    name = written.declaration.name
    shown = tuple(
        Field(wanted.name, _assigned(bare_type(row.type), bare_type(wanted.type), row.name))
        for row, wanted in zip(rows, written.fields, strict=True)
    )
    return Fit(Declaration(name, loose(bare(rows))), Declaration(name, loose(shown)), Declaration(name, loose(bare(written.fields))), {})


def _assigned(row: DataType, wanted: DataType, path: str) -> DataType:
    """Return ``wanted``'s structure with ``row``'s atomic types. Raises Unfit where a value could change on its way."""
    match row, wanted:
        case Primitive(), Primitive() if _is_assignable(row, wanted):
            return row
        case Struct(), Struct():
            return Struct(_assigned_fields(row.fields, wanted.fields, path))
        case Array(), Array():
            return Array(_assigned(row.element, wanted.element, f"{path}.element"))
        case Map(), Map():
            return Map(_assigned(row.key, wanted.key, f"{path}.key"), _assigned(row.value, wanted.value, f"{path}.value"))
    raise RowsUnfit(path, f"is {type_sql(row)} in the rows, and {type_sql(wanted)} in the release")


def _assigned_fields(row: Fields, wanted: Fields, path: str) -> Fields:
    known = {field.name: field for field in wanted}
    for field in row:
        if field.name not in known:
            raise RowsUnfit(join(path, field.name), "is none of the release's fields")
    given = {field.name: field for field in row}
    found = []
    for field in wanted:
        here = join(path, field.name)
        if field.name in given:
            found.append(Field(field.name, _assigned(given[field.name].type, field.type, here)))
        elif field.nullable:
            found.append(Field(field.name, field.type))
        else:
            raise RowsUnfit(here, "is NOT NULL, and not among the fields of the rows")
    return tuple(found)


def _is_assignable(row: Primitive, wanted: Primitive) -> bool:
    """Return whether a type can be assigned, including a language's one type for whole or broken numbers: a value that does not fit is an
    error there."""
    both_integers = row.name in _INTEGERS and wanted.name in _INTEGERS
    return row == wanted or is_widening(row, wanted) or both_integers or (row.name, wanted.name) == ("double", "float")


# --- the release's columns as the table's --------------------------------------------------------------------------------------------


def _into(written: Shape, live: Shape, gone: str) -> tuple[Fit, tuple[ColumnPath, ...]]:
    placer = _Placer(live, match_fields(live, written), gone)
    target = placer.fields(written.fields, live.fields, "", "")
    by_name = {field.name: field for field in target}
    name = live.declaration.name
    ordered = tuple(by_name[placer.name_of(field.name)] for field in written.fields)
    into = Declaration(name, loose(ordered))
    return Fit(Declaration(name, loose(bare(written.fields))), into, into, placer.renames), tuple(placer.left_out)


class _Placer:
    def __init__(self, live: Shape, origins: Origins, gone: str) -> None:
        self._live = live
        self._origins = origins
        self._gone = gone
        self.renames: dict[ColumnPath, str] = {}
        self.left_out: list[ColumnPath] = []

    def name_of(self, column: str) -> str:
        return self._origins[ColumnPath(column)]

    def fields(self, written: Fields, live: Fields, path: str, origin: str) -> Fields:
        """Return the table's fields of one struct, or of its columns: those that are written, and inside a struct also those that stay
        NULL."""
        taken: dict[str, Field] = {}
        for field in written:
            here = join(path, field.name)
            there = self._origins.get(here)
            if there is None:
                raise Unfit(here, self._gone)
            name = there.rpartition(".")[2]
            if is_stand_in(name):
                raise Unfit(here, STAND_IN)
            taken[name] = field
            if name != field.name:
                self.renames[here] = name
        found = []
        for column in live:
            if column.name in taken:
                field = taken[column.name]
                into = self._type(field.type, column.type, join(path, field.name), join(origin, column.name))
                found.append(Field(column.name, into))
            else:
                self._check_left_out(column, join(origin, column.name), is_column=not origin)
                if origin:
                    self.left_out.append(join(origin, column.name))
                    found.append(Field(column.name, bare_type(column.type)))
        return tuple(found)

    def _check_left_out(self, column: Field, path: ColumnPath, is_column: bool) -> None:
        is_filled = is_column and (fills_itself(column) or column.name in self._live.identities)
        if not column.nullable and not is_filled:
            raise Unfit(path, "is NOT NULL in the table, and the rows have nothing for it")

    def _type(self, written: DataType, live: DataType, path: str, origin: str) -> DataType:
        match bare_type(written), bare_type(live):
            case Primitive() as old, Primitive() as new if old == new or is_widening(old, new):
                return new
            case Struct(), Struct():
                assert isinstance(written, Struct) and isinstance(live, Struct)
                return Struct(self.fields(written.fields, live.fields, path, origin))
            case Array(), Array():
                assert isinstance(written, Array) and isinstance(live, Array)
                return Array(self._type(written.element, live.element, f"{path}.element", f"{origin}.element"))
            case Map(), Map():
                assert isinstance(written, Map) and isinstance(live, Map)
                key = self._type(written.key, live.key, f"{path}.key", f"{origin}.key")
                return Map(key, self._type(written.value, live.value, f"{path}.value", f"{origin}.value"))
        raise Unfit(path, f"is {type_sql(written)} in the release, and {type_sql(live)} in the table, which is no wider")


def loose(fields: Fields) -> Fields:
    """Return fields that may all be NULL: whether they may is Delta's to check, row by row."""
    return tuple(replace(field, type=_loose(field.type), nullable=True) for field in fields)


def _loose(data_type: DataType) -> DataType:
    match data_type:
        case Array(element=element):
            return Array(_loose(element))
        case Map(key=key, value=value):
            return Map(_loose(key), _loose(value))
        case Struct(fields=fields):
            return Struct(loose(fields))
        case Primitive():
            return data_type


class Mode(StrEnum):
    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
