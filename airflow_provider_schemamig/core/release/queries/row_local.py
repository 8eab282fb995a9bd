"""``up`` and ``down`` of a rewrite: row-local, deterministic queries over their own collection.

A rewrite copies the table one batch of files after the other, and later computes the changed rows again, those from before the change
included. Both give the right rows only if each row's result depends on that row (and on lookups, which stay as they are) and on nothing
else. What is not known to be so is refused: clauses go by a list of those allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.queries import errors as e
from airflow_provider_schemamig.core.release.queries.columns import unknown_columns, wrong_columns
from airflow_provider_schemamig.core.release.queries.query import QueryRefusal, masked, parse_query, placeholder_at, placeholder_tables
from airflow_provider_schemamig.core.release.sql.text import line_and_column
from airflow_provider_schemamig.core.schema.expressions.spark.row_functions import (
    NON_DETERMINISTIC,
    NON_DETERMINISTIC_IF_EMPTY,
    OVER_ROWS,
    WITHOUT_PARENTHESES,
)
from airflow_provider_schemamig.core.schema.model import Declaration

if TYPE_CHECKING:
    from sqlglot import exp

_SELECT_ALLOWED = frozenset(["expressions", "from_", "joins", "laterals", "where", "hint"])
_SOURCE_ALLOWED = frozenset(["this", "alias"])
_CLAUSES = {
    "distinct": "DISTINCT",
    "group": "GROUP BY",
    "having": "HAVING",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "windows": "WINDOW",
    "with_": "WITH",
    "sample": "TABLESAMPLE",
    "version": "VERSION AS OF",
    "pivots": "PIVOT",
    "joins": "a join in parentheses",
}


@dataclass(frozen=True, kw_only=True)
class RewriteQuery:
    """One of a rewrite's queries: it reads ``own`` and ``lookups`` among the collections ``known`` and gives the columns of ``gives``."""

    text: str
    own: CollectionName
    lookups: Collection[CollectionName]
    known: Mapping[CollectionName, Declaration]
    gives: Declaration
    file: str
    line: int
    argument: str


def check_rewrite_query(query: RewriteQuery) -> Iterator[QueryRefusal]:
    """Yield all that makes it no query of a rewrite, in the order of its text. Says nothing of what ``check_query`` refuses."""
    tree = parse_query(query.text)
    if isinstance(tree, tuple):
        return
    checker = _Checker(query, tree)
    checker.check()
    yield from (refusal for _, refusal in sorted(checker.found, key=lambda pair: pair[0]))


def check_lookups(
    lookups: Collection[CollectionName], queries: Collection[str], *, collection: CollectionName, file: str, line: int
) -> Iterator[QueryRefusal]:
    """Yield a refusal for each lookup that none of ``queries`` reads."""
    read: set[CollectionName] = set()
    for text in queries:
        tree = parse_query(text)
        if isinstance(tree, tuple):
            return  # its syntax is refused, and nothing is known of what it reads
        read |= {name for _, name, _ in placeholder_tables(tree, text)}
    for name in lookups:
        if name not in read:
            yield e.LookupNotRead(collection=collection, file=file, line=line, argument="lookups", name=name)


