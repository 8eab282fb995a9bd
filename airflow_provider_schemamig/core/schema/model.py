"""What a collection looks like: the canonical, frozen model of a declaration.

It is made from Spark SQL (``release.parse``) and from a Delta table's own metadata (``schema.delta_json``); both give equal values
for equal tables. Pure values, no I/O.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_schemamig.core.jsonable import share, union
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath


@dataclass(frozen=True, slots=True)
class Primitive:
    """An atomic type by its canonical Spark SQL name: ``int``, ``bigint``, ``decimal(10,2)``, ``varchar(20)``, ``timestamp_ntz``, ..."""

    name: str


@dataclass(frozen=True, slots=True)
class Array:
    element: DataType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Map:
    key: DataType
    value: DataType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...]


DataType = Primitive | Array | Map | Struct
union({"primitive": Primitive, "array": Array, "map": Map, "struct": Struct})


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field of a struct. ``default`` and ``generated`` are canonical SQL text (top-level columns only)."""

    name: str
    type: DataType
    nullable: bool = True
    default: str | None = None
    comment: str | None = None
    generated: str | None = None


_kept = share(Field)


@functools.lru_cache(maxsize=16384)
def plain_field(name: str, data_type: DataType, nullable: bool) -> Field:
    """Return a column of nothing else, the same object for the same one: a release and its tables have each many times, and two that are
    one are compared in no time."""
    return _kept(Field(name, data_type, nullable))


@dataclass(frozen=True, slots=True)
class Check:
    """A named CHECK constraint; ``expression`` is canonical Spark SQL."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Key:
    """PRIMARY KEY or UNIQUE over ``columns``, in order."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    columns: tuple[str, ...]
    references: CollectionName
    referenced_columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """One collection at one version: what ``CREATE TABLE`` says of it.

    Tuples of checks, keys and properties are sorted (by name, columns, key), ``fields``, ``partitioned_by``, ``clustered_by`` and a
    key's columns are in declared order. ``properties`` are the declared table properties only.
    """

    name: CollectionName
    fields: tuple[Field, ...]
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    primary_key: Key | None = None
    uniques: tuple[Key, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None

    def field(self, name: str) -> Field | None:
        """Return the top-level column of that name, or None."""
        return next((f for f in self.fields if f.name == name), None)


def walk(fields: tuple[Field, ...], prefix: str = "") -> Iterator[tuple[ColumnPath, Field]]:
    """Yield every field with its dotted path, outer before inner, at any depth."""
    for f in fields:
        path = f"{prefix}{f.name}"
        yield ColumnPath(path), f
        yield from _walk_type(f.type, path)


def has_map(data_type: DataType | None) -> bool:
    """Return whether a type is a MAP or has one inside: Spark compares none."""
    match data_type:
        case Map():
            return True
        case Array(element=element):
            return has_map(element)
        case Struct(fields=fields):
            return any(has_map(field.type) for field in fields)
        case _:
            return False


def _walk_type(data_type: DataType, path: str) -> Iterator[tuple[ColumnPath, Field]]:
    match data_type:
        case Struct(fields=inner):
            yield from walk(inner, f"{path}.")
        case Array(element=element):
            yield from _walk_type(element, f"{path}.element")
        case Map(key=key, value=value):
            yield from _walk_type(key, f"{path}.key")
            yield from _walk_type(value, f"{path}.value")
        case Primitive():
            return
