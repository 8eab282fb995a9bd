"""A schema's Spark SQL as declarations.

Statements are cut apart first and read one by one, so that one bad statement does not hide the next one's errors; a statement whose
text was read before (an unchanged collection in the snapshot of another version) is not read again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.sql.create_table import create_table
from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.declaration import Builder
from airflow_provider_schemamig.core.release.sql.errors import DuplicateCollection, InvalidUse, SqlRefusal, SqlSyntax
from airflow_provider_schemamig.core.release.sql.text import Statement, line_and_column, statements
from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText, tokens
from airflow_provider_schemamig.core.schema.model import Declaration, ForeignKey
from airflow_provider_schemamig.core.schema.ordering import sorted_foreign_keys
from airflow_provider_schemamig.exceptions import raise_refusals


@dataclass(frozen=True, slots=True)
class _Read:
    """One statement read: the declaration unless its grammar is broken, what is wrong with it, where its foreign keys stand."""

    declaration: Declaration | None
    refusals: tuple[SqlRefusal, ...]
    foreign_keys: tuple[tuple[ForeignKey, tuple[int, int]], ...] = ()


def parse_schema(sql_text: str, file: str) -> tuple[Declaration, ...]:
    """Return the declarations of a file of CREATE TABLE statements, in its order; ``file`` is its name in errors.

    A PRIMARY KEY's columns become NOT NULL, an unnamed CHECK gets a name that depends on its expression only, CHECK names are lower
    case (Delta's), ``DEFAULT NULL`` is no default, a foreign key without columns means the other's primary key.
    Raises SqlSyntax, UnknownType, UnsupportedClause, UnsafeProperty, InvalidSqlName, DuplicateName, DuplicateCollection, UndeclaredColumn,
    InvalidUse (the one, or all of them in Refused). Everything that is not understood is refused, nothing is ignored.
    """
    refusals: list[SqlRefusal] = []
    found: dict[CollectionName, tuple[Declaration, Statement]] = {}
    references: list[tuple[Declaration, ForeignKey, int, int]] = []
    for statement in _statements(sql_text, file, refusals):
        read = _read(statement.text)
        refusals += [_moved(refusal, file, sql_text, statement, read.declaration) for refusal in read.refusals]
        if read.declaration is None:
            continue
        name = read.declaration.name
        if name in found:
            line, column = line_and_column(sql_text, statement.offset)
            first_line, _ = line_and_column(sql_text, found[name][1].offset)
            refusals.append(DuplicateCollection(collection=name, file=file, line=line, column=column, first_line=first_line))
            continue
        found[name] = (read.declaration, statement)
        references += [(read.declaration, key, *_place(place, sql_text, statement)) for key, place in read.foreign_keys]
    declarations = {name: declaration for name, (declaration, _) in found.items()}
    resolved = _resolve(references, declarations, file, refusals)
    raise_refusals(refusals)
    return tuple(_with_references(declaration, resolved) for declaration in declarations.values())


def places(sql_text: str) -> Mapping[CollectionName, Statement]:
    """Return the statement of each collection, of a text that ``parse_schema`` reads."""
    found = ((_read(statement.text).declaration, statement) for statement in statements(sql_text))
    return {declaration.name: statement for declaration, statement in found if declaration is not None}


def _statements(sql_text: str, file: str, refusals: list[SqlRefusal]) -> tuple[Statement, ...]:
    try:
        return statements(sql_text)
    except BrokenText as error:
        line, column = line_and_column(sql_text, error.offset)
        refusals.append(SqlSyntax(file=file, line=line, column=column, reason=error.reason))
        return ()


@functools.lru_cache(maxsize=16384)
def _read(text: str) -> _Read:
    """Return everything about one statement that depends on its text only."""
    try:
        cursor = Cursor(text, tokens(text))
    except BrokenText as error:
        line, column = line_and_column(text, error.offset)
        return _Read(None, (SqlSyntax(file="", line=line, column=column, reason=error.reason),))
    try:
        draft = create_table(cursor)
    except SqlRefusal as error:
        return _Read(None, (*cursor.refusals, error))
    declaration, foreign_keys = Builder(cursor, draft).build()
    return _Read(declaration, tuple(cursor.refusals), tuple((key, cursor.place(token)) for key, token in foreign_keys))


def _moved(refusal: SqlRefusal, file: str, sql_text: str, statement: Statement, declaration: Declaration | None) -> SqlRefusal:
    """Put a finding of one statement at its place in the file."""
    line, column = _place((refusal.line, refusal.column), sql_text, statement)
    collection = None if declaration is None else declaration.name
    return replace(refusal, file=file, line=line, column=column, collection=collection)


def _place(place: tuple[int, int], sql_text: str, statement: Statement) -> tuple[int, int]:
    """Turn a place in a statement into a place in the file. It is asked for findings only: it counts the lines before."""
    first_line, first_column = line_and_column(sql_text, statement.offset)
    line, column = place
    return first_line + line - 1, column + (first_column - 1 if line == 1 else 0)


def _resolve(
    references: Sequence[tuple[Declaration, ForeignKey, int, int]],
    declarations: Mapping[CollectionName, Declaration],
    file: str,
    refusals: list[SqlRefusal],
) -> dict[ForeignKey, ForeignKey]:
    """Return foreign keys with the columns they refer to; what is wrong with them is added to ``refusals``."""
    resolved: dict[ForeignKey, ForeignKey] = {}
    for declaration, key, line, column in references:
        target = declarations.get(key.references)
        found = key if target is None else referenced(key, target)
        resolved[key] = found
        reason = wrong_reference(declaration, found, target)
        if reason is not None:
            used_by = f"FOREIGN KEY ({', '.join(key.columns)}) REFERENCES {key.references}"
            refusals.append(InvalidUse(collection=declaration.name, file=file, line=line, column=column, used_by=used_by, reason=reason))
    return resolved


def referenced(key: ForeignKey, target: Declaration) -> ForeignKey:
    """Return the key with the columns it refers to, as they are declared; a key without any refers to the primary key."""
    if not key.referenced_columns and target.primary_key is not None:
        return replace(key, referenced_columns=target.primary_key.columns)
    declared = {f.name.lower(): f.name for f in target.fields}
    return replace(key, referenced_columns=tuple(declared.get(name.lower(), name) for name in key.referenced_columns))


def wrong_reference(declaration: Declaration, key: ForeignKey, target: Declaration | None) -> str | None:
    """Return why a foreign key of ``declaration`` cannot refer to ``target``; None if it can."""
    if target is None:
        return "there is no such collection in this file"
    unknown = [name for name in key.referenced_columns if target.field(name) is None]
    if unknown:
        return f"it has no column {unknown[0]}"
    if len(key.columns) != len(key.referenced_columns):
        return f"it refers to {len(key.referenced_columns)} column(s) with {len(key.columns)}"
    for here, there in zip(key.columns, key.referenced_columns, strict=True):
        mine, other = declaration.field(here), target.field(there)
        if mine is not None and other is not None and mine.type != other.type:
            return f"{here} and {there} have different types"
    return None


def _with_references(declaration: Declaration, resolved: Mapping[ForeignKey, ForeignKey]) -> Declaration:
    if not declaration.foreign_keys:
        return declaration
    return replace(declaration, foreign_keys=sorted_foreign_keys(resolved[key] for key in declaration.foreign_keys))
