"""Which columns the columns of a query come from, as far as they can be known without Spark.

What is not certain is left out: a ``*``, a subquery in FROM, a table whose columns are named anew, a name that two tables might have. A
rollback trusts it with keys (``merge/key_on_way_back.py``), and it is told to those who draw the lineage of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.queries.columns import output_names
from airflow_provider_schemamig.core.release.queries.query import parse_query, placeholder_at, placeholder_tables

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """A column that another one comes from. ``is_copy``: with the same values; else they are computed from it."""

    collection: CollectionName
    column: str
    is_copy: bool


def column_origins(query: str) -> dict[str, tuple[ColumnOrigin, ...]]:
    """Return for each column of a query the columns of collections that it is made of; columns of unknown origin are left out."""
    from sqlglot import exp

    tree = parse_query(query)
    if not isinstance(tree, exp.Select):
        return {}
    sources = _sources(tree, query)
    found: dict[str, tuple[ColumnOrigin, ...]] = {}
    for node, name in output_names(tree) or []:
        origins = tuple(dict.fromkeys(_origins(tree, node, sources, query)))
        if name is not None and origins:
            found[name] = origins
    return found


#: What a column is qualified with, in lower case, and whether that is a placeholder: ``{t}`` is not what is called ``t`` by an alias.
_Qualifier = tuple[str, bool]


def _sources(select: exp.Select, query: str) -> Mapping[_Qualifier, CollectionName | None]:
    """Return the collections in FROM, by the qualifiers of their columns; None: something whose columns are not looked into."""
    own = {id(table): name for table, name, _ in placeholder_tables(select, query) if not table.alias_column_names}
    begin = select.args.get("from_")
    nodes = [*([begin.this] if begin is not None else []), *(join.this for join in select.args.get("joins") or [])]
    return {
        ((node.alias or node.name).lower(), not node.alias): own.get(id(node)) for node in (*nodes, *(select.args.get("laterals") or []))
    }


def _origins(select: exp.Select, node: exp.Expr, sources: Mapping[_Qualifier, CollectionName | None], query: str) -> Iterator[ColumnOrigin]:
    from sqlglot import exp

    inner = node.this if isinstance(node, exp.Alias) else node
    for column in node.find_all(exp.Column):
        first, *others = column.parts
        collection: CollectionName | None = None
        parts = [first, *others]
        qualifier = (first.name.lower(), placeholder_at(first, query) is not None)
        if others and (qualifier in sources or qualifier[1]):
            collection, parts = sources.get(qualifier), others
        elif len(sources) == 1:
            (collection,) = sources.values()
        if collection is not None and column.parent_select is select:
            yield ColumnOrigin(collection, parts[0].name, inner is column and len(parts) == 1)
