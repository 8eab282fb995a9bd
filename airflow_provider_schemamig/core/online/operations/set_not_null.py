"""SET NOT NULL: a CHECK first, validated, and then one commit that sets it and takes the CHECK out.

Not at once: a column that is NOT NULL in the schema while a NULL is in a file gives wrong answers, because Spark leaves ``IS NULL`` out.
"""

from __future__ import annotations

from airflow_provider_schemamig.core.names import ColumnPath, quote
from airflow_provider_schemamig.core.online.dependent_checks import NOT_NULL
from airflow_provider_schemamig.core.online.operation import Chain, Enter, Operation, Question, Validate
from airflow_provider_schemamig.core.schema.changes import AddCheck, DropCheck, SetNotNull
from airflow_provider_schemamig.core.schema.element_states import ElementClass, ElementState
from airflow_provider_schemamig.core.schema.expressions.parse import canonical_expression
from airflow_provider_schemamig.core.schema.model import Check, Declaration


def operations(change: SetNotNull, table: Declaration) -> Chain:
    return (not_null(change.path),)


def not_null(path: ColumnPath) -> Operation:
    """Return the element of a NOT NULL, also for a column that is only just added."""
    change = SetNotNull(path)
    guard = guard_of(path)
    question = Question("not_null", (("column", path),))
    if "." in path:  # of a struct that is missing, Delta takes the field for missing, too
        question = Question("check", (("expression", guard.expression), ("rule", f"{path} NOT NULL")))
    steps = (
        Enter(ElementState.CHECK, (AddCheck(guard),)),
        Validate(question),
        Enter(ElementState.PUBLIC, (change, DropCheck(guard))),
    )
    return Operation(f"not_null:{path}", ElementClass.VALIDATION, change, steps, (path,))


def guard_of(path: ColumnPath) -> Check:
    """Return the CHECK that stands for a NOT NULL until all rows are known to keep it."""
    column = ".".join(quote(part) for part in path.split("."))
    return Check(f"{NOT_NULL}{path.lower().replace('.', '__')}", canonical_expression(f"{column} IS NOT NULL"))
