"""What can be wrong with ``up`` and ``down`` of a rewrite, beyond what can be wrong with any query (``query``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.release.queries.query import QueryRefusal


@dataclass(eq=False, kw_only=True)
class PlacedRefusal(QueryRefusal):
    """Base: at a place of the query; ``query_line`` and ``column`` count from 1 within it."""

    query_line: int
    column: int

    @property
    def place(self) -> str:
        return f"{self.where}, line {self.query_line}, column {self.column} of the query"


@dataclass(eq=False, kw_only=True)
class NotRowLocal(PlacedRefusal):
    code = "not_row_local"
    construct: str

    @property
    def message(self) -> str:
        return f"{self.place}: {self.construct} needs more than one row at a time, or is not understood as row by row."

    @property
    def next_action(self) -> str:
        return (
            "A rewrite copies and follows the table row by row: SELECT expressions FROM {collection}, with WHERE, LATERAL VIEW, derived "
            "tables and joins with lookups. For anything else use replacement(fill=...)."
        )


@dataclass(eq=False, kw_only=True)
class NotDeterministic(PlacedRefusal):
    code = "not_deterministic"
    function: str

    @property
    def message(self) -> str:
        return f"{self.place}: {self.function} gives another value each time, and a row is computed more than once."

    @property
    def next_action(self) -> str:
        return "Compute the value from the row's own columns, or write it as a literal."


@dataclass(eq=False, kw_only=True)
class NotReadOnce(PlacedRefusal):
    code = "not_read_once"
    name: str
    times: int

    @property
    def message(self) -> str:
        return f"{self.place}: it reads {{{self.name}}} {self.times} times, and a rewrite reads its own collection exactly once."

    @property
    def next_action(self) -> str:
        return f"Write one SELECT ... FROM {{{self.name}}}; what compares rows with each other is a replacement(fill=...)."


@dataclass(eq=False, kw_only=True)
class LookupNotNamed(PlacedRefusal):
    code = "lookup_not_named"
    name: str

    @property
    def message(self) -> str:
        return f"{self.place}: it reads {{{self.name}}}, another collection, which the step does not name in lookups."

    @property
    def next_action(self) -> str:
        return (
            f'Add lookups=["{self.name}"] if {self.name} as it is when the copy begins is enough: it is read at that one version and not '
            "tailed, so that later changes of it do not come in. Otherwise use replacement(fill=...)."
        )


@dataclass(eq=False, kw_only=True)
class LookupNotRead(QueryRefusal):
    code = "lookup_not_read"
    name: str

    @property
    def message(self) -> str:
        return f"{self.where} names {self.name}, and neither up nor down reads {{{self.name}}}."

    @property
    def next_action(self) -> str:
        return f"Take {self.name} out of lookups, or join {{{self.name}}}."


@dataclass(eq=False, kw_only=True)
class UnsafeJoin(PlacedRefusal):
    code = "unsafe_join"
    name: str
    join: str

    @property
    def message(self) -> str:
        return f"{self.place}: {self.join} keeps rows that no row of {{{self.name}}} stands for, once in each batch of the copy."

    @property
    def next_action(self) -> str:
        return f"Put {{{self.name}}} first in FROM and join the lookups to it by JOIN, LEFT JOIN, LEFT SEMI JOIN or LEFT ANTI JOIN."


@dataclass(eq=False, kw_only=True)
class WrongColumns(PlacedRefusal):
    """``extra`` are columns the collection does not have, columns given twice, and expressions without a name, as they are written."""

    code = "wrong_columns"
    missing: Sequence[str]
    extra: Sequence[str]

    @property
    def message(self) -> str:
        parts = [f"{what} {', '.join(names)}" for what, names in (("lacks", self.missing), ("gives besides", self.extra)) if names]
        return f"{self.place}: its columns are not those declared, it {' and '.join(parts)}."

    @property
    def next_action(self) -> str:
        return "Give each declared column once, by its name (expression AS name); the order does not matter."


@dataclass(eq=False, kw_only=True)
class UnknownQueryColumn(PlacedRefusal):
    code = "unknown_query_column"
    name: str

    @property
    def message(self) -> str:
        return f"{self.place}: nothing that it reads there has a column {self.name}."

    @property
    def next_action(self) -> str:
        return "Correct the name: up sees the collections of the release before, down those of this one."
