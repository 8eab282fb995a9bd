"""The changes of an evolution sorted by when they are committed: expand, online, cut-over, contract.

``phases`` starts from what the table *has*, which may be more than what the release before declares: columns hidden since a
rollback, types that stayed wide, NOT NULLs that stayed dropped. What is in place already is left out; what was left behind stays as it
is until a release changes that very thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import Change, Cost, DropColumn, Relax, RenameColumn
from airflow_provider_schemamig.core.schema.diff.columns import ColumnDifferences, DroppedField, TakenName
from airflow_provider_schemamig.core.schema.diff.compare import NO_RENAMES, compare
from airflow_provider_schemamig.core.schema.errors import NameTaken
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import parent_and_name


@dataclass(frozen=True, slots=True)
class Phases:
    """``apply`` them in this order. ``expand``, ``cutover`` and ``contract`` are one metadata commit each, and empty if there is nothing
    worth a commit: comments and a mere order ride along or wait. ``online`` holds what costs more than a commit (online or rewrite).

    Paths in ``expand`` and ``online`` are those of the table before cut-over, in ``contract`` those after it.
    """

    expand: tuple[Change, ...] = ()
    online: tuple[Change, ...] = ()
    cutover: tuple[Change, ...] = ()
    contract: tuple[Change, ...] = ()
    #: Against it: what would use the name of a field that is to be kept, or drop it.
    taken: tuple[TakenName, ...] = ()


def phases(
    now: Declaration,
    old: Declaration,
    new: Declaration,
    renames: Mapping[ColumnPath, str] = NO_RENAMES,
    kept: frozenset[ColumnPath] = frozenset(),
) -> Phases:
    """Return how a table that looks like ``now`` and is declared as ``old`` becomes ``new``; ``renames`` as in ``diff``.

    During expand, what contract will drop is made optional, so that writers of the new release may leave it out. Columns of ``now`` that
    neither declaration has stay, after the declared ones if an order is set; those that are ``kept`` are not used again.

    Raises UnknownRename, NameTaken, RenameInLambda, HiddenConflict.
    """
    if now == old == new and not renames:
        return Phases()
    found = compare(now, old, new, renames, kept)
    early = [*found.removed, *found.columns.changes, *found.added]
    online = tuple(change for change in early if change.cost.rank > Cost.INSTANT.rank)
    expand = [change for change in early if change.cost.rank <= Cost.INSTANT.rank] + list(relaxed(found.columns.drops))
    cutover = _cutover(found.columns, old)
    if all(change.cost is Cost.NONE for change in expand):  # comments: they ride on the cut-over, or on a later release's commit
        expand, cutover = [], [*expand, *cutover] if cutover else []
    contract = tuple(DropColumn(drop.path_after) for drop in found.columns.drops)
    return Phases(tuple(expand), online, tuple(cutover), contract, tuple(found.columns.taken))


def relaxed(drops: Iterable[DroppedField]) -> Iterator[Relax]:
    """Yield a change for every NOT NULL inside what will be dropped: Delta checks a nested one even where the struct around it is NULL."""
    for drop in drops:
        parent, _ = parent_and_name(drop.path)
        for path, field in walk((drop.field,), f"{parent}." if parent else ""):
            if not field.nullable:
                yield Relax(path)


def _cutover(columns: ColumnDifferences, old: Declaration) -> list[Change]:
    """Return columns whose name is taken stepping aside, renames, additions under the names now free, orders. Empty if only an order
    differs."""
    for addition in columns.late:
        if addition.cost is not Cost.INSTANT:
            raise NameTaken(collection=old.name, path=addition.path, used_by="filling older rows")
    aside = [RenameColumn(drop.path, drop.retired_as) for drop in columns.drops if drop.retired_as is not None]
    changes: list[Change] = [*aside, *columns.renames, *columns.late]
    if changes or any(reorder.gains for reorder in columns.reorders):
        changes += [reorder.change for reorder in columns.reorders]
    return changes
