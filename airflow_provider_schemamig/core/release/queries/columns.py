"""The column names of a rewrite's query, as far as they can be known without Spark: what it reads and what it gives.

Names only; types are Spark's business. Where a name's meaning is not certain (``SELECT *`` below, a table function), nothing is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.queries.query import placeholder_at
from airflow_provider_schemamig.core.schema.expressions.spark.row_functions import GENERATORS
from airflow_provider_schemamig.core.schema.model import Declaration

if TYPE_CHECKING:
    from sqlglot import exp

#: The first argument of date functions whose signatures the parser does not know.
_UNITS = frozenset(
    ["year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond"]
)


@dataclass(frozen=True, slots=True)
class _Source:
    """Something in FROM: its name (and whether that is a placeholder's), its columns in lower case, None if they are not known."""

    name: str
    is_placeholder: bool
    columns: frozenset[str] | None


def output_names(select: exp.Select) -> list[tuple[exp.Expr, str | None]] | None:
    """Return each projection with the name that Spark gives it, or None if it has no name of its own.

    The result is None if a ``*`` or a generator is among them.
    """
    from sqlglot import exp

    found: list[tuple[exp.Expr, str | None]] = []
    for projection in select.expressions:
        if projection.is_star or _is_generator(projection):
            return None
        if isinstance(projection, exp.Aliases):
            found.extend((projection, alias.name) for alias in projection.expressions)
        elif isinstance(projection, exp.Alias | exp.Column | exp.Dot):
            found.append((projection, projection.output_name or projection.name))
        else:
            found.append((projection, None))
    return found


def wrong_columns(select: exp.Select, declared: Declaration) -> tuple[exp.Expr, list[str], list[str]] | None:
    """Return the outermost SELECT's first wrong expression, the declared columns that it lacks and those it gives besides.

    If columns are only missing, it is the SELECT's first expression. None if all is right, or the columns cannot be told.
    """
    outputs = output_names(select)
    if outputs is None:
        return None
    wanted = {f.name.lower(): f.name for f in declared.fields}
    times = Counter(name.lower() for _, name in outputs if name is not None)
    missing = [name for low, name in wanted.items() if low not in times]
    extra: list[str] = []
    first: exp.Expr | None = None
    for node, name in outputs:
        if name is not None and name.lower() in wanted and times[name.lower()] == 1:
            continue
        extra.append(node.sql(dialect="spark") if name is None else name)
        first = first or node
    if not missing and not extra:
        return None
    return first or select.expressions[0], missing, list(dict.fromkeys(extra))


def unknown_columns(
    selects: Sequence[exp.Select], text: str, known: Mapping[CollectionName, Declaration]
) -> Iterator[tuple[exp.Column, str]]:
    """Yield the references that name no column in their SELECT, with their texts."""
    for select in selects:
        sources = list(_sources(select, text, known))
        if any(source.columns is None for source in sources):
            continue
        names = {column for source in sources for column in source.columns or ()}
        names |= {projection.alias.lower() for projection in select.expressions if projection.alias}
        for column in _references(select):
            unknown = _unknown(column, names, sources, text)
            if unknown is not None:
                yield column, unknown


def _unknown(column: exp.Column, names: set[str], sources: Sequence[_Source], text: str) -> str | None:
    first, *others = column.parts
    is_placeholder = placeholder_at(first, text) is not None
    if first.name.lower() in names and not is_placeholder:
        return None
    for source in sources:
        is_meant = (source.name, source.is_placeholder) == (first.name.lower(), is_placeholder)
        if is_meant and (not others or others[0].name.lower() in (source.columns or ())):
            return None
    written = f"{{{first.name}}}" if is_placeholder else first.name
    return ".".join([written, *(part.name for part in others)])


def _references(select: exp.Select) -> Iterator[exp.Column]:
    """Yield the columns that stand in this SELECT itself."""
    from sqlglot import exp

    for column in select.find_all(exp.Column):
        is_unit = isinstance(column.parent, exp.Func) and column.name.lower() in _UNITS
        if column.parent_select is select and not is_unit and not isinstance(column.this, exp.Star):
            yield column


def _sources(select: exp.Select, text: str, known: Mapping[CollectionName, Declaration]) -> Iterator[_Source]:
    from sqlglot import exp

    begin = select.args.get("from_")
    nodes = [*([begin.this] if begin is not None else []), *(join.this for join in select.args.get("joins") or [])]
    for node in (*nodes, *(select.args.get("laterals") or [])):
        alias = node.args.get("alias")
        name = node.alias.lower()
        listed = frozenset(column.name.lower() for column in alias.columns) if isinstance(alias, exp.TableAlias) else frozenset()
        if listed:
            yield _Source(name, False, listed)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
            outputs = output_names(node.this)
            yield _Source(name, False, None if outputs is None else frozenset(n.lower() for _, n in outputs if n is not None))
        elif isinstance(node, exp.Table) and placeholder_at(node.this, text) is not None:
            declared = known.get(CollectionName(node.name))
            columns = None if declared is None else frozenset(f.name.lower() for f in declared.fields)
            yield _Source(name or node.name, not name, columns)
        else:
            yield _Source(name, False, None)


def _is_generator(projection: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(projection, exp.Func) and projection.sql(dialect="spark").partition("(")[0].lower() in GENERATORS
