"""The online changes, one file a kind: how each becomes elements and steps (docs/online-changes.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.nested_types import joined
from airflow_provider_schemamig.core.online.operation import Chain
from airflow_provider_schemamig.core.online.operations import (
    add_check,
    add_column,
    add_foreign_key,
    add_key,
    change_type,
    cluster_by,
    set_not_null,
)
from airflow_provider_schemamig.core.online.operations.with_swap import with_swap
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.model import Declaration

_OPERATIONS: Mapping[type[Any], Callable[[Any, Declaration], Chain]] = {
    c.AddColumn: add_column.operations,
    c.ChangeType: change_type.operations,
    c.SetNotNull: set_not_null.operations,
    c.AddCheck: add_check.operations,
    c.AddKey: add_key.operations,
    c.AddForeignKey: add_foreign_key.operations,
    c.ChangeClustering: cluster_by.operations,
}


def chains_of(changes: Sequence[c.Change], table: Declaration) -> tuple[Chain, ...]:
    """Return the elements of a table's online changes, in the order of the changes. Raises NotOnline."""
    together = joined(changes, table)
    return tuple(operations_of(change, table, together) for change in together)


def operations_of(change: c.Change, table: Declaration, beside: Sequence[c.Change] = (), declared: Declaration | None = None) -> Chain:
    """Return the elements of an online change of ``table`` (its physical schema, after expand). ``beside``: all its online changes,
    ``joined`` as they are made. ``declared``: what the release before declares, if that is another. Raises NotOnline.
    """
    (change,) = joined((change,), table)
    make = _OPERATIONS.get(type(change))
    if make is None:
        where = getattr(change, "path", "")
        raise NotOnline(collection=table.name, op=change.op, path=str(where), reason="schemamig cannot make this change on a live table")
    if isinstance(change, c.ChangeType):
        return change_type.operations(change, table, beside, declared)
    return with_swap(make(change, table), change_type.retyped(beside))


def check_on_head(head: Head, change: c.Change) -> None:
    """Check the table for reasons against an online change. No declaration tells of them. Raises NotOnline, CannotCluster."""
    match change:
        case c.ChangeType():
            change_type.check_on_head(head, change)
        case c.ChangeClustering():
            cluster_by.check_on_head(head, change)
