"""Constants in a CHECK that fail in every row: no value of the type that they are cast to or compared with, and divisions by zero."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.expressions.constant_fit import cast
from airflow_provider_schemamig.core.schema.expressions.constants import Constant, NotConstant
from airflow_provider_schemamig.core.schema.expressions.kinds import atom, cast_kind
from airflow_provider_schemamig.core.schema.expressions.operands import NUMBERS
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import spark_text
from airflow_provider_schemamig.core.schema.model import DataType, Primitive

if TYPE_CHECKING:
    from sqlglot import exp


_DAY, _HOUR = r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}", r"([01]?\d|2[0-3])"
_SPECIAL = "epoch|now|today|tomorrow|yesterday"
_MOMENT = rf"{_SPECIAL}|{_DAY}[ t]{_HOUR}|{_DAY}[ t]{_HOUR}(:[0-5]?\d(:[0-5]?\d(\.\d*)?)?)?\s*[a-z+-].*"
#: Special values and zones, in small letters.
_OTHER_FORMS = {
    "double": re.compile(r"[+-]?(nan|inf|infinity)|[+-]?[\d.]+(e[+-]?\d+)?[df]"),
    "boolean": re.compile(r"t|true|y|yes|1|f|false|n|no|0"),
    "date": re.compile(_SPECIAL),
    "timestamp": re.compile(_MOMENT),
    "timestamp_ntz": re.compile(_MOMENT),
}


def constant_faults(parsed: exp.Expr) -> Iterator[str]:
    """Yield constants that are no value of their type, and divisions by a constant zero: they fail in every row."""
    from sqlglot import exp

    for literal in parsed.find_all(exp.Literal):
        fault = None if literal.is_string else _number_fault(literal.name)
        if fault is not None:
            yield fault
    for cast_of in parsed.find_all(exp.Cast):
        if isinstance(cast_of.this, exp.Literal) and not cast_of.args.get("safe"):
            fault = _cast_fault(cast_of, cast_of.this)
            if fault is not None:
                yield fault
    yield from _sum_faults(parsed)


def _sum_faults(parsed: exp.Expr) -> Iterator[str]:
    from sqlglot import exp

    for division in parsed.find_all(exp.Div, exp.Mod, exp.IntDiv):
        if _value_of(division.expression) == 0:
            yield "it divides by 0"
    for sum_of in parsed.find_all(exp.Add, exp.Sub, exp.Mul):
        value = _value_of(sum_of)
        if value is not None and all(map(_is_int, sum_of.find_all(exp.Literal))) and not -(2**31) <= value < 2**31:
            yield f"{value} is no INT"


def _value_of(node: exp.Expr) -> Decimal | None:
    """Return what sums of numbers give; None for anything else."""
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return _value_of(node.this)
    if isinstance(node, exp.Literal):
        return Decimal(node.name) if not node.is_string and node.name.replace(".", "", 1).isdigit() else None
    if isinstance(node, exp.Neg):
        return None if (value := _value_of(node.this)) is None else value.copy_negate()
    if not isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return None
    left, right = _value_of(node.this), _value_of(node.expression)
    if left is None or right is None:
        return None
    return left + right if isinstance(node, exp.Add) else left - right if isinstance(node, exp.Sub) else left * right


def _is_int(number: exp.Expr) -> bool:
    return number.name.isdigit() and int(number.name) < 2**31


def _cast_fault(cast_of: exp.Cast, literal: exp.Literal) -> str | None:
    """Return why a constant cannot be cast. Only whole numbers are looked at beside texts: of others Spark drops what does not fit."""
    from sqlglot import exp

    kind = cast_kind(cast_of)
    if kind == "integral":
        wanted = Primitive(spark_text(cast_of.to).lower())
        if literal.is_string:
            return _fault_of(Constant(Primitive("string"), literal.name), wanted)
        if not literal.name.isdigit():
            return None
        value = Decimal(literal.name)
        is_negative = isinstance(cast_of.parent, exp.Neg) and wanted.name != "int"  # ``-128Y`` is one number to Spark
        return _fault_of(Constant(Primitive("decimal(38,0)"), value.copy_negate() if is_negative else value), wanted)
    if not literal.is_string or kind not in (*NUMBERS, "date", "timestamp", "timestamp_ntz", "boolean"):
        return None
    return text_fault(literal, Primitive("double" if kind in NUMBERS else str(kind)))


def _number_fault(number: str) -> str | None:
    if number.isdigit() and len(number.lstrip("0")) > 38:
        return f"{number} has more digits than a DECIMAL holds"
    try:
        is_beyond = "e" in number.lower() and Decimal(number).copy_abs() > Decimal(sys.float_info.max)
    except ArithmeticError:
        is_beyond = True
    return f"{number} is beyond the largest DOUBLE" if is_beyond else None


def text_fault(text: exp.Expr, wanted: DataType | None) -> str | None:
    from sqlglot import exp

    if not isinstance(text, exp.Literal) or wanted is None or _may_be(text.name, atom(wanted)):
        return None
    return _fault_of(Constant(Primitive("string"), text.name), _wide(wanted))


def _may_be(text: str, kind: str) -> bool:
    """Return whether Spark may read a text as a value that no DEFAULT may have: the forms are many, and what is refused here is known."""
    known = _OTHER_FORMS.get("double" if kind in NUMBERS else kind)
    return known is not None and known.fullmatch(text.strip().lower()) is not None


def _fault_of(found: Constant, wanted: DataType) -> str | None:
    try:
        cast(found, wanted)
    except NotConstant as fault:
        return fault.reason
    return None


def _wide(wanted: DataType) -> DataType:
    """Widen a number type: numbers are compared as the wider of two types, so only whether it is a number at all counts."""
    return Primitive("double") if atom(wanted) in NUMBERS else wanted
