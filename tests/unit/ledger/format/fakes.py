"""Ten formats of a ledger that never was, to test the framework with: an upgrade cannot be tested before there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import make_dataclass, replace
from typing import Any

from airflow_provider_schemamig.core.ledger.format import objects_v1
from airflow_provider_schemamig.core.ledger.format.actions import Action, Delete, Insert, LedgerSnapshot, Update
from airflow_provider_schemamig.core.ledger.format.formats import Format, Formats, Step

NEWEST = 10
_KEY = property(lambda row: row.name)


def _thing(number: int) -> type[Any]:
    """Each format calls its one number otherwise, and all but the first count the formats."""
    fields = [("name", str), (f"value_{number}", int)]
    return make_dataclass(f"Thing{number}", fields, frozen=True, namespace={"COLLECTION": "things", "key": _KEY})


THINGS = {number: _thing(number) for number in range(1, NEWEST + 1)}


def thing(number: int, name: str, value: int) -> Any:
    return THINGS[number](name, value)


def _format(number: int) -> Format:
    return Format(number, lambda: (*objects_v1.TYPES, THINGS[number]))


def formats_of(first: int, last: int, *, steps: Sequence[Step] | None = None) -> Formats:
    """What a software knows that was made when ``last`` was the newest and ``first`` the oldest it still supported."""
    made = tuple(_format(number) for number in range(first, last + 1))
    return Formats(made, tuple(step(number) for number in range(first, last)) if steps is None else tuple(steps))


def step(source: int, **changes: Any) -> Step:
    """A sound step: everything counts one up, ``doomed`` goes in step 5, ``late`` comes in step 7."""

    def upgrade(snapshot: LedgerSnapshot) -> list[Action]:
        old, new = THINGS[source], THINGS[source + 1]
        actions: list[Action] = []
        for row in snapshot.of(old).values():
            if source == 5 and row.name == "doomed":
                actions.append(Delete(row))
            else:
                actions.append(Update(row, new(row.name, getattr(row, f"value_{source}") + 1)))
        # Only where there is something: a new environment has no things, so one that was brought here must not have any either.
        return [*actions, Insert(new("late", 0))] if source == 7 and actions else actions

    return replace(Step(source, f"Step {source}.", upgrade, sound), **changes)


def sound(before: LedgerSnapshot, after: LedgerSnapshot) -> str | None:
    names = {row.name for row in before if hasattr(row, "name") and row.COLLECTION == "things"}
    left = {row.name for row in after if hasattr(row, "name") and row.COLLECTION == "things"}
    return None if names - left <= {"doomed"} else f"{sorted(names - left)} are gone"
