"""CHECK and DEFAULT expressions: whether they are any, the columns they use, and renaming those.

The text is ``canonical_sql``'s; sqlglot's parser is asked what is in it. A rename changes the names' places in the text and nothing else.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.canonical_sql import canonical_text
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Struct
from airflow_provider_schemamig.core.schema.sql import quote
from airflow_provider_schemamig.core.schema.tokens import BrokenText, Kind, Token, tokens
from airflow_provider_schemamig.exceptions import Refusal

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


@dataclass(eq=False)
class RenameInLambda(Refusal):
    """A CHECK uses a renamed field where the name cannot be told from others, inside a lambda mostly."""

    code = "rename_in_lambda"
    expression: str
    path: str

    @property
    def message(self) -> str:
        return f"{self.path} is renamed, and the CHECK ({self.expression}) uses that name where it cannot be followed."

    @property
    def next_action(self) -> str:
        return "Drop the CHECK in one release, rename in the next, and add the CHECK again in a third."


@functools.lru_cache(maxsize=16384)
def canonical_expression(text: str) -> str:
    """The canonical text of a Spark SQL expression; applying it again changes nothing. Raises InvalidExpression."""
    _parse(text)
    return canonical_text(text)


@functools.lru_cache(maxsize=4096)
def column_references(text: str) -> tuple[str, ...]:
    """The columns an expression uses, as it names them: the first part of each reference, sorted. Raises InvalidExpression."""
    from sqlglot import exp

    return tuple(sorted({_parts(column)[0].name for column in _parse(text).find_all(exp.Column)}))


def unknown_references(text: str, fields: Sequence[Field]) -> tuple[str, ...]:
    """The references of an expression that name no column or field, as it writes them. Raises InvalidExpression."""
    from sqlglot import exp

    unknown = {_unknown(column, fields) for column in _parse(text).find_all(exp.Column)}
    return tuple(sorted(name for name in unknown if name is not None))


@functools.lru_cache(maxsize=4096)
def has_subquery(text: str) -> bool:
    """True if an expression reads another table, which neither a CHECK nor a DEFAULT may. Raises InvalidExpression."""
    from sqlglot import exp

    return _parse(text).find(exp.Query) is not None


def rename_columns(text: str, renames: Mapping[ColumnPath, str], fields: Sequence[Field]) -> str:
    """The expression with every renamed column or field under its new name, in canonical text.

    ``renames``: path before -> new last name; ``fields``: the columns before. Raises InvalidExpression, RenameInLambda.
    """
    if not renames:
        return text
    from sqlglot import exp

    expression = _parse(text)
    wanted = {path.lower(): name for path, name in renames.items()}
    places: dict[tuple[int, int], str] = {}
    for column in expression.find_all(exp.Column):
        for identifier, path in _resolve(column, fields):
            if path.lower() in wanted:
                places[_place(identifier, text, path)] = quote(wanted[path.lower()])
    _refuse_lambdas(expression, text, renames)
    return canonical_text(_spliced(text, places))


class NotFollowed(ValueError):
    """An expression may use a column where it cannot be told, or where its very name counts."""


def with_values(text: str, values: Mapping[str, str]) -> str:
    """The expression with SQL in the place of top-level columns (``values``: column -> SQL); as it is if it uses none of them.

    Raises NotFollowed.
    """
    wanted = {name.lower(): sql for name, sql in values.items()}
    try:
        named = {(token.start, token.end) for token in _names(text) if token.text.lower() in wanted}
        places = _places_of(text, wanted) if named else {}
    except (InvalidExpression, BrokenText) as broken:
        raise NotFollowed(text) from broken
    if set(places) != named:
        raise NotFollowed(text)
    return _spliced(text, places)


def _places_of(text: str, wanted: Mapping[str, str]) -> dict[tuple[int, int], str]:
    from sqlglot import exp

    places: dict[tuple[int, int], str] = {}
    for column in _parse(text).find_all(exp.Column):
        first = _parts(column)[0]
        if first.name.lower() in wanted and not isinstance(column.parent, exp.PropertyEQ):  # ``struct(a)`` has a field called so
            start, end = first.meta.get("start"), first.meta.get("end")
            if start is not None and end is not None:
                places[start, end + 1] = f"({wanted[first.name.lower()]})"
    return places


def _names(text: str) -> Iterator[Token]:
    """Words and quoted names that may be a column: no function, no type, nothing behind a dot."""
    found = tokens(text)
    for before, token, after in zip((None, *found), found, (*found[1:], None), strict=False):
        inside = before is not None and (before.text == "." or before.upper == "AS")
        prefix = token.kind is Kind.WORD and after is not None and (after.text == "(" or after.kind is Kind.STRING)
        if token.kind in (Kind.WORD, Kind.QUOTED) and not inside and not prefix:
            yield token


def _place(identifier: exp.Identifier, text: str, path: str) -> tuple[int, int]:
    """Start and end of a name in the text."""
    start, end = identifier.meta.get("start"), identifier.meta.get("end")
    if start is None or end is None or text[start : end + 1].strip("`").lower() != identifier.name.lower():
        raise RenameInLambda(expression=text, path=path)
    return start, end + 1


def _spliced(text: str, places: Mapping[tuple[int, int], str]) -> str:
    for (start, end), name in sorted(places.items(), reverse=True):
        text = text[:start] + name + text[end:]
    return text


#: How the parser says that ``a >`` ends too early, in words of its own program.
_LACKS = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")


def what_is_wrong(error: ParseError) -> str:
    """The first problem that the parser found, for people, without the full stop."""
    description = str(error.errors[0].get("description") or error) if error.errors else str(error)
    return _LACKS.sub(r"a part of \1 is missing", description).rstrip(".")


def _parse(text: str) -> exp.Expr:
    import sqlglot
    from sqlglot.errors import ParseError, TokenError

    if text.count("(") > _MAX_NESTING:
        raise InvalidExpression(f"more than {_MAX_NESTING} parentheses")
    try:
        found = [expression for expression in sqlglot.parse(text, dialect="spark") if expression is not None]
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


def _is_expression(found: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(found, exp.Condition) and not isinstance(found, exp.Query)


def _parts(column: exp.Column) -> list[exp.Identifier]:
    """The identifiers of ``a.b.c``, outermost first: sqlglot takes the first four for catalog, schema, table and column."""
    from sqlglot import exp

    return [part for part in column.parts if isinstance(part, exp.Identifier)]


def _resolve(column: exp.Column, fields: Sequence[Field]) -> Iterator[tuple[exp.Identifier, str]]:
    """Each identifier of a reference with the path of the column or field it names, as far as the types tell."""
    here: DataType = Struct(tuple(fields))
    path = ""
    for step in _steps(column):
        found = _index(here, path) if step is None else _member(here, path, step.name)
        if found is None:
            return
        here, path = found
        if step is not None:
            yield step, path


def _unknown(column: exp.Column, fields: Sequence[Field]) -> str | None:
    here: DataType = Struct(tuple(fields))
    path = ""
    for part in _parts(column):
        if isinstance(here, Map):
            return None  # ``m.k`` is the value of the key k, whatever k is
        found = _member(here, path, part.name)
        if found is None:
            return ".".join(step.name for step in _parts(column))
        here, path = found
    return None


def _steps(column: exp.Column) -> Iterator[exp.Identifier | None]:
    """The names of ``a[0].b.c`` in order; None for an index or key in brackets."""
    from sqlglot import exp

    yield from _parts(column)
    node: exp.Expr = column
    while node.parent is not None and node.arg_key == "this" and isinstance(node.parent, exp.Dot | exp.Bracket):
        node = node.parent
        if isinstance(node, exp.Bracket):
            yield None
        elif isinstance(node.expression, exp.Identifier):
            yield node.expression
        else:
            return


def _index(here: DataType, path: str) -> tuple[DataType, str] | None:
    match here:
        case Array(element=element):
            return element, f"{path}.element"
        case Map(value=value):
            return value, f"{path}.value"
        case _:
            return None


def _member(here: DataType, path: str, name: str) -> tuple[DataType, str] | None:
    if isinstance(here, Array):  # Spark reads ``points.x`` as the array of all x
        here, path = here.element, f"{path}.element"
    if not isinstance(here, Struct):
        return None
    field = next((f for f in here.fields if f.name.lower() == name.lower()), None)
    if field is None:
        return None
    return field.type, f"{path}.{field.name}" if path else field.name


def _refuse_lambdas(expression: exp.Expr, text: str, renames: Mapping[ColumnPath, str]) -> None:
    from sqlglot import exp

    nested = {path.rpartition(".")[2].lower(): path for path in renames if "." in path}
    for function in expression.find_all(exp.Lambda):
        for identifier in function.find_all(exp.Identifier):
            if identifier.name.lower() in nested and not isinstance(identifier.parent, exp.Column):
                raise RenameInLambda(expression=text, path=nested[identifier.name.lower()])
