"""Changes applied to a declaration, and taken back. Pure values; ``core.delta`` does the same to a table's metadata.

``apply(old, diff(old, new, renames).changes) == new``. A change that is in place already changes nothing, so a sequence that stopped in
the middle may be applied again from there; one that contradicts what is there raises NotApplicable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import Any

from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.apply import columns, table
from airflow_provider_schemamig.core.schema.clauses import CLAUSES
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.paths import join, parent_and_name

_APPLIERS: dict[type[Any], Callable[[Declaration, Any], Declaration]] = {
    c.AddColumn: columns.add,
    c.DropColumn: columns.drop,
    c.RenameColumn: columns.rename,
    c.ChangeType: columns.change_type,
    c.Relax: columns.relax,
    c.SetNotNull: columns.set_not_null,
    **{clause.change: columns.set_clause for clause in CLAUSES},
    c.SetComment: columns.set_comment,
    c.ReorderColumns: columns.reorder,
    c.SetProperty: table.set_property,
    c.AddCheck: table.add_check,
    c.DropCheck: table.drop_check,
    c.AddKey: table.add_key,
    c.DropKey: table.drop_key,
    c.AddForeignKey: table.add_foreign_key,
    c.DropForeignKey: table.drop_foreign_key,
    c.ChangePartitioning: table.change_partitioning,
    c.ChangeClustering: table.change_clustering,
}


def apply(declaration: Declaration, changes: Iterable[c.Change]) -> Declaration:
    """Return the declaration after ``changes``, one after the other. Raises NotApplicable, RenameInLambda."""
    for change in changes:
        declaration = _APPLIERS[type(change)](declaration, change)
    return declaration


@singledispatch
def inverse(change: c.Change) -> c.Change | None:
    """Return the change that takes ``change`` back, to be applied where ``change`` was; None if nothing does.

    None for a drop (the values are gone), every change of type (old files stay readable as the wider type only) and of partitioning.
    What may really be taken back also depends on the rows that came in since.
    """
    return None


@inverse.register
def _(change: c.AddColumn) -> c.Change:
    return c.DropColumn(change.path)


@inverse.register
def _(change: c.RenameColumn) -> c.Change:
    parent, name = parent_and_name(change.path)
    return c.RenameColumn(join(parent, change.name), name)


@inverse.register
def _(change: c.Relax) -> c.Change:
    return c.SetNotNull(change.path)


@inverse.register
def _(change: c.SetNotNull) -> c.Change:
    return c.Relax(change.path)


@inverse.register
def _(change: c.SetClause) -> c.Change:
    return type(change)(change.path, change.new, change.old)


@inverse.register
def _(change: c.SetComment) -> c.Change:
    return c.SetComment(change.path, change.new, change.old)


@inverse.register
def _(change: c.ReorderColumns) -> c.Change:
    return c.ReorderColumns(change.path, change.new, change.old)


@inverse.register
def _(change: c.SetProperty) -> c.Change:
    return c.SetProperty(change.key, change.new, change.old)


@inverse.register
def _(change: c.AddCheck) -> c.Change:
    return c.DropCheck(change.check)


@inverse.register
def _(change: c.DropCheck) -> c.Change:
    return c.AddCheck(change.check)


@inverse.register
def _(change: c.AddKey) -> c.Change:
    return c.DropKey(change.key, change.primary)


@inverse.register
def _(change: c.DropKey) -> c.Change:
    return c.AddKey(change.key, change.primary)


@inverse.register
def _(change: c.AddForeignKey) -> c.Change:
    return c.DropForeignKey(change.foreign_key)


@inverse.register
def _(change: c.DropForeignKey) -> c.Change:
    return c.AddForeignKey(change.foreign_key)


@inverse.register
def _(change: c.ChangeClustering) -> c.Change:
    return c.ChangeClustering(change.new, change.old)
