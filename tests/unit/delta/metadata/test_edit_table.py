"""Types, nullability, defaults, properties, constraints and the seal as edits of Delta's raw metadata."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.delta.features import effective_features
from airflow_provider_schemamig.core.delta.metadata.edit import edit, sealed, unsealed
from airflow_provider_schemamig.core.delta.metadata.errors import ColumnInUse, NotInstant
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    AddKey,
    Change,
    ChangePartitioning,
    ChangeType,
    DropCheck,
    DropColumn,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetComment,
    SetDefault,
    SetNotNull,
    SetProperty,
)
from airflow_provider_schemamig.core.schema.delta_rules.properties import SAFE
from airflow_provider_schemamig.core.schema.delta_rules.property_values import UnsupportedProperty, check_property
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.model import Array, Check, Field, Key, Map, Primitive
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.unit.delta.metadata.editing import edited, refused
from tests.unit.delta.tables import BIGINT, INT, STRING, declared, field_of, flights, nested, path, raw, schema_of

DOUBLE = Primitive("double")


# --- types, nullability, defaults, comments, order -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "new, delta_name",
    [(BIGINT, "long"), (DOUBLE, "double"), (Primitive("decimal(12,2)"), "decimal(12,2)")],
)
def test_widening_is_recorded_on_the_field(new: Primitive, delta_name: str) -> None:
    protocol, metadata = edited(flights(), ChangeType(path("dep_delay"), INT, new, True, True))
    found = field_of(metadata, "dep_delay")
    assert found["type"] == delta_name
    assert found["metadata"]["delta.typeChanges"] == [{"toType": delta_name, "fromType": "integer"}]
    assert metadata["configuration"] == {"delta.enableTypeWidening": "true"}
    assert "typeWidening" in protocol["readerFeatures"]
    assert "typeWidening" in protocol["writerFeatures"]


@pytest.mark.parametrize(
    "where, field_path",
    [("tags.element", "element"), ("deep.value.element", "value.element"), ("deep.key", "key")],
)
def test_widening_inside_containers_is_recorded_on_the_nearest_field(where: str, field_path: str) -> None:
    declaration = flights(Field("tags", Array(INT)), Field("deep", Map(INT, Array(INT))))
    _, metadata = edited(declaration, ChangeType(path(where), INT, BIGINT, True, False))
    changes = field_of(metadata, where.split(".", maxsplit=1)[0])["metadata"]["delta.typeChanges"]
    assert changes == [{"toType": "long", "fromType": "integer", "fieldPath": field_path}]


def test_widening_twice_keeps_both_records() -> None:
    first, second = Primitive("smallint"), INT
    declaration = flights(Field("n", Primitive("tinyint")))
    changes = (ChangeType(path("n"), Primitive("tinyint"), first, True, True), ChangeType(path("n"), first, second, True, True))
    _, metadata = edited(declaration, *changes)
    recorded = field_of(metadata, "n")["metadata"]["delta.typeChanges"]
    assert [(c["fromType"], c["toType"]) for c in recorded] == [("byte", "short"), ("short", "integer")]


def test_a_longer_varchar_is_no_change_for_delta() -> None:
    declaration = flights(Field("v", Primitive("varchar(5)")))
    protocol, longer = edited(declaration, ChangeType(path("v"), Primitive("varchar(5)"), Primitive("varchar(9)"), True, True))
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert field_of(longer, "v")["metadata"] == {"__CHAR_VARCHAR_TYPE_STRING": "varchar(9)"}
    _, free = edited(declaration, ChangeType(path("v"), Primitive("varchar(5)"), STRING, True, True))
    assert field_of(free, "v") == {"name": "v", "type": "string", "nullable": True, "metadata": {}}


def test_a_check_that_compares_may_stay_when_its_column_gets_wider() -> None:
    change = ChangeType(path("dep_delay"), INT, BIGINT, True, True)
    edited(flights(Field("dep_delay", INT), checks=(Check("c", "dep_delay > -100 AND dep_delay IN (1, 2) OR dep_delay IS NULL"),)), change)
    assert "CHECK c" in refused(ColumnInUse, flights(Field("dep_delay", INT), checks=(Check("c", "hash(dep_delay) > 1"),)), change)


@pytest.mark.parametrize(
    "change, kind",
    [
        (ChangeType(path("dep_delay"), INT, STRING, False, True), NotInstant),
        (ChangeType(path("dep_delay"), STRING, BIGINT, True, True), NotApplicable),
        (ChangeType(path("nope"), INT, BIGINT, True, True), NotApplicable),
        (ChangePartitioning((), ("id",)), NotInstant),
        (Relax(path("nope")), NotApplicable),
        (SetDefault(path("dep_delay"), "7", "8"), NotApplicable),
        (SetProperty("owned_by", "a", "b"), NotApplicable),
    ],
)
def test_changes_that_do_not_fit(change: Change, kind: type[SchemamigError]) -> None:
    refused(kind, flights(), change)


def test_nullability_at_any_place() -> None:
    protocol, metadata = edited(nested(), Relax(path("id")), SetNotNull(path("origin")), SetNotNull(path("origin.code")))
    assert declared(metadata).fields[0].nullable is True
    assert declared(metadata).fields[1].nullable is False
    assert "invariants" in effective_features(protocol)
    tight = flights(Field("a", Array(INT, contains_null=False)))
    _, metadata = edited(tight, Relax(path("a.element")))
    assert declared(metadata).fields[0].type == Array(INT)
    assert "inside arrays" in refused(NotInstant, flights(Field("a", Array(INT))), SetNotNull(path("a.element")))


def test_not_null_brings_its_feature_to_the_oldest_tables() -> None:
    _, metadata = raw(flights())
    protocol, _, _ = edit({"minReaderVersion": 1, "minWriterVersion": 1}, metadata, [SetNotNull(path("id"))])
    assert "invariants" in effective_features(protocol)


def test_defaults_bring_their_feature_and_never_fill_old_files() -> None:
    protocol, metadata = edited(flights(), SetDefault(path("dep_delay"), None, "0"))
    assert field_of(metadata, "dep_delay")["metadata"] == {"CURRENT_DEFAULT": "0"}
    assert protocol == {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["allowColumnDefaults", "appendOnly", "invariants"],
    }
    kept, metadata, _ = edit(protocol, metadata, [SetDefault(path("dep_delay"), "0", None)])
    assert field_of(metadata, "dep_delay")["metadata"] == {}
    assert kept == protocol, "features stay"


def test_comments_and_order() -> None:
    changes = (
        SetComment(path(""), None, "all flights"),
        SetComment(path("origin.code"), None, "IATA"),
        ReorderColumns(path(""), ("id", "origin", "stops", "notes", "tags"), ("tags", "id")),
        ReorderColumns(path("origin"), ("code", "miles"), ("miles", "code")),
    )
    protocol, metadata = edited(nested(), *changes)
    assert metadata["description"] == "all flights"
    assert [f["name"] for f in schema_of(metadata)["fields"]] == ["tags", "id", "origin", "stops", "notes"]
    origin = field_of(metadata, "origin")["type"]["fields"]
    assert [(f["name"], f["metadata"].get("comment")) for f in origin] == [("miles", None), ("code", "IATA")]
    _, metadata, _ = edit(protocol, metadata, [SetComment(path(""), "all flights", None)])
    assert "description" not in metadata


# --- properties and constraints ------------------------------------------------------------------------------------------------------


def test_properties_are_set_and_unset() -> None:
    _, metadata = edited(flights(properties=(("owned_by", "a"),)), SetProperty("owned_by", "a", None), SetProperty("team", None, "b"))
    assert metadata["configuration"] == {"team": "b"}


@pytest.mark.parametrize(
    "key, value, feature",
    [
        ("delta.enableChangeDataFeed", "true", "changeDataFeed"),
        ("delta.enableDeletionVectors", "true", "deletionVectors"),
        ("delta.appendOnly", "true", "appendOnly"),
        ("delta.checkpointPolicy", "v2", "v2Checkpoint"),
    ],
)
def test_a_property_brings_its_feature(key: str, value: str, feature: str) -> None:
    protocol, metadata = edited(flights(), SetProperty(key, None, value))
    assert feature in effective_features(protocol)
    assert metadata["configuration"] == {key: value}


@pytest.mark.parametrize(
    "key, value",
    [
        ("delta.isolationLevel", "Foo"),
        ("delta.logRetentionDuration", "30 fortnights"),
        ("delta.checkpointInterval", "0"),
        ("delta.appendOnly", "yes"),
        ("delta.columnMapping.mode", "name"),
        ("delta.columnMapping.mode", None),
        ("delta.feature.typeWidening", "supported"),
        ("delta.minReaderVersion", "3"),
        ("delta.enableRowTracking", "true"),
        ("delta.enableInCommitTimestamps", "true"),
        ("delta.constraints.x", "1 = 0"),
        ("delta.someday", "true"),
    ],
)
def test_properties_that_would_break_the_table(key: str, value: str | None) -> None:
    refused(UnsupportedProperty, flights(), SetProperty(key, None, value))


def test_a_property_that_is_neither_true_nor_false_is_refused_with_what_to_write() -> None:
    with pytest.raises(UnsupportedProperty, match="could not parse") as found:
        check_property("delta.enableChangeDataFeed", "maybe")
    assert found.value.next_action == "Write true or false."


@pytest.mark.parametrize("days", [1, 60])
@pytest.mark.parametrize("first", [FILES, LOG])
def test_both_retentions_at_once_are_judged_together(days: int, first: str) -> None:
    """Each by itself would be wrong against the other's default on the way, in one of the two orders."""
    second = LOG if first == FILES else FILES
    changes = [SetProperty(key, None, f"interval {days} days") for key in (first, second)]
    assert len(edited(flights(), *changes)[1]["configuration"]) == 2
    refused(UnsupportedProperty, flights(), SetProperty(LOG if days == 1 else FILES, None, f"interval {days} days"))


