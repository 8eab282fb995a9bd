"""Whether every engine can evaluate a CHECK or a DEFAULT, told without one: an expression that cannot be evaluated stops all writers.

What Spark refuses is refused here, by its own list of functions and by the types of columns and constants; what cannot be told is refused
for a DEFAULT (it can be written as its value) and let pass for a CHECK, of which Spark is asked wherever it runs anyway.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.expressions.calls import Call, calls
from airflow_provider_schemamig.core.schema.expressions.constant_fit import cast
from airflow_provider_schemamig.core.schema.expressions.constants import Constant, NotConstant
from airflow_provider_schemamig.core.schema.expressions.functions import GENERATORS
from airflow_provider_schemamig.core.schema.expressions.kinds import atom, cast_kind, column_type, kind_of
from airflow_provider_schemamig.core.schema.expressions.operands import NUMBERS, article, operand_faults
from airflow_provider_schemamig.core.schema.expressions.operators import takes
from airflow_provider_schemamig.core.schema.expressions.parse import InvalidExpression, has_subquery, parse_expression, unknown_references
from airflow_provider_schemamig.core.schema.expressions.spark_functions import spark_functions
from airflow_provider_schemamig.core.schema.expressions.tokens import TokenKind, tokens
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Primitive, Struct

if TYPE_CHECKING:
    from sqlglot import exp

#: Functions that Spark's grammar knows; they take words between their arguments, or types.
_OF_THE_GRAMMAR = frozenset(
    (
        *("cast", "try_cast", "extract", "trim", "overlay", "position", "substr", "substring", "timestampadd", "timestampdiff", "dateadd"),
        *("datediff", "date_add", "date_diff", "ceil", "floor", "struct", "named_struct"),
    )
)
_KINDS = {
    "random": "it gives another value each time",
    "aggregate": "it needs more than one row",
    "window": "it needs more than one row",
    "rows": "it gives several rows",
    "table": "it gives a table",
}
#: They look at the process of the writer, or run its code; and what only a query's grouping gives a meaning.
_REFUSED = {"grouping": "it needs GROUP BY", "grouping_id": "it needs GROUP BY", "session_window": "it needs GROUP BY"}
_REFUSED |= {"window": "it needs GROUP BY", "window_time": "it needs GROUP BY", "raise_error": "it fails in every row"}
#: What Python says of a pattern that Java cannot read either.
_BROKEN_PATTERN = ("missing ), unterminated subpattern", "unbalanced parenthesis", "unterminated character set")
_AFTER_IS = ("NULL", "TRUE", "FALSE", "UNKNOWN")
_NO_SIGNS = frozenset("$?:{}@#;")
_COMPARISONS = ("=", "==", "<>", "!=", "<", ">", "<=", ">=", "<=>")


@functools.lru_cache(maxsize=4096)
def check_fault(expression: str, fields: tuple[Field, ...]) -> str | None:
    """Return why no writer could evaluate a CHECK over ``fields``, without a full stop; None: as far as can be told, all can."""
    return next(expression_faults(expression, fields, "boolean"), None)


def expression_faults(expression: str, fields: tuple[Field, ...], wanted: str | None) -> Iterator[str]:
    """Yield all of why no writer could evaluate an expression over ``fields``. ``wanted``: the kind of its value, None for any."""
    from sqlglot import exp

    try:
        parsed = parse_expression(expression)
        if has_subquery(expression):
            yield "it reads a table"
            return
        unknown = unknown_references(expression, fields)
        if unknown:
            yield f"there is no column {unknown[0]}"
            return
    except InvalidExpression as broken:
        yield f"it is no valid expression ({broken.reason.rstrip('.')})"
        return
    if parsed.find(exp.Window) is not None:
        yield "OVER needs more than one row"
    yield from _word_faults(expression)
    yield from _call_faults(expression)
    yield from _type_faults(parsed, expression, fields, wanted)


def _word_faults(expression: str) -> Iterator[str]:
    """Yield what the parser here reads and Spark's does not.

    That is ``a IS NULL = b`` and ``a IN (1) = b``; ``0x1F`` is a number here and a name there.
    """
    if "${" in expression:
        yield "Spark puts a setting of the session, or of the environment, in the place of ${...}, also in a text"
    found = [token for token in tokens(expression) if token.end > token.start]
    openers: list[int] = []
    for number, token in enumerate(found):
        if token.kind is TokenKind.SYMBOL and token.text in _NO_SIGNS:
            yield f"Spark reads no {token.text} in an expression"
        if token.kind is TokenKind.WORD and expression[token.start : token.start + 2].lower() == "0x":
            yield f"Spark takes {expression[token.start : token.end]} for a name"
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


def _call_faults(expression: str) -> Iterator[str]:
    return (fault for call in calls(expression) if (fault := _call_fault(call)) is not None)


def _call_fault(call: Call) -> str | None:
    if call.name in _REFUSED:
        return f"{call.name.upper()} cannot be used, {_REFUSED[call.name]}"
    known = spark_functions().get(call.name)
    if call.name in GENERATORS:
        return f"{call.name.upper()} cannot be used, {_KINDS['rows']}"
    if known is None:
        return None if call.name in _OF_THE_GRAMMAR else f"Spark has no function {call.name}"
    if known.kind in _KINDS:
        return f"{call.name.upper()} cannot be used, {_KINDS[known.kind]}"
    if call.name not in _OF_THE_GRAMMAR and not known.least <= call.arguments <= known.most:
        wanted = str(known.least) if known.least == known.most else f"{known.least} to {known.most}"
        return f"{call.name.upper()} takes {wanted} arguments, not {call.arguments}"
    return None


def _type_faults(parsed: exp.Expr, expression: str, fields: tuple[Field, ...], wanted: str | None) -> Iterator[str]:
    from sqlglot import exp

    for found in parsed.find_all(exp.DataType):
        if found.this in (exp.DataType.Type.USERDEFINED, exp.DataType.Type.UNKNOWN):
            yield f"there is no type {found.sql(dialect='spark')}"
    kind = kind_of(parsed, fields)
    if kind is None:
        kind = _given(expression)
    if wanted is not None and kind not in (None, wanted):
        yield f"it gives {article(kind)}, and a CHECK gives BOOLEAN"
    yield from _constant_faults(parsed)
    yield from operand_faults(parsed, lambda node: kind_of(node, fields), fields)
    for operator, left, right in _compared(parsed):
        fault = _comparison_fault(operator, left, right, fields)
        if fault is not None:
            yield fault


def _compared(parsed: exp.Expr) -> Iterator[tuple[str, exp.Expr, exp.Expr]]:
    """Yield operator and operands, also where no operator is written."""
    from sqlglot import exp

    for two in parsed.find_all(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ):
        yield "=" if isinstance(two, exp.EQ | exp.NEQ) else "<=>" if isinstance(two, exp.NullSafeEQ) else "<", two.this, two.expression
    for test in parsed.find_all(exp.Is):
        if not isinstance(test.expression, exp.Null):
            yield "=", test.this, test.expression
    for between in parsed.find_all(exp.Between):
        yield from (("<", between.this, between.args["low"]), ("<", between.this, between.args["high"]))
    for case in parsed.find_all(exp.Case):
        if case.this is not None:
            yield from (("=", case.this, when.this) for when in case.args["ifs"])
    for nullif in parsed.find_all(exp.Nullif):
        yield "=", nullif.this, nullif.expression
    for among in parsed.find_all(exp.In):
        yield from (("=", among.this, value) for value in among.expressions)


def _constant_faults(parsed: exp.Expr) -> Iterator[str]:
    """Yield constants that are no value of their type, and divisions by a constant zero: they fail in every row."""
    from sqlglot import exp

    for literal in parsed.find_all(exp.Literal):
        fault = None if literal.is_string else _number_fault(literal.name)
        if fault is not None:
            yield fault
    for cast_of in parsed.find_all(exp.Cast):
        if isinstance(cast_of.this, exp.Literal) and cast_of.this.is_string and not cast_of.args.get("safe"):
            kind = cast_kind(cast_of)
            wanted = Primitive("double" if kind in NUMBERS else str(kind))
            fault = _text_fault(cast_of.this, wanted) if kind in (*NUMBERS, "date", "timestamp", "timestamp_ntz", "boolean") else None
            if fault is not None:
                yield fault
    yield from _all_pattern_faults(parsed)
    for division in parsed.find_all(exp.Div, exp.Mod, exp.IntDiv):
        if isinstance(division.expression, exp.Literal) and division.expression.name.strip("0.") == "":
            yield "it divides by 0"


def _number_fault(number: str) -> str | None:
    if number.isdigit() and len(number.lstrip("0")) > 38:
        return f"{number} has more digits than a DECIMAL holds"
    try:
        is_beyond = "e" in number.lower() and Decimal(number).copy_abs() > Decimal(sys.float_info.max)
    except ArithmeticError:
        is_beyond = True
    return f"{number} is beyond the largest DOUBLE" if is_beyond else None


def _all_pattern_faults(parsed: exp.Expr) -> Iterator[str]:
    from sqlglot import exp

    for like in parsed.find_all(exp.RegexpLike, exp.Like, exp.ILike):
        if isinstance(like.expression, exp.Literal):
            pattern = like.expression.name
            fault = _pattern_fault(pattern) if isinstance(like, exp.RegexpLike) else _like_fault(pattern, like.parent)
            if fault is not None:
                yield fault


def _pattern_fault(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"the pattern {pattern!r} is broken: {error.msg}" if error.msg in _BROKEN_PATTERN and "\\Q" not in pattern else None
    return None


def _like_fault(pattern: str, parent: exp.Expr | None) -> str | None:
    """Return a fault unless the escape sign comes before ``_``, ``%`` or itself; ``parent``: an ESCAPE, which may name another sign than
    the backslash."""
    from sqlglot import exp

    sign = parent.expression.name if isinstance(parent, exp.Escape) else "\\"
    if len(sign) != 1:
        return f"ESCAPE {sign!r} is not one character"
    rest = re.sub(f"{re.escape(sign)}[_%{re.escape(sign)}]", "", pattern)
    return f"{sign} stands before nothing that it could escape in {pattern!r}" if sign in rest else None


def _comparison_fault(operator: str, left: exp.Expr, right: exp.Expr, fields: tuple[Field, ...]) -> str | None:
    """Return a fault of two kinds of values that Spark cannot compare, or of a text that is no value of the other side's type: it fails in
    every row."""
    if any(_has_map(column_type(side, fields)) for side in (left, right)):
        return "a MAP is compared"
    one, other = kind_of(left, fields), kind_of(right, fields)
    if one is None or other is None or one == other:
        return None
    if not takes(operator, one, other):
        first, second = sorted((one, other))
        return f"{article(first)} is compared with {article(second)}"
    if "string" in (one, other):
        value, text = (left, right) if other == "string" else (right, left)
        return _text_fault(text, column_type(value, fields))
    return None


def _has_map(found: DataType | None) -> bool:
    match found:
        case Map():
            return True
        case Array(element=element):
            return _has_map(element)
        case Struct(fields=fields):
            return any(_has_map(field.type) for field in fields)
        case _:
            return False


def _text_fault(text: exp.Expr, wanted: DataType | None) -> str | None:
    from sqlglot import exp

    if not isinstance(text, exp.Literal) or wanted is None:
        return None
    try:
        cast(Constant(Primitive("string"), text.name), _wide(wanted))
    except NotConstant as fault:
        return fault.reason
    return None


def _wide(wanted: DataType) -> DataType:
    """Widen a number type: numbers are compared as the wider of two types, so only whether it is a number at all counts."""
    return Primitive("double") if atom(wanted) in NUMBERS else wanted


def _given(expression: str) -> str | None:
    """Return what the function gives, if an expression is one call and nothing else."""
    found = list(calls(expression))
    first = found[0] if found else None
    if first is None or first.start != 0 or first.end != len(expression):
        return None
    known = spark_functions().get(first.name)
    return None if known is None or known.gives == "any" else known.gives
