"""A row-local query with one more column: a value of the row of its own collection that each of its rows is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.queries.query import masked, placeholder_tables, tree_of

if TYPE_CHECKING:
    from sqlglot import exp


def with_column(query: str, own: CollectionName, column: str) -> tuple[str, str]:
    """Return the query with ``column`` added to its columns, and the name that the column has among them.

    ``own`` is read with ``column`` as its first one. Each SELECT on its way gives it another name: with ``*`` it may come twice. ``query``
    has passed ``check_rewrite_query``.
    """
    table, start = next((table, start) for table, name, start in placeholder_tables(tree_of(query), query) if name == own)
    names = [column]
    edits: list[tuple[int, str]] = []
    for offset in _select_lists(query, start):
        names.append(f"{column}_{len(names)}")
        edits.append((offset, f"{names[-2]} AS {names[-1]}, "))
    edits += ((at, f"{names[level]}, ") for level, at in _column_lists(table))
    for offset, text in sorted(edits, reverse=True):
        query = query[:offset] + text + query[offset:]
    return query, names[-1]


def _column_lists(table: exp.Expr) -> Iterator[tuple[int, int]]:
    """Yield the place of each list of column names after a table, or after a derived one that reads it: how many SELECTs are in it, and
    the offset."""
    from sqlglot import exp

    level = 0
    node: exp.Expr | None = table
    while node is not None:
        alias = node.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            yield level, min(int(part.meta["start"]) for part in alias.columns[0].walk() if "start" in part.meta)
        level += isinstance(node, exp.Select)
        node = node.parent


def _select_lists(query: str, start: int) -> list[int]:
    """Return the offsets of the lists of the SELECTs around the table at ``start``, that of the innermost one first."""
    from sqlglot import TokenType as T
    from sqlglot import tokenize

    tokens = tokenize(masked(query), dialect="spark")
    groups, way = [0], [0]
    lists: dict[int, int] = {}
    for number, token in enumerate(tokens):
        if token.token_type is T.L_PAREN:
            groups.append(number + 1)
        elif token.token_type is T.R_PAREN:
            groups.pop()
        elif token.token_type is T.SELECT:
            items = [after for after in tokens[number + 1 : number + 4] if after.token_type is not T.HINT]
            lists[groups[-1]] = items[items[0].token_type is T.ALL].start
        if token.start == start:
            way = list(groups)
    return [lists[group] for group in reversed(way) if group in lists]
