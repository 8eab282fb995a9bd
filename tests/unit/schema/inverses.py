"""What takes a change of a declaration back, as docs/schema-changes.md says it; a table's way back is worked out from what came since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.clauses import CLAUSES
from airflow_provider_schemamig.core.schema.paths import join, parent_and_name

_INVERSES: dict[type[Any], Callable[[Any], c.Change]] = {
    c.AddColumn: lambda x: c.DropColumn(x.path),
    c.RenameColumn: lambda x: c.RenameColumn(join(parent_and_name(x.path)[0], x.name), parent_and_name(x.path)[1]),
    c.Relax: lambda x: c.SetNotNull(x.path),
    c.SetNotNull: lambda x: c.Relax(x.path),
    **{clause.change: lambda x: type(x)(x.path, x.new, x.old) for clause in CLAUSES},
    c.SetComment: lambda x: c.SetComment(x.path, x.new, x.old),
    c.ReorderColumns: lambda x: c.ReorderColumns(x.path, x.new, x.old),
    c.SetProperty: lambda x: c.SetProperty(x.key, x.new, x.old),
    c.AddCheck: lambda x: c.DropCheck(x.check),
    c.DropCheck: lambda x: c.AddCheck(x.check),
    c.AddKey: lambda x: c.DropKey(x.key, x.primary),
    c.DropKey: lambda x: c.AddKey(x.key, x.primary),
    c.AddForeignKey: lambda x: c.DropForeignKey(x.foreign_key),
    c.DropForeignKey: lambda x: c.AddForeignKey(x.foreign_key),
    c.ChangeClustering: lambda x: c.ChangeClustering(x.new, x.old),
}


def inverse(change: c.Change) -> c.Change | None:
    """The change that takes ``change`` back where it was applied; None: its values are gone, or older files do not go back."""
    make = _INVERSES.get(type(change))
    return None if make is None else make(change)
