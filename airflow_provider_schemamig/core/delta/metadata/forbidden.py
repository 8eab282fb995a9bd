"""What Delta refuses to make of a table's metadata: names and pairs that it keeps for itself.

Delta looks for it when it writes metadata and takes what it finds in the log for granted. What gets there by another way can make Spark
acknowledge rows that are nowhere, so this committer looks for the same. ``tests/support/tables/alter_cases.py`` has what Delta 4.4 says,
case by case; docs/schema-changes.md what is refused beyond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.features import atomic_types
from airflow_provider_schemamig.core.delta.metadata.clustering import WITH_BOUNDS, has_bounds
from airflow_provider_schemamig.core.delta.names import MAPPING_ID, PHYSICAL_NAME, fields_in, physical_name, structs_in
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT, STATS_COLUMNS, is_mapped, is_on, name_parts, stats_columns
from airflow_provider_schemamig.core.schema.delta_rules.table_features import (
    CHANGE_DATA_FEED,
    FEATURES,
    MAPPING_MODE,
    ForbiddenBeside,
)
from airflow_provider_schemamig.exceptions import Refusal

#: Columns that change data come with, and the one by which Spark tells their rows from the table's.
FEED_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp", "__is_cdc"})
#: What no column's name holds in a Parquet file; with column mapping a file has another name for it.
_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")
_LENGTHS_CHECK = "__char_varchar_string_length_check__"
_LEGACY_FEED = "delta.enableChangeDataCapture"
_ROW_ID_COLUMNS = ("delta.rowTracking.materializedRowIdColumnName", "delta.rowTracking.materializedRowCommitVersionColumnName")
_TYPES = WITH_BOUNDS | {"binary", "boolean", "variant", "void"}


class RefusedByDelta(Refusal):
    """A table as Delta lets nobody make one; it was not written. ``reasons``: each a sentence's end."""

    code = "refused_by_delta"
    message = "Delta has no such table: {reasons:; }."
    next_action = "Declare it otherwise. What the table had before the release, Spark's ALTER TABLE can set right."
    reasons: tuple[str, ...]


def check_allowed(schema: Mapping[str, Any], metadata: RawAction) -> None:
    """Raise RefusedByDelta if Delta forbids the metaData. ``schema``: what the metaData says as text."""
    reasons = tuple(forbidden(schema, metadata))
    if reasons:
        raise RefusedByDelta(reasons=reasons)


def check_keeps_rows(schema: Mapping[str, Any], metadata: RawAction) -> None:
    """Raise RefusedByDelta for somebody else's table in which written rows are nowhere, or deleted ones are seen."""
    reasons = tuple(_losses(schema, metadata))
    if reasons:
        raise RefusedByDelta(reasons=reasons)


def _losses(schema: Mapping[str, Any], metadata: RawAction) -> Iterator[str]:
    yield from _feed(schema, metadata)
    yield from (pair.reason for pair in _pairs(metadata) if pair.lost)


def _pairs(metadata: RawAction) -> Iterator[ForbiddenBeside]:
    """Yield the pairs of a feature and what is on beside it though the feature forbids it."""
    for feature in FEATURES.values():
        yield from (pair for pair in feature.forbids if _stands(metadata, pair.own) and is_on(metadata, pair.other))


def _stands(metadata: RawAction, key: str) -> bool:
    return is_on(metadata, key) or (key == MAPPING_MODE and is_mapped(metadata.get("configuration") or {}))


def forbids_now(before: RawAction, after: RawAction, features: frozenset[str]) -> Iterator[str]:
    """Yield why what these two metadata differ by may not be switched on: files of before may be made by a feature that the table has."""
    for pair in (pair for name in sorted(features & FEATURES.keys()) for pair in FEATURES[name].forbids):
        if pair.had and is_on(after, pair.other) and not is_on(before, pair.other):
            yield pair.had


def forbidden(schema: Mapping[str, Any], metadata: RawAction) -> Iterator[str]:
    """Yield why Delta would refuse to write this metadata."""
    configuration = metadata.get("configuration") or {}
    yield from _losses(schema, metadata)
    yield from (pair.reason for pair in _pairs(metadata) if not pair.lost)
    if not is_mapped(configuration):
        for path, field in fields_in(schema):
            if not _NOT_IN_NAMES.isdisjoint(field["name"]):
                yield f"the name of {path!r} has one of the characters ' ,;{{}}()=', a tab or a line's end, which Parquet has no place for"
    for path, field in fields_in(schema):
        yield from (f"{path} is of type {name}" for name in atomic_types(field["type"]) if not _is_type(name))
    if any(key.lower() == CONSTRAINT + _LENGTHS_CHECK for key in configuration):
        yield f"a CHECK is called {_LENGTHS_CHECK.upper()}, as the one for the lengths of CHAR and VARCHAR"
    yield from _row_ids(schema, metadata)
    yield from _statistics(schema, metadata)


