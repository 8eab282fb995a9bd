"""What fields are called in the data files, as a schema in the ledger records it."""

from __future__ import annotations

from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.names import stored_names
from airflow_provider_schemamig.core.names import ColumnPath


def names_of(head: Head) -> tuple[tuple[ColumnPath, str], ...]:
    """What the table's fields are called in the data files, where that is another name (``SchemaEntry.stored_names``)."""
    return tuple(sorted(stored_names(head.schema).items()))
