"""Delta's own table properties: which we set, what values Delta can parse, and which table feature each brings.

A property without its feature, or with a value Spark cannot parse, makes every statement on the table fail; delta-rs accepts both. So
this list is closed; keys outside ``delta.`` are the user's and free.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.schema.delta_rules.properties import CONSTRAINT_PREFIX, FORGETS, SPARKS_OWN
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG, forgets_too_early
from airflow_provider_schemamig.core.schema.delta_rules.table_features import (
    APPEND_ONLY,
    CHANGE_DATA_FEED,
    CHECKPOINT_POLICY,
    DELETION_VECTORS,
    ENABLE_TYPE_WIDENING,
    FEATURES,
    MAPPING_MODE,
    SYMLINK_MANIFEST,
)
from airflow_provider_schemamig.exceptions import Refusal

CONSTRAINT = CONSTRAINT_PREFIX
MAPPING_MAX_ID = "delta.columnMapping.maxColumnId"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
STATS_COUNT = "delta.dataSkippingNumIndexedCols"

_BOOLEAN = re.compile("true|false", re.IGNORECASE)
_NATURAL = re.compile(r"\d{1,9}")
_POSITIVE = re.compile(r"0*[1-9]\d{0,8}")
_COLUMN_COUNT = re.compile(r"-1|\d{1,9}")
#: Of at most so many digits that no sum of them is too long for Delta.
_PART = r"\d{1,6}\s+(?:microsecond|millisecond|second|minute|hour|day|week)s?"
_INTERVAL = re.compile(rf"\s*(interval\s+)?{_PART}(\s+{_PART})*\s*", re.IGNORECASE)

_VALUES: dict[str, re.Pattern[str]] = {
    APPEND_ONLY: _BOOLEAN,
    ENABLE_TYPE_WIDENING: _BOOLEAN,
    "delta.autoOptimize": _BOOLEAN,
    "delta.autoOptimize.autoCompact": re.compile("true|false", re.IGNORECASE),
    "delta.autoOptimize.optimizeWrite": _BOOLEAN,
    "delta.checkpoint.writeStatsAsJson": _BOOLEAN,
    "delta.checkpoint.writeStatsAsStruct": _BOOLEAN,
    "delta.checkpointInterval": _POSITIVE,
    CHECKPOINT_POLICY: re.compile("classic|v2"),
    "delta.checkpointRetentionDuration": _INTERVAL,
    SYMLINK_MANIFEST: _BOOLEAN,
    STATS_COUNT: _COLUMN_COUNT,
    "delta.dataSkippingStringPrefixLength": _NATURAL,
    FILES: _INTERVAL,
    CHANGE_DATA_FEED: _BOOLEAN,
    DELETION_VECTORS: _BOOLEAN,
    "delta.enableExpiredLogCleanup": _BOOLEAN,
    "delta.enableFullRetentionRollback": _BOOLEAN,
    "delta.isolationLevel": re.compile("Serializable"),
    LOG: _INTERVAL,
    "delta.randomPrefixLength": _POSITIVE,
    "delta.randomizeFilePrefixes": _BOOLEAN,
    "delta.sampleRetentionDuration": _INTERVAL,
}
_FEATURES = {switch: row.name for row in FEATURES.values() for switch in row.properties}
_FEATURES_BY_PREFIX = {row.property_prefix: row.name for row in FEATURES.values() if row.property_prefix}


class UnsupportedProperty(Refusal):
    """A property this committer does not set, or a value Delta could not parse."""

    code = "unsupported_property"
    message = "the table property {key} cannot be set to {value!r}: {reason}."
    next_action = "{remedy}"
    key: str
    value: str | None
    reason: str
    remedy: str = "Correct the property in the release, or set it with Spark's ALTER TABLE outside of it."


def check_property(key: str, value: str | None) -> None:
    """Refuse what would break the table. ``value`` None unsets. Raises UnsupportedProperty."""
    if key.lower() in SPARKS_OWN and value is not None:
        raise UnsupportedProperty(key=key, value=value, reason="Spark keeps the name for itself")
    if not key.lower().startswith("delta.") or (key == FORGETS and value is None):
        return
    pattern = _VALUES.get(key)
    if pattern is None:
        raise UnsupportedProperty(key=key, value=value, reason="it is not one of Delta's properties that schemamig sets")
    if value is not None and pattern.fullmatch(value) is None:
        remedy = "Write true or false." if pattern is _BOOLEAN else "Give it a value that Delta's documentation names for it."
        raise UnsupportedProperty(key=key, value=value, reason="Delta could not parse the value", remedy=remedy)


def check_retentions(configuration: Mapping[str, str]) -> None:
    """Raise UnsupportedProperty unless the log is kept for as long as the files that its versions name."""
    if forgets_too_early(configuration):
        reason = "removed files would be kept for longer than the log that names them (30 days and 7 days where nothing is set)"
        key = FILES if FILES in configuration else LOG
        remedy = f"Declare {LOG}, as long as {FILES} or longer."
        raise UnsupportedProperty(key=key, value=configuration.get(key), reason=reason, remedy=remedy)


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
