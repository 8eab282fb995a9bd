"""Columns added, dropped and renamed in Delta's raw metadata: what is written, what is left alone, what is refused."""

from __future__ import annotations

import json

import pytest

from airflow_provider_schemamig.core.delta.features import effective_features
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.errors import ColumnInUse, NotInstant
from airflow_provider_schemamig.core.schema.changes import (
    AddColumn,
    Change,
    ChangeType,
    DropColumn,
    Relax,
    RenameColumn,
)
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.expressions.parse import canonical_expression
from airflow_provider_schemamig.core.schema.expressions.renames import RenameInLambda
from airflow_provider_schemamig.core.schema.model import Array, Check, Field, Struct
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.unit.delta.metadata.editing import edited, mapping, refused
from tests.unit.delta.tables import BIGINT, INT, STRING, add_int, declared, field_of, flights, nested, path, raw, schema_of

# --- adding --------------------------------------------------------------------------------------------------------------------------


def test_add_is_plain_metadata_and_leaves_the_protocol_alone() -> None:
    protocol, metadata = edited(flights(), AddColumn(path("gate"), Field("gate", STRING, comment="where")))
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert field_of(metadata, "gate") == {"name": "gate", "type": "string", "nullable": True, "metadata": {"comment": "where"}}
    assert [f["name"] for f in schema_of(metadata)["fields"]] == ["id", "dep_delay", "gate"]


@pytest.mark.parametrize("parent", ["origin", "stops.element", "notes.value"])
def test_add_works_at_any_depth(parent: str) -> None:
    _, metadata = edited(nested(), add_int(f"{parent}.x"))
    _, expected = edited(nested(), AddColumn(path(f"{parent}.x"), Field("x", INT)))
    assert metadata["schemaString"] == expected["schemaString"]
    assert '"name":"x"' in metadata["schemaString"]


def test_add_to_a_mapped_table_takes_new_ids_and_unused_physical_names() -> None:
    new = Field("leg", Struct((Field("a", INT), Field("b", Array(Struct((Field("c", INT),)))))))
    _, metadata = edited(flights(), RenameColumn(path("dep_delay"), "delay"), AddColumn(path("leg"), new))
    leg = field_of(metadata, "leg")
    inner = leg["type"]["fields"]
    fields = [leg, *inner, inner[1]["type"]["elementType"]["fields"][0]]
    assert [mapping(f)[0] for f in fields] == [3, 4, 5, 6]
    assert len({mapping(f)[1] for f in fields}) == 4
    assert all(mapping(f)[1].startswith("col-") for f in fields)
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "6"


@pytest.mark.parametrize(
    ("rule", "is_asked"),
    [("origin IS NOT NULL", False), ("origin.miles > 0", True), ("size(stops) < 5", False), ("exists(stops, x -> x.miles > 0)", True)],
)
def test_a_way_back_drops_a_field_under_a_rule_that_does_not_name_it(rule: str, is_asked: bool) -> None:
    protocol, metadata = raw(nested(), delta__constraints__c=rule)
    drop = [DropColumn(path("origin.miles" if "origin" in rule else "stops.element.miles"))]
    with pytest.raises(ColumnInUse, match="CHECK c"):  # as Delta refuses it
        edit(protocol, metadata, drop)
    if is_asked:
        with pytest.raises(ColumnInUse, match="CHECK c"):
            edit(protocol, metadata, drop, stood_before=True)
    else:
        _, after, _ = edit(protocol, metadata, drop, stood_before=True)
        assert after["schemaString"].count('"name":"miles"') == 2, "of three"


def test_a_dropped_name_can_come_back_as_another_column() -> None:
    protocol, metadata = edited(flights(), DropColumn(path("dep_delay")))
    _, again, _ = edit(protocol, metadata, [add_int("dep_delay")])
    assert mapping(field_of(again, "dep_delay"))[1] != "dep_delay"
    assert mapping(field_of(again, "dep_delay"))[0] == 3


def test_add_of_a_hidden_column_takes_it_as_it_stands() -> None:
    _, metadata = edited(flights(), AddColumn(path("dep_delay"), Field("dep_delay", INT, comment="minutes")))
    assert declared(metadata) == flights(Field("id", BIGINT), Field("dep_delay", INT, comment="minutes"))


