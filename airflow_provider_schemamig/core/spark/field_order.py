"""A query's columns, and what is inside of them, found by name. Types are pyspark's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.schema.field_order import FieldOrder, FieldsMoved, Inside
from airflow_provider_schemamig.core.spark.errors import QueryRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField


def values_by_name(spark: SparkSession, query: str, fields: Sequence[StructField]) -> dict[str, str]:
    """Return SQL of the query's column for each of ``fields``, with all that is inside it in their order. Raises QueryRefused."""
    values = {f.name: quote(f.name) for f in fields}
    nested = [f for f in fields if has_type(f.dataType, _is_struct)]
    if nested:
        given = spark.sql(f"SELECT {', '.join(quote(f.name) for f in nested)} FROM (\n{query}\n)").schema
        values |= {f.name: in_order(quote(f.name), there.dataType, f.dataType, f.name) for f, there in zip(nested, given, strict=True)}
    return values


def in_order(value: str, given: Any, wanted: Any, path: str) -> str:
    """Return SQL of ``value``, of type ``given``, with the fields of its structs in the order of ``wanted``.

    Raises QueryRefused for a struct of which only some names are known, in other positions.
    """
    try:
        return FieldOrder(_inside).of(value, given, wanted, path)
    except FieldsMoved as found:
        known = f"the fields {', '.join(found.given)} in the query and {', '.join(found.wanted)} in the table"
        detail = f"{found.path} has {known}, so {found.moved} could be either of two: give all of them the table's names"
        raise QueryRefused(condition="FIELD_ORDER", detail=detail) from None


def _inside(data_type: Any) -> Inside:
    match data_type.typeName():
        case "struct":
            return {field.name: field.dataType for field in data_type.fields}
        case "array":
            return (data_type.elementType,)
        case "map":
            return (data_type.keyType, data_type.valueType)
        case _:
            return None


def has_type(data_type: Any, wanted: Callable[[Any], bool]) -> bool:
    """Return whether a type is a wanted one, or has one inside."""
    found = _inside(data_type)
    parts = found.values() if isinstance(found, dict) else found or ()
    return wanted(data_type) or any(has_type(part, wanted) for part in parts)


def _is_struct(data_type: Any) -> bool:
    return bool(data_type.typeName() == "struct")
