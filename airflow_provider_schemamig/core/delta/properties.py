"""What Delta's own table properties say of a table: which table feature each brings, column mapping, columns with statistics.

What values they may have is in ``schema.delta_rules.property_values``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.schema.delta_rules.properties import CONSTRAINT_PREFIX
from airflow_provider_schemamig.core.schema.delta_rules.table_features import FEATURES, MAPPING_MODE

CONSTRAINT = CONSTRAINT_PREFIX
MAPPING_MAX_ID = "delta.columnMapping.maxColumnId"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"

_FEATURES = {switch: row.name for row in FEATURES.values() for switch in row.properties}
_FEATURES_BY_PREFIX = {row.property_prefix: row.name for row in FEATURES.values() if row.property_prefix}


def property_features(configuration: Mapping[str, str]) -> set[str]:
    """Return the table features that the properties of a table need."""
    found = {_FEATURES[key, text] for key, value in configuration.items() if (key, text := str(value).lower()) in _FEATURES}
    return found | {name for prefix, name in _FEATURES_BY_PREFIX.items() if any(key.startswith(prefix) for key in configuration)}


def stats_columns(configuration: Mapping[str, str]) -> list[str]:
    """Return ``delta.dataSkippingStatsColumns`` split at the commas outside backticks, otherwise as it is."""
    return [part.strip() for part in _split(configuration.get(STATS_COLUMNS, ""), ",") if part.strip()]


def name_parts(column: str) -> list[str]:
    """Return the names in one of ``stats_columns``, outermost first, without backticks."""
    parts = [part.strip() for part in _split(column, ".")]
    return [part[1:-1].replace("``", "`") if part.startswith("`") else part for part in parts]


def _split(text: str, separator: str) -> list[str]:
    """Split a text at the separators outside backticks."""
    parts: list[str] = [""]
    quoted = False
    for character in text:
        quoted ^= character == "`"
        if character == separator and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def is_mapped(configuration: Mapping[str, str]) -> bool:
    """Return whether the table has column mapping: its columns have names of their own in the data files."""
    return configuration.get(MAPPING_MODE, "none").lower() != "none"


def is_on(metadata: Mapping[str, Any], key: str) -> bool:
    """Return whether a metaData action switches this property on."""
    return str((metadata.get("configuration") or {}).get(key, "")).lower() == "true"
