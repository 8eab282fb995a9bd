"""PRIMARY KEY and UNIQUE: nothing stands on the table, so both are elements of the registry."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.online.keys import Unique
from airflow_provider_schemamig.core.online.operation import Chain, Note, Operation, Question, Validate
from airflow_provider_schemamig.core.schema.changes import AddKey
from airflow_provider_schemamig.core.schema.element_states import ElementClass, ElementState
from airflow_provider_schemamig.core.schema.model import Declaration


def operations(change: AddKey, table: Declaration) -> Chain:
    columns = change.key.columns
    key = Unique(columns, change.primary)
    question = Question("duplicate_key", (("columns", columns), ("rule", key.rule)))
    steps = (Note(ElementState.CHECK), Validate(question), Note(ElementState.PUBLIC))
    return (Operation(key.element, ElementClass.VALIDATION, change, steps, tuple(map(ColumnPath, columns))),)
