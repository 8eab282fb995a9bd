"""The gate: which events go into the target as it is, and which column where. Values alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_provider_schemamig.core.access.field_ids import Shape
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, SchemaId, ShardId, Version
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.replication.stream.compatibility import AcceptedEvent, RefusedEvent, TargetSchema, Way, decide
from airflow_provider_schemamig.core.replication.stream.lineage import ColumnLineage
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration

KEY = ", PRIMARY KEY (id)"
FIRST = f"id BIGINT NOT NULL, v INT, s STRUCT<a: INT>{KEY}"


def declared(columns: str) -> Declaration:
    (found,) = parse_schema(f"CREATE TABLE t ({columns})", "schema.sql")
    return found


def entry(columns: str, number: int = 1, *, stored: Mapping[str, str] | None = None, shard: str = "t-1") -> SchemaEntry:
    """Schema ``number``, of release 1.``number``.0. ``stored``: column -> its name in the files, where that is another."""
    names = tuple((ColumnPath(path), name) for path, name in (stored or {}).items())
    found, shard_id = declared(columns), ShardId(shard)
    return SchemaEntry(CollectionName("t"), SchemaId(number), shard_id, found, found, number, Version(1, number, 0), names)


def target(current: SchemaEntry, *previous: SchemaEntry, live: str | None = None, stored: Mapping[str, str] | None = None) -> TargetSchema:
    """``live``: the table's columns, the declared ones by default."""
    names = dict(current.stored_names) if stored is None else {ColumnPath(path): name for path, name in stored.items()}
    return TargetSchema(current, previous, Shape(current.declared if live is None else declared(live), names), lineage(*previous, current))


def lineage(*entries: SchemaEntry, product: str = "ours") -> ColumnLineage:
    at = {found.release: (found,) for found in entries if found.release is not None}
    return ColumnLineage(product, entries, at, frozenset(at))


def of_another_product(event: SchemaEntry) -> ColumnLineage:
    """An origin of which nothing but names is known, unless it has a release of the target's after all (test_lineage has all else)."""
    return lineage(event, product="theirs")


def accepted(event: SchemaEntry, at: TargetSchema, depth: int = 1) -> tuple[Way, tuple[str, ...], tuple[str, ...]]:
    """(why, the event's columns, the target's)"""
    found = decide(event, of_another_product(event), at, depth)
    assert isinstance(found, AcceptedEvent), found
    return found.way, tuple(field.name for field in found.mapping.event.fields), found.mapping.fit.columns


def refused(event: SchemaEntry, at: TargetSchema, depth: int = 1) -> str:
    found = decide(event, of_another_product(event), at, depth)
    assert isinstance(found, RefusedEvent), found
    assert found.local_hash == fingerprint(at.current.declared)
    return found.detail


def test_the_current_schema() -> None:
    there = entry("v INT, id BIGINT NOT NULL, s STRUCT<a: INT>, PRIMARY KEY (id)", 9)
    at = target(entry(FIRST), live="id BIGINT NOT NULL, v BIGINT, s STRUCT<a: INT>, hidden STRING")
    assert accepted(there, at, 0) == (Way.CURRENT, ("v", "id", "s"), ("v", "id", "s")), (
        "order does not count, nor what the table has beyond"
    )


PREVIOUS = {
    "added": ("id BIGINT NOT NULL, v INT, s STRUCT<a: INT>, w INT", {}, ("id", "v", "s"), ("id", "v", "s")),
    "dropped": ("id BIGINT NOT NULL, s STRUCT<a: INT>", {}, ("id", "s"), ("id", "s")),
    "widened": ("id BIGINT NOT NULL, v BIGINT, s STRUCT<a: BIGINT>", {}, ("id", "v", "s"), ("id", "v", "s")),
    "renamed": ("id BIGINT NOT NULL, vv INT, s STRUCT<a: INT>", {"vv": "v"}, ("id", "v", "s"), ("id", "vv", "s")),
    "swapped": ("id BIGINT NOT NULL, s INT, v STRUCT<a: INT>", {"s": "v", "v": "s"}, ("id", "v", "s"), ("id", "s", "v")),
    "NOT NULL": ("id BIGINT NOT NULL, v INT NOT NULL, s STRUCT<a: INT>", {}, ("id", "v", "s"), ("id", "v", "s")),
    "default": ("id BIGINT NOT NULL, v INT, s STRUCT<a: INT>, w INT NOT NULL DEFAULT 1", {}, ("id", "v", "s"), ("id", "v", "s")),
}


@pytest.mark.parametrize("case", PREVIOUS)
def test_the_schema_before_goes_by_identity(case: str) -> None:
    columns, stored, taken, into = PREVIOUS[case]
    at = target(entry(columns + KEY, 2, stored=stored), entry(FIRST))
    assert accepted(entry(FIRST, 7), at) == (Way.PREVIOUS, taken, into)
    assert "1 schemas ago" in refused(entry(FIRST, 7), at, 0)


@pytest.mark.parametrize("kind", ["ARRAY<{}>", "MAP<STRING, {}>", "MAP<{}, STRING>", "ARRAY<MAP<STRING, STRUCT<z: {}>>>"])
def test_fields_that_were_dropped_inside_of_arrays_and_maps_are_left_out(kind: str) -> None:
    before, now = (f"id BIGINT NOT NULL, s {kind.format(inner)}{KEY}" for inner in ("STRUCT<a: INT, b: INT>", "STRUCT<a: INT>"))
    event = entry(before, 7)
    found = decide(event, of_another_product(event), target(entry(now, 2), entry(before)), 1)
    assert isinstance(found, AcceptedEvent) and found.mapping.event == declared(now)


