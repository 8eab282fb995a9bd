"""ADD CHECK: enforced first, then validated, then trusted.

Delta's own ADD CONSTRAINT scans and then commits, and never gets through on a busy table; ours is one commit, and SELECTs conflict with
nobody.
"""

from __future__ import annotations

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.online.operation import Chain, Enter, Note, Operation, Question, Validate
from airflow_provider_schemamig.core.schema.changes import AddCheck
from airflow_provider_schemamig.core.schema.element_states import ElementClass, ElementState
from airflow_provider_schemamig.core.schema.expressions.parse import column_references
from airflow_provider_schemamig.core.schema.model import Declaration


def operations(change: AddCheck, table: Declaration) -> Chain:
    question = Question("check", (("expression", change.check.expression), ("rule", change.check.name)))
    steps = (Enter(ElementState.CHECK, (change,)), Validate(question), Note(ElementState.PUBLIC))
    columns = tuple(map(ColumnPath, column_references(change.check.expression)))
    return (Operation(f"check:{change.check.name}", ElementClass.VALIDATION, change, steps, columns),)
