"""Rows for a collection as one version declares it: always the same ones, of every type, NULL wherever NULL may be.

Values are modest on purpose. Texts are digits and numbers are small, so that the casts a rewrite makes of real data do not fail on ours;
where that is not enough the fixture is written by hand. Columns of keys hold what no other row or version has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.schema.clauses import rules
from airflow_provider_schemamig.core.schema.delta_rules.widening import decimal_of, is_text, varchar_length
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.testing.rows import check_sql
from airflow_provider_schemamig.core.testing.rows.row_codec import Row, row_text
from airflow_provider_schemamig.core.testing.rows.seeded_random import SeededRandom

#: Raised with every change of what is generated: fixtures of another generator are not compared with what this one makes.
GENERATOR = 1
ROWS = 4
#: The row whose every value is NULL that may be.
_NULLS = 1
_TRIES = 3_000
_BOUNDS = {"tinyint": 100, "smallint": 30_000}
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Generated:
    """``beyond``: the CHECK that no row was found for, so that there are none; None if all is well."""

    rows: tuple[Row, ...]
    beyond: str | None = None


def generate(declaration: Declaration, version: Version) -> Generated:
    """Return the rows of ``declaration`` at ``version``: a value of the two and ``GENERATOR``."""
    random = SeededRandom(f"{GENERATOR}/{declaration.name}/{version}")
    base = random.below(400_000_000) * ROWS
    rows: list[Row] = []
    for number in range(ROWS):
        row = _row(declaration, random, base + number, nulls=number == _NULLS)
        repaired = _repaired(declaration, row, random)
        if isinstance(repaired, str):
            return Generated((), repaired)
        rows.append(repaired)
    texts = {row_text(row, declaration.fields): row for row in rows}
    return Generated(tuple(texts[text] for text in sorted(texts)))


def _row(declaration: Declaration, random: SeededRandom, number: int, *, nulls: bool) -> Row:
    keys = {column for key in (declaration.primary_key, *declaration.uniques) if key is not None for column in key.columns}
    row: Row = {}
    for field in declaration.fields:
        if field.name in keys:
            row[field.name] = _unique(field.type, number)
        elif field.nullable and (nulls or random.one_in(6)):
            row[field.name] = None
        else:
            row[field.name] = _any(field.type, random)
    return row


# --- values --------------------------------------------------------------------------------------------------------------------------


def _any(data_type: DataType, random: SeededRandom) -> Any:
    match data_type:
        case Primitive(name=name):
            return _atom(name, random)
        case Array(element=element, contains_null=contains_null):
            return [None if contains_null and random.one_in(4) else _any(element, random) for _ in range(random.below(3))]
        case Map(key=key, value=value, value_contains_null=contains_null):
            numbers = range(1, 2 + random.below(2))
            return [(_unique(key, n), None if contains_null and random.one_in(4) else _any(value, random)) for n in numbers]
        case Struct(fields=fields):
            return {f.name: None if f.nullable and random.one_in(5) else _any(f.type, random) for f in fields}


def _atom(name: str, random: SeededRandom) -> Any:
    decimal = decimal_of(name)
    if decimal is not None:
        precision, scale = decimal
        return Decimal(random.below(10 ** min(precision, scale + 2))).scaleb(-scale)
    match name:
        case "boolean":
            return random.one_in(2)
        case "float" | "double":
            return random.below(400) / 4  # exact in both
        case "binary":
            return bytes([random.below(256), random.below(256)])
        case "date":
            return (_EPOCH + timedelta(days=random.below(7_000))).date()
        case "timestamp":
            return _EPOCH + timedelta(microseconds=random.below(600_000_000_000_000))
        case "timestamp_ntz":
            return (_EPOCH + timedelta(microseconds=random.below(600_000_000_000_000))).replace(tzinfo=None)
    number = random.below(100)
    return str(number)[-(varchar_length(name) or 2) :] if is_text(name) else number


def _unique(data_type: DataType, number: int) -> Any:
    """Return another value for another number, if the type has so many."""
    match data_type:
        case Primitive(name=name):
            return _unique_atom(name, number)
        case Array(element=element):
            return [_unique(element, number)]
        case Map(key=key, value=value):
            return [(_unique(key, number), _unique(value, number))]
        case Struct(fields=fields):
            return {f.name: _unique(f.type, number) for f in fields}


def _unique_atom(name: str, number: int) -> Any:
    decimal = decimal_of(name)
    if decimal is not None:
        return Decimal(number % 10 ** decimal[0]).scaleb(-decimal[1])
    match name:
        case "boolean":
            return bool(number % 2)
        case "float":
            return float(number % 2**24)
        case "double":
            return float(number)
        case "binary":
            return number.to_bytes(8, "big")
        case "date":
            return (_EPOCH + timedelta(days=number % 40_000)).date()
        case "timestamp":
            return _EPOCH + timedelta(seconds=number)
        case "timestamp_ntz":
            return (_EPOCH + timedelta(seconds=number)).replace(tzinfo=None)
    if is_text(name):
        return str(number)[-(varchar_length(name) or 20) :]
    return number % _BOUNDS.get(name, number + 1)


# --- CHECKs --------------------------------------------------------------------------------------------------------------------------


def _repaired(declaration: Declaration, row: Row, random: SeededRandom) -> Row | str:
    """Return ``row``, with other values in the columns of CHECKs if it breaks one.

    Return the name of a CHECK instead if it is ``Unsupported``, or if no values were found that keep all CHECKs.
    """
    for check in rules(declaration):
        try:
            expression = check_sql.parse(check.expression)
            if check_sql.holds(expression, row):
                continue
        except check_sql.Unsupported:
            return check.name
        repaired = _search(declaration, row, random, {column for c in rules(declaration) for column in _columns(c.expression)})
        return repaired or check.name
    return row


def _columns(text: str) -> set[str]:
    try:
        return check_sql.columns_of(check_sql.parse(text))
    except check_sql.Unsupported:
        return set()


def _search(declaration: Declaration, row: Row, random: SeededRandom, names: set[str]) -> Row | None:
    """Find a row for which all CHECKs hold. It tries, among others, the values that they name, and those next to them."""
    try:
        expressions = [check_sql.parse(check.expression) for check in rules(declaration)]
        literals = [literal for expression in expressions for literal in check_sql.literals_of(expression)]
        fields = [field for field in declaration.fields if field.name.lower() in names]
        pools = [_pool(field, row[field.name], literals, random) for field in fields]
        for values in itertools.islice(itertools.product(*pools), _TRIES):
            tried = {**row, **{field.name: value for field, value in zip(fields, values, strict=True)}}
            if all(check_sql.holds(expression, tried) for expression in expressions):
                return tried
    except check_sql.Unsupported:
        pass  # one of them is beyond us, so nobody can say that a row keeps them all
    return None


def _pool(field: Field, value: Any, literals: Sequence[Any], random: SeededRandom) -> list[Any]:
    """Return what to try for a column: what it has, what the CHECKs name, NULL."""
    found = [value, *_named(field.type, literals), *(_any(field.type, random) for _ in range(4))]
    return [*found, None] if field.nullable else [item for item in found if item is not None]


def _named(data_type: DataType, literals: Sequence[Any]) -> Iterator[Any]:
    """Yield literals, their neighbours and texts of their length, where the type takes them."""
    if not isinstance(data_type, Primitive):
        return
    field = (Field("value", data_type),)
    for literal in literals:
        for candidate in _candidates(data_type.name, literal):
            try:
                row_text({"value": candidate}, field)
            except (ValueError, TypeError, ArithmeticError):
                continue
            yield candidate


def _candidates(name: str, literal: Any) -> Iterator[Any]:
    if isinstance(literal, int | Decimal) and is_text(name):
        yield from ("7" * max(0, int(literal) + step) for step in (0, 1, -1) if literal < 1_000)
    elif isinstance(literal, int | Decimal):
        made = Decimal if decimal_of(name) else float if name in ("float", "double") else int
        yield from (made(literal + step) for step in (0, 1, -1))
    elif name == "date":
        yield from (date.fromisoformat(literal) + timedelta(days=step) for step in (0, 1, -1) if _is_date(literal))
    elif name in ("timestamp", "timestamp_ntz") and _is_date(literal):
        moment = datetime.fromisoformat(literal).replace(tzinfo=UTC if name == "timestamp" else None)
        yield from (moment + timedelta(days=step) for step in (0, 1, -1))
    else:
        yield literal


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
