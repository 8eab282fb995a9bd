"""Fields of structs found by their names: a CAST goes by position, and so does an INSERT of Delta for most of what is nested.

Types are pyspark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.schema.sql import string_sql
from airflow_provider_schemamig.core.spark.errors import QueryRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField


def values_by_name(spark: SparkSession, query: str, fields: Sequence[StructField]) -> dict[str, str]:
    """Return SQL of the query's column for each of ``fields``, with all that is inside it in their order. Raises QueryRefused."""
    values = {f.name: quote(f.name) for f in fields}
    nested = [f for f in fields if _has_struct(f.dataType)]
    if nested:
        given = spark.sql(f"SELECT {', '.join(quote(f.name) for f in nested)} FROM (\n{query}\n)").schema
        values |= {f.name: in_order(quote(f.name), there.dataType, f.dataType, f.name) for f, there in zip(nested, given, strict=True)}
    return values


def _has_struct(data_type: Any) -> bool:
    """Return whether a type is a struct, or has one inside."""
    match data_type.typeName():
        case "struct":
            return True
        case "array":
            return _has_struct(data_type.elementType)
        case "map":
            return _has_struct(data_type.keyType) or _has_struct(data_type.valueType)
        case _:
            return False


def in_order(value: str, given: Any, wanted: Any, path: str, depth: int = 0) -> str:
    """Return SQL of ``value``, of type ``given``, with the fields of its structs in the order of ``wanted``.

    A struct of other names stays as it is: whoever gives a field another name in a query means it by its position. ``depth``: of lambdas.
    Raises QueryRefused for a struct of which only some names are known, in other positions.
    """
    match given.typeName(), wanted.typeName():
        case "struct", "struct":
            return _struct(value, given, wanted, path, depth)
        case "array", "array":
            item = f"x{depth}"
            found = in_order(item, given.elementType, wanted.elementType, f"{path}.element", depth + 1)
            return value if found == item else f"transform({value}, {item} -> {found})"
        case "map", "map":
            key, item = f"k{depth}", f"x{depth}"
            keys = in_order(key, given.keyType, wanted.keyType, f"{path}.key", depth + 1)
            values = in_order(item, given.valueType, wanted.valueType, f"{path}.value", depth + 1)
            found = value if keys == key else f"transform_keys({value}, ({key}, {item}) -> {keys})"
            return found if values == item else f"transform_values({found}, ({key}, {item}) -> {values})"
        case _:
            return value


def _struct(value: str, given: Any, wanted: Any, path: str, depth: int) -> str:
    names, there = [_key(f) for f in wanted.fields], {_key(f): f for f in given.fields}
    if set(names) != set(there):
        _check_positions([_key(f) for f in given.fields], names, path)
        there = dict(zip(names, given.fields, strict=False))
    if len(names) != len(given.fields) or len(there) != len(names):  # Spark has its own words for that
        return value
    inside = {
        name: in_order(f"{value}.{quote(there[name].name)}", there[name].dataType, field.dataType, f"{path}.{field.name}", depth)
        for name, field in zip(names, wanted.fields, strict=True)
    }
    if list(inside.values()) == [f"{value}.{quote(field.name)}" for field in given.fields]:
        return value
    return f"IF({value} IS NULL, NULL, named_struct({_arguments(inside, there)}))"


def _arguments(inside: Mapping[str, str], there: Mapping[str, Any]) -> str:
    return ", ".join(f"{string_sql(there[name].name)}, {value}" for name, value in inside.items())


def _check_positions(given: Sequence[str], wanted: Sequence[str], path: str) -> None:
    moved = next((name for name in given if name in wanted and given.index(name) != wanted.index(name)), None)
    if moved is not None:
        known = f"the fields {', '.join(given)} in the query and {', '.join(wanted)} in the table"
        detail = f"{path} has {known}, so {moved} could be either of two: give all of them the table's names"
        raise QueryRefused(condition="FIELD_ORDER", detail=detail)


def _key(field: Any) -> str:
    """Return a field's name as Spark compares names."""
    return str(field.name).lower()
