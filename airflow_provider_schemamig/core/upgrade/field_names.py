"""What fields are called in the data files, as a schema in the ledger records it."""

from __future__ import annotations

from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.names import stored_names
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.model import Declaration, walk


def names_of(head: Head, declared: Declaration) -> tuple[tuple[ColumnPath, str], ...]:
    """What the declared fields are called in the data files, where that is another name (``SchemaEntry.stored_names``)."""
    paths = {path for path, _ in walk(declared.fields)}
    return tuple(sorted((path, name) for path, name in stored_names(head.schema).items() if path in paths))
