"""The last look before a commit: whatever a broken edit could do to a table is seen."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.validate import InvalidCommit, TableState, validate
from airflow_provider_schemamig.core.schema.changes import ChangeType, DropColumn, RenameColumn
from tests.unit.delta.tables import BIGINT, INT, flights, nested, path, raw

Raw = dict[str, Any]
Tamper = Callable[[Raw, Raw], object]


def schema(change: Callable[[list[Raw]], object]) -> Tamper:
    def tamper(_: Raw, metadata: Raw) -> None:
        document = json.loads(metadata["schemaString"])
        change(document["fields"])
        metadata["schemaString"] = json.dumps(document)

    return tamper


def mapped() -> tuple[Raw, Raw]:
    protocol, metadata = raw(nested())
    protocol, metadata, _ = edit(protocol, metadata, [RenameColumn(path("origin.code"), "airport")])
    return copy.deepcopy(dict(protocol)), copy.deepcopy(dict(metadata))


def test_an_honest_commit_passes() -> None:
    before = raw(nested())
    after = edit(*before, [RenameColumn(path("origin.code"), "airport"), DropColumn(path("tags"))])
    validate("file:///t", TableState(*before), after)
    validate("file:///t", None, after)


@pytest.mark.parametrize(
    "tamper, words",
    [
        (lambda p, m: m.pop("format"), "format"),
        (lambda p, m: m.pop("partitionColumns"), "partitionColumns"),
        (lambda p, m: m.update(format={"provider": "parquet"}), "format"),
        (lambda p, m: m.update(id="another"), "change id"),
        (lambda p, m: m.update(schemaString="{"), "does not parse"),
        (lambda p, m: m.update(schemaString='{"type":"struct"}'), "does not parse"),
        (lambda p, m: m.update(schemaString='{"type":"struct","fields":[]}'), "no fields"),
        (lambda p, m: m.update(partitionColumns=["nope"]), "partition column nope"),
        (lambda p, m: m["configuration"].update({"delta.constraints.c": "1 = 1"}), "checkConstraints"),
        (lambda p, m: m["configuration"].update({"delta.enableDeletionVectors": "true"}), "deletionVectors"),
        (lambda p, m: m["configuration"].update({"delta.columnMapping.maxColumnId": "3"}), "above"),
        (lambda p, m: m["configuration"].pop("delta.columnMapping.mode"), "switched off"),
        (lambda p, m: p.update(minReaderVersion=1, readerFeatures=None), "reader"),
        (lambda p, m: p["writerFeatures"].remove("invariants"), "invariants"),
        (lambda p, m: p["readerFeatures"].clear(), "reader"),
        (schema(lambda f: f.append(dict(f[0]))), "two fields named"),
        (schema(lambda f: f[1].update(name="ID")), "two fields named"),
        (schema(lambda f: f[1]["metadata"].pop("delta.columnMapping.id")), "no column-mapping id"),
        (schema(lambda f: f[1]["metadata"].pop("delta.columnMapping.physicalName")), "no column-mapping id"),
        (schema(lambda f: f[1]["metadata"].update({"delta.columnMapping.id": 1})), "one column-mapping id"),
        (schema(lambda f: f[1]["metadata"].update({"delta.columnMapping.physicalName": "id"})), "one physical name"),
        (schema(lambda f: f[0].update(type="string")), "change its type"),
        (schema(lambda f: f[4]["type"].update(elementType="long")), "change its type"),
        (schema(lambda f: f[0].update(type="timestamp_ntz")), "timestampNtz"),
        (schema(lambda f: f[0].pop("nullable")), "incomplete"),
    ],
)
def test_tampering_is_seen(tamper: Tamper, words: str) -> None:
    before, after = mapped(), mapped()
    after[1]["id"] = before[1]["id"]
    tamper(*after)
    with pytest.raises(InvalidCommit, match=words):
        validate("file:///t", TableState(*before), TableState(*after))


def test_a_column_of_an_unmapped_table_goes_only_when_it_is_forgotten() -> None:
    protocol, metadata = raw(flights())
    after = dict(metadata)
    schema(lambda f: f.pop())(dict(protocol), after)
    states = TableState(protocol, metadata), TableState(protocol, after)
    with pytest.raises(InvalidCommit, match="dep_delay would be dropped"):
        validate("file:///t", *states)
    validate("file:///t", *states, forget=[path("dep_delay")])


def test_a_feature_is_never_lost() -> None:
    protocol, metadata = raw(flights())
    more, after, _ = edit(protocol, metadata, [ChangeType(path("dep_delay"), INT, BIGINT, True, True)])
    validate("file:///t", TableState(protocol, metadata), TableState(more, after))
    with pytest.raises(InvalidCommit, match="would lose typeWidening"):
        validate("file:///t", TableState(more, metadata), TableState(protocol, metadata))
