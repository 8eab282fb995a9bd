"""A table's metadata while it is edited: the schema JSON, the configuration, clustering, and finding a place in them by dotted path."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.metadata.clustering import Clustering
from airflow_provider_schemamig.core.delta.metadata.forbidden import RefusedByDelta, without_mapping
from airflow_provider_schemamig.core.delta.names import (
    MAPPING_ID,
    PHYSICAL_NAME,
    JsonField,
    fields_in,
    physical_name,
)
from airflow_provider_schemamig.core.delta.properties import MAPPING_MAX_ID, is_mapped
from airflow_provider_schemamig.core.names import ColumnPath, name_key
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.delta_rules.table_features import MAPPING_MODE
from airflow_provider_schemamig.core.schema.errors import NotApplicable


@dataclass(frozen=True, slots=True)
class MetadataPlace:
    """Where a path leads: ``struct`` holds ``field``, the nearest column or struct field, and ``inside`` the way on into its type
    (``element``, ``key``, ``value``); empty if the path names the field itself. ``root``: path up to the first array or map."""

    struct: dict[str, Any]
    field: JsonField
    inside: tuple[str, ...]
    root: str


@dataclass
class MetadataDraft:
    """Mutable; made from raw actions by ``open_draft``, turned into raw actions by ``close``."""

    metadata: RawAction
    schema: dict[str, Any]
    configuration: dict[str, str]
    partition_columns: list[str]
    clustering: Clustering = ()
    description: str | None = None
    #: Paths whose columns no data file carries: dropping them needs no column mapping.
    forget: frozenset[ColumnPath] = field(default_factory=frozenset)
    #: The changes are a way back: what somebody set meanwhile, which is no drift, makes way.
    is_way_back: bool = False
    #: The highest column-mapping id so far; None until one is needed.
    highest_id: int | None = None

    @property
    def is_mapped(self) -> bool:
        return is_mapped(self.configuration)

    def place(self, change: Change, path: str) -> MetadataPlace:
        """Return where the column at ``path`` is in the schema. Raises NotApplicable if nothing is there."""
        found = self.find(path)
        if found is None:
            raise self.refused(change, "there is no such column")
        return found

    def field(self, change: Change, path: str) -> JsonField:
        """Return the column or struct field at ``path``; NotApplicable for elements, keys and values."""
        found = self.place(change, path)
        if found.inside:
            raise self.refused(change, "it is no column or struct field")
        return found.field

    def struct(self, change: Change, path: str) -> dict[str, Any]:
        """Return the struct at ``path`` (empty: the columns)."""
        if not path:
            return self.schema
        place = self.place(change, path)
        found = type_at(place.field["type"], place.inside)
        if not isinstance(found, dict) or found.get("type") != "struct":
            raise self.refused(change, "there is no such struct")
        return found

    def find(self, path: str) -> MetadataPlace | None:
        parts = path.split(".")
        struct, found, root = self.schema, None, ""
        inside: tuple[str, ...] = ()
        here: Any = self.schema
        through_container = False
        for part in parts:
            if isinstance(here, dict) and here.get("type") == "struct":
                struct, inside = here, ()
                found = next((f for f in here["fields"] if f["name"] == part), None)
                if found is None:
                    return None
                here = found["type"]
                if not through_container:
                    root = f"{root}.{part}" if root else part
                continue
            through_container = True
            inner = type_at(here, (part,))
            if inner is None:
                return None
            here, inside = inner, (*inside, part)
        return None if found is None else MetadataPlace(struct, found, inside, root)

    def physical(self, path: str) -> tuple[str, ...]:
        """Return the physical names along a dotted path through structs."""
        names: list[str] = []
        prefix = ""
        for part in path.split("."):
            prefix = f"{prefix}.{part}" if prefix else part
            place = self.find(prefix)
            names.append(part if place is None else physical_name(place.field))
        return tuple(names)

    def refused(self, change: Change, reason: str) -> NotApplicable:
        path = getattr(change, "path", None) or getattr(change, "key", None) or "the table"
        return NotApplicable(op=change.op, path=str(path), reason=reason)

    # --- column mapping -----------------------------------------------------------------------------------------------------------

    def map_columns(self) -> None:
        """Enable column mapping for files that exist: every field, nested too, gets an id and keeps its name as the physical one."""
        if self.is_mapped:
            return
        left = without_mapping(self.schema)
        if left is not None:
            raise RefusedByDelta(reasons=(f"{left} has a column-mapping id or name of before, and would be read from another column",))
        self.configuration[MAPPING_MODE] = "name"
        for _, found in fields_in(self.schema):
            self._assign(found, found["name"])

    def map_new(self, new: JsonField) -> None:
        """Give ids, and physical names never used before, to a field that is about to be added and to all fields inside it."""
        if not self.is_mapped:
            return
        self._assign(new, f"col-{uuid.uuid4()}")
        for _, found in fields_in(new["type"]):
            self._assign(found, f"col-{uuid.uuid4()}")

    def _assign(self, found: JsonField, physical: str) -> None:
        if self.highest_id is None:
            ids = (int((f.get("metadata") or {}).get(MAPPING_ID) or 0) for _, f in fields_in(self.schema))
            self.highest_id = max(int(self.configuration.get(MAPPING_MAX_ID, 0)), max(ids, default=0))
        self.highest_id += 1
        found["metadata"] = {**(found.get("metadata") or {}), MAPPING_ID: self.highest_id, PHYSICAL_NAME: physical}
        self.configuration[MAPPING_MAX_ID] = str(self.highest_id)

    def close(self) -> RawAction:
        """Return the metaData action; what did not change, and keys this software does not know, are in it as they were."""
        result = dict(self.metadata)
        if self.schema != json.loads(self.metadata["schemaString"]):
            result["schemaString"] = json.dumps(self.schema, separators=(",", ":"), ensure_ascii=False)
        if self.configuration != (self.metadata.get("configuration") or {}):
            result["configuration"] = self.configuration
        if self.partition_columns != list(self.metadata.get("partitionColumns") or ()):
            result["partitionColumns"] = self.partition_columns
        if self.description != self.metadata.get("description"):
            result["description"] = self.description
        return {key: value for key, value in result.items() if key != "description" or value is not None}


def open_draft(metadata: RawAction, forget: Sequence[ColumnPath], clustering: Clustering, *, is_way_back: bool = False) -> MetadataDraft:
    return MetadataDraft(
        metadata=metadata,
        schema=json.loads(metadata["schemaString"]),
        configuration=dict(metadata.get("configuration") or {}),
        partition_columns=list(metadata.get("partitionColumns") or ()),
        clustering=clustering,
        description=metadata.get("description"),
        forget=frozenset(forget),
        is_way_back=is_way_back,
    )


_INNER = {"element": ("array", "elementType"), "key": ("map", "keyType"), "value": ("map", "valueType")}


def type_at(data_type: Any, inside: Sequence[str]) -> Any:
    """Return the type behind ``element``, ``key``, ``value`` steps; None if they do not fit."""
    for step in inside:
        kind, key = _INNER.get(step, ("", ""))
        if not isinstance(data_type, dict) or data_type.get("type") != kind:
            return None
        data_type = data_type[key]
    return data_type


def set_type_at(found: JsonField, inside: Sequence[str], data_type: Any) -> None:
    """Put a type where ``type_at`` would look."""
    if not inside:
        found["type"] = data_type
        return
    type_at(found["type"], inside[:-1])[_INNER[inside[-1]][1]] = data_type


def taken_name(struct: Mapping[str, Any], name: str, besides: JsonField | None = None) -> JsonField | None:
    """Return the field that has a name, ignoring case as Spark does."""
    wanted = name_key(name)
    return next((f for f in struct["fields"] if f is not besides and name_key(f["name"]) == wanted), None)
