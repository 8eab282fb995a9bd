"""The value of a DEFAULT, as far as it can be known without Spark.

Spark computes a default in every INSERT that leaves the column out, and one that cannot be computed fails all of them. So a default is
one of the forms here, which cannot fail: literals, casts and sums of them, arrays, maps and structs of them, the functions that say when
and by whom something is written, and a few of the former's parts. What is computed from constants alone can be written as its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from airflow_provider_schemamig.core.schema.expressions.spark.functions import spark_functions
from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText, Token, TokenKind, tokens
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Primitive, Struct

#: Names that Spark gives a type besides its own.
_ALIASES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float", "dec": "decimal"}
_ALIASES |= {"numeric": "decimal", "timestamp_ltz": "timestamp"}
_SUFFIXES = {"L": "bigint", "S": "smallint", "Y": "tinyint", "D": "double", "F": "float", "BD": "decimal"}
_NOW = {"current_date": "date", "curdate": "date", "current_timestamp": "timestamp", "now": "timestamp", "localtimestamp": "timestamp_ntz"}
_WHO = ["current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "current_timezone", "version"]
#: Functions without arguments, or their bare names, and what they give.
_OF_NOTHING = {**_NOW, **dict.fromkeys(_WHO, "string"), "unix_timestamp": "bigint"}
_BARE = frozenset(["current_date", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"])
_PARTS = ["year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekofyear", "weekday", "hour", "minute", "second"]
#: Functions of one date or timestamp, and what they give.
_OF_A_TIME = {**dict.fromkeys(_PARTS, "int"), "last_day": "date", "to_date": "date", "date": "date", "unix_timestamp": "bigint"}
_MOVED = frozenset(["date_add", "date_sub", "add_months"])
_UNITS = frozenset(["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
_PATTERN = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|[-/:. _])+")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_HEX = re.compile(r"[xX]'((?:[0-9a-fA-F]{2})*)'")

NULL = Primitive("void")


@dataclass(frozen=True, slots=True)
class Constant:
    """``value`` None and a type other than NULL: only known when a row is written. Arrays, maps and structs hold constants."""

    type: DataType
    value: Any = None


class NotConstant(ValueError):
    """``reason``: why Spark could fail to compute it, or that this cannot be told."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def constant(expression: str, cast: Callable[[Constant, DataType], Constant]) -> Constant:
    """Return what an expression gives; ``cast`` makes another type of a constant or raises NotConstant. Raises NotConstant."""
    try:
        reader = _Reader(expression, [token for token in tokens(expression) if token.end > token.start], cast)
    except BrokenText as broken:
        raise NotConstant(broken.reason) from broken
    found = reader.sum()
    if reader.position < len(reader.found):
        raise reader.unknown()
    return found


