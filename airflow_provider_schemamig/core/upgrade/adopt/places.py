"""Which tables' folders lie inside of one another."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable
from typing import Generic, TypeVar

from airflow_provider_schemamig.core.storage import Location, place_of

T = TypeVar("T")


class Places(Generic[T]):
    """The folders of tables, each with its owner. Asked for the tables at a place, around it and inside of it without a look at every
    one: a lake that is adopted has ten thousand."""

    def __init__(self, tables: Iterable[tuple[T, Location]]) -> None:
        self._owners: dict[str, T] = {}
        for owner, location in tables:
            self._owners.setdefault(place_of(location), owner)
        self._folders = sorted(f"{place}/" for place in self._owners)

    @property
    def owners(self) -> Collection[T]:
        return self._owners.values()

    def at(self, place: str) -> T | None:
        return self._owners.get(place)

    def around(self, place: str) -> T | None:
        """Return the owner of the table inside of whose folder the place is; of several, the innermost."""
        while "/" in place:
            place = place.rpartition("/")[0]
            if place in self._owners:
                return self._owners[place]
        return None

    def inside(self, place: str) -> T | None:
        """Return the owner of a table whose folder is inside of the place."""
        next_one = bisect.bisect_right(self._folders, f"{place}/")
        found = self._folders[next_one : next_one + 1]
        return self._owners[found[0].removesuffix("/")] if found and found[0].startswith(f"{place}/") else None
