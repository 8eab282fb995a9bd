"""Columns come and go under the same few names; what a file once stored shows only under the column that stored it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.errors import LogDamaged
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.validate import InvalidCommit, TableState, validate
from airflow_provider_schemamig.core.delta.names import MAPPING_ID, fields_in, physical_name
from airflow_provider_schemamig.core.delta.properties import MAPPING_MAX_ID
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, DropColumn, RenameColumn
from airflow_provider_schemamig.core.schema.model import Field, Struct
from tests.support.examples import examples
from tests.unit.delta.tables import BIGINT, INT, STRING, flights, path, raw, schema_of

NAMES = ("a", "b", "c", "d")
TYPES = {"int": INT, "string": STRING}


@dataclass
class Column:
    """A column as its users know it; ``token`` is its identity, whatever it is called. ``files``: how many there were when it came."""

    name: str
    token: int
    kind: str
    files: int


@dataclass
class Table:
    """Delta's metadata, and data files as {physical name: (kind, token of the column that stored it)}, at the top and inside ``s``."""

    protocol: RawAction
    metadata: RawAction
    files: list[dict[str, dict[str, tuple[str, int]]]] = field(default_factory=list)

    def change(self, *changes: Change, forget: tuple[ColumnPath, ...] = ()) -> None:
        protocol, metadata, _ = edit(self.protocol, self.metadata, changes, forget=forget)
        validate("t", TableState(self.protocol, self.metadata), TableState(protocol, metadata), forget)
        self.protocol, self.metadata = protocol, metadata

    def struct(self, where: str) -> list[dict[str, Any]]:
        top: list[dict[str, Any]] = schema_of(self.metadata)["fields"]
        return top if not where else next(f["type"]["fields"] for f in top if f["name"] == where)


class Identities(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        declaration = flights(Field("id", BIGINT), Field("s", Struct((Field("k", INT),))))
        self.table = Table(*raw(declaration))
        self.columns: dict[str, list[Column]] = {"": [], "s": []}
        self.tokens = 0
        self.highest = 0

    def free(self, where: str) -> list[str]:
        return [name for name in NAMES if name not in {column.name for column in self.columns[where]}]

    @rule(where=st.sampled_from(["", "s"]), kind=st.sampled_from(sorted(TYPES)), data=st.data())
    def add(self, where: str, kind: str, data: st.DataObject) -> None:
        if not self.free(where):
            return
        name = data.draw(st.sampled_from(self.free(where)))
        self.tokens += 1
        self.table.change(AddColumn(_path(where, name), Field(name, TYPES[kind])))
        self.columns[where].append(Column(name, self.tokens, kind, len(self.table.files)))

    @rule(where=st.sampled_from(["", "s"]), data=st.data())
    def drop(self, where: str, data: st.DataObject) -> None:
        if not self.columns[where]:
            return
        column = data.draw(st.sampled_from(self.columns[where]))
        carried = len(self.table.files) > column.files
        gone = _path(where, column.name)
        self.table.change(DropColumn(gone), forget=() if carried else (gone,))
        self.columns[where].remove(column)

    @rule(where=st.sampled_from(["", "s"]), data=st.data())
    def rename(self, where: str, data: st.DataObject) -> None:
        if not self.columns[where] or not self.free(where):
            return
        column = data.draw(st.sampled_from(self.columns[where]))
        name = data.draw(st.sampled_from(self.free(where)))
        self.table.change(RenameColumn(_path(where, column.name), name))
        column.name = name

    @precondition(lambda self: len(self.table.files) < 6)
    @rule()
    def write(self) -> None:
        """A file of today's schema, by anybody."""
        stored: dict[str, dict[str, tuple[str, int]]] = {}
        for where, columns in self.columns.items():
            by_name = {f["name"]: f for f in self.table.struct(where)}
            stored[where] = {physical_name(by_name[column.name]): (column.kind, column.token) for column in columns}
        self.table.files.append(stored)

    @invariant()
    def every_file_shows_each_column_what_it_stored_and_nothing_else(self) -> None:
        for where, columns in self.columns.items():
            by_name = {f["name"]: f for f in self.table.struct(where)}
            for number, file in enumerate(self.table.files):
                for column in columns:
                    found = file[where].get(physical_name(by_name[column.name]))
                    assert found == ((column.kind, column.token) if number >= column.files else None), (where, column, number)

    @invariant()
    def ids_only_grow(self) -> None:
        highest = int(self.table.metadata["configuration"].get(MAPPING_MAX_ID, 0))
        ids = [f["metadata"].get(MAPPING_ID, 0) for _, f in fields_in(schema_of(self.table.metadata))]
        assert highest >= self.highest
        assert max(ids) <= highest
        self.highest = highest


def _path(where: str, name: str) -> ColumnPath:
    return path(f"{where}.{name}" if where else name)


TestIdentities = Identities.TestCase
TestIdentities.settings = settings(max_examples=examples(20), stateful_step_count=25)


# --- the last look before a commit ---------------------------------------------------------------------------------------------------


def mapped() -> TableState:
    """A table on which a column was dropped: ``id`` has id 1, the next new column would get 3."""
    return edit(*raw(flights()), [DropColumn(path("dep_delay"))])


def with_schema(state: TableState, change: Any) -> TableState:
    schema = schema_of(state.metadata)
    change(schema["fields"])
    return TableState(state.protocol, {**state.metadata, "schemaString": json.dumps(schema)})


def new_field(number: int, physical: str) -> dict[str, Any]:
    metadata = {MAPPING_ID: number, "delta.columnMapping.physicalName": physical}
    return {"name": "dep_delay", "type": "integer", "nullable": True, "metadata": metadata}


def test_a_commit_that_gives_a_dropped_columns_identity_away_is_refused() -> None:
    before = mapped()
    with pytest.raises(InvalidCommit, match="identity of a column that was dropped"):
        validate("t", before, with_schema(before, lambda fields: fields.append(new_field(2, "dep_delay"))))


def test_a_table_that_lost_an_identity_is_damaged() -> None:
    """Also where the very column goes: nobody can tell which bytes it had."""
    before = mapped()
    damaged = with_schema(before, lambda fields: fields.append({**new_field(9, "dep_delay"), "metadata": {}}))
    with pytest.raises(LogDamaged, match="dep_delay has no delta"):
        validate("t", damaged, before)


def test_a_commit_that_lowers_the_highest_id_is_refused() -> None:
    before = mapped()
    configuration = {**before.metadata["configuration"], MAPPING_MAX_ID: "1"}
    with pytest.raises(InvalidCommit, match="would go down"):
        validate("t", before, TableState(before.protocol, {**before.metadata, "configuration": configuration}))


def test_a_commit_that_gives_a_column_other_bytes_is_refused() -> None:
    before = mapped()
    with pytest.raises(InvalidCommit, match="other bytes"):
        validate("t", before, with_schema(before, lambda fields: fields[0]["metadata"].update({"delta.columnMapping.physicalName": "x"})))
