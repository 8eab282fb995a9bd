"""The state machine of online schema changes: one table, which the engine runs and the model checker proves.

An element is something that a change adds to a live table or takes away: a column, a rule, an index. It walks its class's path one state
at a time, so that writers one state apart cannot harm each other's rows; removal, and going back half way, walk the same path backwards
(docs/online-changes.md has why).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class ElementState(StrEnum):
    """How far an element is; what it asks of writers and readers is in ``DUTIES``."""

    ABSENT = "absent"
    CREATED = "created"
    CHECK = "check"
    DELETE = "delete"
    WRITE = "write"
    VALIDATE = "validate"
    REORG = "reorg"
    PUBLIC = "public"


class ElementClass(StrEnum):
    """What becoming public takes: nothing, reading every row (validation), or writing them (reorg)."""

    SCHEMA_ONLY = "schema_only"
    VALIDATION = "validation"
    REORG = "reorg"


PATHS: Mapping[ElementClass, tuple[ElementState, ...]] = MappingProxyType(
    {
        ElementClass.SCHEMA_ONLY: (ElementState.ABSENT, ElementState.CREATED, ElementState.PUBLIC),
        ElementClass.VALIDATION: (ElementState.ABSENT, ElementState.CHECK, ElementState.VALIDATE, ElementState.PUBLIC),
        ElementClass.REORG: (ElementState.ABSENT, ElementState.DELETE, ElementState.WRITE, ElementState.REORG, ElementState.PUBLIC),
    }
)

# While we ourselves read or write rows. There is nothing to read or write on the way back, so it leaves these out.
ROW_STATES: frozenset[ElementState] = frozenset({ElementState.VALIDATE, ElementState.REORG})


@dataclass(frozen=True, slots=True)
class Duty:
    """``written``: inserts and updates put values into the element, or are held to the rule. ``removed``: deletes and updates take
    outdated values out of it. ``read``: readers may use it and trust it."""

    written: bool
    removed: bool
    read: bool


_NONE = Duty(written=False, removed=False, read=False)
_WRITES = Duty(written=True, removed=True, read=False)

DUTIES: Mapping[ElementState, Duty] = MappingProxyType(
    {
        ElementState.ABSENT: _NONE,
        ElementState.CREATED: _NONE,
        ElementState.CHECK: _WRITES,
        ElementState.DELETE: Duty(written=False, removed=True, read=False),
        ElementState.WRITE: _WRITES,
        ElementState.VALIDATE: _WRITES,
        ElementState.REORG: _WRITES,
        ElementState.PUBLIC: Duty(written=True, removed=True, read=True),
    }
)


def path(cls: ElementClass, adding: bool) -> tuple[ElementState, ...]:
    """Return every state from ABSENT to PUBLIC, or (``adding`` false) from PUBLIC to ABSENT without those of ``ROW_STATES``."""
    forward = PATHS[cls]
    return forward if adding else tuple(state for state in reversed(forward) if state not in ROW_STATES)


def following(cls: ElementClass, state: ElementState, *, adding: bool) -> ElementState | None:
    """Return the next state in that direction, None at its end.

    Backwards is also the undo of an addition that is half way: from a state of ``ROW_STATES`` it goes to the one before it. Raises
    ValueError if the class has no such state.
    """
    forward = PATHS[cls]
    at = forward.index(state)
    if adding:
        return forward[at + 1] if at + 1 < len(forward) else None
    return next((before for before in reversed(forward[:at]) if before not in ROW_STATES), None)
