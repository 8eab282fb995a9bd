"""Which CHECKs delta-rs may evaluate: those that mean the same to its engine, DataFusion, as to Spark. All others are left to Spark.

The two read the same text by different rules: ``3 / 2`` is 1 to one and 1.5 to the other, ``concat('a', NULL)`` is 'a' or NULL, -0.0 is
less than 0.0 or equal to it, ``\\`` in a string escapes or does not. So this is a closed list: of words, of nodes of the parsed text, and
of the types that may be compared. Operands are columns, constants and LENGTH; nothing is computed, so that nothing can overflow or be
converted; no predicate is an operand of another without parentheses, so that it does not matter which of two binds closer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.schema.delta_rules.widening import decimal_of
from airflow_provider_schemamig.core.schema.expressions.parse import InvalidExpression, parse_expression
from airflow_provider_schemamig.core.schema.expressions.spark.row_functions import WITHOUT_PARENTHESES
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import spark_text
from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText, Token, TokenKind, tokens
from airflow_provider_schemamig.core.schema.model import DataType, Primitive
from airflow_provider_schemamig.core.schema.paths import Fields

if TYPE_CHECKING:
    from sqlglot import exp

_LENGTH = frozenset(["LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH"])
_WORDS = frozenset(["AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "TRUE", "FALSE", "DATE"]) | _LENGTH
_SYMBOLS = frozenset(["=", "<>", "!=", "<", "<=", ">", ">=", "(", ")", ",", "-"])
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What is no column to one of the two, where Spark finds one of the name, unless it is quoted: functions that need no parentheses, and
#: words that DataFusion takes for the beginning of something else.
_NO_NAMES = (
    WITHOUT_PARENTHESES
    | {"current_time", "current_catalog", "current_role", "current_schema", "localtime"}
    | {"all", "any", "exists", "interval", "some", "struct", "trim"}
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_GREATEST = 2**63 - 1

_INTEGER, _TEXT, _DAY, _FLAG = "whole number", "string", "date", "boolean"
_KINDS = dict.fromkeys(["tinyint", "smallint", "int", "bigint"], _INTEGER) | {"string": _TEXT, "date": _DAY, "boolean": _FLAG}
#: Compared with a column of the same type alone: a constant of theirs means another value in another time zone.
_TIMES = frozenset(["timestamp", "timestamp_ntz"])
#: A whole number becomes a DECIMAL(20, 0) to one engine, and of both nothing is cut while 20 + scale digits are enough.
_DEEPEST_SCALE = 18


class _Unlike(Exception):
    """The part of an expression that the two may read differently."""


@functools.lru_cache(maxsize=1024)
def unlike_part(checks: tuple[tuple[str, str], ...], columns: Fields) -> tuple[str, str] | None:
    """Return the name of the first CHECK over ``columns`` that delta-rs may read differently than Spark, and the part in question; None:
    both read all of them alike.

    ``checks``: name and expression of all that a table has, as delta-rs joins them by AND.
    """
    from sqlglot import exp

    reader, names = _Reader({column.name: column.type for column in columns}, exp), frozenset(column.name for column in columns)
    for name, expression in checks:
        try:
            _check_words(expression, names)
            reader.predicate(parse_expression(expression))
        except _Unlike as unlike:
            return name, str(unlike)
        except (BrokenText, InvalidExpression):
            return name, expression
    return None


def _check_words(text: str, names: frozenset[str]) -> None:
    """Raise _Unlike for words, comments, quotes and spellings that delta-rs may read differently. The parsed text does not show the last
    three."""
    for mark in ("--", "/*"):
        if mark in text:
            raise _Unlike(mark)
    found = tokens(text)
    for token, following in pairwise([*found, None]):
        assert token is not None  # it is the last one alone that is None
        is_call = following is not None and following.text == "(" and token.upper == "DATE"
        if is_call or not _is_plain(token, text, names):
            raise _Unlike(text[token.start : token.end])


def _is_plain(token: Token, text: str, names: frozenset[str]) -> bool:
    match token.kind:
        case TokenKind.WORD:
            is_name = token.text in names and _NAME.fullmatch(token.text) and token.text.lower() not in _NO_NAMES
            return token.upper in _WORDS or bool(is_name)
        case TokenKind.QUOTED:
            return token.text in names and text[token.start : token.end] == f"`{token.text}`"
        case TokenKind.STRING:
            return text[token.start : token.end] == f"'{token.text}'" and not set(token.text) & set("'\\$")
        case TokenKind.NUMBER:
            return token.text.isascii() and token.text.isdigit()
        case TokenKind.SYMBOL:
            return token.text in _SYMBOLS


class _Reader:
    """Goes through a table's parsed CHECKs. ``exp``: sqlglot's nodes, which are imported late."""

    def __init__(self, columns: Mapping[str, DataType], exp: Any) -> None:
        self.columns = columns
        #: What stands before an IN, and what is compared by = or <>. Of two lists for one value, or of one and several = of that value,
        #: DataFusion makes one list, and forgets NULLs and that a column may equal a constant: ``z IN (s) AND z NOT IN ('a')`` becomes
        #: ``z IN (s)``.
        self._listed: set[str] = set()
        self._equalled: set[str] = set()
        self._predicates: Mapping[type[exp.Expr], Callable[[Any], None]] = {
            exp.And: self._both,
            exp.Or: self._both,
            exp.Not: self._inner,
            exp.Paren: self._inner,
            exp.EQ: self._equals,
            exp.NEQ: self._equals,
            exp.LT: self._compares,
            exp.LTE: self._compares,
            exp.GT: self._compares,
            exp.GTE: self._compares,
            exp.Between: self._between,
            exp.In: self._among,
            exp.Like: self._like,
            exp.Is: self._is_null,
            exp.Column: self._flag,
            exp.Boolean: self._flag,
        }
        self._operands: Mapping[type[exp.Expr], Callable[[Any], DataType | str]] = {
            exp.Column: self._column,
            exp.Literal: self._constant,
            exp.Neg: self._negative,
            exp.Boolean: lambda _: _FLAG,
            exp.Cast: self._date,
            exp.Length: self._length,
        }

    # -- predicates: each raises _Unlike ----------------------------------------------------------------------------------------------

    def predicate(self, node: exp.Expr) -> None:
        found = self._predicates.get(type(node))
        if found is None:
            raise _unlike(node)
        found(node)

    def _both(self, node: exp.And | exp.Or) -> None:
        for side in _parts(node, "this", "expression"):
            self.predicate(side)

    def _inner(self, node: exp.Not | exp.Paren) -> None:
        self.predicate(*_parts(node, "this"))

    def _equals(self, node: exp.EQ | exp.NEQ) -> None:
        sides = _parts(node, "this", "expression")
        self._check_alike(node, *sides, ordered=False)
        values = {*map(_value_of, sides)}
        if values & self._listed:
            raise _unlike(node)
        self._equalled |= values

    def _compares(self, node: exp.Expr) -> None:
        self._check_alike(node, *_parts(node, "this", "expression"))

    def _between(self, node: exp.Between) -> None:
        value, low, high = _parts(node, "this", "low", "high")
        self._check_alike(node, value, low)
        self._check_alike(node, value, high)

    def _among(self, node: exp.In) -> None:
        _parts(node, "this", "expressions")
        if (value := _value_of(node.this)) in self._listed | self._equalled:
            raise _unlike(node)
        self._listed.add(value)
        for item in node.expressions:
            self._check_alike(node, node.this, item, ordered=False)

    def _like(self, node: exp.Like) -> None:
        value, pattern = _parts(node, "this", "expression", "negate")[:2]
        if self._operand(value) != _TEXT or not pattern.is_string:
            raise _unlike(node)

    def _is_null(self, node: exp.Is) -> None:
        """Check IS NULL, of a column of any type."""
        from sqlglot import exp

        value, null = _parts(node, "this", "expression")
        if not isinstance(value, exp.Column) or not isinstance(null, exp.Null):
            raise _unlike(node)
        self._column(value)

    def _flag(self, node: exp.Column | exp.Boolean) -> None:
        if self._operand(node) != _FLAG:
            raise _unlike(node)

    # -- operands: their kind, or the type of a column that no constant is compared with ---------------------------------------------------

    def _check_alike(self, node: exp.Expr, one: exp.Expr, other: exp.Expr, *, ordered: bool = True) -> None:
        kinds = self._operand(one), self._operand(other)
        if not _is_alike(*kinds, one, other) or (ordered and _FLAG in kinds):
            raise _unlike(node)

    def _operand(self, node: exp.Expr) -> DataType | str:
        found = self._operands.get(type(node.unnest()))
        if found is None:
            raise _unlike(node)
        return found(node.unnest())

    def _column(self, node: exp.Column) -> DataType | str:
        (name,) = _parts(node, "this")
        found = self.columns.get(name.name)
        if found is None:
            raise _unlike(node)
        return _KINDS.get(found.name, found) if isinstance(found, Primitive) else found

    def _constant(self, node: exp.Literal) -> str:
        if node.is_string:
            return _TEXT
        if int(node.name) > _GREATEST:
            raise _unlike(node)
        return _INTEGER

    def _negative(self, node: exp.Neg) -> str:
        from sqlglot import exp

        if not isinstance(node.this, exp.Literal) or node.this.is_string:
            raise _unlike(node)
        return self._constant(node.this)

    def _date(self, node: exp.Cast) -> str:
        """Check ``DATE'2020-01-01'``; a CAST that is spelled out is another node."""
        from sqlglot import exp

        if not _is_date(node.this) or node.to.this is not exp.DataType.Type.DATE:
            raise _unlike(node)
        return _DAY

    def _length(self, node: exp.Length) -> str:
        (value,) = _parts(node, "this")
        if self._operand(value) != _TEXT:
            raise _unlike(node)
        return _INTEGER


def _is_alike(one: DataType | str, other: DataType | str, first: exp.Expr, second: exp.Expr) -> bool:
    """Return whether values of two kinds are compared alike, without a conversion that could change one."""
    if isinstance(one, str) and isinstance(other, str):
        if {one, other} == {_DAY, _TEXT}:
            return _is_date(first if one == _TEXT else second)
        return one == other
    if isinstance(one, Primitive) and isinstance(other, Primitive):
        return one == other and (one.name in _TIMES or decimal_of(one.name) is not None)
    column, constant = (one, second) if isinstance(one, Primitive) else (other, first)
    decimal = decimal_of(column.name) if isinstance(column, Primitive) else None
    return _INTEGER in (one, other) and _is_number(constant) and decimal is not None and decimal[1] <= _DEEPEST_SCALE


def _value_of(node: exp.Expr) -> str:
    """Return a text for an operand that is the same however it is spelled."""
    from sqlglot import exp

    column = node.find(exp.Column)
    return spark_text(node.unnest()) if column is None else f"{type(node.unnest()).__name__} {column.name}"


def _is_number(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node.unnest(), exp.Literal | exp.Neg)


def _is_date(node: exp.Expr) -> bool:
    from sqlglot import exp

    text = node.unnest()
    if not isinstance(text, exp.Literal) or not text.is_string or not _DATE.fullmatch(text.name):
        return False
    try:
        date.fromisoformat(text.name)
    except ValueError:
        return False
    return True


def _parts(node: exp.Expr, *names: str) -> list[Any]:
    """Return the node's parts of these names. Raises _Unlike if it has one of another name."""
    if any(value for name, value in node.args.items() if name not in names):
        raise _unlike(node)
    return [node.args.get(name) for name in names]


def _unlike(node: exp.Expr) -> _Unlike:
    return _Unlike(spark_text(node))
