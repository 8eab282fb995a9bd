"""Changes in words, for plans and documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.clauses import CLAUSES, clause_of, clauses_of
from airflow_provider_schemamig.core.schema.model import Declaration, Field
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.visible import visible


def change_json(change: c.Change) -> dict[str, Any]:
    """Write one change for documents: its op, its path (None for a change of the whole table), its cost, and its description in words."""
    return {"op": change.op, "path": getattr(change, "path", None), "cost": change.cost.value, "text": describe(change)}


def describe(change: c.Change) -> str:
    """Describe one change in words."""
    text: str = _DESCRIBE[type(change)](change)
    return visible(text)


def keys_in_words(declaration: Declaration, names: Mapping[ColumnPath, ColumnPath] | None = None) -> Iterator[str]:
    """Yield the keys as SQL has them, their columns by ``names`` where these have one."""

    def listed(columns: Sequence[str]) -> str:
        return ", ".join((names or {}).get(ColumnPath(column), column) for column in columns)

    if declaration.primary_key is not None:
        yield f"PRIMARY KEY ({listed(declaration.primary_key.columns)})"
    yield from (f"UNIQUE ({listed(key.columns)})" for key in declaration.uniques)
    yield from (f"FOREIGN KEY ({listed(key.columns)}) REFERENCES {key.references}" for key in declaration.foreign_keys)


def column_sql(field: Field) -> str:
    """Return a column as a CREATE TABLE says it, without its name."""
    clauses = [clause.sql(text) for clause, text in clauses_of(field)]
    return " ".join([type_sql(field.type), *([] if field.nullable else ["NOT NULL"]), *clauses])


def _key(change: c.AddKey | c.DropKey) -> str:
    return f"{'PRIMARY KEY' if change.primary else 'UNIQUE'} ({', '.join(change.key.columns)})"


def _foreign_key(change: c.AddForeignKey | c.DropForeignKey) -> str:
    return f"FOREIGN KEY ({', '.join(change.foreign_key.columns)}) to {change.foreign_key.references}"


def _property(change: c.SetProperty) -> str:
    if change.had is not None:
        return f"set property {change.key} = {change.had}, as the table had it before"
    return f"unset property {change.key}" if change.new is None else f"set property {change.key} = {change.new}"


def _set_clause(change: c.SetClause) -> str:
    noun = clause_of(change).noun
    return f"drop {noun} of {change.path}" if change.new is None else f"set {noun} of {change.path} to {change.new}"


#: One line a kind of change; a test holds it to the closed list.
_DESCRIBE: dict[type[Any], Callable[[Any], str]] = {
    c.AddColumn: lambda x: f"add {x.path} {column_sql(x.field)}",
    c.DropColumn: lambda x: f"drop {x.path}",
    c.RenameColumn: lambda x: f"rename {x.path} to {x.name}",
    c.ChangeType: lambda x: f"{'widen' if x.widening else 'convert'} {x.path} from {type_sql(x.old)} to {type_sql(x.new)}",
    c.Relax: lambda x: f"drop NOT NULL of {x.path}",
    c.SetNotNull: lambda x: f"set NOT NULL on {x.path}",
    **{clause.change: _set_clause for clause in CLAUSES},
    c.SetComment: lambda x: f"comment on {x.path or 'the collection'}",
    c.ReorderColumns: lambda x: f"reorder the fields of {x.path}" if x.path else "reorder the columns",
    c.SetProperty: _property,
    c.AddCheck: lambda x: f"add CHECK {x.check.name} ({x.check.expression})",
    c.DropCheck: lambda x: f"drop CHECK {x.check.name}",
    c.AddKey: lambda x: f"add {_key(x)}",
    c.DropKey: lambda x: f"drop {_key(x)}",
    c.AddForeignKey: lambda x: f"add {_foreign_key(x)}",
    c.DropForeignKey: lambda x: f"drop {_foreign_key(x)}",
    c.ChangePartitioning: lambda x: f"partition by ({', '.join(x.new)})",
    c.ChangeClustering: lambda x: f"cluster by ({', '.join(x.new)})",
}
