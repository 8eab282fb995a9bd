"""The difference of two declarations: a tuple of changes that leads from one to the other, and its outcome.

One function gives outcome and conversion, so they cannot disagree:
``apply(old, diff(old, new, renames).changes) == new``. docs/schema-changes.md is the table of all changes for people.

Paths. The changes apply from left to right, and each path is that of its moment:

1. dropped constraints, then everything about columns (adds, relaxed or set NOT NULL, types, defaults, comments), properties, added
   constraints, partitioning, clustering: paths, and columns inside constraints, under their OLD names;
2. drops of columns whose name another one takes, then renames, inner fields before outer ones: still OLD paths;
3. additions whose name was taken until then, then orders, then all other drops: NEW paths, that is, under renamed parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.changes import (
    Change,
    ChangeClustering,
    ChangePartitioning,
    Cost,
    DropColumn,
    SetComment,
    SetProperty,
)
from airflow_provider_schemamig.core.schema.diff.columns import ColumnDifferences, compare_columns
from airflow_provider_schemamig.core.schema.diff.constraints import Names, added_constraints, dropped_constraints
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.paths import translate

NO_RENAMES: Mapping[ColumnPath, str] = {}


@dataclass(frozen=True, slots=True)
class Diff:
    """Changes in the order in which they apply. ``dropped``: the columns that go, by their paths in the old declaration."""

    changes: tuple[Change, ...] = ()
    dropped: tuple[ColumnPath, ...] = ()

    @property
    def outcome(self) -> Cost:
        """Return the most expensive change's cost; NONE if there is none, or only comments and order differ."""
        return max((change.cost for change in self.changes), key=lambda cost: cost.rank, default=Cost.NONE)

    @property
    def drops_data(self) -> bool:
        """Return whether a column or a field at any depth goes. Orthogonal to the outcome."""
        return bool(self.dropped)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, sorted by kind but not yet by moment: ``diff`` and ``phases`` are two arrangements of it."""

    removed: tuple[Change, ...]
    columns: ColumnDifferences
    added: tuple[Change, ...]


def diff(old: Declaration, new: Declaration, renames: Mapping[ColumnPath, str] = NO_RENAMES) -> Diff:
    """Return what leads from ``old`` to ``new``.

    ``renames``: old path -> new last name; without one, a renamed column is a drop and an add. The collections' own names are not compared.
    Raises UnknownRename, NameTaken, RenameInLambda.
    """
    if old == new and not renames:
        return Diff()
    found = compare(old, old, new, renames)
    columns = found.columns
    making_way = [drop for drop in columns.drops if drop.retired_as is not None]
    others = [drop for drop in columns.drops if drop.retired_as is None]
    changes: list[Change] = [*found.removed, *columns.changes, *found.added]
    changes += [DropColumn(drop.path) for drop in making_way]
    changes += [*columns.renames, *columns.late]
    changes += [reorder.change for reorder in columns.reorders]
    changes += [DropColumn(drop.path_after) for drop in others]
    return Diff(tuple(changes), tuple(sorted(drop.old_path for drop in columns.drops)))


def compare(
    now: Declaration, old: Declaration, new: Declaration, renames: Mapping[ColumnPath, str], kept: frozenset[ColumnPath] = frozenset()
) -> Comparison:
    """Return all changes from ``old`` to ``new``, for a table that looks like ``now``.

    ``kept``: as in ``diff.columns``. Raises as ``diff``, and HiddenConflict.
    """
    asked = (now, old, new, dict(renames), kept)
    known = _LAST.get(old.name)
    if known is None or known[0] != asked:
        if len(_LAST) >= _MAX_LAST:
            _LAST.clear()
        known = _LAST[old.name] = (asked, _compared(*asked))
    return known[1]


#: What was compared last of each collection. An upgrade asks seven times: the release is checked and merged, planned twice, and run.
#: That was 10 % of it; two declarations that are equal are told in a tenth of the time in which they are compared.
_LAST: dict[CollectionName, tuple[tuple[Any, ...], Comparison]] = {}
_MAX_LAST = 16384


def _compared(
    now: Declaration, old: Declaration, new: Declaration, renames: Mapping[ColumnPath, str], kept: frozenset[ColumnPath]
) -> Comparison:
    columns = compare_columns(now, old, new, renames, kept)
    late = frozenset(addition.path.partition(".")[0].lower() for addition in columns.late)
    # A constraint on a column that makes way is not the new one's, though it reads the same.
    leaving = {drop.old_path: drop.retired_as for drop in columns.drops if drop.retired_as is not None}
    names = Names({**renames, **leaving}, columns.now_names, late)
    removed = tuple(dropped_constraints(now, old, new, names))
    added = (
        *_comment(now, old, new),
        *_properties(now, old, new),
        *added_constraints(now, old, new, names),
        *_layout(now, old, new, names),
    )
    return Comparison(removed, columns, added)


def _layout(now: Declaration, old: Declaration, new: Declaration, names: Names) -> Iterator[Change]:
    """Yield partitioning and clustering, with columns under the names that the table has now. Raises NameTaken."""
    if _renamed(old.partitioned_by, names) != new.partitioned_by:
        columns = tuple(names.now(column, "PARTITIONED BY") for column in new.partitioned_by)
        if columns != now.partitioned_by:
            yield ChangePartitioning(now.partitioned_by, columns)
    if _renamed(old.clustered_by, names) != new.clustered_by:
        columns = tuple(names.now(column, "CLUSTER BY") for column in new.clustered_by)
        if columns != now.clustered_by:
            yield ChangeClustering(now.clustered_by, columns)


def _properties(now: Declaration, old: Declaration, new: Declaration) -> Iterator[Change]:
    """Yield declared properties that are set, changed or no longer declared, unless the table has them so already."""
    live, before, after = dict(now.properties), dict(old.properties), dict(new.properties)
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key) and live.get(key) != after.get(key):
            yield SetProperty(key, live.get(key), after.get(key))


def _comment(now: Declaration, old: Declaration, new: Declaration) -> Iterator[Change]:
    """Yield the collection's comment; a comment on the table that nobody declared is left alone."""
    if now.comment != new.comment and (old.comment != new.comment or new.comment is not None):
        yield SetComment(ColumnPath(""), now.comment, new.comment)


def _renamed(columns: tuple[str, ...], names: Names) -> tuple[str, ...]:
    return tuple(translate(column, names.old_to_new) for column in columns)
