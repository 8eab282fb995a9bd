"""Operands, conditions and indexes of a CHECK that Spark takes in no row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.expressions.spark.operators import takes
from airflow_provider_schemamig.core.schema.model import Array, Struct
from airflow_provider_schemamig.core.schema.paths import Fields

if TYPE_CHECKING:
    from sqlglot import exp

#: What a part of an expression gives (``boolean``, ``integral``, ...; ``number``: which is not known); None if it cannot be told.
Kind = Callable[["exp.Expr"], str | None]

NUMBERS = frozenset({"integral", "decimal", "double", "number"})
_WORDS = {"integral": "an INT", "number": "a number", "null": "NULL"}


@functools.cache
def operators() -> dict[type[exp.Expr], str]:
    """Return the operators of one or two operands by the parser's class; OR and ILIKE take what AND and LIKE do."""
    from sqlglot import exp

    two: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "DIV"}
    bits: dict[type[exp.Expr], str] = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseNot: "~"}
    joins: dict[type[exp.Expr], str] = {exp.And: "AND", exp.Or: "AND", exp.Not: "NOT", exp.DPipe: "||"}
    words: dict[type[exp.Expr], str] = {exp.Like: "LIKE", exp.ILike: "LIKE", exp.RegexpLike: "RLIKE"}
    return {**two, **bits, **joins, **words, exp.Neg: "negative"}


def operand_faults(parsed: exp.Expr, kind: Kind, fields: Fields) -> Iterator[str]:
    from sqlglot import exp

    known = operators()
    for node in parsed.find_all(*known):
        operator, left = known[type(node)], kind(node.this)
        right = kind(node.expression) if isinstance(node, exp.Binary) else ""
        if left is not None and right is not None and not takes(operator, left, right):
            yield f"Spark has no {_written(node, operator)} of {article(left)}{f' and {article(right)}' if right else ''}"
    yield from _condition_faults(parsed, kind)
    yield from _index_faults(parsed, kind, fields)
    yield from _choice_faults(parsed, kind)


def result_of(node: exp.Expr, kind: Kind) -> str | None:
    """Return what an operator gives here; None if it cannot be told."""
    from sqlglot import exp

    left = kind(node.this)
    right = kind(node.expression) if isinstance(node, exp.Binary) else ""
    if left is None or right is None:
        return None
    given = takes(operators()[type(node)], left, right)
    if len(given) == 1:
        return next(iter(given))
    return "number" if given and given <= NUMBERS else None


def _written(node: exp.Expr, operator: str) -> str:
    from sqlglot import exp

    return node.key.upper() if isinstance(node, exp.Or | exp.ILike) else "-" if operator == "negative" else operator


def _condition_faults(parsed: exp.Expr, kind: Kind) -> Iterator[str]:
    """Yield faults of IF, and of CASE without a value of its own."""
    from sqlglot import exp

    for node in parsed.find_all(exp.If):
        is_compared = isinstance(node.parent, exp.Case) and node.parent.this is not None
        found = kind(node.this)
        if not is_compared and found is not None and not takes("IF", found):
            yield f"{article(found)} is a condition of IF or CASE"


def _index_faults(parsed: exp.Expr, kind: Kind, fields: Fields) -> Iterator[str]:
    """Yield faults of indexes on whole columns: ``arr[x]``; ``arr['q']`` are the fields q of an ARRAY of STRUCT."""
    from sqlglot import exp

    types = {field.name.lower(): field.type for field in fields}
    for node in parsed.find_all(exp.Bracket):
        column = types.get(node.this.name.lower()) if isinstance(node.this, exp.Column) and not node.this.table else None
        for index in node.expressions:
            found, is_name = kind(index), isinstance(index, exp.Literal) and index.is_string
            if isinstance(column, Struct) and not is_name:
                yield "a field of a STRUCT goes by its name"
            named = is_name and isinstance(column, Array) and isinstance(column.element, Struct)
            if isinstance(column, Array) and not named and found is not None and not takes("index", found):
                yield f"{article(found)} is an index of an ARRAY"


def _choice_faults(parsed: exp.Expr, kind: Kind) -> Iterator[str]:
    """Yield faults of COALESCE and ARRAY, whose values are of one type."""
    from sqlglot import exp

    for node in parsed.find_all(exp.Coalesce, exp.Array):
        operator = "ARRAY" if isinstance(node, exp.Array) else "COALESCE"
        values = [*([] if isinstance(node, exp.Array) else [node.this]), *node.expressions]
        kinds = [found for value in values if (found := kind(value)) is not None]
        wrong = next(((one, other) for one in kinds for other in kinds if not takes(operator, one, other)), None)
        if wrong is not None:
            yield f"{article(wrong[0])} and {article(wrong[1])} stand in one {operator}"


def article(kind: str | None) -> str:
    return _WORDS.get(str(kind), f"{'an' if str(kind)[0] in 'aeio' else 'a'} {str(kind).upper()}")