@dataclass
class _Checker:
    query: RewriteQuery
    tree: exp.Query
    #: Offset in the query and what is wrong there.
    found: list[tuple[int, QueryRefusal]] = field(default_factory=list)
    #: The SELECTs that stand where rows come from, the outermost first; any other is a subquery of an expression.
    selects: list[exp.Select] = field(default_factory=list)

    def check(self) -> None:
        self._query(self.tree)
        self._subqueries()
        self._functions()
        self._own()
        if not self.found:  # names mean little in a query of another form
            self._stars()
            self._columns()

    def _query(self, node: exp.Expr) -> None:
        from sqlglot import exp

        while isinstance(node, exp.Subquery):
            self._clauses(node, _SOURCE_ALLOWED)
            node = node.this
        if isinstance(node, exp.Select):
            self._select(node)
        elif isinstance(node, exp.SetOperation):
            self._not_row_local(node, f"the set operation {node.key.upper()}")
        else:
            self._not_row_local(node, "a join in parentheses" if isinstance(node, exp.Table) else node.key.upper())

    def _select(self, select: exp.Select) -> None:
        from sqlglot import exp

        self.selects.append(select)
        self._clauses(select, _SELECT_ALLOWED)
        for projection in select.expressions:
            if isinstance(projection, exp.QueryTransform):
                self._not_row_local(projection, "TRANSFORM ... USING")
        begin, joins = select.args.get("from_"), select.args.get("joins") or []
        sources = [*([begin.this] if begin is not None else []), *(join.this for join in joins)]
        for source in sources:
            self._source(source)
        self._joins(sources, joins)

    def _source(self, source: exp.Expr) -> None:
        from sqlglot import exp

        if isinstance(source, exp.Subquery):
            if source.alias_column_names and any(isinstance(one, exp.Star) or one.is_star for one in source.unnest().expressions):
                self._not_row_local(source, "a list of names for the columns of SELECT *")
            self._query(source)
        elif isinstance(source, exp.Table):
            self._clauses(source, _SOURCE_ALLOWED)
            start = placeholder_at(source.this, self.query.text)
            name = CollectionName(source.name)
            if start is not None and name in self.query.known and name != self.query.own and name not in self.query.lookups:
                self._add(e.LookupNotNamed, start, name=name)

    def _joins(self, sources: list[exp.Expr], joins: list[exp.Join]) -> None:
        """Refuse a join that may keep a row of a lookup by itself: it would come in once for each batch."""
        own = next((i for i, source in enumerate(sources) if self._reads_own(source)), 0)
        first_join = len(sources) - len(joins)
        for number, join in enumerate(joins, start=first_join):
            keeps_right = join.side in ("RIGHT", "FULL")
            is_inner = not join.side and join.kind in ("", "INNER", "CROSS")
            if keeps_right or (number == own and not is_inner):
                words = " ".join(filter(None, [join.method, join.side, join.kind, "JOIN"]))
                self._add(e.UnsafeJoin, self._offset(join), name=self.query.own, join=words)

    def _reads_own(self, source: exp.Expr) -> bool:
        from sqlglot import exp

        return any(
            table.name == self.query.own and placeholder_at(table.this, self.query.text) is not None for table in source.find_all(exp.Table)
        )

    def _clauses(self, node: exp.Expr, allowed: Collection[str]) -> None:
        for key, value in node.args.items():
            if value and key not in allowed:
                at = value[0] if isinstance(value, list) else value
                construct = _CLAUSES.get(key, key.strip("_").upper())
                self._not_row_local(at if hasattr(at, "walk") else node, construct, otherwise=node)

    def _subqueries(self) -> None:
        from sqlglot import exp

        inside = {id(select) for select in self.selects}
        for select in self.tree.find_all(exp.Select):
            if id(select) not in inside and id(select.parent_select) in inside and select.find_ancestor(exp.SetOperation, exp.CTE) is None:
                self._not_row_local(select, "a subquery in an expression")

    def _functions(self) -> None:
        """Check calls by their names, from the tokens: parsers make many functions of one, and do not know others."""
        from sqlglot import exp, tokenize

        text = masked(self.query.text)
        tokens = tokenize(text, dialect="spark")
        names = self._names()
        previous = ""
        for token, following in pairwise([*tokens, *tokens[-1:]]):
            name = token.text.lower()
            is_call = following.text == "(" and following is not token and (text[token.start].isalpha() or text[token.start] == "`")
            if is_call and not (previous in ("like", "ilike") and name in ("any", "some")):
                self._call(name, token.start, is_empty=text[following.end + 1 :].lstrip().startswith(")"))
            elif name in WITHOUT_PARENTHESES and name not in names and text[token.start].isalpha() and previous != ".":
                self._add(e.NotDeterministic, token.start, function=name)
            previous = name
        window = self.tree.find(exp.Window)
        if window is not None and not self.found:
            self._not_row_local(window, "OVER")

    def _names(self) -> set[str]:
        """Return every name that a column may have somewhere in the query. A word among them is no function."""
        from sqlglot import exp

        read = [declared for name, declared in self.query.known.items() if name == self.query.own or name in self.query.lookups]
        columns = {column.name.lower() for declared in read for column in declared.fields}
        aliases = {alias.name.lower() for node in self.tree.find_all(exp.TableAlias, exp.Aliases) for alias in node.iter_expressions()}
        return columns | aliases | {node.alias.lower() for node in self.tree.find_all(exp.Alias)}

    def _call(self, name: str, start: int, *, is_empty: bool) -> None:
        if name in OVER_ROWS:
            self._add(e.NotRowLocal, start, construct=f"the aggregate or window function {name}")
        elif name in NON_DETERMINISTIC or (is_empty and name in NON_DETERMINISTIC_IF_EMPTY):
            self._add(e.NotDeterministic, start, function=f"{name}()")

    def _stars(self) -> None:
        """Refuse ``*`` in an expression: what ``with_column`` adds would change its value."""
        from sqlglot import TokenType as T
        from sqlglot import exp, tokenize

        has_select = [False]  # for each parenthesis that is open, the outermost first
        for before, token in pairwise(tokenize(masked(self.query.text), dialect="spark")):
            if before.token_type is T.L_PAREN:
                has_select.append(False)
            elif before.token_type is T.R_PAREN:
                has_select.pop()
            elif before.token_type is T.SELECT:
                has_select[-1] = True
            is_factor = before.token_type not in (T.L_PAREN, T.COMMA, T.DOT)
            if token.token_type is T.STAR and not is_factor and not has_select[-1]:
                self._add(e.StarInExpression, token.start)
        for star in () if self.found else self.tree.find_all(exp.Star):  # beside an operator
            holder = star.parent.parent if isinstance(star.parent, exp.Column) else star.parent
            if not isinstance(holder, exp.Select):
                self._add(e.StarInExpression, self._offset(star))

    def _own(self) -> None:
        own = self.query.own
        starts = [start for _, name, start in placeholder_tables(self.tree, self.query.text) if name == own]
        if len(starts) != 1:
            self._add(e.NotReadOnce, starts[1] if starts else 0, name=own, times=len(starts))

    def _columns(self) -> None:
        for column, name in unknown_columns(self.selects, self.query.text, self.query.known):
            self._add(e.UnknownQueryColumn, self._offset(column), name=name)
        wrong = wrong_columns(self.selects[0], self.query.gives)
        if wrong is not None:
            node, missing, extra = wrong
            self._add(e.WrongColumns, self._offset(node), missing=missing, extra=extra)

    def _not_row_local(self, node: exp.Expr, construct: str, otherwise: exp.Expr | None = None) -> None:
        offset = self._offset(node if _starts(node) or otherwise is None else otherwise)
        self._add(e.NotRowLocal, offset, construct=construct)

    def _offset(self, node: exp.Expr) -> int:
        """Return the offset of a node, or of the nearest one around it whose place is known."""
        here: exp.Expr | None = node
        while here is not None:
            starts = _starts(here)
            if starts:
                return min(starts)
            here = here.parent
        return 0

    def _add(self, kind: type[e.PlacedRefusal], offset: int, **values: Any) -> None:
        line, column = line_and_column(self.query.text, offset)
        query = self.query
        common: dict[str, Any] = {"collection": query.own, "file": query.file, "line": query.line, "argument": query.argument}
        self.found.append((offset, kind(**common, query_line=line, column=column, **values)))


def _starts(node: exp.Expr) -> list[int]:
    return [start for part in node.walk() if isinstance(start := part.meta.get("start"), int)]
