"""Which table features a schema and its properties need; without one of them Spark refuses every statement, SELECT included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.delta.names import fields_in
from airflow_provider_schemamig.core.delta.properties import property_features

_BY_FIELD_METADATA = {
    "CURRENT_DEFAULT": "allowColumnDefaults",
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
    "delta.typeChanges": "typeWidening",
}
_BY_TYPE = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}


def needed_features(schema: Mapping[str, Any], configuration: Mapping[str, str]) -> set[str]:
    found = property_features(configuration)
    for _, field in fields_in(schema):
        if not field["nullable"]:
            found.add("invariants")
        found.update(feature for key, feature in _BY_FIELD_METADATA.items() if key in (field.get("metadata") or {}))
        found.update(_BY_TYPE[name] for name in atomic_types(field["type"]) if name in _BY_TYPE)
    return found


def atomic_types(data_type: Any) -> list[str]:
    """Names of the atomic types of a field, without those of fields inside it (they are looked at themselves)."""
    if isinstance(data_type, str):
        return [data_type]
    match data_type.get("type"):
        case "array":
            return atomic_types(data_type["elementType"])
        case "map":
            return atomic_types(data_type["keyType"]) + atomic_types(data_type["valueType"])
        case _:
            return []
