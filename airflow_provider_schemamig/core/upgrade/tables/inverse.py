"""Going back: which changes undo a move, given what happened to the table since.

rename -> back. Add -> removed only if no file since carries it, else it stays hidden. Widen -> stays wide. Relax -> restored only if no
NULL came in. A dropped CHECK -> restored only if no file came in. Features stay. A type that a shadow column changed -> the two columns
change places again (``ColumnSwap``), once the one that comes back has a value in every row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import may_have_files_since, nulls_since
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.names import ColumnPath, quote
from airflow_provider_schemamig.core.online.dependent_checks import KeptCheck, guarded, kept_checks
from airflow_provider_schemamig.core.online.nested_types import cast_by_name, kept_or_cast
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    Change,
    ChangeClustering,
    ChangeType,
    Cost,
    DropColumn,
    RenameColumn,
    ReorderColumns,
    SetDefault,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.diff.columns import DroppedField
from airflow_provider_schemamig.core.schema.diff.compare import compare
from airflow_provider_schemamig.core.schema.diff.phases import relaxed
from airflow_provider_schemamig.core.schema.diff.renames import is_outdated, is_stand_in, shadow_name, stands_in_for
from airflow_provider_schemamig.core.schema.expressions.parse import NotFollowed
from airflow_provider_schemamig.core.schema.expressions.renames import rename_columns
from airflow_provider_schemamig.core.schema.model import Check, Declaration, Field, Primitive, walk
from airflow_provider_schemamig.core.schema.paths import join, parent_and_name
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.pool import cached_request
from airflow_provider_schemamig.core.upgrade.tables.undeclared import UndeclaredBefore


@dataclass(frozen=True, slots=True)
class InverseChanges:
    """The possible changes, the dropped columns among them that no file carries, and, in words, the rest."""

    changes: tuple[Change, ...]
    forget: tuple[ColumnPath, ...]
    left_behind: tuple[str, ...]


def inverse_renames(renames: Sequence[tuple[ColumnPath, str]]) -> dict[ColumnPath, str]:
    """Return the renames that undo ``renames`` (old path -> new last name). Inner paths use the new outer names."""
    mapping = dict(renames)
    return {_renamed(path, mapping): path.rpartition(".")[2] for path in mapping}


def _renamed(path: ColumnPath, renames: dict[ColumnPath, str]) -> ColumnPath:
    parts = path.split(".")
    prefixes = [".".join(parts[: n + 1]) for n in range(len(parts))]
    return ColumnPath(".".join(renames.get(ColumnPath(prefix), part) for prefix, part in zip(prefixes, parts, strict=True)))


def inverse_changes(
    store: ReadStore,
    head: Head,
    now: Declaration,
    wanted: Declaration,
    renames: Sequence[tuple[ColumnPath, str]],
    since: int,
) -> InverseChanges:
    """Return how to get from ``now`` back to ``wanted``; ``since`` is the version whose commit began the way out.

    ``renames``: every rename that the upgrade made, also those that moved a column out of another one's way; without the swaps of a
    change of type, which are known by their reserved names.
    """
    renamed = _inverse_renames_of(now, wanted, renames)
    there = {field.name for field in wanted.fields}
    #: Columns that were added under a name of ours and got another one: hidden, they have ours again, and the next attempt finds them.
    hidden = {path: name for path, name in renamed.items() if is_stand_in(name) and name not in there}
    found = compare(now, now, wanted, {path: name for path, name in renamed.items() if path not in hidden})
    before = UndeclaredBefore(store, head, now.name, since)
    columns, blocker = found.columns, _Blocker(store, head, now, since, column_swaps(now, wanted, renames), before)
    drops = [replace(drop, retired_as=hidden.get(drop.path, drop.retired_as)) for drop in columns.drops]
    changes: list[Change] = []
    left: list[str] = []
    for change in (*found.removed, *columns.changes, *found.added):
        reason = blocker.to(change)
        if reason is None:
            changes.append(before.given_back(change))
        else:
            left.append(reason)
    after: list[Change] = [*columns.renames, *columns.late, *(reorder.change for reorder in columns.reorders)]
    if any(map(is_stand_in, renamed)):  # behind the others, where an INSERT by position does not meet it
        order = tuple(field.name for field in wanted.fields if not is_stand_in(field.name))
        after.append(ReorderColumns(ColumnPath(""), tuple(field.name for field in now.fields), order))
    if not drops:
        return InverseChanges(tuple(_possible([*changes, *after])), (), tuple(left))
    clustered_by = next((change.new for change in changes if isinstance(change, ChangeClustering)), blocker.clustered_by)
    clustered = {path.partition(".")[0] for path in clustered_by} & {drop.path.partition(".")[0] for drop in drops}
    if blocker.files_came or clustered:
        # Writers of the release before do not know it: it must not ask for a value, nor give one.
        changes += [*relaxed(drops), *_without_default(drops)]
        aside: list[Change] = [RenameColumn(drop.path, drop.retired_as) for drop in drops if drop.retired_as is not None]
        why = "files carry it" if blocker.files_came else f"the table is clustered by {', '.join(sorted(clustered))}"
        left += [f"column {drop.path_after} stays as a hidden column, because {why}" for drop in drops]
        return InverseChanges(tuple(_possible([*changes, *aside, *after])), (), tuple(left))
    early = [DropColumn(drop.path) for drop in drops if drop.retired_as is not None]
    late = [DropColumn(drop.path_after) for drop in drops if drop.retired_as is None]
    forget = tuple(drop.path for drop in (*early, *late))
    everything: list[Change] = [*changes, *early, *after, *late]
    return InverseChanges(tuple(everything), forget, tuple(left))


@dataclass(frozen=True, slots=True)
class ColumnSwap:
    """On the way back ``hidden`` takes the place of ``used``: two columns of a change of type, as the table calls them now."""

    hidden: Field
    used: Field

    def value(self, *, lossy: bool) -> str:
        """Return the value of ``hidden`` in a row that came since it stepped aside. ``lossy``: NULL where there is none."""
        how = "TRY_CAST" if lossy else "CAST"
        return kept_or_cast(self.hidden, self.used, cast_by_name(how, quote(self.used.name), self.used.type, self.hidden.type))


@dataclass(frozen=True, slots=True)
class ColumnSwaps:
    """All columns of a table that change places on the way back. ``checks``: the CHECKs, as the table has them now, that use one of them
    and stood there all the while: rows from before keep them by the values of then, rows that came since are asked when they get theirs."""

    columns: tuple[ColumnSwap, ...] = ()
    checks: tuple[Check, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.columns)

    def __iter__(self) -> Iterator[ColumnSwap]:
        return iter(self.columns)

    @property
    def never_null(self) -> frozenset[str]:
        """Return the columns of several values that come back for a NOT NULL one; statistics do not tell of them.

        A cast may lose a part of such a value, but never all of it.
        """
        found = (item for item in self.columns if not item.used.nullable and not isinstance(item.used.type, Primitive))
        return frozenset(item.hidden.name for item in found)

    def kept(self, item: ColumnSwap, *, lossy: bool) -> tuple[KeptCheck, ...]:
        """Return the CHECKs on ``item``'s column, over the values that come back. Raises NotFollowed."""
        return kept_checks(self.checks, item.used.name, {other.used.name: other.value(lossy=lossy) for other in self.columns})

    def expression(self, item: ColumnSwap, *, lossy: bool) -> str:
        """Return what a row gets in ``item.hidden``; an error of Spark's where a CHECK would not hold. Raises NotFollowed."""
        return guarded(item.value(lossy=lossy), self.kept(item, lossy=lossy), quote(item.used.name))


