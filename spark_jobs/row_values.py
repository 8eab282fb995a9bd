"""Rows as values in Spark SQL: compared, hashed and cast whole, whatever their columns are made of. Schemas are pyspark's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType


def fields_of(schema: StructType, columns: Iterable[str]) -> list[StructField]:
    """The fields of these names, in this order; Spark's names know no case."""
    by_name = {field.name.lower(): field for field in schema.fields}
    return [by_name[column.lower()] for column in columns]


def cast_to(fields: Iterable[StructField]) -> str:
    """A select list that takes columns by name and gives them the types of ``fields``, which an INSERT would do unasked."""
    return ", ".join(f"CAST({quote(f.name)} AS {type_sql(f.dataType)}) AS {quote(f.name)}" for f in fields)


def comparable(value: str, data_type: Any) -> str:
    """An expression that is equal where ``value`` is, and that ``<=>``, GROUP BY and hashes take.

    A map has no order and compares with nothing: its sorted entries stand for it, at any depth.
    """
    return _comparable(value, data_type, (f"x{number}" for number in count()))


def row_hash(fields: Iterable[StructField], seed: int | None = None) -> str:
    """A BIGINT hash of a row, in the order of ``fields``. NULLs count by a flag beside each column, as a hash leaves them out."""
    parts = [] if seed is None else [str(seed)]
    parts += [part for f in fields for part in (comparable(quote(f.name), f.dataType), f"({quote(f.name)} IS NULL)")]
    return f"xxhash64({', '.join(parts)})"


def same_row(fields: Sequence[StructField], one: str, other: str) -> str:
    """True where two aliases' rows are equal in these fields, NULL to NULL."""
    return " AND ".join(f"{_of(one, f)} <=> {_of(other, f)}" for f in fields)


def type_sql(data_type: Any) -> str:
    """A type for a CAST; nested field names are quoted, which ``simpleString`` does not do."""
    match data_type.typeName():
        case "struct":
            return f"STRUCT<{', '.join(f'{quote(f.name)}: {type_sql(f.dataType)}' for f in data_type.fields)}>"
        case "array":
            return f"ARRAY<{type_sql(data_type.elementType)}>"
        case "map":
            return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
        case _:
            return str(data_type.simpleString())


def updated(data_type: Any, new: str, old: str, path: str, kept: Collection[str]) -> str:
    """``new``, a value at ``path`` of a row, with the fields at the paths ``kept`` as they are in ``old``; in structs only."""
    if not any(other.startswith(f"{path}.") for other in kept):
        return new
    parts = []
    for field in data_type.fields:
        name, here = quote(field.name), f"{path}.{field.name}"
        value = f"{old}.{name}" if here in kept else updated(field.dataType, f"{new}.{name}", f"{old}.{name}", here, kept)
        parts.append(f"{_text(field.name)}, {value}")
    return f"IF({new} IS NULL, NULL, named_struct({', '.join(parts)}))"


def literal(value: Any, data_type: Any) -> str | None:
    """A value as a literal of exactly this type, so that no cast stands between a column and a file's statistics; None if there is none."""
    if value is None:
        return None
    match data_type.typeName():
        case "integer":
            return str(value)
        case "long":
            # The lowest BIGINT has no literal: the minus sign is no part of one.
            return f"{value}L" if value > -(2**63) else None
        case "string" if len(value) <= _LONGEST_LITERAL:
            return _text(value)
        case "date":
            return f"DATE'{value}'"
        case _:
            return None


_LONGEST_LITERAL = 100


def _of(alias: str, field: StructField) -> str:
    return comparable(f"{alias}.{quote(field.name)}", field.dataType)


def _comparable(value: str, data_type: Any, variables: Iterable[str]) -> str:
    """Without a map inside, the value itself. ``variables``: names for lambdas, each used once."""
    if not has_map(data_type):
        return value
    names = iter(variables)
    match data_type.typeName():
        case "struct":
            fields = ", ".join(f"{_text(f.name)}, {_comparable(f'{value}.{quote(f.name)}', f.dataType, names)}" for f in data_type.fields)
            return f"IF({value} IS NULL, NULL, named_struct({fields}))"
        case "array":
            return _transformed(value, data_type.elementType, names)
        case _:
            entries = f"map_entries({value})"
            if not has_map(data_type.valueType):
                return f"array_sort({entries})"
            entry = next(names)
            inner = _comparable(f"{entry}.value", data_type.valueType, names)
            return f"array_sort(transform({entries}, {entry} -> named_struct('key', {entry}.key, 'value', {inner})))"


def _transformed(array: str, element: Any, names: Any) -> str:
    item = next(names)
    return f"transform({array}, {item} -> {_comparable(item, element, names)})"


def has_map(data_type: Any) -> bool:
    """Whether there is a map anywhere in a type."""
    match data_type.typeName():
        case "map":
            return True
        case "struct":
            return any(has_map(field.dataType) for field in data_type.fields)
        case "array":
            return has_map(data_type.elementType)
        case _:
            return False


def _text(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
