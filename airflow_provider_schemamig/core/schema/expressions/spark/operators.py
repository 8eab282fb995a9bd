"""What Spark's operators take and give, from Spark's own table (``operators.tsv``; a test asks Spark again)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

FILE = Path(__file__).with_name("operators.tsv")

#: Every operator of the table, as it is written.
OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        **{sign: f"{{left}} {sign} {{right}}" for sign in ("+", "-", "*", "/", "%", "DIV", "&", "|", "^", "||", "=", "<=>", "<", "AND")},
        **{sign: f"{{left}} {sign} {{right}}" for sign in ("LIKE", "RLIKE")},
        "COALESCE": "COALESCE({left}, {right})",
        "ARRAY": "ARRAY({left}, {right})[0]",
        "negative": "-{left}",
        "~": "~{left}",
        "NOT": "NOT {left}",
        "IF": "IF({left}, 1, 2)",
        "index": "c_array[{left}]",
    }
)
#: What a function or a cast gives is not told more exactly.
_NUMBERS = ("integral", "decimal", "double")


@functools.cache
def _table() -> Mapping[tuple[str, str, str], str]:
    rows = (line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines())
    return MappingProxyType({(operator, left, right): gives for operator, left, right, gives in rows})


def takes(operator: str, left: str, right: str = "") -> frozenset[str]:
    """Return what ``operator`` may give for operands of these kinds; empty: Spark refuses them. ``right``: empty where it takes one."""
    pairs = ((one, other) for one in _each(left) for other in _each(right))
    return frozenset(gives for one, other in pairs if (gives := _table().get((operator, one, other))) is not None)


def _each(kind: str) -> tuple[str, ...]:
    return _NUMBERS if kind == "number" else (kind,)
