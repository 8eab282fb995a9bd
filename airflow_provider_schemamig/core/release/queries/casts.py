"""The casts of a rewrite that may fail on existing rows, as questions of preflight about those rows.

In ANSI mode, Spark's default, one value that is no number stops the copy. A question that might accuse a row whose value is never cast
is not asked: what is guarded by a condition (``CASE``, ``IF``, ``COALESCE``, ``AND``...), comes after a join or a LATERAL VIEW that drops
rows, or is computed from anything but the row's own columns is left to the copy itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.queries.query import parse_query, placeholder_at, placeholder_tables

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class CastQuestion:
    """Rows where ``operand`` IS NOT NULL and TRY_CAST(``operand`` AS ``type``) IS NULL make the query fail.

    All are Spark SQL over the columns of the query's own collection, unqualified, in the shape that the query sees; inner casts are
    TRY_CASTs there. ``where``: only rows for which it is true reach the cast; None: all do.
    """

    operand: str
    type: str
    where: str | None = None


def casts_over_source(query: str, own: CollectionName) -> tuple[CastQuestion, ...]:
    """Return the questions about the SELECT of a rewrite's query that reads ``{own}`` itself, each once. Casts to STRING never fail."""
    tree = parse_query(query)
    if isinstance(tree, tuple):
        return ()
    table = next((table for table, name, _ in placeholder_tables(tree, query) if name == own), None)
    select = None if table is None else table.parent_select
    if table is None or select is None or table.alias_column_names or not _every_row_passes(select):
        return ()
    return tuple(dict.fromkeys(_Select(query, select, table).questions()))


@dataclass(frozen=True)
class _Select:
    text: str
    select: exp.Expr
    table: exp.Table

    def questions(self) -> Iterator[CastQuestion]:
        where = self.select.args.get("where")
        condition = None if where is None else self._over_source(where.this, set())
        for cast, node in self._casts():
            in_where = where is not None and node.find_ancestor(type(where)) is where
            operand = self._over_source(cast.this, set() if in_where else self._names_before(node))
            if operand is not None and (where is None or in_where or condition is not None):
                yield CastQuestion(operand, cast.to.sql(dialect="spark"), None if in_where else condition)

    def _casts(self) -> Iterator[tuple[exp.Cast, exp.Expr]]:
        """Yield every cast that each row of this SELECT meets, with its place in it."""
        from sqlglot import exp

        for node in self.select.find_all(exp.Cast, exp.Anonymous):
            cast = _as_cast(node)
            if cast is None or node.parent_select is not self.select or node.find_ancestor(exp.Join, exp.Lateral) is not None:
                continue
            if not cast.to.is_type(*exp.DataType.TEXT_TYPES) and not _is_guarded(node, self.select):
                yield cast, node

    def _names_before(self, node: exp.Expr) -> set[str]:
        """Return the names given by the projections before ``node``'s own, which Spark lets it use."""
        names: set[str] = set()
        for projection in self.select.expressions:
            if any(part is node for part in projection.walk()):
                break
            names.add(projection.alias.lower())
        return names

    def _over_source(self, expression: exp.Expr, new_names: set[str]) -> str | None:
        """Return an expression over the source's unqualified columns; None if it uses anything else."""
        from sqlglot import exp

        alone = not self.select.args.get("joins") and not self.select.args.get("laterals")
        copy = exp.Paren(this=expression.copy())  # a node to hang the expression on, should it be replaced itself
        for column in list(copy.find_all(exp.Column)):
            is_own = self._is_own(column)
            if is_own and len(column.parts) > 1:
                unqualified = exp.Column(this=column.parts[1])
                column.replace(unqualified if len(column.parts) == 2 else exp.Dot.build([unqualified, *column.parts[2:]]))
            elif not alone or (not is_own and column.parts[0].name.lower() in new_names):
                return None
        if copy.find(exp.Query, exp.AggFunc) is not None:
            return None
        for node in list(copy.find_all(exp.Cast, exp.Anonymous)):
            cast = _as_cast(node)
            if cast is not None:
                node.replace(exp.TryCast(this=cast.this, to=cast.to, safe=True))
        return str(copy.this.sql(dialect="spark"))

    def _is_own(self, column: exp.Column) -> bool:
        """Return whether a reference begins with the table's own name, so that the rest is its column."""
        first = column.parts[0]
        if self.table.alias:
            return len(column.parts) > 1 and first.name.lower() == self.table.alias.lower()
        return len(column.parts) > 1 and first.name == self.table.name and placeholder_at(first, self.text) is not None


def _every_row_passes(select: exp.Expr) -> bool:
    """Return whether only the SELECT's own WHERE may keep a row of the first table from its projections, and nothing outside of it."""
    joins, laterals = select.args.get("joins") or [], select.args.get("laterals") or []
    keep_all = [join.side == "LEFT" and join.kind in ("", "OUTER") for join in joins] + [bool(view.args.get("outer")) for view in laterals]
    if not all(keep_all):
        return False
    outer = select.parent_select
    while outer is not None:
        if any(outer.args.get(key) for key in ("where", "joins", "laterals")):
            return False
        outer = outer.parent_select
    return True


def _as_cast(node: exp.Expr) -> exp.Cast | None:
    """Return the cast of ``CAST(x AS t)``, ``x::t`` or ``t(x)``, which are the same; None for anything else, TRY_CAST included."""
    from sqlglot import exp

    if isinstance(node, exp.Cast):
        return None if node.args.get("safe") else node  # Spark's CAST is sqlglot's TryCast that is not safe
    is_named = isinstance(node, exp.Anonymous) and node.name.lower() in ("binary", "boolean", "decimal", "double", "float", "time")
    if not is_named or len(node.expressions) != 1:
        return None
    return exp.Cast(this=node.expressions[0].copy(), to=exp.DataType.build(node.name, dialect="spark"))


def _is_guarded(node: exp.Expr, select: exp.Expr) -> bool:
    """Return whether the cast stands where a condition may keep it from rows, or inside a lambda."""
    from sqlglot import exp

    guard = node.find_ancestor(exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Nvl2, exp.Connector, exp.Lambda, exp.Select)
    return guard is not select
