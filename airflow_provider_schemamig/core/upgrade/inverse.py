"""Going back: which changes undo a move, given what happened to the table since (DESIGN section 5, "Inverses").

rename -> back. Add -> removed only if no file since carries it, else it stays hidden. Widen -> stays wide. Relax -> restored only if no
NULL came in. A dropped CHECK -> restored only if no file came in. Features stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.log import files_since, nulls_since
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.apply import apply
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    Change,
    ChangeType,
    Cost,
    DropColumn,
    RenameColumn,
    ReorderColumns,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.diff import compare
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.storage import ReadStore


@dataclass(frozen=True, slots=True)
class WayBack:
    """The changes that can be made, the columns among them no file carries, and in words what stays behind."""

    changes: tuple[Change, ...]
    forget: tuple[ColumnPath, ...]
    left_behind: tuple[str, ...]


def inverse_renames(renames: Sequence[tuple[ColumnPath, str]]) -> dict[ColumnPath, str]:
    """Renames that undo ``renames`` (old path -> new last name), outermost first so that inner paths use the new outer names."""
    mapping = dict(renames)
    return {_renamed(path, mapping): path.rpartition(".")[2] for path in mapping}


def _renamed(path: ColumnPath, renames: dict[ColumnPath, str]) -> ColumnPath:
    parts = path.split(".")
    prefixes = [".".join(parts[: n + 1]) for n in range(len(parts))]
    return ColumnPath(".".join(renames.get(ColumnPath(prefix), part) for prefix, part in zip(prefixes, parts, strict=True)))


def way_back(
    store: ReadStore,
    head: Head,
    now: Declaration,
    wanted: Declaration,
    renames: Sequence[tuple[ColumnPath, str]],
    since: int,
) -> WayBack:
    """How to get from ``now`` back to ``wanted``; ``since`` is the version whose commit began the way out.

    ``renames``: all that the way out renamed, also the columns that made way for another one of their name.
    """
    found = compare(now, now, wanted, inverse_renames(renames))
    columns, hindrance = found.columns, _Hindrance(store, head, now, since)
    changes: list[Change] = []
    left: list[str] = []
    for change in (*found.removed, *columns.changes, *found.added):
        reason = hindrance.to(change)
        if reason is None:
            changes.append(change)
        else:
            left.append(reason)
    after: list[Change] = [*columns.renames, *columns.late, *(reorder.change for reorder in columns.reorders)]
    if not columns.drops:
        return WayBack(tuple(_possible([*changes, *after])), (), tuple(left))
    if hindrance.files_came:
        aside: list[Change] = [RenameColumn(drop.path, drop.retired_as) for drop in columns.drops if drop.retired_as is not None]
        left += [f"column {drop.path_after} stays as a hidden column, because files carry it" for drop in columns.drops]
        return WayBack(tuple(_possible([*changes, *aside, *after])), (), tuple(left))
    early = [DropColumn(drop.path) for drop in columns.drops if drop.retired_as is not None]
    late = [DropColumn(drop.path_after) for drop in columns.drops if drop.retired_as is None]
    forget = tuple(drop.path for drop in (*early, *late))
    everything: list[Change] = [*changes, *early, *after, *late]
    return WayBack(tuple(everything), forget, tuple(left))


class _Hindrance:
    """Why a change cannot be made on the way back."""

    def __init__(self, store: ReadStore, head: Head, now: Declaration, since: int) -> None:
        self._store = store
        self._head = head
        self._now = now
        self._since = since

    @cached_property
    def files_came(self) -> bool:
        return files_since(self._store, self._since)

    def to(self, change: Change) -> str | None:
        """In words; None if it can be made."""
        match change:
            case SetNotNull(path=path) if nulls_since(self._store, self._head, path, self._since) is not False:
                return f"{path} stays nullable, because a NULL may have come in"
            case AddCheck(check=check) if self.files_came:
                return f"CHECK {check.name} stays dropped, because rows came in without it"
            case ChangeType(path=path, widening=False):
                return f"{path} stays {_type_name(self._now, path)}, widening cannot be taken back"
            case AddColumn(path=path) if change.cost is not Cost.INSTANT:
                return f"column {path} cannot be brought back at once"
            case _:
                return None


def _possible(changes: Sequence[Change]) -> list[Change]:
    """Without reorders if nothing else is done: order alone is never worth a commit on the way back."""
    if any(not isinstance(change, ReorderColumns) for change in changes):
        return list(changes)
    return []


def _type_name(declaration: Declaration, path: str) -> str:
    return next((type_sql(field.type) for found, field in walk(declaration.fields) if found == path), "as it is")


def after_way_back(now: Declaration, back: WayBack) -> Declaration:
    """The physical schema once the way back was gone."""
    return apply(now, back.changes)
