"""Which table properties a declaration may hold.

A property without its table feature makes a table unreadable, a protocol number written as a property changes the protocol, and some
properties are schemamig's own instruments (the seal, the fence). So ``delta.*`` is a closed list; every other key is free for the user.
"""

from __future__ import annotations

import re

from airflow_provider_schemamig.core.names import RESERVED_PREFIX
from airflow_provider_schemamig.core.schema.delta_rules.table_features import APPEND_ONLY, DECLARABLE, SYMLINK_MANIFEST

CONSTRAINT_PREFIX = "delta.constraints."
#: Delta keeps statistics of so many leaves, and clusters by nothing else.
INDEXED_COLUMNS = 32

#: For how long a table remembers transaction identifiers; without it for ever. schemamig's fence is one, so no managed table may have it.
FORGETS = "delta.setTransactionRetentionDuration"

_KEY = re.compile(r"[^\x00-\x1f\x7f'\"`\\]{1,255}")

#: Settings that change how files and log are written and nothing else: no feature, no protocol, no other reader's answer.
SAFE = frozenset(
    {
        "delta.autoOptimize",
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointRetentionDuration",
        SYMLINK_MANIFEST,
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStringPrefixLength",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.logRetentionDuration",
        "delta.randomizeFilePrefixes",
        "delta.randomPrefixLength",
        "delta.sampleRetentionDuration",
    }
)

#: Keys by which Spark says what a table is, and Delta how it is clustered: no property of anybody's.
SPARKS_OWN = frozenset(
    {"clusteringcolumns", "collation", "comment", "external", "is_managed_location", "location", "owner", "provider", "table_type"}
)

_OWN = {
    APPEND_ONLY: "schemamig sets it while a table is sealed",
    FORGETS: "it would let schemamig's fence, a transaction identifier, expire",
    "delta.dataSkippingStatsColumns": "it names columns, and would be wrong after a rename; use delta.dataSkippingNumIndexedCols",
    "delta.isolationLevel": "open-source Delta knows one level, Serializable",
}
_OWN_PREFIXES = {
    CONSTRAINT_PREFIX: "write it as CONSTRAINT name CHECK (expression)",
    "delta.columnMapping.": "schemamig turns column mapping on by itself when a rename or drop first needs it",
    "delta.feature.": "schemamig adds a table feature together with the change that needs it",
    "delta.min": "schemamig keeps the protocol version that the declared schema needs",
}
_LOWER = {key.lower(): key for key in SAFE | DECLARABLE}


def refusal_reason(key: str) -> str | None:
    """Return why a declaration may not set this property; None if it may."""
    lower = key.lower()
    if _KEY.fullmatch(key) is None:
        return "a key has no control characters, quotes, backticks or backslashes"
    if lower.startswith(RESERVED_PREFIX):
        return f"names beginning with {RESERVED_PREFIX} are its own"
    if lower in SPARKS_OWN:
        return "Spark keeps the name for itself"
    if not lower.startswith("delta.") or key in SAFE | DECLARABLE:
        return None
    if lower in _LOWER:
        return f"Delta spells it {_LOWER[lower]}"
    for prefix, reason in _OWN_PREFIXES.items():
        if lower.startswith(prefix.lower()):
            return reason
    return next((reason for own, reason in _OWN.items() if own.lower() == lower), _IMPLIES_FEATURE)


_IMPLIES_FEATURE = "it is unknown, or needs a table feature that the property alone does not bring"
