"""What in a declaration no writer could evaluate: CHECKs, and the clauses of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_schemamig.core.schema.clauses import clauses_of
from airflow_provider_schemamig.core.schema.expressions.constant_fit import default_fault
from airflow_provider_schemamig.core.schema.expressions.rules import check_fault
from airflow_provider_schemamig.core.schema.model import DataType, Declaration, Field
from airflow_provider_schemamig.exceptions import Refusal


class UnusableExpression(Refusal):
    """A CHECK or DEFAULT that no writer could evaluate: every write would fail, of everybody."""

    code = "unusable_expression"
    message = "{used_by} cannot be {expression}: {reason}."
    next_action = "Write it so that every engine can evaluate it; docs/schema-changes.md lists what a CHECK and a DEFAULT may be."
    used_by: str
    expression: str
    reason: str


def refuse_default(path: str, expression: str | None, data_type: DataType) -> None:
    """Refuse a DEFAULT that no writer could evaluate. Raises UnusableExpression."""
    fault = None if expression is None else default_fault(expression, data_type)
    if fault is not None:
        raise UnusableExpression(used_by=f"the DEFAULT of {path}", expression=str(expression), reason=fault)


def refuse_check(name: str, expression: str, fields: Sequence[Field]) -> None:
    """Refuse a CHECK that no writer could evaluate. Raises UnusableExpression."""
    fault = check_fault(expression, tuple(fields))
    if fault is not None:
        raise UnusableExpression(used_by=f"the CHECK {name}", expression=expression, reason=fault)


def unusable_in(declaration: Declaration) -> Iterator[UnusableExpression]:
    """Yield everything in a declaration that no writer could evaluate."""
    for field in declaration.fields:
        for clause, text in clauses_of(field):
            fault = clause.fault(text, field, declaration.fields)
            if fault is not None:
                used_by = f"the {clause.name} of {field.name}"
                yield UnusableExpression(collection=declaration.name, used_by=used_by, expression=text, reason=fault)
    for check in declaration.checks:
        fault = check_fault(check.expression, declaration.fields)
        if fault is not None:
            used_by = f"the CHECK {check.name}"
            yield UnusableExpression(collection=declaration.name, used_by=used_by, expression=check.expression, reason=fault)


def newly_unusable(old: Declaration | None, new: Declaration) -> Iterator[UnusableExpression]:
    """Yield what is ``unusable_in`` the new declaration and not in the old one: tables have the latter already."""
    before = set() if old is None else {(found.used_by, found.expression) for found in unusable_in(old)}
    return (found for found in unusable_in(new) if (found.used_by, found.expression) not in before)
