"""Edits for the tests: whatever an edit gives must pass the committer's last look."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.validate import TableState, validate
from airflow_provider_schemamig.core.schema.changes import (
    Change,
)
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.unit.delta.tables import raw


def edited(declaration: Declaration, *changes: Change, **configuration: str) -> tuple[Any, Any]:
    """(protocol, metaData) after the changes; whatever an edit gives must pass the committer's last look."""
    protocol, metadata = raw(declaration, **configuration)
    before = copy.deepcopy((protocol, metadata))
    after = edit(protocol, metadata, changes)
    assert (protocol, metadata) == before, "the arguments were touched"
    validate("file:///t", TableState(protocol, metadata), after)
    assert after.metadata["unknownKey"] == {"kept": True}
    return after.protocol, after.metadata


def refused(kind: type[SchemamigError], declaration: Declaration, *changes: Change, **configuration: str) -> str:
    protocol, metadata = raw(declaration, **configuration)
    with pytest.raises(kind) as caught:
        edit(protocol, metadata, changes)
    return str(caught.value)


def mapping(field: dict[str, Any]) -> tuple[Any, Any]:
    return field["metadata"].get("delta.columnMapping.id"), field["metadata"].get("delta.columnMapping.physicalName")
