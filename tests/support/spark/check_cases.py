"""CHECKs that engines may read differently, and random ones of the forms that all read alike, each with Spark's meaning in plain Python."""

from __future__ import annotations

import datetime as dt
import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Row = Mapping[str, Any]
#: What a CHECK gives for a row: None is NULL, and as much a violation as False.
Meaning = Callable[[Row], bool | None]


@dataclass(frozen=True)
class Case:
    """``holds``: what Spark says of the row. ``alike``: whether delta-rs is left to say it, too."""

    columns: str
    check: str
    row: dict[str, Any]
    holds: bool
    alike: bool = False


DAY = dt.date(2021, 1, 1)
#: The forms that are left to Spark, with a row of which delta-rs says something else, or might; and their neighbours that are not.
CASES = (
    Case("n INT", "n > 0", {"n": None}, holds=False, alike=True),
    Case("n INT", "n / 2 = 1", {"n": 3}, holds=False),
    Case("n INT", "n / 2 > 1", {"n": 3}, holds=True),
    Case("n INT", "n % 2 = 0", {"n": 3}, holds=False),
    Case("n INT", "n ^ 1 = 2", {"n": 3}, holds=True),
    Case("n INT", "n + 1 > 0", {"n": 3}, holds=True),
    Case("n INT", "-n < 0", {"n": 3}, holds=True),
    Case("n INT", "n > 2.5", {"n": 3}, holds=True),
    Case("n INT", "n = '3'", {"n": 3}, holds=True),
    Case("n INT", "n = 3L", {"n": 3}, holds=True),
    Case("n INT", "N > 0", {"n": 3}, holds=True),
    Case("n INT", "n > 9223372036854775808", {"n": 3}, holds=False),
    Case("n INT", "n < 9223372036854775807", {"n": 3}, holds=True, alike=True),
    Case("n INT", "n BETWEEN -3 AND 3", {"n": 3}, holds=True, alike=True),
    Case("n INT", "n IN (1, NULL)", {"n": 3}, holds=False),
    Case("n INT", "NOT n IN (1, 2) AND n IS NOT NULL", {"n": 3}, holds=True, alike=True),
    Case("n INT", "CASE WHEN n > 0 THEN TRUE END", {"n": 3}, holds=True),
    Case("n INT", "coalesce(n, 0) = 0", {"n": None}, holds=True),
    Case("n INT", "n > 0 -- never less", {"n": 3}, holds=True),
    Case("n INT", "n = 3 = TRUE", {"n": 3}, holds=True),
    Case("n INT, m INT", "n <=> m", {"n": 1, "m": None}, holds=False),
    Case("n INT, m BIGINT", "n < m", {"n": 1, "m": 2**40}, holds=True, alike=True),
    Case("n INT, p DECIMAL(10,2)", "n < p", {"n": 1, "p": Decimal("1.01")}, holds=True),
    Case("p DECIMAL(10,2)", "p >= 0", {"p": Decimal("-0.01")}, holds=False, alike=True),
    Case("p DECIMAL(10,2)", "p > 0.5", {"p": Decimal("0.51")}, holds=True),
    Case("p DECIMAL(30,20)", "p > 0", {"p": Decimal("1e-20")}, holds=True),
    Case("p DECIMAL(10,2), q DECIMAL(11,3)", "p = q", {"p": Decimal("1.00"), "q": Decimal("1.000")}, holds=True),
    Case("s STRING", "s RLIKE '^a'", {"s": "b"}, holds=False),
    Case("s STRING", "s LIKE 'a%'", {"s": "ab"}, holds=True, alike=True),
    Case("s STRING", r"s LIKE 'a\\_%'", {"s": "ab"}, holds=False),
    Case("s STRING", "s LIKE 'a|_%' ESCAPE '|'", {"s": "a_b"}, holds=True),
    Case("s STRING", "s ILIKE 'A%'", {"s": "ab"}, holds=True),
    Case("s STRING", 's = "a"', {"s": "a"}, holds=True),
    Case("s STRING", r"s = 'a\tb'", {"s": "a\tb"}, holds=True),
    Case("s STRING", "s = 'it''s'", {"s": "it's"}, holds=True),
    Case("s STRING", "substring(s, 0, 1) = 'a'", {"s": "ab"}, holds=True),
    Case("s STRING", "substring(s, -1, 1) = 'b'", {"s": "ab"}, holds=True),
    Case("s STRING", "left(s, 1) = 'a'", {"s": "b"}, holds=False),
    Case("s STRING", "upper(s) = 'SS'", {"s": "ß"}, holds=True),
    Case("s STRING", "s || 'x' = 'ax'", {"s": "a"}, holds=True),
    Case("s STRING", "concat(s, 'x') = 'x'", {"s": None}, holds=False),
    Case("s STRING", "concat(s, 'x') <> 'x'", {"s": None}, holds=False),
    Case("s STRING", "instr(s, 'a') = 0", {"s": "a"}, holds=False),
    Case("s STRING", "length(s) = 2", {"s": "é😀"}, holds=True, alike=True),
    Case("s STRING", "s = 'a'", {"s": "a "}, holds=False, alike=True),
    Case("s STRING", "s IN ('a', 'b') OR s IS NULL", {"s": None}, holds=True, alike=True),
    Case("z STRING, s STRING", "z IN (s) AND z NOT IN ('a')", {"z": "a", "s": "a"}, holds=False),
    Case("z STRING, s STRING", "z IN (s) AND s NOT IN ('a')", {"z": "a", "s": "a"}, holds=False, alike=True),
    Case("z STRING", "z NOT IN ('a') OR (z) NOT IN ('b')", {"z": None}, holds=False),
    Case("z STRING", "NOT (z IN ('a') AND `z` IN ('b'))", {"z": None}, holds=False),
    Case("z STRING, s STRING", "NOT (z NOT IN (s) OR (z = 'b' OR z = 'a'))", {"z": "a", "s": "a"}, holds=False),
    Case("z STRING, s STRING", "(z = 'b' OR 'a' = z) AND z IN (s)", {"z": "a", "s": "a"}, holds=True),
    Case("z STRING, s STRING", "z <> 'b' AND NOT (z = s AND z = 'a')", {"z": "a", "s": "a"}, holds=False, alike=True),
    Case("z STRING", "z IN ('a', 'b') AND z < 'b'", {"z": None}, holds=False, alike=True),
    Case("z STRING", "length(z) NOT IN (1) OR char_length(z) NOT IN (2)", {"z": None}, holds=False),
    Case("b BINARY", "length(b) = 2", {"b": b"ab"}, holds=True),
    Case("d DOUBLE", "d < 10", {"d": float("nan")}, holds=False),
    Case("d DOUBLE", "d = d", {"d": float("nan")}, holds=True),
    Case("d DOUBLE", "d >= 0", {"d": -0.0}, holds=True),
    Case("d DOUBLE", "d <> 0", {"d": -0.0}, holds=False),
    Case("d DOUBLE", "d BETWEEN 0 AND 10", {"d": float("nan")}, holds=False),
    Case("d DOUBLE", "round(d) = 3", {"d": 2.5}, holds=True),
    Case("d DOUBLE", "d IS NOT NULL", {"d": float("nan")}, holds=True, alike=True),
    Case("a ARRAY<INT>", "size(a) > 0", {"a": []}, holds=False),
    Case("a ARRAY<INT>", "a[0] > 0", {"a": [-1, 5]}, holds=False),
    Case("t STRUCT<x: INT>", "t.x > 0", {"t": {"x": -1}}, holds=False),
    Case("t STRUCT<x: INT>", "t IS NOT NULL", {"t": {"x": None}}, holds=True, alike=True),
    Case("t DATE", "t < '2020-01-01'", {"t": DAY}, holds=False, alike=True),
    Case("t DATE", "t < '2020-1-1'", {"t": DAY}, holds=False),
    Case("t DATE", "t >= DATE'2021-01-01'", {"t": DAY}, holds=True, alike=True),
    Case("t DATE", "t >= DATE('2021-01-01')", {"t": DAY}, holds=True),
    Case("t DATE", "year(t) < 2020", {"t": DAY}, holds=False),
    Case("t TIMESTAMP", "t < '2020-01-01'", {"t": dt.datetime(2021, 1, 1, tzinfo=dt.UTC)}, holds=False),
    Case("current_time INT", "`current_time` > 0", {"current_time": 1}, holds=True, alike=True),
    Case("interval INT", "`interval` > 3", {"interval": 1}, holds=False, alike=True),
    Case("interval INT", "interval > 3", {"interval": 5}, holds=True),
    Case("exists INT", "exists IS NOT NULL", {"exists": 5}, holds=True),
    Case("struct INT", "struct BETWEEN 1 AND 2", {"struct": 5}, holds=False),
    Case("trim STRING", "trim = 'a'", {"trim": "a"}, holds=True),
    Case("some INT", "some > 3", {"some": 5}, holds=True),
)