def column_swaps(now: Declaration, wanted: Declaration, renames: Sequence[tuple[ColumnPath, str]]) -> ColumnSwaps:
    """Return the columns that change places again on the way from ``now`` back to ``wanted``; ``renames`` as in ``inverse_changes``."""
    renamed = _inverse_renames_of(now, wanted, renames)
    found = []
    for path, name in renamed.items():
        if is_stand_in(path) and not is_stand_in(name):
            aside = [used for used, other in renamed.items() if is_stand_in(other) and _are_a_pair(path, other, (name, used))]
            hidden, used = now.field(path), now.field(aside[0]) if aside else None
            if hidden is not None and used is not None:
                found.append(ColumnSwap(hidden, used))
    return ColumnSwaps(tuple(found), tuple(_kept_checks_of(now, wanted, renamed, found)))


def _kept_checks_of(
    now: Declaration, wanted: Declaration, renamed: Mapping[ColumnPath, str], found: Sequence[ColumnSwap]
) -> Iterator[Check]:
    """Yield the CHECKs of ``now`` that equal those of ``wanted``, with the returning column in the place of the one in use."""
    comes = {ColumnPath(item.used.name): renamed[ColumnPath(item.hidden.name)] for item in found}
    names = {path: name for path, name in renamed.items() if not is_stand_in(path) and not is_stand_in(name)} | comes
    before = {check.name: check.expression for check in wanted.checks}
    for check in now.checks:
        with contextlib.suppress(NotFollowed):
            used = any(kept_checks([check], item.used.name, {}) for item in found)
            if used and rename_columns(check.expression, names, now.fields) == before.get(check.name):
                yield check


