"""Which table features a schema and its properties need; without one of them Spark refuses every statement, SELECT included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.delta.names import fields_in
from airflow_provider_schemamig.core.delta.properties import property_features
from airflow_provider_schemamig.core.schema.delta_rules.table_features import FEATURES, INVARIANTS

_BY_FIELD_METADATA = {row.field_key: row.name for row in FEATURES.values() if row.field_key}
_BY_TYPE = {row.type_name: row.name for row in FEATURES.values() if row.type_name}


def needed_features(schema: Mapping[str, Any], configuration: Mapping[str, str]) -> set[str]:
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
