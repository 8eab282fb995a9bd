"""Conditions in Spark SQL that are true for a row with a violation anywhere in a column, at any depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.errors import QueryRefused

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Leaf = Callable[[str], str]


def not_null_violation(schema: StructType, path: str) -> str:
    return _somewhere(schema, path, lambda value: f"({value} IS NULL)")


def cast_violation(schema: StructType, path: str, target: str) -> str:
    return _somewhere(schema, path, lambda value: f"({value} IS NOT NULL AND try_cast({value} AS {target}) IS NULL)")


def check_violation(expression: str) -> str:
    """Return SQL of a broken CHECK: Delta lets a row in only if the expression is true, neither false nor NULL."""
    return f"(({expression}) IS NOT TRUE)"


def _somewhere(schema: StructType, path: str, leaf: Leaf) -> str:
    """Apply ``leaf`` to the values at ``path``, dotted, with ``element``, ``key`` and ``value`` for what lies in arrays and maps."""
    first, *rest = path.split(".")
    return _inside(schema, None, first, rest, leaf, path)


def _inside(data_type: Any, value: str | None, part: str, rest: list[str], leaf: Leaf, path: str) -> str:
    """Go one step down: from ``value`` (None: the row) of ``data_type`` to ``part`` of it."""
    kind = data_type.typeName()
    if kind == "struct":
        field = next((field for field in data_type.fields if field.name.lower() == part.lower()), None)
        if field is not None:
            name = quote(field.name)
            if value is None:
                return _at(field.dataType, name, rest, leaf, path)
            return f"({value} IS NOT NULL AND {_at(field.dataType, f'{value}.{name}', rest, leaf, path)})"
    elif kind == "array" and part == "element":
        return _any_of(str(value), data_type.elementType, rest, leaf, path)
    elif kind == "map" and part == "key":
        return _any_of(f"map_keys({value})", data_type.keyType, rest, leaf, path)
    elif kind == "map" and part == "value":
        return _any_of(f"map_values({value})", data_type.valueType, rest, leaf, path)
    raise QueryRefused(condition="UNRESOLVED_COLUMN", detail=f"the table has no column {path!r}")


def _at(data_type: Any, value: str, rest: list[str], leaf: Leaf, path: str) -> str:
    return _inside(data_type, value, rest[0], rest[1:], leaf, path) if rest else leaf(value)


def _any_of(array: str, data_type: Any, rest: list[str], leaf: Leaf, path: str) -> str:
    """Return whether any element does; a missing array has none. One variable name for each depth, by what is left of the path."""
    element = f"x{len(rest)}"
    return f"coalesce(exists({array}, {element} -> {_at(data_type, element, rest, leaf, path)}), false)"
