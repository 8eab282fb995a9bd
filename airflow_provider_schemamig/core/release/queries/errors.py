"""What can be wrong with ``up`` and ``down`` of a rewrite, besides the faults of any query (``query``)."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.release.queries.query import QueryRefusal


class PlacedRefusal(QueryRefusal):
    """Base: at a place of the query; ``query_line`` and ``column`` count from 1 within it."""

    query_line: int
    column: int

    @property
    def place(self) -> str:
        return f"{self.where}, line {self.query_line}, column {self.column} of the query"


class NotRowLocal(PlacedRefusal):
    code = "not_row_local"
    message = "{place}: {construct} needs more than one row at a time, or is not understood as row by row."
    next_action = (
        "A rewrite copies and follows the table row by row: SELECT expressions FROM {{collection}}, with WHERE, LATERAL VIEW, derived "
        "tables and joins with lookups. For anything else use replacement(fill=...)."
    )
    construct: str


class NotDeterministic(PlacedRefusal):
    code = "not_deterministic"
    message = "{place}: {function} gives another value each time, and a row is computed more than once."
    next_action = "Compute the value from the row's own columns, or write it as a literal."
    function: str


class StarInExpression(PlacedRefusal):
    code = "star_in_expression"
    message = "{place}: `*` stands inside an expression, and a rollback reads the table with one more column."
    next_action = "Name the columns there; as an item of a SELECT list `*` may stand."


class NotReadOnce(PlacedRefusal):
    code = "not_read_once"
    message = "{place}: it reads {{{name}}} {times} times, and a rewrite reads its own collection exactly once."
    next_action = "Write one SELECT ... FROM {{{name}}}; what compares rows with each other is a replacement(fill=...)."
    name: str
    times: int


class LookupNotNamed(PlacedRefusal):
    code = "lookup_not_named"
    message = "{place}: it reads {{{name}}}, another collection, which the step does not name in lookups."
    next_action = (
        'Add lookups=["{name}"] if the rows that {name} has when the copy begins are enough: later changes of it do not come in. Otherwise '
        "use replacement(fill=...)."
    )
    name: str


class LookupNotRead(QueryRefusal):
    code = "lookup_not_read"
    message = "{where} names {name}, and neither up nor down reads {{{name}}}."
    next_action = "Take {name} out of lookups, or join {{{name}}}."
    name: str


class UnsafeJoin(PlacedRefusal):
    code = "unsafe_join"
    message = "{place}: {join} keeps rows that have no match in {{{name}}}, and would add them again with each batch of the copy."
    next_action = "Put {{{name}}} first in FROM and join the lookups to it by JOIN, LEFT JOIN, LEFT SEMI JOIN or LEFT ANTI JOIN."
    name: str
    join: str


class WrongColumns(PlacedRefusal):
    """``extra`` are columns the collection does not have, columns given twice, and expressions without a name, as they are written."""

    code = "wrong_columns"
    next_action = "Give each declared column once, by its name (expression AS name); the order does not matter."
    missing: Sequence[str]
    extra: Sequence[str]

    @property
    def message(self) -> str:
        parts = [f"{what} {', '.join(names)}" for what, names in (("missing", self.missing), ("unexpected", self.extra)) if names]
        return f"{self.place}: its columns do not match the declaration{': ' if parts else ''}{'; '.join(parts)}."


class UnknownQueryColumn(PlacedRefusal):
    code = "unknown_query_column"
    message = "{place}: nothing that it reads there has a column {name}."
    next_action = "Correct the name: up sees the collections of the release before, down those of this one."
    name: str