# --- random ones ---------------------------------------------------------------------------------------------------------------------

COLUMNS = """y TINYINT, n INT, `Big` BIGINT, s STRING, z STRING, t DATE, u DATE, f BOOLEAN, g BOOLEAN, p DECIMAL(10,2), q DECIMAL(10,2),
    w TIMESTAMP, x TIMESTAMP, k TIMESTAMP_NTZ, l TIMESTAMP_NTZ, d DOUBLE"""
_TEXTS = [
    "",
    "a",
    "A",
    "b",
    "ab",
    "a ",
    "ba",
    "a_c",
    "a\nc",
    "abc",
    "a.c",
    "%",
    "_",
    "(a",
    "[",
    "é",
    "e\u0301",
    "z",
    "ß",
    "\uffff",
    "😀",
    "😀a",
]
_DAYS = [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(2020, 2, 29), DAY, dt.date(9999, 12, 31)]
_NUMBERS = [0, 1, 2, 3, 4, 5, 127, 128, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1]
_CENTS = ["0.00", "0.01", "-0.01", "1.00", "1.01", "5.00", "127.50", "99999999.99", "-99999999.99"]
_MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    dt.datetime(2021, 1, 1, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, tzinfo=dt.UTC),
]


def _or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values | values | values


def _within(bits: int) -> st.SearchStrategy[int]:
    numbers = {value for number in _NUMBERS for value in (number, -number, -number - 1) if -(2**bits) <= value < 2**bits}
    return st.sampled_from(sorted(numbers))


