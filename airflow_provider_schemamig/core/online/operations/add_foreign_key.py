"""FOREIGN KEY: an element of the registry, as keys are; rows are asked for what they refer to."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.online.keys import Reference
from airflow_provider_schemamig.core.online.operation import Chain, Note, Operation, Question, Validate
from airflow_provider_schemamig.core.schema.changes import AddForeignKey
from airflow_provider_schemamig.core.schema.element_states import ElementClass, ElementState
from airflow_provider_schemamig.core.schema.model import Declaration


def operations(change: AddForeignKey, table: Declaration) -> Chain:
    key = change.foreign_key
    question = Question("orphans", (("columns", key.columns), ("referenced_columns", key.referenced_columns)), key.references)
    steps = (Note(ElementState.CHECK), Validate(question), Note(ElementState.PUBLIC))
    columns, referenced = (tuple(map(ColumnPath, names)) for names in (key.columns, key.referenced_columns))
    name = Reference(key.columns, key.references, key.referenced_columns).element
    return (Operation(name, ElementClass.VALIDATION, change, steps, columns, key.references, referenced),)
