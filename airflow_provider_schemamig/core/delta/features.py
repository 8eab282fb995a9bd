"""A table's features by its protocol, and protocols with more of them (``schema.delta_rules.table_features`` lists the features).

A writer that does not know a feature may break the table, so a table with any other feature than ours is refused for writes, in words.
Legacy protocol numbers imply features; going to feature lists must name all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_schemamig.core.delta.names import fields_in
from airflow_provider_schemamig.core.delta.properties import property_features
from airflow_provider_schemamig.core.schema.delta_rules.table_features import (
    FEATURE_READER,
    FEATURE_WRITER,
    FEATURES,
    INVARIANTS,
    Commits,
    named,
)
from airflow_provider_schemamig.exceptions import Refusal

RawAction = Mapping[str, Any]

KNOWN = named(row for row in FEATURES.values() if row.commits is Commits.OURS)
CATALOG_MANAGED = named(row for row in FEATURES.values() if row.commits is Commits.CATALOG)
#: Of readers, too.
_READER_WRITER = named(row for row in FEATURES.values() if row.reader)
#: What reader version 2 means.
_LEGACY_READER = named(row for row in FEATURES.values() if row.reader == FEATURE_READER - 1)

#: The highest legacy writer version we give a table: above it stands column mapping, which goes to (3,7) only, because delta-rs reads
#: mapped tables with reader version 2 as all NULL without an error.
_HIGHEST_LEGACY = 4

_BY_FIELD_METADATA = {row.field_key: row.name for row in FEATURES.values() if row.field_key}
_BY_TYPE = {row.type_name: row.name for row in FEATURES.values() if row.type_name}


class UnsupportedFeature(Refusal):
    """A table with features that schemamig does not know; it can be read, but not changed by us."""

    code = "unsupported_feature"
    message = "the table at {uri} uses table features that schemamig does not know: {features}."
    next_action = "Drop these features (ALTER TABLE ... DROP FEATURE), or leave the table out of the release."
    uri: str
    features: tuple[str, ...]


class CatalogManagedTable(Refusal):
    """A table whose commits are made by a catalog."""

    code = "catalog_managed"
    message = "the table at {uri} is managed by a catalog: only the catalog may commit to it."
    next_action = "Leave it out of the release, or copy its rows to a table that is reached by path."
    uri: str


def effective_features(protocol: RawAction) -> frozenset[str]:
    """Return all features a table has, those implied by legacy version numbers included."""
    reader, writer = int(protocol.get("minReaderVersion", 1)), int(protocol.get("minWriterVersion", 1))
    by_name = {*(protocol.get("writerFeatures") or ())} if writer >= FEATURE_WRITER else _implied(reader, writer)
    return frozenset(by_name).union((protocol.get("readerFeatures") or ()) if reader >= FEATURE_READER else ())


@functools.cache  # of each table's head it is asked several times
def _implied(reader: int, writer: int) -> frozenset[str]:
    """Return what two legacy numbers say. Both have to: a table of (1,6) has identity columns, and no column mapping."""
    return named(row for row in FEATURES.values() if row.is_legacy and row.writer <= writer and row.reader <= reader)


def check_writable(protocol: RawAction, uri: str) -> None:
    """Raise CatalogManagedTable, or UnsupportedFeature for unknown features and protocol versions of the future."""
    features = effective_features(protocol)
    if features & CATALOG_MANAGED:
        raise CatalogManagedTable(uri=uri)
    unknown = sorted(features - KNOWN)
    for key, highest in (("minReaderVersion", FEATURE_READER), ("minWriterVersion", FEATURE_WRITER)):
        if int(protocol.get(key, 1)) > highest:
            unknown.append(f"{key} {protocol[key]}")
    if unknown:
        raise UnsupportedFeature(uri=uri, features=tuple(unknown))


def missing_features(protocol: RawAction, needed: Iterable[str]) -> frozenset[str]:
    """Return those of ``needed`` that the table lacks; a preview of a feature stands for it."""
    have = effective_features(protocol)
    return frozenset(name for name in needed if name not in have and FEATURES[name].preview not in have)


def with_features(protocol: RawAction, needed: Iterable[str]) -> RawAction:
    """Return the protocol raised so that it has ``needed``; the very same object if it has them already.

    A legacy protocol stays legacy where a version number says exactly what is needed, so that old readers go on; otherwise all implied
    features are listed. Every other key is kept.
    """
    missing = missing_features(protocol, needed)
    if not missing:
        return protocol
    wanted = effective_features(protocol) | missing
    version = _legacy_version(wanted) if int(protocol.get("minWriterVersion", 1)) < FEATURE_WRITER else None
    if version is not None:
        return {**protocol, "minReaderVersion": int(protocol.get("minReaderVersion", 1)), "minWriterVersion": version}
    for_readers = sorted(wanted & _READER_WRITER | set(protocol.get("readerFeatures") or ()))
    raised = {**protocol, "minReaderVersion": 1, "minWriterVersion": FEATURE_WRITER, "writerFeatures": sorted(wanted)}
    raised.pop("readerFeatures", None)
    if for_readers or int(protocol.get("minReaderVersion", 1)) >= FEATURE_READER:
        raised |= {"minReaderVersion": FEATURE_READER, "readerFeatures": for_readers}
    return raised


def new_protocol(needed: Iterable[str]) -> RawAction:
    """Return the protocol of a new table: Delta's default (1,2), raised as needed."""
    return with_features({"minReaderVersion": 1, "minWriterVersion": 2}, needed)


def _legacy_version(wanted: frozenset[str]) -> int | None:
    for version in range(2, _HIGHEST_LEGACY + 1):
        if wanted == _implied(1, version):
            return version
    return None


def protocol_faults(protocol: RawAction) -> list[str]:
    """Return what makes a protocol action illegal; empty for a legal one."""
    faults = []
    reader, writer = int(protocol["minReaderVersion"]), int(protocol["minWriterVersion"])
    for_readers, for_writers = protocol.get("readerFeatures"), protocol.get("writerFeatures")
    if (writer >= FEATURE_WRITER) != (for_writers is not None):
        faults.append("writer features and writer version do not fit")
    if (reader >= FEATURE_READER) != (for_readers is not None):
        faults.append("reader features and reader version do not fit")
    if set(for_readers or ()) - set(for_writers or ()):
        faults.append("a reader feature is no writer feature")
    read_too = set(for_writers or ()) & _READER_WRITER
    if reader == FEATURE_READER - 1:
        read_too -= _LEGACY_READER
    if read_too - set(for_readers or ()):
        faults.append("a reader-writer feature is missing among the reader features")
    return faults


def needed_features(schema: Mapping[str, Any], configuration: Mapping[str, str]) -> set[str]:
    """Return the features that a schema and its properties need; without one of them Spark refuses every statement, SELECT included."""
    found = property_features(configuration)
    for _, field in fields_in(schema):
        if not field["nullable"]:
            found.add(INVARIANTS)
        if metadata := field.get("metadata"):
            found.update(feature for key, feature in _BY_FIELD_METADATA.items() if key in metadata)
        found.update(_BY_TYPE[name] for name in atomic_types(field["type"]) if name in _BY_TYPE)
    return found


def atomic_types(data_type: Any) -> list[str]:
    """Return the names of a field's atomic types, without those of fields inside it, which are looked at themselves."""
    if isinstance(data_type, str):
        return [data_type]
    match data_type.get("type"):
        case "array":
            return atomic_types(data_type["elementType"])
        case "map":
            return atomic_types(data_type["keyType"]) + atomic_types(data_type["valueType"])
        case _:
            return []
