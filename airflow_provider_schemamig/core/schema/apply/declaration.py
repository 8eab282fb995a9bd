"""Changes applied to a declaration. Pure values; ``core.delta`` does the same to a table's metadata.

``apply(old, diff(old, new, renames).changes) == new``. A change that is in place already changes nothing, so a sequence that stopped in
the middle may be applied again from there; one that contradicts what is there raises NotApplicable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.apply import columns, table
from airflow_provider_schemamig.core.schema.clauses import CLAUSES
from airflow_provider_schemamig.core.schema.model import Declaration

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
