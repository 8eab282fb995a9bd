"""Whether a constant fits a type: what Spark does when it stores a DEFAULT in a column, or casts one (ANSI: what does not fit fails)."""

from __future__ import annotations

import functools
import re
from datetime import date, time
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_schemamig.core.names import moved_name
from airflow_provider_schemamig.core.schema.delta_rules.widening import decimal_of, varchar_length
from airflow_provider_schemamig.core.schema.expressions.constants import NULL, Constant, NotConstant, constant
from airflow_provider_schemamig.core.schema.model import Array, DataType, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.sql import type_sql

_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_ORDER = (*_BITS, "decimal", "float", "double")
_LARGEST = {"float": Decimal("3.4028234663852886E+38"), "double": Decimal("1.7976931348623157E+308")}
_TIMES = ("date", "timestamp", "timestamp_ntz")
_INTEGER = re.compile(r"\s*[+-]?\d{1,38}\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d{1,38}(\.\d{0,38})?|\.\d{1,38})([eE][+-]?\d{1,3})?\s*", re.ASCII)
#: A date may end after its year or month, and be followed by a time that is dropped.
_DAY = re.compile(r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*", re.ASCII)
_TIME = re.compile(
    r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d{1,9})?)?\s*"
    r"(?P<zone>Z|UTC|GMT|[+-]\d{2}:\d{2}|[A-Za-z]+/[A-Za-z_/]+)?)?)?)?\s*",
    re.ASCII,
)


@functools.lru_cache(maxsize=4096)
def default_fault(expression: str, data_type: DataType) -> str | None:
    """Return why Spark could fail to give a column of this type the DEFAULT, without a full stop; None: it cannot."""
    try:
        stored(constant(expression, cast), data_type)
    except NotConstant as fault:
        return fault.reason
    return None


def cast(found: Constant, wanted: DataType) -> Constant:
    """Evaluate ``CAST(found AS wanted)``. Raises NotConstant."""
    name = wanted.name if isinstance(wanted, Primitive) else ""
    if name == "boolean" and isinstance(found.value, str) and found.value.strip().lower() in ("true", "false"):
        return Constant(wanted, found.value.strip().lower() == "true")
    if isinstance(found.type, Primitive) and found.type.name == "boolean" and name in _BITS and found.value is not None:
        return Constant(wanted, Decimal(int(found.value)))
    return stored(found, wanted)


def stored(found: Constant, wanted: DataType) -> Constant:
    """Return ``found`` as a column of the type holds it. Raises NotConstant."""
    if found.type == NULL or found.type == wanted:
        return Constant(wanted, found.value) if found.type == wanted else Constant(NULL)
    match found.type, wanted:
        case Primitive(), Primitive(name=name):
            return Constant(wanted, _atomic(found, name, wanted))
        case (Array(), Array()) | (Map(), Map()) | (Struct(), Struct()):
            if not _is_wider(found.type, wanted):
                raise _does_not_fit(found, wanted)
            return Constant(wanted, found.value)
        case _:
            raise _does_not_fit(found, wanted)


def _atomic(found: Constant, name: str, wanted: DataType) -> Any:
    assert isinstance(found.type, Primitive)
    here = found.type.name
    limit = varchar_length(name)
    if limit is not None:
        if not isinstance(found.value, str | Decimal) or len(str(found.value)) > limit:
            raise _does_not_fit(found, wanted)
        return str(found.value)
    if name == "string":
        return found.value if isinstance(found.value, str) else None
    if name in _ORDER or decimal_of(name) is not None:
        return _number(found, here, name, wanted)
    if name in _TIMES:
        if here in _TIMES:
            return None
        if here == "string" and isinstance(found.value, str) and _is_moment(found.value, name):
            return found.value
    if name == "binary" and here in ("string", "binary"):
        return found.value
    raise _does_not_fit(found, wanted)


