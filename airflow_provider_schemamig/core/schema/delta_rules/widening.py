"""Which type changes Delta reads old files through: its type widening, and longer strings."""

from __future__ import annotations

import functools
import re

from airflow_provider_schemamig.core.schema.model import DataType, Primitive

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: Digits an integer column needs as a decimal: Parquet stores the three short ones as INT32, and readers convert INT32 to decimal(10).
_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
_OTHERS = {("float", "double"), ("tinyint", "double"), ("smallint", "double"), ("int", "double"), ("date", "timestamp_ntz")}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_VARCHAR = re.compile(r"varchar\((\d+)\)")


def decimal_of(name: str) -> tuple[int, int] | None:
    """Return (precision, scale) of ``decimal(p,s)``, else None."""
    match = _DECIMAL.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def varchar_length(name: str) -> int | None:
    """Return n of ``varchar(n)``, else None."""
    match = _VARCHAR.fullmatch(name)
    return None if match is None else int(match[1])


def is_text(name: str) -> bool:
    """Return whether a primitive type of this name holds texts, of any length or a limited one."""
    return name == "string" or varchar_length(name) is not None


def is_widening(old: DataType, new: DataType) -> bool:
    """Return whether ``old`` may become ``new`` by metadata alone. Atomic types only; equal types are no change and give False."""
    return isinstance(old, Primitive) and isinstance(new, Primitive) and _widens(old.name, new.name)


@functools.lru_cache(maxsize=1024)
def _widens(old: str, new: str) -> bool:
    if old == new:
        return False
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) < _INTEGERS.index(new)
    if (old, new) in _OTHERS:
        return True
    return _widens_to_decimal(old, new) or _widens_string(old, new)


def _widens_to_decimal(old: str, new: str) -> bool:
    target = decimal_of(new)
    source = (_DIGITS[old], 0) if old in _DIGITS else decimal_of(old)
    if target is None or source is None:
        return False
    # decimal(p + k1, s + k2) with k1 >= k2 >= 0: neither digits before nor after the point get fewer.
    return target[1] >= source[1] and target[0] - target[1] >= source[0] - source[1]


def _widens_string(old: str, new: str) -> bool:
    """Return whether a varchar gets a longer limit or none: a change of field metadata, for Delta stores every varchar(n) as string."""
    source, target = varchar_length(old), varchar_length(new)
    return source is not None and (new == "string" or (target is not None and target > source))


#: Of a whole number, without its sign.
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


def limits_of(narrow: str, wide: str) -> tuple[int, int] | None:
    """Return the least and the greatest whole number that ``narrow`` and ``wide`` both hold exactly.

    None unless being between them is all it takes to get from ``wide`` back to ``narrow``: a file's least and greatest value tell nothing
    of fractions or times of day.
    """
    if not _widens(narrow, wide):
        return None
    decimal, wider = decimal_of(narrow), decimal_of(wide)
    if narrow in _BITS and (wide in _BITS or (wider is not None and wider[1] == 0)):
        return -(2 ** _BITS[narrow]), 2 ** _BITS[narrow] - 1
    if decimal is not None and wider is not None and decimal[1] == wider[1]:
        digits = 10 ** (decimal[0] - decimal[1])
        return -digits + 1, digits - 1
    return None
