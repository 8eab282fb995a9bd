"""What a table has that its declaration cannot say, in words: for the notes of ``adopt`` and the comments it writes into schema.sql."""

from __future__ import annotations

from airflow_provider_schemamig.core.delta.features import UnsupportedFeature, check_writable
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.metadata.dependents import GENERATED
from airflow_provider_schemamig.core.delta.names import fields_in, unenforced_not_nulls

_IDENTITY = "delta.identity."


def remarks_on(head: Head) -> tuple[str, ...]:
    """One line each: generated and identity columns, NOT NULL where Delta does not enforce it, table features we do not know."""
    found: list[str] = []
    for path, field in fields_in(head.schema):
        metadata = field.get("metadata") or {}
        if GENERATED in metadata:
            found.append(f"{path} is generated always as ({metadata[GENERATED]}): so it stays on this table, a new one would not have it")
        if any(key.startswith(_IDENTITY) for key in metadata):
            found.append(f"{path} is an identity column: so it stays on this table, a new one would not have it")
    for field in head.schema["fields"]:
        for place in unenforced_not_nulls(field):
            found.append(f"{place} is NOT NULL on this table, inside an array or map, where Delta does not enforce it")
    try:
        check_writable(head.protocol, head.location.uri)
    except UnsupportedFeature as error:
        found.append(f"the table has features that schemamig does not know ({', '.join(error.features)}): it is read, never changed")
    return tuple(found)