def _are_a_pair(hidden: str, other: str, names: Sequence[str]) -> bool:
    """Return whether both stand in for one column, under its name before or after the way back."""
    return any(stands_in_for(hidden, name) and stands_in_for(other, name) for name in names)


def _inverse_renames_of(now: Declaration, wanted: Declaration, renames: Sequence[tuple[ColumnPath, str]]) -> dict[ColumnPath, str]:
    return inverse_renames(tuple(_composed(_swaps(now, wanted), dict(renames)).items()))


def _swaps(now: Declaration, wanted: Declaration) -> dict[ColumnPath, str]:
    """Return the renames of the swaps on the way out, by the names of the columns that stepped aside."""
    names, there = {field.name.lower() for field in now.fields}, {field.name for field in wanted.fields}
    found: dict[ColumnPath, str] = {}
    for column in now.fields:
        name = next((name for name in there if stands_in_for(column.name, name)), None)
        if name is not None and is_outdated(column.name) and column.name not in there:
            found[ColumnPath(name)] = column.name
            found[ColumnPath(shadow_name(name, names))] = name
    return found


def _composed(first: Mapping[ColumnPath, str], then: Mapping[ColumnPath, str]) -> dict[ColumnPath, str]:
    """Return renames one after the other as renames at once. Of ``first`` no path is inside of another one."""
    left = dict(then)
    found = {path: left.pop(join(parent_and_name(path)[0], name), name) for path, name in first.items()}
    return {**found, **left}


def _without_default(drops: Sequence[DroppedField]) -> list[Change]:
    return [SetDefault(drop.path, drop.field.default, None) for drop in drops if drop.field.default is not None]


class _Blocker:
    """Why a change cannot be made on the way back. A log that was cleaned up since then cannot tell, so everything may have come."""

    def __init__(self, store: ReadStore, head: Head, now: Declaration, since: int, swapped: ColumnSwaps, before: UndeclaredBefore) -> None:
        self._kept = frozenset(check.name for check in swapped.checks)
        self._never_null = swapped.never_null
        self._store = store
        self._head = head
        self._now = now
        self._since = since
        self._before = before

    @cached_request
    def files_came(self) -> bool:
        return may_have_files_since(self._store, self._since)

    def _may_hold_null(self, path: ColumnPath) -> bool:
        try:
            return nulls_since(self._store, self._head, path, self._since) is not False
        except LogTruncated:
            return True

    @property
    def clustered_by(self) -> tuple[str, ...]:
        return self._head.declaration(self._now.name).clustered_by

    def to(self, change: Change) -> str | None:
        """Describe why a change cannot be made; None if it can be."""
        match change:
            case SetNotNull(path=path) if path not in self._never_null and self._may_hold_null(path):
                return f"{path} stays nullable, because a NULL may have come in"
            case AddCheck(check=check) if self.files_came and check.name not in self._kept:
                return f"CHECK {check.name} stays dropped, because rows came in without it"
            case ChangeType(path=path, widening=False):
                return f"{path} stays {_type_name(self._now, path)}, widening cannot be taken back"
            case ChangeClustering(old=old, new=new) if (found := self.clustered_by) not in (old, new):
                return f"the table stays clustered by {', '.join(found) or 'nothing'}, as somebody else made it meanwhile"
            case ChangeClustering() if self._head.clustering == self._before.clustering:
                return f"the table stays clustered by {', '.join(self.clustered_by) or 'nothing'}, as it was before"
            case AddColumn(path=path) if change.cost is not Cost.INSTANT:
                return f"column {path} cannot be brought back at once"
            case _:
                return None


def _possible(changes: Sequence[Change]) -> list[Change]:
    """Return the changes; none if there are only reorders, as order alone is never worth a commit on the way back."""
    if any(not isinstance(change, ReorderColumns) for change in changes):
        return list(changes)
    return []


def _type_name(declaration: Declaration, path: str) -> str:
    return next((type_sql(field.type) for found, field in walk(declaration.fields) if found == path), "as it is")


def after_inverse(now: Declaration, renamed: InverseChanges) -> Declaration:
    """Return the physical schema once the way back was gone."""
    return apply(now, renamed.changes)
