"""Whether a rewrite's rows keep their primary key there and back, as far as its queries say so without Spark."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.merge.merged import RewriteStep
from airflow_provider_schemamig.core.release.queries.origins import column_origins
from airflow_provider_schemamig.core.schema.model import Declaration


def gives_key_back(step: RewriteStep) -> bool:
    """Return whether ``up`` and ``down`` only copy the columns of both primary keys, in one type: then a row is found by it again."""
    old, new = step.old.primary_key, step.new.primary_key
    if old is None or new is None or step.down is None:
        return False
    there, back = _copied(step.up, step.old.name), _copied(step.down, step.collection)
    pairs = [(column, back.get(column)) for column in old.columns]
    return {other for _, other in pairs} == set(new.columns) and all(
        other is not None and there.get(other) == column and _type(step.old, column) == _type(step.new, other) for column, other in pairs
    )


def _copied(query: str, own: CollectionName) -> dict[str, str]:
    """Return which columns of a query are one column of ``own`` as it is."""
    found = column_origins(query)
    return {name: one.column for name, (one, *others) in found.items() if not others and one.is_copy and one.collection == own}


def _type(declaration: Declaration, column: str) -> object:
    return next((field.type for field in declaration.fields if field.name == column), None)
