"""A table may be wider than its release declares: a rollback leaves types wide, an upgrade widens them before its cut-over.

A query that was written for INT gives other rows of a DOUBLE (``CAST(n AS STRING)``: 7.0), so it is shown what the release declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.online.nested_types import held, relaxed
from airflow_provider_schemamig.core.release.queries.projection import narrow_column, stored_type, with_columns
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.sql import quote, string_sql, type_sql


def shown_as_declared(state: State, shard: ShardId, projection: str, *, or_null: bool = False) -> str:
    """Return a SELECT list over a shard's table, with its columns in the types that its newest schema declares.

    A value that does not fit its declared type fails the statement, or is NULL (``or_null``): it is not cut, nor rounded.
    """
    return with_columns(projection, {column.name: column.shown(or_null=or_null) for column in wide_columns(state, shard)})


@dataclass(frozen=True, slots=True)
class WideColumn:
    """A column that is wider on a table than it is declared. ``fits``: SQL that is true of a row whose value the declared type holds."""

    name: str
    declared: DataType
    cast: str
    fits: str

    def shown(self, *, or_null: bool) -> str:
        message = f"a value of {self.name} does not fit {type_sql(self.declared)}, which its release declares"
        return f"IF({self.fits}, {self.cast}, {'NULL' if or_null else f'raise_error({string_sql(message)})'})"


def wide_columns(state: State, shard: ShardId) -> list[WideColumn]:
    """Return the columns that are wider than declared on the table as it is recorded, or as an open intent may have made it."""
    schemas = state.schemas_of(shard)
    if not schemas:
        return []
    leads_to = (found for intent in state.intents_of(shard) for found in intent.leads_to)
    return list(_wide_columns(schemas[-1].declared, (schemas[-1].physical, *leads_to)))


def _wide_columns(declared: Declaration, tables: Sequence[Declaration]) -> Iterator[WideColumn]:
    for column in declared.fields:
        there = [stored_type(found.type) for table in tables if (found := table.field(column.name)) is not None]
        wanted, wide = relaxed(stored_type(column.type)), relaxed(_widest(there[0], there))
        fits = held(quote(column.name), wide, wanted)
        if fits is not None:
            yield WideColumn(column.name, column.type, narrow_column(Field(column.name, wide), Field(column.name, wanted)), fits)


def _widest(table: DataType, tables: Sequence[DataType]) -> DataType:
    """Return the type of a table with the widest type that one of ``tables`` has in each place of it."""
    match table:
        case Struct(fields=fields):
            structs = [other for other in tables if isinstance(other, Struct)]
            inside = {name: [f.type for struct in structs for f in struct.fields if f.name == name] for name in (f.name for f in fields)}
            return Struct(tuple(replace(field, type=_widest(field.type, inside[field.name])) for field in fields))
        case Array(element=element):
            return replace(table, element=_widest(element, [other.element for other in tables if isinstance(other, Array)]))
        case Map(key=key, value=value):
            maps = [other for other in tables if isinstance(other, Map)]
            return replace(table, key=_widest(key, [m.key for m in maps]), value=_widest(value, [m.value for m in maps]))
        case Primitive():
            for other in tables:
                table = other if is_widening(table, other) else table
            return table
