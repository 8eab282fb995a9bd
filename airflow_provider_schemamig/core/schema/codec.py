"""Declarations and changes as JSON values and back, exactly: order and comments are kept (``core.jsonable`` does the work).

What plans and ``schemamig diff`` print of a change is another form: ``schema.describe``.
"""

from __future__ import annotations

from typing import Any, cast

from airflow_provider_schemamig.core.jsonable import from_json, to_json
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.model import Declaration


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
