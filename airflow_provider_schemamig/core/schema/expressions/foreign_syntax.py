"""What the parser here reads and Spark's does not: other databases' operators, types, units and literals."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import spark_text
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, TokenKind, tokens

if TYPE_CHECKING:
    from sqlglot import exp

_AFTER_IS = ("NULL", "TRUE", "FALSE", "UNKNOWN")
_NO_SIGNS = frozenset("$?:{}@#;")
_COMPARISONS = ("=", "==", "<>", "!=", "<", ">", "<=", ">=", "<=>")
_TEXTS = ("CHAR", "CHARACTER", "VARCHAR")
_MONTHS, _DAYS = ("YEAR", "MONTH"), ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_AMOUNT = re.compile(r"\s*[+-]?\s*(\d+(\.\d*)?|\.\d+)\s*", re.ASCII)


def word_faults(expression: str) -> Iterator[str]:
    """Yield what single words and signs say: ``a IS NULL = b`` and ``a IN (1) = b``; ``0x1F`` is a number here and a name there."""
    if "${" in expression:
        yield "Spark puts a setting of the session, or of the environment, in the place of ${...}, also in a text"
    found = [token for token in tokens(expression) if token.end > token.start]
    has_fields = any(one.upper == "STRUCT" and other.text == "<" for one, other in itertools.pairwise(found))  # a type: STRUCT<a: INT>
    openers: list[int] = []
    for number, token in enumerate(found):
        if not (token.text == ":" and has_fields):
            yield from _sign_faults(expression, token, is_inside=bool(openers))
        if [item.text.upper() for item in found[number : number + 3]] == ["AT", "TIME", "ZONE"]:
            yield "Spark has no AT TIME ZONE: write to_utc_timestamp or from_utc_timestamp"
        closes_in = False
        if token.kind is TokenKind.SYMBOL and token.text == "(":
            openers.append(number)
        elif token.kind is TokenKind.SYMBOL and token.text == ")" and openers:
            closes_in = found[openers.pop() - 1].text.upper() == "IN"
        before = [item.text.upper() for item in found[max(0, number - 2) : number]]
        ends_is = token.text.upper() in _AFTER_IS and (before[-1:] == ["IS"] or before == ["IS", "NOT"])
        following = found[number + 1].text if number + 1 < len(found) else ""
        if (closes_in or ends_is) and following in _COMPARISONS:
            yield f"Spark cannot read {'IN' if closes_in else 'IS'} before {following} without parentheses around it"
        in_cast = bool(openers) and openers[-1] > 0 and found[openers[-1] - 1].text.upper() in ("CAST", "TRY_CAST")
        if _is_text_without_length(token, before, following, in_cast=in_cast):
            yield f"{token.text.upper()} needs a length, such as {token.text.upper()}(20)"


def _sign_faults(expression: str, token: Token, *, is_inside: bool) -> Iterator[str]:
    """Yield what is wrong with one token; ``is_inside``: it stands in parentheses, as a lambda does."""
    if token.kind is TokenKind.WORD and expression[token.start : token.start + 2].lower() == "0x":
        yield f"Spark takes {expression[token.start : token.end]} for a name"
    if token.kind is not TokenKind.SYMBOL:
        return
    if token.text in _NO_SIGNS:
        yield f"Spark reads no {token.text} in an expression"
    if token.text in ("->>", "#>", "#>>") or (token.text == "->" and not is_inside):
        yield f"Spark has no {token.text}: write get_json_object"


def _is_text_without_length(token: Token, before: Sequence[str], following: str, *, in_cast: bool) -> bool:
    is_type = before[-1:] == ["::"] or (in_cast and before[-1:] == ["AS"])
    return is_type and token.kind is TokenKind.WORD and token.upper in _TEXTS and following != "("


def tree_faults(parsed: exp.Expr) -> Iterator[str]:
    """Yield, in words, the parts of the tree that no Spark reads."""
    from sqlglot import exp

    for node in parsed.find_all(*_operators()):
        yield f"Spark has no {_operators()[type(node)]}"
    for node in parsed.find_all(exp.Any, exp.All):
        if not isinstance(node.parent, exp.Like | exp.ILike):
            yield f"Spark has {node.key.upper()} behind LIKE alone"
    for node in parsed.find_all(exp.Between):
        if node.args.get("symmetric") is not None:
            yield "Spark has no BETWEEN SYMMETRIC"
    for node in parsed.find_all(exp.DataType):
        yield from _type_faults(node)
    for node in parsed.find_all(exp.Interval):
        yield from _interval_faults(node)


@functools.cache
def _operators() -> dict[type[exp.Expr], str]:
    from sqlglot import exp

    return {
        exp.Distance: "<->",
        exp.Glob: "GLOB",
        exp.JSON: "IS JSON",
        exp.JSONBContainsTopKey: "?",
        exp.National: "N'...'",
        exp.Overlaps: "OVERLAPS",
        exp.Parameter: "@",
        exp.SimilarTo: "SIMILAR TO: write RLIKE",
        exp.Slice: "[a:b]: write slice",
    }


@functools.cache
def _types() -> frozenset[object]:
    from sqlglot import exp

    of = exp.DataType.Type
    numbers = (of.TINYINT, of.SMALLINT, of.INT, of.BIGINT, of.FLOAT, of.DOUBLE, of.DECIMAL)
    others = (of.BOOLEAN, of.BINARY, of.TEXT, of.CHAR, of.VARCHAR, of.NULL, of.VARIANT, of.ARRAY, of.MAP, of.STRUCT, of.INTERVAL)
    times = (of.DATE, of.TIME, of.TIMESTAMP, of.TIMESTAMPTZ, of.TIMESTAMPLTZ, of.TIMESTAMPNTZ)
    return frozenset((*numbers, *others, *times))


def _type_faults(found: exp.DataType) -> Iterator[str]:
    from sqlglot import exp

    if isinstance(found, exp.IntervalSpan) or isinstance(found.this, exp.Interval):
        return
    if found.this not in _types():
        yield f"there is no type {spark_text(found)}"
    if found.this is exp.DataType.Type.DECIMAL and found.expressions:
        digits = [int(part.name) for part in found.expressions if part.name.isdigit()]
        if digits and (digits[0] > 38 or digits[1:2] > digits[:1]):
            yield f"there is no type {spark_text(found)}: a DECIMAL has up to 38 digits, and no more behind the point"


def _interval_faults(found: exp.Interval) -> Iterator[str]:
    """Yield units unknown to Spark, amounts that are no number, and months beside days. Spark keeps months and days apart."""
    from sqlglot import exp

    unit = _unit(found)
    if unit is None:
        return
    if unit not in (*_MONTHS, *_DAYS):
        yield f"an INTERVAL has no {unit}"
    if isinstance(found.this, exp.Literal) and found.this.is_string and not _AMOUNT.fullmatch(found.this.name):
        yield f"{found.this.name!r} is no amount of an INTERVAL"
    outer = found.parent
    if isinstance(outer, exp.Add) and outer.this is found and isinstance(outer.expression, exp.Interval):
        other = _unit(outer.expression)
        if other is not None and (unit in _MONTHS) != (other in _MONTHS):
            yield f"{unit} and {other} cannot be in one INTERVAL"


def _unit(found: exp.Interval) -> str | None:
    """Return the unit's name without its plural; None if there is none, or it is a span (``DAY TO HOUR``)."""
    from sqlglot import exp

    return found.args["unit"].name.upper().rstrip("S") if isinstance(found.args.get("unit"), exp.Var) else None
