"""Declarations and changes as JSON values and back, exactly: order and comments are kept (``core.jsonable`` does the work).

``describe_change`` is the other form, for people and programs that read plans: DESIGN section 10's ``{"op", "path", ...}``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from airflow_provider_schemamig.core.jsonable import from_json, to_json
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.model import Array, Declaration, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.sql import type_sql


def declaration_to_json(declaration: Declaration) -> dict[str, Any]:
    return cast(dict[str, Any], to_json(declaration))


def declaration_from_json(data: dict[str, Any]) -> Declaration:
    """Raises ValueError, KeyError or TypeError if ``data`` is not a declaration."""
    return cast(Declaration, from_json(Declaration, data))


def change_to_json(change: Change) -> dict[str, Any]:
    return cast(dict[str, Any], to_json(change))


def change_from_json(data: dict[str, Any]) -> Change:
    """Raises ValueError, KeyError or TypeError if ``data`` is not a change."""
    return cast(Change, from_json(Change, data))


def describe_change(change: Change) -> dict[str, Any]:
    """A change as plans and ``schemamig diff`` print it: ``op``, ``path`` where it has one, types as Spark SQL."""
    described = {f.name: _describe(getattr(change, f.name)) for f in fields(change)}
    return {"op": change.op, **described, "cost": change.cost.value, "phase": change.phase.value}


def _describe(value: Any) -> Any:
    if isinstance(value, Primitive | Array | Map | Struct):
        return type_sql(value)
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _describe(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_describe(item) for item in value]
    return value
