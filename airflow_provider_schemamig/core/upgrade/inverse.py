"""Going back: which changes undo a move, given what happened to the table since (DESIGN section 5, "Inverses").

rename -> back. Add -> removed only if no file since carries it, else it stays hidden. Widen -> stays wide. Relax -> restored only if no
NULL came in. A dropped CHECK -> restored only if no file came in. Features stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    ReorderColumns,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.diff import diff
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
    """How to get from ``now`` back to ``wanted``; ``since`` is the version whose commit began the way out."""
    changes, forget, left = [], [], []
    written = None
    for change in diff(now, wanted, inverse_renames(renames)).changes:
        match change:
            case DropColumn(path=path):
                written = files_since(store, since) if written is None else written
                if written:
                    left.append(f"column {path} stays as a hidden column, because files carry it")
                    continue
                forget.append(path)
            case SetNotNull(path=path):
                if nulls_since(store, head, path, since) is not False:
                    left.append(f"{path} stays nullable, because a NULL may have come in")
                    continue
            case AddCheck(check=check):
                written = files_since(store, since) if written is None else written
                if written:
                    left.append(f"CHECK {check.name} stays dropped, because rows came in without it")
                    continue
            case ChangeType(path=path, widening=False):
                left.append(f"{path} stays {_type_name(now, path)}, widening cannot be taken back")
                continue
            case AddColumn(path=path) if change.cost is not Cost.INSTANT:
                left.append(f"column {path} cannot be brought back at once")
                continue
            case _:
                pass
        changes.append(change)
    return WayBack(tuple(_possible(now, changes)), tuple(forget), tuple(left))


def _possible(now: Declaration, changes: Sequence[Change]) -> list[Change]:
    """Without reorders if nothing else is done: order alone is never worth a commit on the way back."""
    if any(not isinstance(change, ReorderColumns) for change in changes):
        return list(changes)
    return []


def _type_name(declaration: Declaration, path: str) -> str:
    return next((type_sql(field.type) for found, field in walk(declaration.fields) if found == path), "as it is")


def after_way_back(now: Declaration, back: WayBack) -> Declaration:
    """The physical schema once the way back was gone."""
    return apply(now, back.changes)
