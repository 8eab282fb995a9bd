"""Declarations and changes as JSON, exactly there and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from airflow_provider_schemamig.core.jsonable import from_json, to_json
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.model import Declaration
from tests.unit.schema.strategies import declarations
from tests.unit.schema.test_apply import APPLIED


@settings(max_examples=50, deadline=None)
@given(declarations())
def test_a_declaration_there_and_back(declaration: Declaration) -> None:
    assert from_json(Declaration, json.loads(json.dumps(to_json(declaration)))) == declaration


@pytest.mark.parametrize("change", [change for change, _, _ in APPLIED])
def test_a_change_there_and_back(change: Change) -> None:
    assert from_json(Change, json.loads(json.dumps(to_json(change)))) == change


@pytest.mark.parametrize("data", [{}, {"name": "a"}, {"name": "a", "fields": 1}, {"name": "a", "fields": [], "other": 1}])
def test_what_is_no_declaration(data: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        from_json(Declaration, data)
