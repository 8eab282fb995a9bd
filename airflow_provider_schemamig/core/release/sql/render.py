"""A declaration as the CREATE TABLE that says it: how a table that is there already gets into schema.sql.

What is written is read back at once (``parse``). A table that Spark SQL, or our grammar of it, cannot say is refused here with the reason,
and never written down as something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.names import CollectionName, column_name, quote
from airflow_provider_schemamig.core.release.sql.create_table import create_table
from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.errors import SqlRefusal
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.release.sql.text import statements
from airflow_provider_schemamig.core.schema.clauses import clauses_of
from airflow_provider_schemamig.core.schema.expressions.canonical import may_stand_bare
from airflow_provider_schemamig.core.schema.expressions.tokens import tokens
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, ForeignKey, Key, Map, Primitive, Struct, walk
from airflow_provider_schemamig.core.schema.sql import string_sql
from airflow_provider_schemamig.exceptions import Refusal, Refused

_INDENT = "    "


class NotDeclarable(Refusal):
    """A table has something that no CREATE TABLE of ours can say."""

    code = "not_declarable"
    message = "the table cannot be written as a declaration: {reason}."
    next_action = "Change that on the table (docs/schema-changes.md lists what a declaration holds), or leave it unmanaged."
    reason: str


def create_table_text(declaration: Declaration, remarks: Sequence[str] = ()) -> str:
    """Return the statement, with its semicolon and a newline; ``remarks`` become comments above it. Equal input gives equal text.

    Raises InvalidName (a column that may not be called so), NotDeclarable.
    """
    for path, field in walk(declaration.fields):
        column_name(field.name, declaration.name)
        for clause, _ in clauses_of(field):
            if path != field.name:
                reason = f"{path} has a {clause.noun}, and only a column can have one"
                raise NotDeclarable(collection=declaration.name, reason=reason)
    text = "".join(f"-- {' '.join(remark.split())}\n" for remark in remarks) + "\n".join(_lines(declaration)) + ";\n"
    _read_back(declaration, text)
    return text


def sayable(declaration: Declaration) -> Declaration:
    """Return a declaration as SQL can write it: without NOT NULL inside arrays and maps, which Delta does not enforce."""
    return replace(declaration, fields=tuple(replace(f, type=_sayable(f.type, inside=False)) for f in declaration.fields))


def _sayable(data_type: DataType, inside: bool) -> DataType:
    match data_type:
        case Struct(fields=fields):
            return Struct(tuple(replace(f, type=_sayable(f.type, inside), nullable=f.nullable or inside) for f in fields))
        case Array(element=element):
            return Array(_sayable(element, inside=True))
        case Map(key=key, value=value):
            return Map(_sayable(key, inside=True), _sayable(value, inside=True))
        case Primitive():
            return data_type


def with_statement(schema: str, collection: CollectionName, statement: str) -> str:
    """Return a schema.sql's text with another statement for ``collection``; everything around it stays as its author wrote it."""
    begin, end = _place_of(schema, collection)
    return schema[:begin] + statement.rstrip().removesuffix(";") + schema[end:]


def with_more_statements(schema: str, added: str) -> str:
    """Return a schema.sql's text with ``added`` at its end; its own last statement need have no semicolon."""
    known, schema = statements(schema), schema.rstrip()
    if known and len(statements(f"{schema}\n{added}")) < len(known) + len(statements(added)):
        schema += "\n;" if "--" in schema.rpartition("\n")[2] else ";"
    return f"{schema}\n\n{added}"


def without_statement(schema: str, collection: CollectionName) -> str:
    """Return a schema.sql's text that does not declare ``collection`` any more; comments stay, also those that speak of it."""
    begin, end = _place_of(schema, collection)
    after = schema[end:].lstrip().removeprefix(";").lstrip("\n")
    return schema[:begin] + after


def _place_of(schema: str, collection: CollectionName) -> tuple[int, int]:
    """Return where the statement of ``collection`` begins and ends, without its semicolon."""
    for found in statements(schema):
        if _declared_name(found.text) == collection:
            return found.offset, found.offset + len(found.text)
    raise KeyError(collection)


def _declared_name(statement: str) -> str:
    """Return the collection that one statement declares. Not by ``parse_schema``: a foreign key's other side is not in it."""
    return create_table(Cursor(statement, tokens(statement))).name.text


