"""Quoting, types as SQL, properties, the order of renames, paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, RenameColumn
from airflow_provider_schemamig.core.schema.delta_rules.properties import SAFE, refusal_reason
from airflow_provider_schemamig.core.schema.delta_rules.table_features import DECLARABLE
from airflow_provider_schemamig.core.schema.diff.renames import (
    in_order,
    is_stand_in,
    net_renames,
    outdated_name,
    retired_name,
    shadow_name,
    stands_in_for,
)
from airflow_provider_schemamig.core.schema.paths import PathNotFound, edit_slot, field_at, slot_at, struct_at, translate
from airflow_provider_schemamig.core.schema.sql import quote, type_sql
from tests.unit.schema.tables import field, table


def test_small_parts_quote() -> None:
    assert quote("a") == "`a`"
    assert quote("a`; DROP TABLE t") == "`a``; DROP TABLE t`"


@pytest.mark.parametrize(
    ("declared", "sql"),
    [
        ("decimal(10,2)", "DECIMAL(10,2)"),
        ("struct<a: int not null comment 'x', b: array<date>>", "STRUCT<`a`: INT, `b`: ARRAY<DATE>>"),
        ("map<string, timestamp_ntz>", "MAP<STRING, TIMESTAMP_NTZ>"),
    ],
)
def test_types_as_sql(declared: str, sql: str) -> None:
    assert type_sql(field(f"x {declared}").type) == sql
    assert type_sql(field(f"x {sql}").type) == sql


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("delta.columnMapping.mode", "by itself"),
        ("delta.columnMapping.maxColumnId", "by itself"),
        ("delta.constraints.x", "CONSTRAINT name CHECK"),
        ("DELTA.Constraints.x", "CONSTRAINT name CHECK"),
        ("delta.feature.columnMapping", "together with the change"),
        ("delta.minReaderVersion", "protocol version"),
        ("delta.minWriterVersion", "protocol version"),
        ("delta.appendOnly", "sealed"),
        ("delta.setTransactionRetentionDuration", "fence"),
        ("delta.checkpointPolicy", "feature"),
        ("delta.checkpointinterval", "Delta spells it delta.checkpointInterval"),
        ("delta.unknown", "unknown"),
        ("schemamig.x", "its own"),
    ],
)
def test_properties_that_are_refused(key: str, reason: str) -> None:
    assert reason in str(refusal_reason(key))


@pytest.mark.parametrize("key", [*sorted(SAFE | DECLARABLE), "owned_by", "deltaish", "my.delta.key"])
def test_properties_that_are_free(key: str) -> None:
    assert refusal_reason(key) is None


@pytest.mark.parametrize(
    ("renames", "ordered"),
    [
        ([("a", "b"), ("c", "d")], [("a", "b"), ("c", "d")]),
        ([("a", "b"), ("b", "c"), ("c", "d")], [("c", "d"), ("b", "c"), ("a", "b")]),
        ([("a", "A")], [("a", "A")]),
        ([("a", "B"), ("b", "c")], [("b", "c"), ("a", "B")]),
        ([("a", "b"), ("b", "c"), ("c", "a")], [("a", "schemamig_swap_a"), ("c", "a"), ("b", "c"), ("schemamig_swap_a", "b")]),
    ],
)
def test_renames_in_an_order_that_works(renames: list[tuple[str, str]], ordered: list[tuple[str, str]]) -> None:
    assert in_order(renames) == ordered


def test_schema_parts_what_a_sequence_of_renames_amounts_to() -> None:
    sequence: list[Change] = [
        RenameColumn(ColumnPath("s.x"), "y"),
        AddColumn(ColumnPath("s.z"), field("z INT")),
        RenameColumn(ColumnPath("s"), "t"),
        RenameColumn(ColumnPath("a"), "swap"),
        RenameColumn(ColumnPath("b"), "a"),
        RenameColumn(ColumnPath("swap"), "b"),
        RenameColumn(ColumnPath("c"), "d"),
        RenameColumn(ColumnPath("d"), "c"),
    ]
    assert net_renames(sequence) == {"s.x": "y", "s": "t", "a": "b", "b": "a"}


def test_a_retired_name_is_free() -> None:
    assert retired_name("a", []) == "schemamig_retired_a"
    assert retired_name("a", ["schemamig_retired_a"]) == "schemamig_retired2_a"


def test_small_parts_paths() -> None:
    fields = table("s STRUCT<l: ARRAY<STRUCT<element: INT>>>, m MAP<STRUCT<k: INT>, INT>").fields
    found = field_at(fields, "s.l.element.element")
    assert found is not None
    assert found.name == "element"
    assert field_at(fields, "s.l.element") is None
    assert struct_at(fields, "m.key") == (field("k INT"),)
    assert struct_at(fields, "s.l") is None
    assert slot_at(fields, "m.value") is not None
    assert slot_at(fields, "m.other") is None
    with pytest.raises(PathNotFound):
        edit_slot(fields, "s.l.x", lambda slot: slot)
    assert translate("a.b.c", {ColumnPath("a"): "x", ColumnPath("a.b.c"): "z", ColumnPath("b"): "no"}) == "x.b.z"


NAMES = st.text("aeA_2é ", min_size=1, max_size=5)


@given(one=NAMES, other=NAMES, taken=st.lists(NAMES, max_size=4))
def test_a_stand_in_is_of_one_column_alone(one: str, other: str, taken: list[str]) -> None:
    beside = {name for found in taken for name in (shadow_name(found, ()).lower(), outdated_name(found, ()).lower())}
    for name in (shadow_name(one, beside), outdated_name(one, beside)):
        assert is_stand_in(name)
        assert stands_in_for(name, one)
        assert stands_in_for(name, other) == (one == other)