class _Reader:
    """Reads one expression from its tokens."""

    def __init__(self, text: str, found: Sequence[Token], cast: Callable[[Constant, DataType], Constant]) -> None:
        self.text = text
        self.found = found
        self.position = 0
        self.cast = cast

    def sum(self) -> Constant:
        here = self.product()
        while self.looks_at("+", "-", "||"):
            operator = self.take().text
            here = _joined(here, self.product()) if operator == "||" else self._computed(here, operator, self.product())
        return here

    def product(self) -> Constant:
        here = self.signed()
        while self.accept("*"):
            here = self._computed(here, "*", self.signed())
        return here

    def signed(self) -> Constant:
        if self.accept("+"):
            return self.signed()
        if self.accept("-"):
            found = self.signed()
            if not _is_number(found.type) or found.value is None:
                raise self.unknown()
            negative = found.value.copy_negate()  # a minus would round to 28 digits
            return Constant(_type_of(negative, found.type), negative)
        found = self.primary()
        while self.accept("::"):
            found = self.cast(found, self.type())
        return found

    def primary(self) -> Constant:
        if self.accept("("):
            found = self.sum()
            self.expect(")")
            return found
        token = self.take()
        source = self.text[token.start : token.end]
        if token.kind is TokenKind.STRING:
            return self.string(token)
        if token.kind is TokenKind.NUMBER or (token.text == "." and self.position < len(self.found)):
            return self.number(token)
        if (in_hex := _HEX.fullmatch(source)) is not None:
            return Constant(Primitive("binary"), bytes.fromhex(in_hex[1]))
        if token.kind is not TokenKind.WORD:
            raise self.unknown()
        return self.word(token.text.lower())

    def string(self, token: Token) -> Constant:
        text = token.text
        while self.position < len(self.found) and self.found[self.position].kind is TokenKind.STRING:
            text += self.take().text  # strings beside each other are one
        return Constant(Primitive("string"), text)

    def number(self, token: Token) -> Constant:
        digits = f".{self.take().text}" if token.text == "." else token.text
        suffix = self.text[token.start : token.end].removeprefix(token.text).upper() if token.text != "." else ""
        if suffix:
            while self.position < len(self.found) and self.found[self.position].start == token.start:
                self.position += 1  # ``10L`` comes as three tokens of one place
        try:
            value = Decimal(digits)
        except ArithmeticError as error:
            raise self.unknown() from error
        name = _SUFFIXES.get(suffix) or ("double" if "e" in digits.lower() else "")
        if suffix and suffix not in _SUFFIXES:
            raise self.unknown()
        if name in ("double", "float"):
            return self.cast(Constant(Primitive("string"), digits), Primitive(name))
        if name in ("tinyint", "smallint", "bigint"):
            return self.cast(Constant(_type_of(value), value), Primitive(name))
        return Constant(_type_of(value) if name == "" else _decimal_type(value), value)

    def word(self, name: str) -> Constant:
        if name in ("null", "true", "false"):
            return Constant(NULL) if name == "null" else Constant(Primitive("boolean"), name == "true")
        following = self.found[self.position] if self.position < len(self.found) else None
        if following is not None and following.kind is TokenKind.STRING and name in ("date", "timestamp", "timestamp_ntz", "timestamp_ltz"):
            return self.cast(Constant(Primitive("string"), self.take().text), Primitive(_ALIASES.get(name, name)))
        if self.accept("("):
            return self.call(name)
        if name in _BARE:
            return Constant(Primitive(_OF_NOTHING[name]))
        raise self.unknown()

    def call(self, name: str) -> Constant:
        if name in ("cast", "try_cast"):
            return self.typed(name)
        arguments: list[Constant] = []
        while not self.accept(")"):
            if arguments:
                self.expect(",")
            arguments.append(self.sum())
        return self.result(name, arguments)

    def typed(self, name: str) -> Constant:
        found = self.sum()
        if self.take().upper != "AS":
            raise self.unknown()
        wanted = self.type()
        self.expect(")")
        try:
            return self.cast(found, wanted)
        except NotConstant:
            if name == "cast":
                raise
            return Constant(wanted)

    def result(self, name: str, arguments: list[Constant]) -> Constant:
        if not arguments and name in _OF_NOTHING:
            return Constant(Primitive(_OF_NOTHING[name]))
        match name, arguments:
            case "array", _:
                return Constant(Array(_one_type(arguments)), tuple(arguments))
            case "map", _ if len(arguments) % 2 == 0:
                return _map(arguments[::2], arguments[1::2])
            case "struct", [_, *_]:
                return _struct([f"col{number}" for number, _ in enumerate(arguments, start=1)], arguments)
            case "named_struct", [_, *_] if len(arguments) % 2 == 0 and all(isinstance(key.value, str) for key in arguments[::2]):
                return _struct([str(key.value) for key in arguments[::2]], arguments[1::2])
            case "concat", [first, *others]:
                for other in others:
                    first = _joined(first, other)
                return _text(first)
            case (("upper" | "lower" | "trim"), [only]):
                _text(only)
                return Constant(Primitive("string"))
            case _:
                return self._of_a_time(name, arguments)

    def _of_a_time(self, name: str, arguments: list[Constant]) -> Constant:
        match name, arguments:
            case _, [only] if name in _OF_A_TIME and _is_time(only):
                return Constant(Primitive(_OF_A_TIME[name]))
            case _, [first, count] if name in _MOVED and _is_time(first) and count.type == Primitive("int") and count.value is not None:
                return Constant(Primitive("date"))
            case "date_trunc", [unit, only] if _is_time(only) and _is_unit(unit):
                return Constant(Primitive("timestamp_ntz" if only.type == Primitive("timestamp_ntz") else "timestamp"))
            case "trunc", [only, unit] if _is_time(only) and _is_unit(unit):
                return Constant(Primitive("date"))
            case "date_format", [only, pattern] if _is_time(only) and _PATTERN.fullmatch(str(pattern.value)):
                return Constant(Primitive("string"))
            case _:
                raise NotConstant(_why_not(name, bool(arguments)))

    def _computed(self, left: Constant, operator: str, right: Constant) -> Constant:
        numbers = [left.value, right.value]
        if not all(isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) < 10**18 for value in numbers):
            raise self.unknown()
        if not all(constant.type in (Primitive("int"), Primitive("bigint")) for constant in (left, right)):
            raise self.unknown()
        value = {"+": left.value + right.value, "-": left.value - right.value, "*": left.value * right.value}[operator]
        wanted = Primitive("bigint" if Primitive("bigint") in (left.type, right.type) else "int")
        return self.cast(Constant(_type_of(value), value), wanted)

    def type(self) -> DataType:
        token = self.take()
        name = _ALIASES.get(token.text.lower(), token.text.lower())
        if token.kind is not TokenKind.WORD:
            raise self.unknown()
        if not self.accept("("):
            return Primitive("decimal(10,0)" if name == "decimal" else name)
        numbers = [self.take().text]
        while self.accept(","):
            numbers.append(self.take().text)
        self.expect(")")
        if name == "decimal" and len(numbers) == 1:
            numbers.append("0")
        return Primitive(f"{name}({','.join(numbers)})")

    def looks_at(self, *symbols: str) -> bool:
        here = self.found[self.position] if self.position < len(self.found) else None
        return here is not None and here.kind is TokenKind.SYMBOL and here.text in symbols

    def accept(self, symbol: str) -> bool:
        found = self.looks_at(symbol)
        self.position += found
        return found

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            raise self.unknown()

    def take(self) -> Token:
        if self.position >= len(self.found):
            raise self.unknown()
        self.position += 1
        return self.found[self.position - 1]

    def unknown(self) -> NotConstant:
        return NotConstant("its value cannot be known without Spark")


