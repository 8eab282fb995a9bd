"""Values that are in no declared column: a copy of all rows leaves those at the origin, and takes away those of the target.

Events need no such look: a new row has no value in a hidden column, and a changed one that is found by its key keeps the target's.
"""

from __future__ import annotations

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.replication.stream.compatibility import TargetSchema
from airflow_provider_schemamig.core.replication.stream.lineage import Doubt, doubts, lineage_of
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import path_in_files
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import kept_fields, open_holds


def hidden_values(origin: State, entry: SchemaEntry, head: Head, target: TargetSchema) -> str:
    """Return, in words, the origin's hidden columns that the target declares; empty if there are none.

    ``head``: of the origin's table, whose rows are of the schema ``entry``.
    """
    hidden = _in_files(head.declaration(entry.collection), head.stored_names).keys() - _declared(entry).keys()
    there = {path for path, _ in walk(target.current.declared.fields)}
    found: set[ColumnPath] = set()
    for before in origin.schemas_of(entry.shard) if hidden else ():
        known = {path for names, path in _declared(before).items() if names in hidden and path in there}
        if known - found:
            judged = doubts(before, lineage_of(origin, entry.collection), target.current, target.lineage)
            found |= {path for path in known if judged.get(path) is not Doubt.OTHER}
    return "; ".join(f"{path} is hidden at the origin with the values it had, and the target declares it" for path in sorted(found))


def kept_columns(target: State, collection: CollectionName) -> str:
    """Return, in words, the columns that the target has dropped and keeps for its way back; empty if there are none."""
    kept = kept_fields(target, collection, open_holds(target))
    return "; ".join(f"{path} is kept at the target for a rollback of generation {kept[path].generation}" for path in sorted(kept))


def _declared(entry: SchemaEntry) -> dict[tuple[str, ...], ColumnPath]:
    return _in_files(entry.declared, dict(entry.stored_names))


def _in_files(declaration: Declaration, names: dict[ColumnPath, str]) -> dict[tuple[str, ...], ColumnPath]:
    """Return the fields by their names in the data files."""
    return {path_in_files(path, names): path for path, _ in walk(declaration.fields)}