_BY_COLUMN = {
    "y": _within(7),
    "n": _within(31),
    "Big": _within(63),
    **dict.fromkeys(["s", "z"], st.sampled_from(_TEXTS)),
    **dict.fromkeys(["t", "u"], st.sampled_from(_DAYS)),
    **dict.fromkeys(["f", "g"], st.booleans()),
    **dict.fromkeys(["p", "q"], st.sampled_from([Decimal(text) for text in _CENTS])),
    **dict.fromkeys(["w", "x"], st.sampled_from(_MOMENTS)),
    **dict.fromkeys(["k", "l"], st.sampled_from([moment.replace(tzinfo=None) for moment in _MOMENTS])),
    "d": st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan")]),
}
ROWS = st.lists(st.fixed_dictionaries({name: _or_null(values) for name, values in _BY_COLUMN.items()}), min_size=1, max_size=12)


@dataclass(frozen=True)
class Part:
    """SQL and its value for a row. ``binds``: how closely, if it is a predicate: 1 OR, 2 AND, 3 NOT, 4 all others. ``equalled``: what
    is compared by =, <> or IN, each with whether it stands before an IN."""

    sql: str
    value: Callable[[Row], Any]
    binds: int = 4
    equalled: tuple[tuple[str, bool], ...] = ()

    def within(self, binds: int, *, more: bool = False) -> str:
        return f"({self.sql})" if more or self.binds < binds else self.sql


def _column(name: str) -> st.SearchStrategy[Part]:
    return st.sampled_from([Part(sql, operator.itemgetter(name)) for sql in (name, f"`{name}`", f"({name})")])


def _spelled(value: Part) -> str:
    """One text for an operand, however it is spelled."""
    return re.sub(r".*length\(", "length ", value.sql.lower()).strip("`()")


def _constants(*found: tuple[str, Any]) -> st.SearchStrategy[Part]:
    return st.sampled_from([Part(sql, functools.partial(_constant, value)) for sql, value in found])


def _constant(value: Any, _: Row) -> Any:
    return value


def _length(name: str) -> st.SearchStrategy[Part]:
    calls = [f"{call}({name})" for call in ("length", "CHAR_LENGTH", "character_length")]
    return st.sampled_from([Part(sql, lambda row: None if row[name] is None else len(row[name])) for sql in calls])


_plain = [text for text in _TEXTS if not set(text) & set("'\\$")]
WHOLE = _column("y") | _column("n") | _column("Big") | _length("s")
WHOLE_CONSTANT = _constants(*((f"{sign}{number}", -number if sign else number) for number in _NUMBERS for sign in ("", "-", "- ")))
TEXT, TEXT_CONSTANT = _column("s") | _column("z"), _constants(*((f"'{text}'", text) for text in _plain))
DATE, DATE_CONSTANT = (
    _column("t") | _column("u"),
    _constants(*((f"{prefix}'{day.isoformat()}'", day) for day in _DAYS for prefix in ("", "DATE", "date "))),
)
PRICE = _column("p") | _column("q")
FLAG, FLAG_CONSTANT = _column("f") | _column("g"), _constants(("TRUE", True), ("false", False))
#: What may be compared, in either order.
PAIRS = (
    (WHOLE, WHOLE | WHOLE_CONSTANT),
    (TEXT, TEXT | TEXT_CONSTANT),
    (DATE, DATE | DATE_CONSTANT),
    (PRICE, PRICE | WHOLE_CONSTANT),
    (_column("w") | _column("x"), _column("w") | _column("x")),
    (_column("k") | _column("l"), _column("k") | _column("l")),
)
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": lambda one, other: _key(one) < _key(other),
    "<=": lambda one, other: _key(one) <= _key(other),
    ">": lambda one, other: _key(one) > _key(other),
    ">=": lambda one, other: _key(one) >= _key(other),
}


