"""A draft of a rewrite's ``up`` or ``down``: every column by its name, cast where its type differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.queries.projection import NotProjectable, project
from airflow_provider_schemamig.core.release.queries.query import placeholders
from airflow_provider_schemamig.core.schema.clauses import clauses_of, fills_itself
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.expressions.calls import not_constant
from airflow_provider_schemamig.core.schema.expressions.canonical import may_stand_bare
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Declaration, Field, Primitive
from airflow_provider_schemamig.core.schema.sql import quote, type_sql

_INDENT = " " * 12


@dataclass(frozen=True, slots=True)
class DraftQuery:
    """Spark SQL over ``{collection}``, and what its author has to decide."""

    sql: str
    questions: tuple[str, ...]


def draft_query(source: Declaration, target: Declaration, renames: Mapping[ColumnPath, str]) -> DraftQuery:
    """Return ``SELECT ... FROM {source}`` with the columns of ``target``. ``renames``: a column of ``source`` -> its name in ``target``."""
    gone = set(renames)
    by_name = {f.name: f for f in source.fields if f.name not in gone}
    by_name |= {renames[ColumnPath(f.name)]: f for f in source.fields if f.name in gone}
    questions: list[str] = []
    items = []
    for field in target.fields:
        old = by_name.get(field.name)
        sql = _added(field, questions) if old is None else _kept(source, old, field, questions)
        items.append(sql if sql == _name(field.name) else f"{sql} AS {_name(field.name)}")
    columns = ",\n".join(f"{_INDENT}  {item}" for item in items)
    return DraftQuery(f"\n{_INDENT}SELECT\n{columns}\n{_INDENT}FROM {{{source.name}}}\n        ", tuple(questions))


def _name(name: str) -> str:
    return name if may_stand_bare(name) else quote(name)


def _kept(source: Declaration, old: Field, new: Field, questions: list[str]) -> str:
    if not new.nullable and old.nullable:
        questions.append(f"{new.name} is NOT NULL, and {old.name} may hold NULL: what is it then?")
    if canonical_type(old.type) == canonical_type(new.type):
        return _name(old.name)
    if isinstance(old.type, Primitive) and isinstance(new.type, Primitive):
        if not is_widening(old.type, new.type):
            questions.append(f"{old.name} is cast from {type_sql(old.type)} to {type_sql(new.type)}: is that right for every value?")
        return f"CAST({_name(old.name)} AS {type_sql(new.type)})"
    wanted = replace(new, name=old.name, nullable=True, default=None)
    try:
        found = project(replace(source, fields=(old,)), replace(source, fields=(wanted,)), {})
    except NotProjectable:
        questions.append(f"{old.name} is cast from {type_sql(old.type)} to {type_sql(new.type)}; fields of structs are cast by position")
        return f"CAST({_name(old.name)} AS {type_sql(new.type)})"
    return found.removesuffix(f" AS {quote(old.name)}")


def _added(new: Field, questions: list[str]) -> str:
    for _, text in clauses_of(new):
        if not not_constant(text) and not placeholders(text):
            return f"CAST({text} AS {type_sql(new.type)})"
    if fills_itself(new) or not new.nullable:
        questions.append(f"{new.name} is new: which value do the rows get that are there?")
    return f"CAST(NULL AS {type_sql(new.type)})"
