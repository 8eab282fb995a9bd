"""Rows as values in Spark SQL: compared, hashed and cast whole, whatever their columns are made of. Schemas are pyspark's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.field_order import has_type, values_by_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType


def fields_of(schema: StructType, columns: Iterable[str]) -> list[StructField]:
    """Return the fields of these names, in this order; Spark's names know no case."""
    by_name = {field.name.lower(): field for field in schema.fields}
    return [by_name[column.lower()] for column in columns]


def select_as(spark: SparkSession, query: str, fields: Sequence[StructField], *, cast: bool = True, first: Sequence[str] = ()) -> str:
    """Return the query's columns as ``fields``, all found by name, at any depth. ``cast``: to their types, which an INSERT does unasked.

    ``first``: what stands before them in the SELECT list.

    Raises QueryRefused for fields that could be either.
    """
    values = values_by_name(spark, query, fields)
    if cast:
        values = {f.name: f"CAST({values[f.name]} AS {type_sql(f.dataType)})" for f in fields}
    columns = [name if value == name else f"{value} AS {name}" for name, value in ((quote(f), v) for f, v in values.items())]
    return f"SELECT {', '.join([*first, *columns])} FROM (\n{query}\n)"


def row_hash(fields: Iterable[StructField], seed: int | None = None) -> str:
    """Return a BIGINT hash of a row, in the order of ``fields``.

    It hashes a sequence of primitive values that no other row has, however its values are nested. A hash of Spark's leaves NULLs out,
    whatever the seed, and takes what is nested as if it were not: see ``_sequence``.
    """
    parts = [] if seed is None else [str(seed)]
    return f"xxhash64({', '.join([*parts, *(part for f in fields for part in _sequence(quote(f.name), f.dataType))])})"


def same_by(value: str, data_type: Any) -> list[str]:
    """Return expressions for ``<=>`` and GROUP BY. All of them are equal exactly where ``value`` is the same.

    NULL is the same as NULL, NaN as NaN, a map as one with the same entries in another order; -0.0 is not the same as 0.0.
    """
    if is_compared_as_one(data_type):
        return [value]
    if _is_floating(data_type):
        return [value, _is_minus_zero(value)]
    return [_encoded(value, data_type)]


def equal_by(value: str, data_type: Any) -> str:
    """Return an expression for keys: equal where SQL says that ``value`` is, so -0.0 to 0.0, and NULL to NULL."""
    return _encoded(value, data_type) if has_type(data_type, _is_map) else value


def same_row(fields: Sequence[StructField], one: str, other: str) -> str:
    """Return SQL that is true if the rows of two aliases are the same in these fields, by ``same_by``."""
    pairs = (zip(*(same_by(f"{alias}.{quote(f.name)}", f.dataType) for alias in (one, other)), strict=True) for f in fields)
    return " AND ".join(f"{left} <=> {right}" for pair in pairs for left, right in pair)


def same_key(fields: Sequence[StructField], one: str, other: str) -> str:
    """Return SQL that is true if the rows of two aliases have equal keys, by ``equal_by``."""
    return " AND ".join(" <=> ".join(equal_by(f"{alias}.{quote(f.name)}", f.dataType) for alias in (one, other)) for f in fields)


def is_compared_as_one(data_type: Any) -> bool:
    """Return whether ``<=>`` and GROUP BY tell values of this type apart as they are."""
    return not has_type(data_type, lambda found: _is_map(found) or _is_floating(found))


def type_sql(data_type: Any) -> str:
    """Write a type for a CAST; nested field names are quoted, which ``simpleString`` does not do."""
    match data_type.typeName():
        case "struct":
            return f"STRUCT<{', '.join(f'{quote(f.name)}: {type_sql(f.dataType)}' for f in data_type.fields)}>"
        case "array":
            return f"ARRAY<{type_sql(data_type.elementType)}>"
        case "map":
            return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
        case _:
            return str(data_type.simpleString())


def literal(value: Any, data_type: Any) -> str | None:
    """Write a value as a literal of exactly this type, so that no cast stands between a column and a file's statistics; None if there is
    none."""
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


# --- what tells values apart ---------------------------------------------------------------------------------------------------------


def _sequence(value: str, data_type: Any, depth: int = 0) -> list[str]:
    """Return expressions for a hash, from whose primitive values, NULLs left out, ``value`` can be read again.

    Its type is known, and the last value of each part (that it is NULL, or how many elements it has) tells what to look for before it.
    ``depth``: of lambdas. Only what has elements needs a lambda, for which Spark compiles no code; a flat column is followed by its flag
    and nothing else.
    """
    match data_type.typeName():
        case "struct":
            fields = (_sequence(f"{value}.{quote(f.name)}", f.dataType, depth) for f in data_type.fields)
            return [*(part for field in fields for part in field), f"({value} IS NULL)"]
        case "array" | "map":
            return [_elements(value, data_type, depth), f"coalesce(size({value}), -1)"]
        case "float" | "double":
            return [value, f"IF({value} IS NULL, 1, IF({_is_minus_zero(value)}, 2, 0))"]
        case _:
            return [value, f"({value} IS NULL)"]


def _encoded(value: str, data_type: Any) -> str:
    return f"struct({', '.join(_sequence(value, data_type))})"


def _elements(value: str, data_type: Any, depth: int) -> str:
    """Return the elements of an array in their order, the entries of a map in one that does not depend on theirs."""
    item = f"x{depth}"
    if not _is_map(data_type):
        return f"transform({value}, {item} -> struct({', '.join(_sequence(item, data_type.elementType, depth + 1))}))"
    parts = [(f"{item}.key", data_type.keyType), (f"{item}.value", data_type.valueType)]
    entry = ", ".join(part for name, found in parts for part in _sequence(name, found, depth + 1))
    return f"array_sort(transform(map_entries({value}), {item} -> struct({entry})))"


def _is_minus_zero(value: str) -> str:
    """Return SQL that is true for -0.0.

    It equals 0.0 in a comparison and in a hash, but its reciprocal is another one. The division of ANSI SQL fails by zero.
    """
    return f"IF({value} = 0, power({value}, -1) < 0, false)"


def _is_map(data_type: Any) -> bool:
    return bool(data_type.typeName() == "map")


def _is_floating(data_type: Any) -> bool:
    return data_type.typeName() in ("float", "double")


def _text(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
