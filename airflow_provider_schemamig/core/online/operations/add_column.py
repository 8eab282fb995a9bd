"""ADD COLUMN with a default, and NOT NULL: new rows get the default first, then older rows do, then it is there.

DELETE asks nothing of a writer here (a row that goes takes its column along), so it is a note. From WRITE on a row that leaves the column
out gets the default; what is NULL in a row that was written since is what its writer wanted. A default that gives another value each time
is computed once a row. NOT NULL comes last, as an element of its own.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.operation import Chain, Enter, Note, Operation, Reorg
from airflow_provider_schemamig.core.online.operations.set_not_null import not_null
from airflow_provider_schemamig.core.schema.changes import AddColumn
from airflow_provider_schemamig.core.schema.element_states import ElementClass, ElementState
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.sql import type_sql


def operations(change: AddColumn, table: Declaration) -> Chain:
    """Return the steps of an added column. Raises NotOnline: nothing can be put into older rows, or not by itself."""
    if change.field.default is None or "." in change.path:
        why = "older rows have no value for it" if change.field.default is None else "a field of a struct is not filled by itself"
        raise NotOnline(collection=table.name, op=change.op, path=change.path, reason=why)
    nullable = replace(change, field=replace(change.field, nullable=True))
    expression = f"CAST(({change.field.default}) AS {type_sql(change.field.type)})"
    steps = (
        Note(ElementState.DELETE),
        Enter(ElementState.WRITE, (nullable,)),
        Reorg(change.field.name, expression),
        Note(ElementState.PUBLIC),
    )
    added = Operation(f"column:{change.path}", ElementClass.REORG, change, steps, (change.path,))
    return (added,) if change.field.nullable else (added, not_null(change.path))
