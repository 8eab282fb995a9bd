"""What stands beside an operator, as a condition or an index of a CHECK, and that Spark takes for no value of it in any row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.model import Array, Struct
from airflow_provider_schemamig.core.schema.paths import Fields

if TYPE_CHECKING:
    from sqlglot import exp

#: What a part of an expression gives (``boolean``, ``number``, ...); None if it cannot be told.
Kind = Callable[["exp.Expr"], str | None]

TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_NEVER_ADDED = frozenset({"array", "map", "struct", "boolean", "binary"})
_NO_NUMBERS = _NEVER_ADDED | TIMES


def operand_faults(parsed: exp.Expr, kind: Kind, fields: Fields) -> Iterator[str]:
    yield from _arithmetic_faults(parsed, kind)
    yield from _condition_faults(parsed, kind)
    yield from _index_faults(parsed, kind, fields)
    yield from _choice_faults(parsed, kind)


def result_of(node: exp.Expr, left: str | None, right: str | None) -> str | None:
    """Return what a calculation with two values of these kinds gives; None if it cannot be told."""
    from sqlglot import exp

    if isinstance(node, exp.Sub) and {left, right} <= TIMES:
        return "interval"
    if isinstance(node, exp.Add | exp.Sub):
        return "number" if left == right == "number" else None
    return None if "interval" in (left, right) else "number"


def _arithmetic_faults(parsed: exp.Expr, kind: Kind) -> Iterator[str]:
    from sqlglot import exp

    for node in parsed.find_all(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv):
        sides = kind(node.this), kind(node.expression)
        refused = _NEVER_ADDED if isinstance(node, exp.Add | exp.Sub) else _NO_NUMBERS
        wrong = next((side for side in sides if side in refused), None)
        if wrong is not None:
            yield f"it calculates with {article(wrong)}"
        elif isinstance(node, exp.Add) and set(sides) <= TIMES:
            yield f"it adds {article(sides[0])} to {article(sides[1])}"
    for one in parsed.find_all(exp.BitwiseNot):
        found = kind(one.this)
        if found not in (None, "number", "null"):
            yield f"it calculates with {article(found)}"


def _condition_faults(parsed: exp.Expr, kind: Kind) -> Iterator[str]:
    """Of IF, and of CASE without a value of its own."""
    from sqlglot import exp

    for node in parsed.find_all(exp.If):
        is_compared = isinstance(node.parent, exp.Case) and node.parent.this is not None
        found = kind(node.this)
        if not is_compared and found not in (None, "boolean", "null"):
            yield f"{article(found)} is a condition of IF or CASE"


def _index_faults(parsed: exp.Expr, kind: Kind, fields: Fields) -> Iterator[str]:
    """Of whole columns: ``arr[x]``."""
    from sqlglot import exp

    types = {field.name.lower(): field.type for field in fields}
    for node in parsed.find_all(exp.Bracket):
        column = types.get(node.this.name.lower()) if isinstance(node.this, exp.Column) and not node.this.table else None
        for index in node.expressions:
            found = kind(index)
            if isinstance(column, Array) and found not in (None, "number", "null"):
                yield f"{article(found)} is an index of an ARRAY"
            if isinstance(column, Struct) and not (isinstance(index, exp.Literal) and index.is_string):
                yield "a field of a STRUCT goes by its name"


def _choice_faults(parsed: exp.Expr, kind: Kind) -> Iterator[str]:
    """Of COALESCE and ARRAY, whose values are of one type. A text may be a value of any."""
    from sqlglot import exp

    for node in parsed.find_all(exp.Coalesce, exp.Array):
        values = [*([] if isinstance(node, exp.Array) else [node.this]), *node.expressions]
        kinds = {"time" if found in TIMES else found for value in values if (found := kind(value)) not in (None, "null", "string")}
        if len(kinds) > 1:
            yield f"values of several types stand in one {'ARRAY' if isinstance(node, exp.Array) else 'COALESCE'}"


def article(kind: str | None) -> str:
    return f"{'an' if str(kind)[0] in 'aeio' else 'a'} {str(kind).upper()}"
