"""Rows of figures, and how the figures of several rounds are told together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.tools.measure import Usage


@dataclass(frozen=True, slots=True)
class Cell:
    """``template``: for ``str.format``, with a place for each of the numbers."""

    template: str
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, beside its baseline; ``goal``: what was promised."""

    what: str
    measured: Cell
    baseline: Cell = Cell("")
    ratio: Cell = Cell("")
    goal: str = ""


class Rounds(tuple[float, ...]):
    """One number of several rounds: formatted as its median, with the least and the largest if they look different."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        middle, least, largest = (format(number, spec) for number in (statistics.median(self), min(self), max(self)))
        return middle if least == largest else f"{middle} ({least}-{largest})"


def cell(template: str, *numbers: float) -> Cell:
    """Return the cell of a template and its numbers."""
    return Cell(template, numbers)


def usage_cell(usage: Usage) -> Cell:
    """Return what one process took."""
    return cell("{:.2f} s wall, {:.2f} s CPU, {:.0f} MiB", usage.wall_s, usage.cpu_s, usage.peak_mib)


def growth(few: Usage, many: Usage, times: float) -> Row:
    """Return the exponent with which the CPU grows from ``few`` to ``times`` as much."""
    exponent = math.log(many.cpu_s / few.cpu_s) / math.log(times)
    return Row("  growth of its CPU", cell("n^{:.2f}", exponent), goal="exponent 1.05")


def texts(rounds: Sequence[Row]) -> tuple[str, str, str, str, str]:
    """Return one row of text of the same row measured several times."""
    first = rounds[0]
    return (
        first.what,
        _text([row.measured for row in rounds]),
        _text([row.baseline for row in rounds]),
        _text([row.ratio for row in rounds]),
        first.goal,
    )


def _text(cells: Sequence[Cell]) -> str:
    """Return the cells' text; of templates that differ (something came out otherwise) each one."""
    by_template: dict[str, list[tuple[float, ...]]] = {}
    for found in cells:
        by_template.setdefault(found.template, []).append(found.numbers)
    return " or ".join(template.format(*map(Rounds, zip(*numbers, strict=True))) for template, numbers in by_template.items())
