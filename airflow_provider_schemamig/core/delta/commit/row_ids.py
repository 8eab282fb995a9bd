"""Row ids of files that a commit of ours adds to a table with row tracking (Delta protocol, "Row Tracking").

Every file names the id of its first row and the version that it came with; a domain says which ids were given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from airflow_provider_schemamig.core.delta.actions import RawAction, json_object
from airflow_provider_schemamig.core.delta.errors import LogDamaged
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.schema.delta_rules.table_features import ROW_IDS_DOMAIN


def numbered(head: Head, added: Sequence[tuple[RawAction, int]], version: int) -> list[RawAction]:
    """Return the actions that add these files, each with its number of rows, in commit ``version``.

    Nobody else may add files in between.
    """
    domain = head.domains.get(ROW_IDS_DOMAIN)
    last = _highest(head, domain) if domain else -1
    actions: list[RawAction] = []
    for add, rows in added:
        actions.append({"add": {**add, "baseRowId": last + 1, "defaultRowCommitVersion": version}})
        last += rows
    mark = json.dumps({"rowIdHighWaterMark": last}, separators=(",", ":"))
    return [*actions, {"domainMetadata": {"domain": ROW_IDS_DOMAIN, "configuration": mark, "removed": False}}]


def _highest(head: Head, domain: RawAction) -> int:
    """Return the highest row id that was given. Raises LogDamaged: another one than that would be given twice."""
    found = (json_object(domain["configuration"]) or {}).get("rowIdHighWaterMark")
    if not isinstance(found, int):
        raise LogDamaged(uri=head.location.uri, reason=f"the domain {ROW_IDS_DOMAIN} has no usable configuration")
    return found
