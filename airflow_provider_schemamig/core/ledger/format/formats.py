"""The formats of the ledger that this software knows, and the steps from each to the next.

The table has no gap: that is checked when it is made, so a forgotten step stops every import, not an upgrade. How to add a format:
docs/ledger-format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

from airflow_provider_schemamig.core.ledger.format.actions import Action, LedgerSnapshot
from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Format:
    """``types``: return every class of rows of the format; rows of other collections stay as they are, whatever they say."""

    number: int
    types: Callable[[], tuple[type[Any], ...]]

    @classmethod
    def of(cls, number: int) -> Format:
        """Return the format of a module ``objects_vN``, loaded when first asked for: a tenth of a command's start-up, and rarely needed."""
        return cls(number, lambda: import_module(f"{__package__}.objects_v{number}").TYPES)


@dataclass(frozen=True, slots=True)
class Step:
    """From format ``source`` to the next. ``upgrade`` is pure; ``verify`` says what it left wrong, given all rows before and after."""

    source: int
    title: str
    upgrade: Callable[[LedgerSnapshot], Sequence[Action]]
    verify: Callable[[LedgerSnapshot, LedgerSnapshot], str | None]

    @classmethod
    def of(cls, source: int, module: Any) -> Step:
        """Return the step that a module ``vN_to_v(N+1)`` holds; its title is the docstring's first line."""
        return cls(source, module.__doc__.strip().splitlines()[0], module.upgrade, module.verify)

    @property
    def target(self) -> int:
        return self.source + 1


@dataclass(frozen=True, slots=True)
class Formats:
    """Oldest format first, and one step between each two. ValueError if there is a gap, a double, or a step too many."""

    formats: tuple[Format, ...]
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        numbers = [item.number for item in self.formats]
        if not numbers or any(new != old + 1 for old, new in pairwise(numbers)):
            raise ValueError(f"the ledger's formats have to follow each other without a gap, found {numbers}")
        sources = [step.source for step in self.steps]
        if sources != numbers[:-1]:
            raise ValueError(f"formats {numbers} need steps from {numbers[:-1]}, found steps from {sources}")

    @property
    def minimum(self) -> int:
        return self.formats[0].number

    @property
    def current(self) -> int:
        return self.formats[-1].number

    def types(self, number: int) -> tuple[type[Any], ...]:
        """Return the classes of rows of a format from ``minimum`` to ``current``."""
        return self.formats[number - self.minimum].types()

    def steps_from(self, number: int) -> tuple[Step, ...]:
        """Return the steps that lead from a format to the current one."""
        return self.steps[number - self.minimum :]


FORMATS = Formats(formats=(Format.of(1),))

if FORMATS.current != FORMAT_VERSION:
    raise ValueError(f"rows.FORMAT_VERSION is {FORMAT_VERSION}, the newest format of the table is {FORMATS.current}")
