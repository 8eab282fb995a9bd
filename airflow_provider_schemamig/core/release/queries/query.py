"""The queries of a step (``up``, ``down``, ``fill``): Spark SQL in which ``{name}`` stands for a collection.

A query names tables by placeholders only: a name that Spark would look up somewhere else could mean another table tomorrow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import CollectionName, Version, quote
from airflow_provider_schemamig.core.release.sql.syntax import unlike_spark
from airflow_provider_schemamig.core.schema.expressions.parse import what_is_wrong
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import parse_statements
from airflow_provider_schemamig.exceptions import Refusal

if TYPE_CHECKING:
    from sqlglot import exp

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class QueryRefusal(Refusal):
    """Base: the query ``argument`` of the step at ``file``:``line``."""

    file: str
    line: int
    argument: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}: {self.argument}"


class QuerySyntax(QueryRefusal):
    """``query_line`` and ``column`` count from 1 within the query."""

    code = "query_syntax"
    message = "{where}, line {query_line}, column {column} of the query: {reason}."
    next_action = "Correct the query; it is one SELECT in Spark SQL."
    query_line: int
    column: int
    reason: str


class UnknownPlaceholder(QueryRefusal):
    code = "unknown_placeholder"
    message = "{where} reads {{{name}}}, and release {version}, whose collections it sees, has none of that name."
    next_action = "Name a collection of that release: up and fill see the release before, down sees this one."
    name: str
    version: Version


class TableNotPlaceholder(QueryRefusal):
    code = "table_not_placeholder"
    message = "{where} reads the table {table!r}, which schemamig does not know."
    next_action = "Write {{{table}}} if the collection is meant; a query reads collections of its own environment only."
    table: str


def placeholders(query: str) -> tuple[CollectionName, ...]:
    """Return the collections a query reads, each once, in the order in which they first occur."""
    return tuple(dict.fromkeys(CollectionName(match[1]) for match in _PLACEHOLDER.finditer(query)))


def bind(query: str, views: Mapping[CollectionName, str]) -> str:
    """Replace every ``{name}`` in the query by ``views[name]``, a quoted view or table name in Spark SQL. KeyError if one is missing."""
    return _PLACEHOLDER.sub(lambda match: views[CollectionName(match[1])], query)


def body(query: str) -> str:
    """Return the query without its semicolon and the text after it, so that it can stand in parentheses."""
    import sqlglot

    tokens = sqlglot.tokenize(masked(query), dialect="spark")
    end = next((token.start for token in tokens if token.token_type == sqlglot.TokenType.SEMICOLON), len(query))
    return query[:end].strip()


def bind_tables(query: str, sources: Mapping[CollectionName, str]) -> str:
    """Replace each ``{name}`` of ``sources`` in the query by that query, as a derived table of the same name; other placeholders stay.

    ``query`` has passed ``check_query``.
    """
    unnamed = {start: not table.alias for table, _, start in placeholder_tables(tree_of(query), query)}

    def derived(match: re.Match[str]) -> str:
        name = CollectionName(match[1])
        if name not in sources:
            return match[0]
        if match.start() not in unnamed:
            return quote(name)  # {name}.column
        alias = f" AS {quote(name)}" if unnamed[match.start()] else ""
        return f"(\n{sources[name]}\n){alias}"

    return _PLACEHOLDER.sub(derived, query)


def check_query(
    query: str, *, known: Collection[CollectionName], version: Version, collection: CollectionName, file: str, line: int, argument: str
) -> Iterator[QueryRefusal]:
    """Yield all that is wrong with a query over the collections ``known`` of release ``version``."""
    for name in placeholders(query):
        if name not in known:
            yield UnknownPlaceholder(collection=collection, file=file, line=line, argument=argument, name=name, version=version)
    parsed = parse_query(query)
    if isinstance(parsed, tuple):
        query_line, column, reason = parsed
        yield QuerySyntax(
            collection=collection, file=file, line=line, argument=argument, query_line=query_line, column=column, reason=reason
        )
        return
    for table in _foreign_tables(parsed, query):
        yield TableNotPlaceholder(collection=collection, file=file, line=line, argument=argument, table=table)


def masked(query: str) -> str:
    """Return the query with ``{name}`` as an identifier in backticks of the same length: lines and columns stay those of the query."""
    return _PLACEHOLDER.sub(lambda match: f"`{match[1]}`", query)


def parse_query(query: str) -> exp.Query | tuple[int, int, str]:
    """Return the query's tree, or line, column and reason why it has none."""
    import sqlglot
    from sqlglot import exp

    try:
        # sqlglot makes a Semicolon of a comment after the last statement.
        statements = [found for found in parse_statements(masked(query)) if not isinstance(found, exp.Semicolon)]
    except sqlglot.errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        return int(first.get("line") or 1), int(first.get("col") or 1), what_is_wrong(error)
    except sqlglot.errors.TokenError as error:
        return query.count("\n") + 1, len(query.rpartition("\n")[2]) + 1, f"it ends within a token ({str(error).splitlines()[0]})"
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        return 1, 1, f"it holds {len(statements)} statements" if len(statements) != 1 else "it is not a SELECT"
    if any(not select.expressions for select in statements[0].find_all(exp.Select)):
        return 1, 1, "a SELECT in it names no columns"
    return unlike_spark(masked(query), statements[0]) or statements[0]


def tree_of(query: str) -> exp.Query:
    """Return the tree of a query that has passed ``check_query``."""
    tree = parse_query(query)
    if isinstance(tree, tuple):
        raise ValueError(f"not a query: {tree[2]}")
    return tree


def placeholder_tables(tree: exp.Query, query: str) -> Iterator[tuple[exp.Table, CollectionName, int]]:
    """Yield where a query reads collections: the table, the collection's name and the offset of its placeholder."""
    from sqlglot import exp

    for table in tree.find_all(exp.Table):
        start = placeholder_at(table.this, query)
        if start is not None:
            yield table, CollectionName(table.name), start


def placeholder_at(node: object, query: str) -> int | None:
    """Return the offset of the placeholder that an identifier was written as; None if it was written as anything else."""
    from sqlglot import exp

    start = node.meta.get("start") if isinstance(node, exp.Identifier) else None
    return start if isinstance(start, int) and query[start : start + 1] == "{" else None


def _foreign_tables(tree: exp.Query, query: str) -> Iterator[str]:
    from sqlglot import exp

    local = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = table.this
        if not isinstance(name, exp.Identifier):
            continue  # a function in FROM, such as range(10) or explode(...)
        if table.find_ancestor(exp.Hint) is not None:
            continue  # of what the query reads anyway, by its name there
        if placeholder_at(name, query) is None and (table.args.get("db") is not None or name.name.lower() not in local):
            yield ".".join(part.name for part in table.parts)
