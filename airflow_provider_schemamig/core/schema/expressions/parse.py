"""CHECK and DEFAULT expressions: whether they are any, and the columns they use.

The text is ``canonical``'s; sqlglot's parser is asked what is in it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.expressions.canonical import canonical_text
from airflow_provider_schemamig.core.schema.expressions.paths import follow_column, identifiers
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import parse_statements
from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText, Token, TokenKind, tokens
from airflow_provider_schemamig.core.schema.model import Field

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.errors import ParseError

#: Deeper than any constraint anybody wrote, and well inside the interpreter's stack.
_MAX_NESTING = 100


class InvalidExpression(ValueError):
    """Not one Spark SQL expression. ``line`` and ``column`` count from 1 within the text; None where the parser does not say."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


@functools.lru_cache(maxsize=16384)
def canonical_expression(text: str) -> str:
    """Return the canonical text of a Spark SQL expression; applying it again changes nothing. Raises InvalidExpression."""
    _check_nesting(text)
    try:
        canonical = canonical_text(text)
        parse_expression(canonical)
    except BrokenText as broken:
        parse_expression(text)
        raise InvalidExpression(broken.reason) from broken
    except InvalidExpression:
        parse_expression(text)  # which says where
        raise
    return canonical


@functools.lru_cache(maxsize=4096)
def column_references(text: str) -> tuple[str, ...]:
    """Return the columns an expression uses, as it names them: the first part of each reference, sorted. Raises InvalidExpression."""
    from sqlglot import exp

    return tuple(sorted({identifiers(column)[0].name for column in parse_expression(text).find_all(exp.Column)}))


def allows_null(text: str, column: str) -> bool:
    """Return whether an expression is true of all rows with NULL in a top-level column, as one of its alternatives asks for just that.
    Raises InvalidExpression."""
    from sqlglot import exp

    alternatives = [parse_expression(text)]
    for found in alternatives:
        if isinstance(found, exp.Or):
            alternatives += [found.left.unnest(), found.right.unnest()]
        asks = isinstance(found, exp.Is) and isinstance(found.this, exp.Column) and isinstance(found.expression, exp.Null)
        if asks and [name.name.lower() for name in identifiers(found.this)] == [column.lower()]:
            return True
    return False


def unknown_references(text: str, fields: Sequence[Field]) -> tuple[str, ...]:
    """Return the references of an expression that name no column or field, as it writes them. Raises InvalidExpression."""
    from sqlglot import exp

    unknown = set()
    for column in parse_expression(text).find_all(exp.Column):
        found = follow_column(column, fields)
        if found.lost and not isinstance(found.lost[0], exp.Bracket):
            unknown.add(".".join([*(name.name for name, _ in found.named), *(name.name for name in found.lost)]))
    return tuple(sorted(unknown))


@functools.lru_cache(maxsize=4096)
def has_subquery(text: str) -> bool:
    """Return whether an expression reads another table, which neither a CHECK nor a DEFAULT may. Raises InvalidExpression."""
    from sqlglot import exp

    return parse_expression(text).find(exp.Query) is not None


class NotFollowed(ValueError):
    """An expression may use a column in an unknown place, or where its very name counts."""


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the expression with SQL in the place of top-level columns (``values``: column -> SQL); as it is if it uses none of them.

    Raises NotFollowed.
    """
    wanted = {name.lower(): sql for name, sql in values.items()}
    try:
        named = {(token.start, token.end) for token in _names(text) if token.text.lower() in wanted}
        places = _places_of(text, wanted, where_names_count=False) if named else {}
    except (InvalidExpression, BrokenText) as broken:
        raise NotFollowed(text) from broken
    if set(places) != named:
        raise NotFollowed(text)
    return spliced(text, places)


def with_own_values(text: str, values: Mapping[str, str]) -> str:
    """Return the same of an expression that we wrote: a field of a struct type may be called like a column there, and nothing gives its
    name."""
    return spliced(text, _places_of(text, {name.lower(): sql for name, sql in values.items()}, where_names_count=True))


def _places_of(text: str, wanted: Mapping[str, str], *, where_names_count: bool) -> dict[tuple[int, int], str]:
    """Return where a wanted column is used, with its SQL. ``where_names_count``: also where its very name may: ``struct(a)`` has a field
    called so, and the tree does not tell it from ``named_struct('a', a)``."""
    from sqlglot import exp

    places: dict[tuple[int, int], str] = {}
    for column in parse_expression(text).find_all(exp.Column):
        first = identifiers(column)[0]
        gives_its_name = isinstance(column.parent, exp.PropertyEQ | exp.ArraysZip)
        if first.name.lower() in wanted and (where_names_count or not gives_its_name):
            start, end = first.meta.get("start"), first.meta.get("end")
            if start is not None and end is not None:
                places[start, end + 1] = f"({wanted[first.name.lower()]})"
    return places


def _names(text: str) -> Iterator[Token]:
    """Yield words and quoted names that may be a column: no function, no type, nothing behind a dot."""
    found = tokens(text)
    for before, token, after in zip((None, *found), found, (*found[1:], None), strict=False):
        inside = before is not None and (before.text == "." or before.upper == "AS")
        prefix = token.kind is TokenKind.WORD and after is not None and (after.text == "(" or after.kind is TokenKind.STRING)
        if token.kind in (TokenKind.WORD, TokenKind.QUOTED) and not inside and not prefix:
            yield token


def spliced(text: str, places: Mapping[tuple[int, int], str]) -> str:
    """Return the text with other words at ``places``: (start, end) -> words."""
    for (start, end), name in sorted(places.items(), reverse=True):
        text = text[:start] + name + text[end:]
    return text


#: How the parser says that ``a >`` ends too early, in words of its own program.
_LACKS = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")


def what_is_wrong(error: ParseError) -> str:
    """Return the first problem that the parser found, for people, without the full stop."""
    description = str(error.errors[0].get("description") or error) if error.errors else str(error)
    return _LACKS.sub(r"a part of \1 is missing", description).rstrip(".")


def parse_expression(text: str) -> exp.Expr:
    """Parse one expression into sqlglot's tree. Raises InvalidExpression."""
    from sqlglot.errors import ParseError, TokenError

    _check_nesting(text)
    try:
        found = parse_statements(text)
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        end = details.get("col")  # of the token sqlglot stopped at
        column = None if end is None else max(1, end - len(details.get("highlight") or "x") + 1)
        raise InvalidExpression(what_is_wrong(error), details.get("line"), column) from error
    except TokenError as error:
        raise InvalidExpression(str(error)) from error
    if len(found) != 1 or not _is_expression(found[0]):
        raise InvalidExpression("it is not one expression")
    return found[0].unnest()


def _check_nesting(text: str) -> None:
    if text.count("(") > _MAX_NESTING:
        raise InvalidExpression(f"more than {_MAX_NESTING} parentheses")


def _is_expression(found: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(found, exp.Condition | exp.AtTimeZone) and not isinstance(found, exp.Query)  # from_utc_timestamp is one, too