def _read_back(declaration: Declaration, text: str) -> None:
    if declaration.foreign_keys:  # their other side is not in the text
        declaration = replace(declaration, foreign_keys=())
        text = "\n".join(_lines(declaration)) + ";\n"
    try:
        (found,) = parse_schema(text, declaration.name)
    except Refused as several:
        reasons = [_reason(refusal) for refusal in several.refusals]
        raise NotDeclarable(collection=declaration.name, reason="; ".join(reasons)) from several
    except SqlRefusal as refusal:
        raise NotDeclarable(collection=declaration.name, reason=_reason(refusal)) from refusal
    if fingerprint(found) != fingerprint(declaration):
        raise NotDeclarable(collection=declaration.name, reason="its CREATE TABLE does not read back as the table is")


def _reason(refusal: Exception) -> str:
    text = refusal.message if isinstance(refusal, Refusal) else str(refusal)
    if isinstance(refusal, SqlRefusal):
        text = text.removeprefix(f"{refusal.where}: ")
    return text.rstrip(".")


def _lines(declaration: Declaration) -> Iterator[str]:
    yield f"CREATE TABLE {_name(declaration.name)} ("
    inside = [*map(_column, declaration.fields), *_constraints(declaration)]
    yield ",\n".join(f"{_INDENT}{line}" for line in inside)
    clauses = list(_clauses(declaration))
    yield ")" if not clauses else f") {clauses[0]}"
    yield from clauses[1:]


def _column(field: Field) -> str:
    parts = [_name(field.name), _type(field.type)]
    if not field.nullable:
        parts.append("NOT NULL")
    parts += [clause.sql(text) for clause, text in clauses_of(field)]
    if field.comment is not None:
        parts.append(f"COMMENT {string_sql(field.comment)}")
    return " ".join(parts)


def _type(data_type: DataType) -> str:
    """Write a type with the NOT NULLs and comments of struct fields, which ``schema.sql.type_sql`` (for casts) leaves out."""
    match data_type:
        case Primitive(name=name):
            return name.upper()
        case Array(element=element):
            return f"ARRAY<{_type(element)}>"
        case Map(key=key, value=value):
            return f"MAP<{_type(key)}, {_type(value)}>"
        case Struct(fields=fields):
            return f"STRUCT<{', '.join(map(_struct_field, fields))}>"


def _struct_field(field: Field) -> str:
    required = "" if field.nullable else " NOT NULL"
    comment = "" if field.comment is None else f" COMMENT {string_sql(field.comment)}"
    return f"{_name(field.name)}: {_type(field.type)}{required}{comment}"


def _constraints(declaration: Declaration) -> Iterator[str]:
    for check in declaration.checks:
        yield f"CONSTRAINT {_name(check.name)} CHECK ({check.expression})"
    if declaration.primary_key is not None:
        yield f"{_constraint(declaration.primary_key)}PRIMARY KEY ({_names(declaration.primary_key.columns)})"
    for key in declaration.uniques:
        yield f"{_constraint(key)}UNIQUE ({_names(key.columns)})"
    for foreign in declaration.foreign_keys:
        target = f"{_name(foreign.references)} ({_names(foreign.referenced_columns)})"
        yield f"{_constraint(foreign)}FOREIGN KEY ({_names(foreign.columns)}) REFERENCES {target}"


def _constraint(key: Key | ForeignKey) -> str:
    return "" if key.name is None else f"CONSTRAINT {_name(key.name)} "


def _clauses(declaration: Declaration) -> Iterator[str]:
    if declaration.partitioned_by:
        yield f"PARTITIONED BY ({_names(declaration.partitioned_by)})"
    if declaration.clustered_by:
        yield f"CLUSTER BY ({', '.join('.'.join(map(_name, path.split('.'))) for path in declaration.clustered_by)})"
    if declaration.comment is not None:
        yield f"COMMENT {string_sql(declaration.comment)}"
    if declaration.properties:
        pairs = ", ".join(f"{string_sql(key)} = {string_sql(value)}" for key, value in declaration.properties)
        yield f"TBLPROPERTIES ({pairs})"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(_name, names))


def _name(name: str) -> str:
    """Put a name in backticks only where it has to be: people read schema.sql."""
    return name if may_stand_bare(name) else quote(name)
