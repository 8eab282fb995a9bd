"""The last look before a commit is linked: what it would make of the table, replayed in memory.

A first toy of this committer wrote metaData back without its format and made the table unreadable to everyone; so whatever the
edits did, a commit that fails here never reaches the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.errors import LogDamaged
from airflow_provider_schemamig.core.delta.features import effective_features, missing_features, needed_features, protocol_faults
from airflow_provider_schemamig.core.delta.metadata.clustering import FEATURES, Clustering, leaves
from airflow_provider_schemamig.core.delta.names import (
    MAPPING_ID,
    PHYSICAL_NAME,
    JsonField,
    fields_in,
    physical_name,
    structs_in,
)
from airflow_provider_schemamig.core.delta.properties import MAPPING_MAX_ID, is_mapped
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.delta_rules.table_features import TYPE_CHANGES
from airflow_provider_schemamig.exceptions import Refusal

_METADATA_KEYS = ("id", "format", "schemaString", "partitionColumns", "configuration")


class InvalidCommit(Refusal):
    """A commit that would damage the table; it was not written. Always a defect of schemamig or of the table, never of the release."""

    code = "invalid_commit"
    message = "the commit on {uri} would damage the table and was not written: {faults:; }."
    next_action = "Report it with the output of `schemamig status --json`; the table is as it was."
    uri: str
    faults: tuple[str, ...]


class TableState(NamedTuple):
    """Protocol and metaData of a table at one version, as raw actions, and its clustering columns (None: nobody asks, they stay)."""

    protocol: RawAction
    metadata: RawAction
    clustering: Clustering | None = None


def validate(uri: str, before: TableState | None, after: TableState, forget: Sequence[ColumnPath] = ()) -> None:
    """Refuse what would make the table unreadable or let rows be read wrongly. ``before`` None: a new table.

    Raises InvalidCommit; LogDamaged if the table itself has a mapped column without an identity: some writer's defect.
    """
    faults = [f"metaData lacks {key}" for key in _METADATA_KEYS if key not in after.metadata]
    if not faults:
        faults = [*protocol_faults(after.protocol), *_schema_faults(after)]
    if not faults and before is not None:
        _check_identities(uri, before.metadata)
        faults = [*_identity_faults(before, after), *_column_faults(before.metadata, after.metadata, forget)]
    if faults:
        raise InvalidCommit(uri=uri, faults=tuple(faults))


def _schema_faults(after: TableState) -> Iterator[str]:
    metadata, configuration = after.metadata, after.metadata["configuration"] or {}
    try:
        schema = json.loads(metadata["schemaString"])
        fields = list(fields_in(schema))
        structs = list(structs_in(schema))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        yield f"its schema does not parse ({error})"
        return
    broken = [fault for path, struct in structs for fault in _struct_faults(path or "the table", struct)]
    if broken:
        yield from broken
        return
    missing = missing_features(after.protocol, needed_features(schema, configuration))
    if missing:
        yield f"the protocol lacks {', '.join(sorted(missing))}"
    top = {f["name"] for f in schema["fields"]}
    yield from (f"partition column {name} does not exist" for name in metadata["partitionColumns"] if name not in top)
    yield from _clustering_faults(after, schema)
    if is_mapped(configuration):
        yield from _mapping_faults(fields, int(configuration.get(MAPPING_MAX_ID, 0)))


def _clustering_faults(after: TableState, schema: Mapping[str, Any]) -> Iterator[str]:
    if not after.clustering:
        return
    missing = missing_features(after.protocol, FEATURES)
    if missing:
        yield f"the protocol lacks {', '.join(sorted(missing))}"
    if after.metadata["partitionColumns"]:
        yield "it would be partitioned and clustered"
    known = set(leaves(schema))
    yield from (f"clustering column {'.'.join(column)} does not exist" for column in after.clustering if column not in known)


def _struct_faults(where: str, struct: Mapping[str, Any]) -> Iterator[str]:
    names = [f["name"].lower() for f in struct["fields"]]
    if not names:
        yield f"{where} has no fields"
    yield from (f"{where} has two fields named {name}" for name in {n for n in names if names.count(n) > 1})
    physical = [physical_name(f) for f in struct["fields"]]
    if len(set(physical)) < len(physical):
        yield f"{where} has two fields with one physical name"
    for field in struct["fields"]:
        if not isinstance(field.get("nullable"), bool) or not isinstance(field.get("type"), str | dict):
            yield f"field {field['name']} of {where} is incomplete"


def _mapping_faults(fields: Sequence[tuple[str, JsonField]], highest: int) -> Iterator[str]:
    ids = [(f.get("metadata") or {}).get(MAPPING_ID) for _, f in fields]
    if any(not isinstance(number, int) for number in ids) or any(PHYSICAL_NAME not in f["metadata"] for _, f in fields):
        yield "a field has no column-mapping id or physical name"
    elif len(set(ids)) < len(ids):
        yield "two fields have one column-mapping id"
    elif any(number > highest for number in ids if number is not None):
        yield f"a column-mapping id is above {MAPPING_MAX_ID}"


def _identity_faults(before: TableState, after: TableState) -> Iterator[str]:
    for key in ("id", "format", "createdTime"):
        if before.metadata.get(key) != after.metadata.get(key):
            yield f"metaData would change {key}"
    if is_mapped(before.metadata["configuration"] or {}) and not is_mapped(after.metadata["configuration"] or {}):
        yield "column mapping would be switched off"
    lost = effective_features(before.protocol) - effective_features(after.protocol)
    if lost:
        yield f"the protocol would lose {', '.join(sorted(lost))}"
    yield from _reuse_faults(before.metadata, after.metadata)


def _check_identities(uri: str, metadata: RawAction) -> None:
    if not is_mapped(metadata["configuration"] or {}):
        return
    for path, field in fields_in(json.loads(metadata["schemaString"])):
        if MAPPING_ID not in (field.get("metadata") or {}):
            raise LogDamaged(uri=uri, reason=f"columns are mapped, and {path} has no {MAPPING_ID}")


def _reuse_faults(before: RawAction, after: RawAction) -> Iterator[str]:
    """Yield the fields that would get the column-mapping id of a dropped column.

    An id is a column for ever, as the bytes of a dropped one are in the files until they are rewritten.
    """
    if not is_mapped(before["configuration"] or {}):
        return
    highest = int(before["configuration"].get(MAPPING_MAX_ID, 0))
    if int(after["configuration"].get(MAPPING_MAX_ID, 0)) < highest:
        yield f"{MAPPING_MAX_ID} would go down"
    known = {f["metadata"][MAPPING_ID]: physical_name(f) for _, f in fields_in(json.loads(before["schemaString"]))}
    for name, field in fields_in(json.loads(after["schemaString"])):
        number = field["metadata"].get(MAPPING_ID)
        if known.get(number, physical_name(field)) != physical_name(field):
            yield f"{name} would read other bytes than before"
        elif number not in known and (number is None or number <= highest):
            yield f"{name} would get the identity of a column that was dropped"


def _column_faults(before: RawAction, after: RawAction, forget: Sequence[ColumnPath]) -> Iterator[str]:
    """Yield the columns that would not go on reading the bytes they read.

    Each has to keep its physical name, and its type or a recorded wider one.
    """
    old, new = _columns(before), _columns(after)
    mapped = is_mapped(after["configuration"] or {})
    for path, (name, field) in old.items():
        if path in new:
            found = new[path][1]
            if _shape(field["type"]) != _shape(found["type"]) and len(_type_changes(found)) <= len(_type_changes(field)):
                yield f"{name} would change its type without a record of it"
        elif not mapped and not any(name == gone or name.startswith(f"{gone}.") for gone in forget):
            yield f"{name} would be dropped or renamed without column mapping"


def _columns(metadata: RawAction) -> dict[tuple[str, ...], tuple[str, JsonField]]:
    """Return physical path -> (logical path, field)."""
    return {path: (name, field) for path, name, field in _walk(json.loads(metadata["schemaString"]), (), "")}


def _walk(data_type: Any, path: tuple[str, ...], name: str) -> Iterator[tuple[tuple[str, ...], str, JsonField]]:
    """Yield physical path, logical path and field, for every field."""
    if not isinstance(data_type, dict):
        return
    match data_type.get("type"):
        case "struct":
            for field in data_type["fields"]:
                here, called = (*path, physical_name(field)), f"{name}.{field['name']}" if name else field["name"]
                yield here, called, field
                yield from _walk(field["type"], here, called)
        case "array":
            yield from _walk(data_type["elementType"], (*path, "element"), f"{name}.element")
        case "map":
            yield from _walk(data_type["keyType"], (*path, "key"), f"{name}.key")
            yield from _walk(data_type["valueType"], (*path, "value"), f"{name}.value")


def _shape(data_type: Any) -> Any:
    """Return a type without nullability and without the fields of structs in it."""
    if not isinstance(data_type, dict):
        return data_type
    return (data_type["type"], *(_shape(data_type[key]) for key in ("elementType", "keyType", "valueType") if key in data_type))


def _type_changes(field: JsonField) -> Sequence[Any]:
    return (field.get("metadata") or {}).get(TYPE_CHANGES) or ()