@pytest.mark.parametrize("value", ["interval 30 days", "30 days", "interval 1 week 2 hours", "INTERVAL 7 DAYS"])
def test_intervals_as_delta_takes_them(value: str) -> None:
    check_property("delta.logRetentionDuration", value)


@pytest.mark.parametrize("key", sorted(SAFE))
def test_every_property_a_declaration_may_hold_can_be_set(key: str) -> None:
    values = ("true", "7 days", "1", "snappy", "256mb")
    fitting = []
    for value in values:
        try:
            check_property(key, value)
            fitting.append(value)
        except UnsupportedProperty:
            pass
    assert fitting


def test_checks_bring_their_feature_in_the_same_commit() -> None:
    protocol, metadata = edited(flights(), AddCheck(Check("Positive", "id > 0")))
    assert metadata["configuration"] == {"delta.constraints.positive": "id > 0"}
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 3}
    _, again, _ = edit(protocol, metadata, [AddCheck(Check("positive", "(`id`>0)")), DropCheck(Check("x", "y"))])
    assert again == metadata
    with pytest.raises(NotApplicable):
        edit(protocol, metadata, [AddCheck(Check("positive", "id > 1"))])
    with pytest.raises(NotApplicable):
        edit(protocol, metadata, [DropCheck(Check("positive", "id > 1"))])
    _, without, _ = edit(protocol, metadata, [DropCheck(Check("positive", "id > 0"))])
    assert without["configuration"] == {}