@pytest.mark.parametrize(
    "change, kind",
    [
        (AddColumn(path("dep_delay"), Field("dep_delay", STRING)), NotApplicable),
        (AddColumn(path("DEP_DELAY"), Field("DEP_DELAY", INT)), NotApplicable),
        (AddColumn(path("gate.x"), Field("x", INT)), NotApplicable),
        (AddColumn(path("id.x"), Field("x", INT)), NotApplicable),
        (AddColumn(path("gate"), Field("gate", INT, nullable=False)), NotInstant),
        (AddColumn(path("a"), Field("a", Array(Struct((Field("x", INT, nullable=False),))))), NotApplicable),
    ],
)
def test_adds_that_cannot_be(change: Change, kind: type[SchemamigError]) -> None:
    refused(kind, flights(), change)


def test_a_field_called_element_is_no_array() -> None:
    odd = Field("s", Struct((Field("element", Struct((Field("x", INT, nullable=False),))),)))
    refused(NotInstant, flights(), AddColumn(path("s"), odd))
    free = Field("s", Struct((Field("element", Struct((Field("x", INT),))),)))
    _, metadata = edited(flights(), AddColumn(path("s"), free))
    assert declared(metadata).fields[-1] == free
    _, metadata = edited(flights(Field("id", INT), odd), Relax(path("s.element.x")))
    assert '"nullable":false' not in metadata["schemaString"]


# --- dropping and renaming: column mapping -------------------------------------------------------------------------------------------


def test_the_first_rename_switches_column_mapping_on_for_all_fields_nested_too() -> None:
    protocol, metadata = edited(nested(), RenameColumn(path("origin.code"), "airport"))
    assert protocol["minReaderVersion"] == 3
    assert protocol["minWriterVersion"] == 7
    assert effective_features(protocol) == {"appendOnly", "invariants", "columnMapping"}
    assert metadata["configuration"] == {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "11"}
    origin = field_of(metadata, "origin")
    assert mapping(origin)[1] == "origin"
    assert [(f["name"], mapping(f)[1]) for f in origin["type"]["fields"]] == [("airport", "code"), ("miles", "miles")]


def test_ids_of_a_mapped_table_stay() -> None:
    protocol, metadata = edited(nested(), RenameColumn(path("tags"), "labels"))
    before = mapping(field_of(metadata, "labels"))
    _, after, _ = edit(protocol, metadata, [RenameColumn(path("labels"), "marks"), DropColumn(path("origin"))])
    assert mapping(field_of(after, "marks")) == before
    assert after["configuration"] == metadata["configuration"]


def test_rename_follows_partitioning_statistics_and_checks() -> None:
    declaration = flights(
        Field("id", BIGINT),
        Field("day", STRING),
        Field("s", Struct((Field("x", INT), Field("y", INT)))),
        partitioned_by=("day",),
        checks=(Check("c", "day IS NULL OR s.x > 0"), Check("d", "id > 0")),
    )
    stats = {"delta__dataSkippingStatsColumns": "id,s.x,`s`.y"}
    changes = (RenameColumn(path("day"), "date"), RenameColumn(path("s.x"), "z"), RenameColumn(path("s"), "t"))
    _, metadata = edited(declaration, *changes, **stats)
    assert metadata["partitionColumns"] == ["date"]
    assert metadata["configuration"]["delta.dataSkippingStatsColumns"] == "id,t.z,t.y"
    assert metadata["configuration"]["delta.constraints.c"] == canonical_expression("date IS NULL OR t.z > 0")
    assert metadata["configuration"]["delta.constraints.d"] == "id > 0"


@pytest.mark.parametrize(
    ("stats", "renames", "expected"),
    [
        ("id,x", {"x": "dep-delay"}, "id,`dep-delay`"),
        ("`x` , id", {"x": "select"}, "`select`,id"),
        ("s.y,`s`.`x`", {"s.x": "a-b"}, "s.y,s.`a-b`"),
        ("s.x", {"s": "1s", "1s.x": "2x"}, "`1s`.`2x`"),
        ("`a-b`.x,`a-b`.y", {"a-b": "ab"}, "ab.x,ab.y"),
        ("`a-b`,s.x", {"s.x": "z"}, "`a-b`,s.z"),
    ],
)
def test_statistics_name_a_renamed_column_in_backticks_where_it_needs_them(stats: str, renames: dict[str, str], expected: str) -> None:
    inner = Struct((Field("x", INT), Field("y", INT)))
    declaration = flights(Field("id", BIGINT), Field("x", INT), Field("s", inner), Field("a-b", inner))
    changes = [RenameColumn(path(old), new) for old, new in renames.items()]
    _, metadata = edited(declaration, *changes, delta__dataSkippingStatsColumns=stats)
    assert metadata["configuration"]["delta.dataSkippingStatsColumns"] == expected