def _number(found: Constant, here: str, name: str, wanted: DataType) -> Decimal | None:
    value = found.value
    if here == "string" and isinstance(value, str):
        value = _parsed(value, name)
    elif here.partition("(")[0] not in _ORDER:
        raise _does_not_fit(found, wanted)
    elif value is None:
        if not _is_wider(found.type, wanted):
            raise _does_not_fit(found, wanted)
        return None
    if not isinstance(value, Decimal):
        raise _does_not_fit(found, wanted)
    held = _held(value, name)
    if held is None:
        raise _does_not_fit(found, wanted)
    return held


def _parsed(text: str, name: str) -> Decimal | None:
    if (_INTEGER if name in _BITS else _NUMBER).fullmatch(text) is None:
        return None
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return None


def _held(value: Decimal, name: str) -> Decimal | None:
    """Return the number as the type holds it: integers drop what is behind the point, decimals round it; None if it does not fit."""
    if name in _BITS:
        truncated = value.to_integral_value(rounding=ROUND_DOWN)
        return truncated if -(2 ** _BITS[name]) <= truncated < 2 ** _BITS[name] else None
    decimal = decimal_of(name)
    if decimal is None:
        return value if value.copy_abs() <= _LARGEST[name] else None
    precision, scale = decimal
    if value.adjusted() >= 38:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP) if value.adjusted() + scale < 27 else value
    return rounded if rounded.copy_abs() < Decimal(10) ** (precision - scale) else None


def _is_moment(text: str, name: str) -> bool:
    match = (_DAY if name == "date" else _TIME).fullmatch(text)
    if match is None:
        return False
    zone = None if name == "date" else match["zone"]
    try:
        date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
        if name != "date" and match[4]:
            time(int(match[4]), int(match[5]), int(match[6] or 0))
        if zone and "/" in zone:
            ZoneInfo(zone)
    except (ValueError, ZoneInfoNotFoundError):
        return False
    return name != "timestamp_ntz" or zone is None


def _is_wider(here: DataType, wanted: DataType) -> bool:
    """Return whether every value of one type is one of the other, so that Spark never fails: for values that are not known, and inside
    others."""
    match here, wanted:
        case _ if here in (wanted, NULL):
            return True
        case Array(element=inner), Array(element=other):
            return _is_wider(inner, other)
        case Map(key=key, value=value), Map(key=other_key, value=other_value):
            return _is_wider(key, other_key) and _is_wider(value, other_value)
        case Struct(fields=fields), Struct(fields=others):
            if len(fields) != len(others) or moved_name([f.name for f in fields], [o.name for o in others]) is not None:
                return False  # Spark gives a column the values of a struct by position
            return all(_is_wider(f.type, o.type) for f, o in zip(fields, others, strict=True))
        case Primitive(name=name), Primitive(name=other_name):
            return _is_wider_atom(name, other_name)
        case _:
            return False


def _is_wider_atom(name: str, other: str) -> bool:
    if other == "string":
        return name != "binary"
    if name in _BITS and other in (*_BITS, "float", "double"):
        return _ORDER.index(name) <= _ORDER.index(other)
    decimal = decimal_of(other)
    if decimal is not None:
        inner = decimal_of(name) or ({"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}.get(name, 99), 0)
        return inner[1] <= decimal[1] and inner[0] - inner[1] <= decimal[0] - decimal[1]
    return (name, other) in (("float", "double"), ("date", "timestamp"), ("date", "timestamp_ntz"))


def _does_not_fit(found: Constant, wanted: DataType) -> NotConstant:
    if isinstance(found.type, Primitive) and isinstance(wanted, Primitive) and found.value is not None:
        shown = repr(found.value) if isinstance(found.value, str) else str(found.value).upper()
        return NotConstant(f"{shown} is no {type_sql(wanted)}")
    return NotConstant(f"{_named(found.type)} does not fit {type_sql(wanted)}")


def _named(data_type: DataType) -> str:
    return f"a value of type {type_sql(data_type)}"
