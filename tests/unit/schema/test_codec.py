"""Declarations and changes as JSON, exactly there and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import AddCheck, AddColumn, Change, ChangeType
from airflow_provider_schemamig.core.schema.codec import (
    change_from_json,
    change_to_json,
    declaration_from_json,
    declaration_to_json,
    describe_change,
)
from airflow_provider_schemamig.core.schema.model import Check, Declaration, Primitive
from tests.unit.schema.strategies import declarations
from tests.unit.schema.tables import field
from tests.unit.schema.test_apply import APPLIED


@settings(max_examples=50, deadline=None)
@given(declarations())
def test_a_declaration_there_and_back(declaration: Declaration) -> None:
    assert declaration_from_json(json.loads(json.dumps(declaration_to_json(declaration)))) == declaration


@pytest.mark.parametrize("change", [change for change, _, _ in APPLIED])
def test_a_change_there_and_back(change: Change) -> None:
    assert change_from_json(json.loads(json.dumps(change_to_json(change)))) == change


@pytest.mark.parametrize("change", [change for change, _, _ in APPLIED])
def test_a_change_described_is_a_document(change: Change) -> None:
    document = json.loads(json.dumps(describe_change(change)))
    assert document["op"] == change.op
    assert document["cost"] == change.cost.value


def test_descriptions() -> None:
    widened = ChangeType(ColumnPath("a"), Primitive("int"), Primitive("bigint"), widening=True, shadowable=True)
    assert describe_change(widened) == {
        "op": "change_type",
        "path": "a",
        "old": "INT",
        "new": "BIGINT",
        "widening": True,
        "shadowable": True,
        "cost": "instant",
        "phase": "expand",
    }
    added = describe_change(AddColumn(ColumnPath("s"), field("s STRUCT<x: INT>")))
    assert added["field"] == {"name": "s", "type": "STRUCT<`x`: INT>", "nullable": True, "default": None, "comment": None}
    assert describe_change(AddCheck(Check("c", "a > 0")))["check"] == {"name": "c", "expression": "a > 0"}


@pytest.mark.parametrize("data", [{}, {"name": "a"}, {"name": "a", "fields": 1}, {"name": "a", "fields": [], "other": 1}])
def test_what_is_no_declaration(data: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        declaration_from_json(data)
