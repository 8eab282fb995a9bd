"""The functions that Spark knows by itself, from Spark's own list (``functions.tsv``; a test asks Spark again)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

FILE = Path(__file__).with_name("functions.tsv")


@dataclass(frozen=True, slots=True)
class SparkFunction:
    """``kind``: ``row``, ``random`` (another value each time), ``aggregate``, ``window``, ``rows`` (several rows) or ``table``.

    ``least`` and ``most``: how many arguments. ``gives``: the type of its value, without parameters; "any" if that depends on them.
    """

    kind: str
    least: int
    most: int
    gives: str


@functools.cache
def spark_functions() -> Mapping[str, SparkFunction]:
    """Return every function by its name in lower case."""
    rows = (line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines())
    return MappingProxyType({name: SparkFunction(kind, int(least), int(most), gives) for name, kind, least, most, gives in rows})