def _key(value: Any) -> Any:
    """Strings are ordered by their bytes."""
    return value.encode() if isinstance(value, str) else value


def _compared(sign: str, one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else ORDERS[sign](one, other)


def _both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


def _either(one: bool | None, other: bool | None) -> bool | None:
    return _not(_both(_not(one), _not(other)))


def _is_like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_is_like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _is_like(text[1:], pattern[1:])


@st.composite
def _comparisons(draw: st.DrawFn) -> Part:
    pair = draw(st.sampled_from([*PAIRS, (FLAG, FLAG | FLAG_CONSTANT)]))
    one, other = (draw(side) for side in pair)
    sign = draw(st.sampled_from(["=", "<>", "!="] if pair[0] is FLAG else list(ORDERS)))
    if draw(st.booleans()):
        one, other = other, one
    space = draw(st.sampled_from([" ", "  ", "\n"]))
    equalled = () if sign in ("<", "<=", ">", ">=") else ((_spelled(one), False), (_spelled(other), False))
    return Part(f"{one.sql}{space}{sign} {other.sql}", lambda row: _compared(sign, one.value(row), other.value(row)), equalled=equalled)


@st.composite
def _ranges(draw: st.DrawFn) -> Part:
    side, bounds = draw(st.sampled_from(PAIRS))
    value, low, high = draw(side), draw(bounds), draw(bounds)

    def holds(row: Row) -> bool | None:
        return _both(_compared(">=", value.value(row), low.value(row)), _compared("<=", value.value(row), high.value(row)))

    return _maybe_not(draw, value.sql, f"BETWEEN {low.sql} AND {high.sql}", holds)


@st.composite
def _lists(draw: st.DrawFn) -> Part:
    pairs = [(WHOLE, WHOLE_CONSTANT), (TEXT, TEXT_CONSTANT), (DATE, DATE_CONSTANT), (PRICE, WHOLE_CONSTANT), (TEXT, TEXT)]
    side, items = draw(st.sampled_from(pairs))
    value, found = draw(side), draw(st.lists(items, min_size=1, max_size=5))

    def holds(row: Row) -> bool | None:
        verdict: bool | None = False
        for item in found:
            verdict = _either(verdict, _compared("=", value.value(row), item.value(row)))
        return verdict

    made = _maybe_not(draw, value.sql, f"in ({', '.join(item.sql for item in found)})", holds)
    return replace(made, equalled=((_spelled(value), True),))


@st.composite
def _patterns(draw: st.DrawFn) -> Part:
    value, pattern = draw(TEXT), draw(st.text("ab%_.(é😀", max_size=4))

    def holds(row: Row) -> bool | None:
        text = value.value(row)
        return None if text is None else _is_like(text, pattern)

    return _maybe_not(draw, value.sql, f"LIKE '{pattern}'", holds)


def _maybe_not(draw: st.DrawFn, value: str, rest: str, holds: Meaning) -> Part:
    if draw(st.booleans()):
        return Part(f"{value} {rest}", holds)
    return Part(f"{value} NOT {rest}", lambda row: _not(holds(row)))


@st.composite
def _nulls(draw: st.DrawFn) -> Part:
    name = draw(st.sampled_from(list(_BY_COLUMN)))
    is_null = draw(st.booleans())
    sql = f"{name} IS NULL" if is_null else f"{name} is not null"
    return Part(sql, lambda row: (row[name] is None) is is_null)


_JOINS: dict[str, tuple[int, Callable[[bool | None, bool | None], bool | None]]] = {"AND": (2, _both), "OR": (1, _either)}


def _joined(word: str, one: Part, other: Part, more: bool) -> Part:
    binds, of = _JOINS[word]
    sql = f"{one.within(binds)} {word} {other.within(binds + 1, more=more)}"
    return Part(sql, lambda row: of(one.value(row), other.value(row)), binds, one.equalled + other.equalled)


def _negated(inner: Part, more: bool) -> Part:
    return Part(f"NOT {inner.within(3, more=more)}", lambda row: _not(inner.value(row)), 3, inner.equalled)


def _larger(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    joined = st.builds(_joined, st.sampled_from(list(_JOINS)), parts, parts, st.booleans())
    return joined | st.builds(_negated, parts, st.booleans())


def _has_two_lists(check: Part) -> bool:
    """Is something before an IN compared by =, <> or IN once more?"""
    names = [name for name, _ in check.equalled]
    return any(is_listed and names.count(name) > 1 for name, is_listed in check.equalled)


_LEAVES = _comparisons() | _ranges() | _lists() | _patterns() | _nulls() | FLAG
#: CHECKs of the forms that delta-rs may evaluate.
CHECKS = st.recursive(_LEAVES, _larger, max_leaves=6).filter(lambda check: not _has_two_lists(check))
