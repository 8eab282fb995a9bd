"""Delta's own table properties that we set, the values it can parse, and the values allowed together.

A value that Spark cannot parse makes every statement on the table fail; delta-rs accepts it. So this list is closed; keys outside
``delta.`` are the user's and free. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS, SPARKS_OWN
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG, forgets_too_early
from airflow_provider_schemamig.core.schema.delta_rules.table_features import (
    APPEND_ONLY,
    CHANGE_DATA_FEED,
    CHECKPOINT_POLICY,
    DELETION_VECTORS,
    ENABLE_TYPE_WIDENING,
    SYMLINK_MANIFEST,
)
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.exceptions import Refusal

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
    "delta.autoOptimize.autoCompact": _BOOLEAN,
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
        remedy = f"Set {LOG}, to as long as {FILES} or longer."
        raise UnsupportedProperty(key=key, value=configuration.get(key), reason=reason, remedy=remedy)


def unsupported_in(old: Declaration | None, new: Declaration) -> Iterator[UnsupportedProperty]:
    """Yield a refusal for each newly set property that no table takes: what was released cannot be changed any more."""
    before, after = {} if old is None else dict(old.properties), dict(new.properties)
    checks: list[Callable[[], None]] = []
    checks += [partial(check_property, key, value) for key, value in after.items() if before.get(key) != value]
    if {FILES, LOG} <= after.keys() and any(before.get(key) != after[key] for key in (FILES, LOG)):  # one alone is the table's to judge
        checks.append(partial(check_retentions, after))
    for check in checks:
        try:
            check()
        except UnsupportedProperty as error:
            error.collection = new.name
            yield error