def _why_not(name: str, has_arguments: bool) -> str:
    known = spark_functions().get(name)
    if known is None:
        return f"Spark has no function {name}"
    if known.kind == "random":
        return f"{name.upper()} gives another value each time"
    return f"what {name.upper()}({'...' if has_arguments else ''}) gives cannot be known without Spark"


def _type_of(value: Decimal, before: DataType | None = None) -> DataType:
    """Return Spark's type of a number without a suffix; a negative one keeps its kind."""
    if before is not None and before in (Primitive("double"), Primitive("float")):
        return before
    if value == value.to_integral_value() and value.as_tuple().exponent == 0:
        if -(2**31) <= value < 2**31:
            return Primitive("int")
        if -(2**63) <= value < 2**63:
            return Primitive("bigint")
    return _decimal_type(value)


def _decimal_type(value: Decimal) -> DataType:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    if precision > 38:
        raise NotConstant("it has more digits than a DECIMAL holds")
    return Primitive(f"decimal({precision},{scale})")


def _is_number(data_type: DataType) -> bool:
    numbers = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
    return isinstance(data_type, Primitive) and data_type.name.partition("(")[0] in numbers


def _is_time(found: Constant) -> bool:
    return isinstance(found.type, Primitive) and found.type.name in _TIMES


def _is_unit(found: Constant) -> bool:
    return isinstance(found.value, str) and found.value.lower() in _UNITS


def _text(found: Constant) -> Constant:
    if found.type not in (Primitive("string"), NULL):
        raise NotConstant("it joins what is no text")
    return found


def _joined(left: Constant, right: Constant) -> Constant:
    left, right = _text(left), _text(right)
    if isinstance(left.value, str) and isinstance(right.value, str):
        return Constant(Primitive("string"), left.value + right.value)
    return Constant(Primitive("string"))


def _one_type(arguments: Sequence[Constant]) -> DataType:
    found = {argument.type for argument in arguments} - {NULL}
    if len(found) > 1:
        raise NotConstant("its parts have different types")
    return found.pop() if found else NULL


def _map(keys: Sequence[Constant], values: Sequence[Constant]) -> Constant:
    known = [key.value for key in keys]
    if None in known or len({repr(value) for value in known}) < len(known):
        raise NotConstant("a key of a map is NULL, is there twice, or is only known later")
    return Constant(Map(_one_type(keys), _one_type(values)), tuple(zip(keys, values, strict=True)))


def _struct(names: Sequence[str], values: Sequence[Constant]) -> Constant:
    fields = tuple(Field(name, value.type) for name, value in zip(names, values, strict=True))
    return Constant(Struct(fields), tuple(values))