def test_fields_inside_of_a_struct() -> None:
    at = target(entry("id BIGINT NOT NULL, v INT, s STRUCT<b: INT>" + KEY, 2), entry("id BIGINT NOT NULL, s STRUCT<a: INT, b: INT>" + KEY))
    event = entry("id BIGINT NOT NULL, s STRUCT<a: INT, b: INT>" + KEY, 7)
    found = decide(event, of_another_product(event), at, 1)
    assert isinstance(found, AcceptedEvent)
    assert found.mapping.event == declared("id BIGINT NOT NULL, s STRUCT<b: INT>" + KEY), "what was dropped is left out"
    at = target(
        entry("id BIGINT NOT NULL, s STRUCT<a: INT, n: STRUCT<x: INT>>" + KEY, 2), entry("id BIGINT NOT NULL, s STRUCT<a: INT>" + KEY)
    )
    event = entry("id BIGINT NOT NULL, s STRUCT<a: INT>" + KEY, 7)
    found = decide(event, of_another_product(event), at, 1)
    assert isinstance(found, AcceptedEvent)
    assert found.mapping.fit.left_out == ("s.n",), "what is newer stays"


BACK = "id BIGINT NOT NULL" + KEY
WAITS = {
    "a name that is another column's now": (
        entry("id BIGINT NOT NULL, v STRING" + KEY, 2, stored={"v": "v-2"}),
        entry("id BIGINT NOT NULL, v INT" + KEY),
        "v was dropped",
    ),
    "what a rollback took away": (entry(BACK, 1), entry("id BIGINT NOT NULL, w INT" + KEY, 2), "w was dropped"),
    "a table made anew": (entry(FIRST + ", UNIQUE (v)", 2, shard="t-2"), entry(FIRST), "was rewritten or replaced since"),
    "what the rows have nothing for": (entry("id BIGINT NOT NULL, w INT NOT NULL" + KEY, 2), entry(BACK), "w is NOT NULL"),
    "a key of other columns": (
        entry("id BIGINT NOT NULL, k INT, PRIMARY KEY (k)", 2),
        entry("id BIGINT NOT NULL, PRIMARY KEY (id)"),
        "k is NOT NULL in the table",
    ),
}


@pytest.mark.parametrize("case", WAITS)
def test_a_schema_before_that_does_not_fit(case: str) -> None:
    now, before, why = WAITS[case]
    assert why in refused(before, target(now, before))


def test_two_schemas_ago_is_too_old_unless_asked_for() -> None:
    """Even where each column would fit: what the target went through may have changed what they mean."""
    first, second, third = (entry(f"id BIGINT NOT NULL{more}{KEY}", n) for n, more in enumerate(("", ", a INT", ", a INT, b INT"), 1))
    at = target(third, second, first)
    assert "2 schemas ago" in refused(first, at, 1)
    assert accepted(first, at, 2) == (Way.PREVIOUS, ("id",), ("id",))
    assert accepted(second, at, 1)[0] is Way.PREVIOUS


CONTENT = {
    "fewer columns": "id BIGINT NOT NULL, v INT",
    "narrower ones": "id BIGINT NOT NULL, v SMALLINT, s STRUCT<a: TINYINT>",
    "another order and comment": "s STRUCT<a: INT>, v INT COMMENT 'x', id BIGINT NOT NULL",
}
OTHER = {
    "id BIGINT NOT NULL, v INT, x INT" + KEY: "x is not in the target",
    "id BIGINT NOT NULL, v BIGINT" + KEY: "v is BIGINT, and INT in the target",
    "id BIGINT NOT NULL, s STRUCT<a: INT, b: INT>" + KEY: "s.b is not in the target",
    "id BIGINT" + KEY.replace("PRIMARY KEY (id)", "UNIQUE (id)"): "id may be NULL, and is NOT NULL in the target",
    "id BIGINT NOT NULL, v INT, PRIMARY KEY (id, v)": "the primary key is (id, v) for the event and (id) in the target",
    "v INT, PRIMARY KEY (v)": "id is NOT NULL in the target, and not in the event",
    "id BIGINT NOT NULL, gone INT" + KEY: "gone is not in the target",
}


@pytest.mark.parametrize("case", CONTENT)
def test_a_strange_schema_whose_columns_fit(case: str) -> None:
    event = entry(CONTENT[case] + ", UNIQUE (v)" + KEY)
    way, taken, into = accepted(event, target(entry(FIRST)), 0)
    assert (way, taken) == (Way.CONTENT, into)


@pytest.mark.parametrize("columns", OTHER)
def test_a_strange_schema_says_which_columns_differ(columns: str) -> None:
    at = target(entry(FIRST), live=FIRST.replace(KEY, f", gone INT{KEY}"))
    assert OTHER[columns] in refused(entry(columns), at)


def test_every_difference_is_named() -> None:
    assert (
        refused(entry("id BIGINT NOT NULL, x INT, y INT" + KEY), target(entry(FIRST))) == "x is not in the target; y is not in the target"
    )


def test_a_column_of_a_strange_schema_is_the_one_that_is_declared() -> None:
    """Not a hidden one that has its name in the files."""
    at = target(
        entry("id BIGINT NOT NULL, v INT" + KEY, stored={"v": "v-2"}),
        live="id BIGINT NOT NULL, v INT, old INT" + KEY,
        stored={"v": "v-2", "old": "v"},
    )
    event = entry("id BIGINT NOT NULL, v SMALLINT" + KEY)
    found = decide(event, of_another_product(event), at, 1)
    assert isinstance(found, AcceptedEvent)
    assert found.mapping.fit.columns == ("id", "v")
