"""The order of renames inside one struct, and what a sequence of them amounts to.

Renames are applied one after the other, so each needs its new name to be free at that moment: chains (``b`` to ``c``, then ``a`` to
``b``) are put in order, and a circle (``a`` and ``b`` swapped) goes through a name of schemamig's own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_schemamig.core.names import RESERVED_PREFIX, ColumnPath
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, DropColumn, RenameColumn
from airflow_provider_schemamig.core.schema.paths import join, parent_and_name, translate

_SWAP = f"{RESERVED_PREFIX}_swap_"
_RETIRED = "retired"
#: The two of a change of type: the values of the new type before the swap (or after it was taken back), those of the old one after it.
_SHADOW = "new"
_OUTDATED = "old"
#: The column's own name is all that comes after: whatever a column is called, no stand-in of another one is called so.
_STAND_IN = re.compile(rf"{RESERVED_PREFIX}_({_SHADOW}|{_OUTDATED})\d*_")
_ASIDE = re.compile(rf"{RESERVED_PREFIX}_{_RETIRED}(\d*)_")


def retired_name(name: str, taken: Iterable[str]) -> str:
    """Return a name of ours for a column about to be dropped, whose own name another one takes. ``taken``: lower-case names beside it."""
    return _free(_RETIRED, name, taken)


def retired_from(column: str) -> str | None:
    """Return what a column was called before it made way for another one; None if it did not."""
    found = _ASIDE.match(column)
    return None if found is None else column[found.end() :]


def shown_as(path: ColumnPath) -> ColumnPath:
    """Return the path of a hidden column in a release that has it again. The column may have made way for another one of its name."""
    parent, name = parent_and_name(path)
    return join(parent, retired_from(name) or name)


def newest_retired(columns: Iterable[str]) -> str | None:
    """Return the column that made way last, by the number in its name; None if there are no ``columns``."""
    return max(columns, key=lambda column: int(found[1] or 1) if (found := _ASIDE.match(column)) else 0, default=None)


def shadow_name(name: str, taken: Iterable[str]) -> str:
    """Return what the column of the new type is called until it takes the place of ``name``. ``taken``: lower-case names beside it."""
    return _free(_SHADOW, name, taken)


def outdated_name(name: str, taken: Iterable[str]) -> str:
    """Return what the column of the old type is called from the swap on. ``taken``: lower-case names beside it."""
    return _free(_OUTDATED, name, taken)


def is_outdated(column: str) -> bool:
    found = _STAND_IN.match(column)
    return found is not None and found[1] == _OUTDATED


def is_stand_in(column: str) -> bool:
    """Return whether a column is one of a change of type that is not in use: rows that others write have no value in it, or an old one."""
    return _STAND_IN.match(column) is not None


def stands_in_for(column: str, name: str) -> bool:
    """Return whether ``column`` is a stand-in of the column called ``name``."""
    found = _STAND_IN.match(column)
    return found is not None and column[found.end() :] == name


def _free(kind: str, name: str, taken: Iterable[str]) -> str:
    """Return the first such name that is not taken. A number stands before the column's name, which may itself end in one."""
    used, numbers = set(taken), itertools.chain([""], itertools.count(2))
    return next(found for number in numbers if (found := f"{RESERVED_PREFIX}_{kind}{number}_{name}").lower() not in used)


def in_order(renames: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return (old, new) names of one struct in an order in which every new name is free when its turn comes."""
    pending = dict(renames)
    ordered: list[tuple[str, str]] = []
    while pending:
        name = next((old for old, new in pending.items() if _is_free(new, old, pending)), None)
        if name is None:  # a circle: open it
            name = next(iter(pending))
            ordered.append((name, _SWAP + name))
            pending[_SWAP + name] = pending.pop(name)
        else:
            ordered.append((name, pending.pop(name)))
    return ordered


def _is_free(new: str, old: str, pending: Iterable[str]) -> bool:
    return all(new.lower() != other.lower() for other in pending if other != old)


def net_renames(changes: Iterable[Change]) -> dict[ColumnPath, str]:
    """Return what the renames among ``changes`` amount to: path before all of them -> last name after (names in between do not appear).

    ``changes`` are in the order of ``schema.diff``: inner fields before outer ones.
    """
    origin: dict[ColumnPath, ColumnPath] = {}
    for change in changes:
        if isinstance(change, RenameColumn):
            origin[join(parent_and_name(change.path)[0], change.name)] = origin.pop(change.path, change.path)
    found = {before: parent_and_name(now)[1] for now, before in origin.items()}
    return {before: name for before, name in found.items() if parent_and_name(before)[1] != name}


def after_changes(names: Mapping[ColumnPath, str], changes: Iterable[Change]) -> dict[ColumnPath, str]:
    """Return what is known of fields, by their paths after ``changes``.

    The changes are in the order of ``schema.diff``. Of a field that they add, or drop, nothing is known.
    """
    found = dict(names)
    for change in changes:
        if isinstance(change, RenameColumn):
            renamed = {change.path: change.name}
            found = {translate(path, renamed): name for path, name in found.items()}
        elif isinstance(change, AddColumn | DropColumn):
            found = {path: name for path, name in found.items() if not f"{path}.".startswith(f"{change.path}.")}
    return found