@pytest.mark.parametrize(
    ("check", "rename", "expected"),
    [
        ("s['x'] > 0", {"s.x": "z"}, "s['z'] > 0"),
        ("struct(id).id > 0", {"id": "number"}, None),
        ("to_json(s) LIKE '%\"x\"%'", {"s.x": "z"}, None),
    ],
)
def test_a_check_is_followed_or_the_rename_refused(check: str, rename: dict[str, str], expected: str | None) -> None:
    declaration = flights(Field("id", BIGINT), Field("s", Struct((Field("x", INT), Field("y", INT)))), checks=(Check("c", check),))
    changes = [RenameColumn(path(old), new) for old, new in rename.items()]
    if expected is None:
        with pytest.raises(RenameInLambda):
            edited(declaration, *changes)
    else:
        assert edited(declaration, *changes)[1]["configuration"]["delta.constraints.c"] == expected


def test_drop_takes_the_column_out_of_the_statistics() -> None:
    drops = (DropColumn(path("origin")), DropColumn(path("stops.element.code")))
    _, metadata = edited(nested(), *drops, delta__dataSkippingStatsColumns="id,origin.code,`origin`.miles")
    assert metadata["configuration"]["delta.dataSkippingStatsColumns"] == "id"
    assert "origin" not in [f["name"] for f in schema_of(metadata)["fields"]]
    assert [f["name"] for f in field_of(metadata, "stops")["type"]["elementType"]["fields"]] == ["miles"]


def test_forget_drops_without_column_mapping() -> None:
    protocol, metadata = raw(flights())
    changes: list[Change] = [add_int("x"), add_int("y"), DropColumn(path("x"))]
    protocol, metadata, _ = edit(protocol, metadata, changes, forget=[path("x")])
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert metadata["configuration"] == {}
    assert [f["name"] for f in schema_of(metadata)["fields"]] == ["id", "dep_delay", "y"]


def test_a_name_may_change_case_only() -> None:
    _, metadata = edited(flights(), RenameColumn(path("dep_delay"), "Dep_Delay"))
    assert declared(metadata).fields[1].name == "Dep_Delay"


@pytest.mark.parametrize(
    "change, kind",
    [
        (RenameColumn(path("nope"), "x"), NotApplicable),
        (RenameColumn(path("dep_delay"), "ID"), NotApplicable),
        (RenameColumn(path("g2"), "x"), NotApplicable),
        (RenameColumn(path("base"), "x"), ColumnInUse),
        (DropColumn(path("day")), ColumnInUse),
        (DropColumn(path("base")), ColumnInUse),
        (DropColumn(path("dep_delay")), ColumnInUse),
        (DropColumn(path("s.only")), NotApplicable),
        (ChangeType(path("base"), INT, BIGINT, True, True), ColumnInUse),
        (ChangeType(path("gen"), INT, BIGINT, True, True), ColumnInUse),
    ],
)
def test_metadata_edit_what_depends_on_a_column_forbids_it(change: Change, kind: type[SchemamigError]) -> None:
    declaration = flights(
        Field("id", BIGINT),
        Field("day", STRING),
        Field("base", INT),
        Field("gen", INT),
        Field("dep_delay", INT),
        Field("s", Struct((Field("only", INT),))),
        partitioned_by=("day",),
        checks=(Check("c", "DEP_delay > 0"),),
    )
    protocol, metadata = raw(declaration)
    schema = schema_of(metadata)
    schema["fields"][3]["metadata"]["delta.generationExpression"] = "Base + 1"
    with pytest.raises(kind):
        edit(protocol, {**metadata, "schemaString": json.dumps(schema)}, [change])


def test_clustering_columns_are_not_dropped_but_renamed() -> None:
    protocol, metadata = raw(nested())
    for dropped in ("origin", "origin.code"):
        with pytest.raises(ColumnInUse, match="CLUSTER BY"):
            edit(protocol, metadata, [DropColumn(path(dropped))], clustering=(("origin", "code"),))
    renamed = [RenameColumn(path("origin.code"), "x"), RenameColumn(path("origin"), "y")]
    protocol, metadata, _ = edit(protocol, metadata, renamed, clustering=(("origin", "code"),))
    with pytest.raises(ColumnInUse, match="CLUSTER BY"):
        edit(protocol, metadata, [DropColumn(path("y.x"))], clustering=(("origin", "code"),))


def test_a_check_that_cannot_be_read_protects_every_name_in_it() -> None:
    odd = {"delta__constraints__odd": "dep_delay >>>!! 1"}
    assert "odd" in refused(ColumnInUse, flights(), DropColumn(path("dep_delay")), **odd)
    assert "odd" in refused(ColumnInUse, flights(), RenameColumn(path("dep_delay"), "x"), **odd)
    edited(flights(), RenameColumn(path("id"), "x"), **odd)