def test_keys_are_nothing_on_the_table() -> None:
    protocol, metadata = raw(flights())
    assert edit(protocol, metadata, [AddKey(Key(("id",)), True)]) == (protocol, metadata, ())


@pytest.mark.parametrize(
    "change",
    [
        AddColumn(path("dep_delay"), Field("dep_delay", INT)),
        DropColumn(path("nope")),
        RenameColumn(path("nope"), "dep_delay"),
        ChangeType(path("dep_delay"), Primitive("smallint"), INT, True, True),
        Relax(path("dep_delay")),
        SetDefault(path("dep_delay"), "1", None),
        SetComment(path("dep_delay"), "x", None),
        ReorderColumns(path(""), ("dep_delay", "id"), ("id", "dep_delay")),
        SetProperty("owned_by", "a", None),
    ],
)
def test_edit_table_what_is_in_place_changes_nothing(change: Change) -> None:
    protocol, metadata = raw(flights())
    after = edit(protocol, metadata, [change])
    assert after.protocol is protocol
    assert after == (protocol, metadata, ())


# --- the seal ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("configuration", [{}, {"delta__appendOnly": "true"}, {"delta__appendOnly": "false"}])
def test_a_lifted_seal_gives_the_table_back(configuration: dict[str, str]) -> None:
    protocol, metadata = raw(flights(checks=(Check("c", "id > 0"),)), **configuration)
    shut = sealed(protocol, metadata, ShardId("g2-abc"))
    assert shut[1]["configuration"]["delta.constraints.schemamig_moved_to_g2-abc"] == "1 = 0"
    assert shut[1]["configuration"]["delta.appendOnly"] == "true"
    assert {"checkConstraints", "appendOnly"} <= effective_features(shut[0])
    again = sealed(*shut, ShardId("g3-def"))
    assert [key for key in again[1]["configuration"] if "moved_to" in key] == ["delta.constraints.schemamig_moved_to_g3-def"]
    assert unsealed(*again)[1] == metadata
    assert unsealed(protocol, metadata) == (protocol, metadata)


@pytest.mark.parametrize(
    ("files", "log", "kept"),
    [
        ("40 days", "50 days", "50 days"),
        ("40 days", "42 days", "1080 hours"),
        (None, "42 days", "1080 hours"),
        ("40 days", None, "1080 hours"),
    ],
)
def test_a_pin_longer_than_what_a_release_declares_keeps_the_log_as_long(files: str | None, log: str | None, kept: str) -> None:
    protocol, metadata = raw(flights(), **{FILES.replace(".", "__"): "interval 1080 hours"})
    asked = [SetProperty(key, None, f"interval {value}") for key, value in ((FILES, files), (LOG, log)) if value is not None]
    _, after, _ = edit(protocol, metadata, asked)
    assert (after["configuration"][FILES], after["configuration"][LOG]) == ("interval 1080 hours", f"interval {kept}")