def without_mapping(schema: Mapping[str, Any]) -> str | None:
    """Return a column that has a column-mapping id or name though column mapping is off; None if there is none.

    Switched on, mapping would make it read other columns.
    """
    for path, field in fields_in(schema):
        if {MAPPING_ID, PHYSICAL_NAME} & (field.get("metadata") or {}).keys():
            return path
    return None


def layout_faults(schema: Mapping[str, Any], partition_columns: Sequence[str]) -> Iterator[str]:
    """Yield why Delta would refuse to make a table that is partitioned so."""
    by_name = {field["name"]: field for field in schema["fields"]}
    if partition_columns and len(set(partition_columns)) >= len(by_name):
        yield "all its columns are PARTITIONED BY, and none is left for its files"
    for name in dict.fromkeys(partition_columns):
        if list(partition_columns).count(name) > 1:
            yield f"it is partitioned by {name} twice"
        if name in by_name and not (isinstance(by_name[name]["type"], str) and by_name[name]["type"] != "variant"):
            yield f"it is partitioned by {name}, and a value of its type cannot be a folder's name"


def _is_type(name: str) -> bool:
    return name in _TYPES or name.startswith("decimal")


def _feed(schema: Mapping[str, Any], metadata: RawAction) -> Iterator[str]:
    if is_on(metadata, CHANGE_DATA_FEED) or is_on(metadata, _LEGACY_FEED):
        for field in schema["fields"]:
            if field["name"].lower() in FEED_COLUMNS:
                name = field["name"]
                yield f"the change data feed is on, and {name} is a column that it adds: Spark would take rows for changes"


def _row_ids(schema: Mapping[str, Any], metadata: RawAction) -> Iterator[str]:
    taken = {(metadata.get("configuration") or {}).get(key) for key in _ROW_ID_COLUMNS}
    for field in schema["fields"]:
        if field["name"] in taken or physical_name(field) in taken:
            yield f"{field['name']} has the name of the column that keeps row ids or versions"


def _statistics(schema: Mapping[str, Any], metadata: RawAction) -> Iterator[str]:
    """Yield what is wrong with ``delta.dataSkippingStatsColumns``.

    Its columns have to be there, none of them a partition's, all with statistics, each named once.
    """
    partitions = {name.lower() for name in metadata.get("partitionColumns") or ()}
    seen: set[tuple[str, ...]] = set()
    for text in stats_columns(metadata.get("configuration") or {}):
        parts = name_parts(text)
        found = _column(schema, parts)
        if found is None:
            yield f"{STATS_COLUMNS} names {text}, and there is no such column"
        elif len(parts) == 1 and parts[0].lower() in partitions:
            yield f"{STATS_COLUMNS} names {text}, which the table is partitioned by"
        elif len(parts) == 1 and not has_bounds(found) and not _is_struct(found):
            yield f"{STATS_COLUMNS} names {text}, which can have no statistics"
        else:
            leaves = set(_leaves(found, tuple(part.lower() for part in parts)))
            if leaves & seen:
                yield f"{STATS_COLUMNS} names {text} twice"
            seen |= leaves


def _column(schema: Mapping[str, Any], parts: Sequence[str]) -> Any:
    """Return the type behind a path through structs; None if there is none."""
    here: Any = schema
    for part in parts:
        fields = here.get("fields", ()) if isinstance(here, dict) else ()
        field = next((f for f in fields if f["name"].lower() == part.lower()), None)
        if field is None:
            return None
        here = field["type"]
    return here


def _is_struct(data_type: Any) -> bool:
    return isinstance(data_type, dict) and data_type.get("type") == "struct"


def _leaves(data_type: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if _is_struct(data_type):
        for field in data_type["fields"]:
            yield from _leaves(field["type"], (*path, field["name"].lower()))
    else:
        yield path


def not_nulls_in(data_type: Any) -> Iterator[str]:
    """Yield the paths of NOT NULL fields inside a type."""
    for path, struct in structs_in(data_type):
        yield from (f"{path}.{field['name']}".lstrip(".") for field in struct["fields"] if not field["nullable"])
