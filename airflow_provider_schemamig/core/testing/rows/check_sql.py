"""The value of a CHECK for one row, for the expressions that people write most. Anything else is ``Unsupported``, never guessed.

SQL's three values: None is unknown. Delta takes a row only where the CHECK is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import parse_one


class Unsupported(Exception):
    """The expression is beyond this evaluator."""


def parse(text: str) -> exp.Expr:
    """Parse a CHECK. Raises Unsupported."""
    try:
        return parse_one(text)
    except SqlglotError as error:
        raise Unsupported(text) from error


def columns_of(expression: exp.Expr) -> set[str]:
    """Return the top-level columns it reads, in lower case."""
    return {_path(column)[0].lower() for column in expression.find_all(exp.Column)}


def literals_of(expression: exp.Expr) -> list[Any]:
    """Return the numbers and texts in it."""
    return [_literal(found) for found in expression.find_all(exp.Literal)]


def holds(expression: exp.Expr, row: Mapping[str, Any]) -> bool:
    """Return whether it is true of ``row``. Raises Unsupported."""
    return value_of(expression, row) is True


def value_of(expression: exp.Expr, row: Mapping[str, Any]) -> Any:
    """Return what it is for ``row``; None is NULL. Raises Unsupported."""
    try:
        return _value(expression, {name.lower(): value for name, value in row.items()})
    except (TypeError, ArithmeticError, ValueError) as error:
        raise Unsupported(str(expression)) from error


_COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_FUNCTIONS: dict[type[exp.Expr], Callable[[Any], Any]] = {
    exp.Neg: operator.neg,
    exp.Abs: abs,
    exp.Length: len,
    exp.Lower: str.lower,
    exp.Upper: str.upper,
    exp.Trim: str.strip,
}


def _value(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    match node:
        case exp.Column():
            return _column(node, row)
        case exp.Literal():
            return _literal(node)
        case exp.Boolean() | exp.Null():
            return node.args.get("this")
        case exp.Paren():
            return _value(node.this, row)
        case exp.And() | exp.Or():
            return _connected(node, row)
        case exp.Not():
            inner = _value(node.this, row)
            return None if inner is None else not inner
        case exp.Is() | exp.NullSafeEQ():
            return _value(node.this, row) == _value(node.expression, row)
        case exp.Between():
            low, value, high = (_value(part, row) for part in (node.args["low"], node.this, node.args["high"]))
            return _all_known(lambda: _same(low, value) <= value <= _same(high, value), low, value, high)
        case exp.In():
            return _in(node, row)
    return _applied(node, row)


def _applied(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    binary, unary = _COMPARISONS.get(type(node)), _FUNCTIONS.get(type(node))
    if binary is not None:
        left, right = _value(node.this, row), _value(node.expression, row)
        return _all_known(lambda: binary(_same(left, right), _same(right, left)), left, right)
    if unary is not None and (not isinstance(node, exp.Trim) or node.args.get("expression") is None):
        value = _value(node.this, row)
        return _all_known(lambda: unary(value), value)
    raise Unsupported(str(node))


def _connected(node: exp.Expr, row: Mapping[str, Any]) -> bool | None:
    decides = isinstance(node, exp.Or)
    values = [_value(node.this, row), _value(node.expression, row)]
    if decides in values:
        return decides
    return None if None in values else not decides


def _in(node: exp.In, row: Mapping[str, Any]) -> Any:
    if node.args.get("query") or node.args.get("unnest"):
        raise Unsupported(str(node))
    value = _value(node.this, row)
    options = [_value(option, row) for option in node.expressions]
    if value is None:
        return None
    return True if any(_same(option, value) == value for option in options if option is not None) else (None if None in options else False)


def _all_known(apply: Callable[[], Any], *values: Any) -> Any:
    return None if any(value is None for value in values) else apply()


def _same(value: Any, other: Any) -> Any:
    """Convert ``value`` to the type of what it is compared with: a date is written as text, and decimals meet floats."""
    if isinstance(value, str) and isinstance(other, datetime):
        return datetime.fromisoformat(value).replace(tzinfo=other.tzinfo)
    if isinstance(value, str) and isinstance(other, date):
        return date.fromisoformat(value)
    if isinstance(value, float) and isinstance(other, Decimal):
        return Decimal(str(value))
    if isinstance(value, Decimal) and isinstance(other, float):
        return float(value)
    return value


def _column(node: exp.Column, row: Mapping[str, Any]) -> Any:
    first, *rest = _path(node)
    if first.lower() not in row:
        raise Unsupported(str(node))
    value = row[first.lower()]
    for part in rest:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise Unsupported(str(node))
        value = {name.lower(): inner for name, inner in value.items()}.get(part.lower())
    return value


def _path(node: exp.Column) -> list[str]:
    return [part.name for part in node.parts]


def _literal(node: exp.Literal) -> Any:
    if node.is_string:
        return str(node.this)
    text = str(node.this)
    return int(text) if text.isdigit() else Decimal(text)
