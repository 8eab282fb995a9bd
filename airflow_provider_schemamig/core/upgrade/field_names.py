"""Write down what fields are called in the data files, where the ledger does not know it (schemas from ledger format 1).

It has to be done while the table still is what its schema says: after a rename nobody could tell any more which field was which.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.names import stored_names
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Put, Update
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.upgrade.tables import read_heads
from airflow_provider_schemamig.core.upgrade.work import Work


def record_names(work: Work) -> None:
    """Complete the schemas that collections have now, in one append. To be called before anything of this leader's changes a table.

    Nothing to do is no append. Schemas from outside of a release stay without names: no reader asks for them once they are over.
    """
    heads = read_heads(work.env, work.state, [name for name in work.state.objects if _unnamed(work.state, name) is not None])
    if not heads:
        return

    def named(state: State) -> list[Update]:
        updates: list[Update] = []
        for name, head in heads.items():
            entry = _unnamed(state, name)
            if entry is not None and head is not None:
                updates.append(Put(replace(entry, stored_names=names_of(head, entry.declared))))
        return updates

    work.append(named)


def names_of(head: Head, declared: Declaration) -> tuple[tuple[ColumnPath, str], ...]:
    """What the declared fields are called in the data files, where that is another name (``SchemaEntry.stored_names``)."""
    paths = {path for path, _ in walk(declared.fields)}
    return tuple(sorted((path, name) for path, name in stored_names(head.schema).items() if path in paths))


def _unnamed(state: State, collection: CollectionName) -> SchemaEntry | None:
    entry = state.entry(collection) if collection in state.objects else None
    return entry if entry is not None and entry.stored_names is None and entry.release is not None else None
