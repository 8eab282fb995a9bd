"""Declarations and changes as JSON, exactly there and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, get_args

import pytest
from hypothesis import given, settings

from airflow_provider_schemamig.core.jsonable import TAGS, from_json, to_json, union
from airflow_provider_schemamig.core.release.merge.merged import MergedStep
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.model import DataType, Declaration
from airflow_provider_schemamig.core.upgrade.plan.stages import Stage
from tests.support.examples import examples
from tests.unit.schema.strategies import declarations
from tests.unit.schema.test_apply import APPLIED


@settings(max_examples=examples(20), deadline=None)
@given(declarations())
def test_a_declaration_there_and_back(declaration: Declaration) -> None:
    assert from_json(Declaration, json.loads(json.dumps(to_json(declaration)))) == declaration


@pytest.mark.parametrize("change", [change for change, _, _ in APPLIED])
def test_a_change_there_and_back(change: Change) -> None:
    assert from_json(Change, json.loads(json.dumps(to_json(change)))) == change


@pytest.mark.parametrize("data", [{}, {"name": "a"}, {"name": "a", "fields": 1}, {"name": "a", "fields": [], "other": 1}])
def test_codec_what_is_no_declaration(data: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        from_json(Declaration, data)


@dataclass(frozen=True)
class Before:
    size: int


@dataclass(frozen=True)
class After:
    """``Before`` by the name that it got later."""

    size: int


@dataclass(frozen=True)
class Another:
    size: int


union({"sized": Before})
union({"sized": After, "other": Another})


def test_a_class_gets_another_name_and_what_was_stored_is_still_read() -> None:
    stored = to_json(Before(3))
    assert stored == {"@": "sized", "size": 3}
    assert from_json(After | Another, stored) == After(3)


def test_equal_names_and_columns_of_two_tables_are_one_object() -> None:
    text = '{"name": "orders", "fields": [{"name": "id", "type": {"@": "primitive", "name": "bigint"}, "comment": "key"}]}'
    one, other = (from_json(Declaration, json.loads(text)) for _ in range(2))
    assert one is not other and one.name is other.name and one.fields[0] is other.fields[0]


@pytest.mark.parametrize("kind", [DataType, Change, MergedStep, Stage], ids=["types", "changes", "steps", "stages"])
def test_no_tag_is_the_name_of_a_class(kind: Any) -> None:
    tags = [TAGS[member] for member in get_args(kind)]
    assert len(set(tags)) == len(tags)
    assert not {member.__name__ for member in get_args(kind)} & set(tags)
