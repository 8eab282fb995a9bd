"""The fields of one struct, sorted out by what becomes of them: kept, leaving, coming, hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.schema.model import Field
from airflow_provider_schemamig.core.schema.paths import Fields


@dataclass(frozen=True, slots=True)
class Pair:
    """One field that stays, as the table has it and as the two releases declare it."""

    now: Field
    old: Field
    new: Field


class FieldLevel:
    """One struct. ``early`` and ``late`` (names added before and after the renames) and ``retired`` fill up during the comparison."""

    def __init__(self, now: Fields, old: Fields, matched: Mapping[str, Field]) -> None:
        self._now = now
        self.occupied = {f.name.lower() for f in now}
        self.pairs: list[Pair] = []
        self.leaving: list[Field] = []
        self.early: list[str] = []
        self.late: list[str] = []
        self.retired: set[str] = set()
        self._sort_out(old, matched)
        known = {pair.now.name for pair in self.pairs} | {f.name for f in self.leaving}
        #: On the table and in neither declaration, by lower-case name.
        self.hidden = {f.name.lower(): f for f in now if f.name not in known}

    def _sort_out(self, old: Fields, matched: Mapping[str, Field]) -> None:
        by_name = {f.name: f for f in self._now}
        declared = {f.name for f in old}
        for before in old:
            after, here = matched.get(before.name), by_name.get(before.name)
            if here is None and after is not None and after.name not in declared:
                here = by_name.get(after.name)  # the rename is in place already
            if here is not None and after is not None:
                self.pairs.append(Pair(here, before, after))
            elif here is not None:
                self.leaving.append(here)

    def added(self, new: Fields) -> list[Field]:
        """Return the new declaration's fields that the table has not got as any declared field."""
        kept = {pair.new.name for pair in self.pairs}
        return [f for f in new if f.name not in kept]

    @property
    def renames(self) -> list[tuple[str, str]]:
        """Return (name on the table, new name) where they differ."""
        return [(pair.now.name, pair.new.name) for pair in self.pairs if pair.now.name != pair.new.name]

    def order_after(self) -> tuple[str, ...]:
        """Return the names in the table's order once renames and additions are done, without columns that made way for another."""
        names = dict(self.renames)
        kept = [names.get(f.name, f.name) for f in self._now if f.name not in self.retired]
        return (*kept, *self.early, *self.late)
