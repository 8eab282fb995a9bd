"""A CHECK or NOT NULL over a column whose type changes in the same release: it comes with the commit in which the columns change places.

Before it, nobody but our fill writes the column of the new type, and asks each of its values for the rule (``change_type``). So the rule
has held for all of them when it gets on the table. A key over such a column is not made online at all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from airflow_provider_schemamig.core.online.operation import Chain, Note, Operation, Swap
from airflow_provider_schemamig.core.schema.changes import AddCheck, SetNotNull
from airflow_provider_schemamig.core.schema.element_states import ElementState


def with_swap(chain: Chain, retyped: Collection[str]) -> Chain:
    """Return ``chain`` as it goes beside columns that change places; ``retyped``: their names, in lower case."""
    return tuple(_with_swap(operation, retyped) for operation in chain)


def _with_swap(operation: Operation, retyped: Collection[str]) -> Operation:
    change = operation.change
    if not isinstance(change, AddCheck | SetNotNull) or not any(path.partition(".")[0].lower() in retyped for path in operation.columns):
        return operation
    return replace(operation, steps=(Note(ElementState.CHECK), Note(ElementState.VALIDATE), Swap((change,))))
