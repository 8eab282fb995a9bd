"""One DDL statement of Spark SQL, read against the declarations there are: what ``schemamig alter`` is asked to do.

What comes out is a whole declaration that schema.sql could hold, and the renames that lead there: ``schema.diff(old, new, renames)``
is the change that the statement asks for, and nothing else.

- CHECK constraints always have a name (an unnamed one gets it from its expression), keys and foreign keys may have one. DROP CONSTRAINT
  finds any of them by name; a key without one is dropped as DROP PRIMARY KEY, DROP UNIQUE (a, b) or DROP FOREIGN KEY (a).
- IF EXISTS and IF NOT EXISTS: a statement that finds its work done gives what changes nothing. ``Alter.new`` equals the declaration there
  is, ``DropTable.collection`` is none of the declarations, ``CreateTable.new`` is one of them.
- One statement changes one collection. What would change another one's foreign key is refused: DROP and RENAME of a column it refers to,
  or of the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, InvalidName, collection_name
from airflow_provider_schemamig.core.release.sql.alter.errors import AlterSyntax, NameInUse, UnknownName, UnsupportedAlter
from airflow_provider_schemamig.core.release.sql.alter.grammar import alter_actions
from airflow_provider_schemamig.core.release.sql.alter.paths import foreign_key_text, near, referring
from airflow_provider_schemamig.core.release.sql.alter.table import Altered
from airflow_provider_schemamig.core.release.sql.create_table import create_table
from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.declaration import Builder
from airflow_provider_schemamig.core.release.sql.errors import (
    DuplicateName,
    InvalidSqlName,
    InvalidUse,
    SqlRefusal,
    SqlSyntax,
    UnsupportedClause,
)
from airflow_provider_schemamig.core.release.sql.parse import referenced, wrong_reference
from airflow_provider_schemamig.core.release.sql.text import line_and_column, statements
from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText, Token, tokens
from airflow_provider_schemamig.core.schema.model import Declaration, ForeignKey
from airflow_provider_schemamig.core.schema.ordering import sorted_foreign_keys
from airflow_provider_schemamig.exceptions import raise_refusals

Declarations = Mapping[CollectionName, Declaration]
#: Stands for a file's name in errors.
_STATEMENT = "statement"


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER TABLE: the whole declaration after it. ``renames``: old path -> new last name, as ``schema.diff`` takes them."""

    collection: CollectionName
    new: Declaration
    renames: Mapping[ColumnPath, str]


@dataclass(frozen=True, slots=True)
class CreateTable:
    new: Declaration


@dataclass(frozen=True, slots=True)
class RenameTable:
    """``new`` is the declaration under its new name; its foreign keys to itself bear that name, too."""

    collection: CollectionName
    name: CollectionName
    new: Declaration


@dataclass(frozen=True, slots=True)
class DropTable:
    collection: CollectionName


Alteration = Alter | CreateTable | RenameTable | DropTable


def read_alteration(text: str, declarations: Declarations) -> Alteration:
    """Return what one statement asks for, of the collections there are. A semicolon may end it.

    Raises AlterSyntax, UnsupportedAlter, UnknownName, NameInUse, and of ``sql.errors`` UnknownType, UnsafeProperty, InvalidSqlName,
    DuplicateName, UnknownColumn, InvalidUse (the one, or all of them in Refused), each with line and column in ``text``.
    """
    cursor = _cursor(text)
    altering, name = cursor.looks_at("ALTER"), CollectionName(cursor.peek(2).text)
    collection = name if name in declarations else None
    found: Alteration | None = None
    try:
        found = _read(cursor, declarations)
        if not cursor.at_end:
            raise cursor.unexpected("the end of the statement")
    except SqlRefusal as error:
        cursor.refusals.append(error)
    raise_refusals([_of_statement(refusal, altering, collection) for refusal in cursor.refusals])
    assert found is not None  # else there was a refusal
    return found


def _cursor(text: str) -> Cursor:
    """Return a cursor over the one statement in the text. Raises AlterSyntax."""
    try:
        found = statements(text)
        if len(found) == 1:
            end = found[0].offset + len(found[0].text)
            return Cursor(text[:end], tokens(text[:end]))
        offset, reason = (found[1].offset, "a second statement; one at a time") if found else (0, "there is no statement")
    except BrokenText as error:
        offset, reason = error.offset, error.reason
    line, column = line_and_column(text, offset)
    raise AlterSyntax(file=_STATEMENT, line=line, column=column, reason=reason)


def _of_statement(refusal: SqlRefusal, altering: bool, collection: CollectionName | None) -> SqlRefusal:
    """Return the refusal as one of a statement and not of a schema."""
    line, column = refusal.line, refusal.column
    if isinstance(refusal, SqlSyntax):
        return AlterSyntax(collection=collection, file=_STATEMENT, line=line, column=column, reason=refusal.reason)
    if isinstance(refusal, UnsupportedClause) and altering:
        clause, reason = refusal.clause, refusal.reason
        return UnsupportedAlter(collection=collection, file=_STATEMENT, line=line, column=column, clause=clause, reason=reason)
    return replace(refusal, collection=collection, file=_STATEMENT)


def _read(cursor: Cursor, declarations: Declarations) -> Alteration:
    """Read the statement. Raises SqlSyntax, UnsupportedClause, UnknownName; with other findings, noted on the cursor, it means nothing."""
    if cursor.looks_at("CREATE", "TABLE"):
        return _create(cursor, declarations)
    if cursor.accept("DROP", "TABLE"):
        return _drop(cursor, declarations)
    if not cursor.accept("ALTER", "TABLE"):
        is_begun = any(cursor.accept(word) for word in ("ALTER", "CREATE", "DROP"))
        raise cursor.unexpected("TABLE" if is_begun else "ALTER TABLE, CREATE TABLE or DROP TABLE")
    declaration = _collection(cursor, declarations)
    if cursor.accept("RENAME", "TO"):
        return _rename(cursor, declaration, declarations)
    place = cursor.peek()
    altered = Altered(cursor, declaration, declarations)
    alter_actions(altered)
    new = _resolved(cursor, altered.declaration, altered.foreign_keys, declarations)
    _check_referring(cursor, new, declarations, place)
    return Alter(declaration.name, new, altered.renames)


def _name(cursor: Cursor) -> Token:
    """Read a collection's name: one word."""
    name = cursor.name()
    if cursor.looks_at("."):
        raise cursor.syntax(f"a collection's name is one word, without {name.text}. before it; the environment knows its place", name)
    return name


def _collection(cursor: Cursor, declarations: Declarations) -> Declaration:
    """Return the declaration of the collection whose name comes next. Raises SqlSyntax, UnknownName."""
    name = _name(cursor)
    found = declarations.get(CollectionName(name.text))
    if found is None:
        raise cursor.refusal(UnknownName, name, what=f"collection {name.text}", near=near(name.text, declarations))
    return found


def _new_name(cursor: Cursor, token: Token, declarations: Declarations) -> CollectionName:
    name = CollectionName(token.text)
    try:
        name = collection_name(token.text)
    except InvalidName as error:
        cursor.note(InvalidSqlName, token, kind="collection", name=token.text, rule=error.rule)
    if name in declarations:
        cursor.note(DuplicateName, token, kind="collection", name=name)
    return name


def _rename(cursor: Cursor, declaration: Declaration, declarations: Declarations) -> RenameTable:
    token = _name(cursor)
    name = _new_name(cursor, token, declarations)
    _refuse_referred(cursor, token, f"RENAME TO {name}", declaration, declarations)
    keys = (replace(key, references=name) if key.references == declaration.name else key for key in declaration.foreign_keys)
    return RenameTable(declaration.name, name, replace(declaration, name=name, foreign_keys=sorted_foreign_keys(keys)))


def _drop(cursor: Cursor, declarations: Declarations) -> DropTable:
    if_exists = cursor.accept("IF", "EXISTS")
    token = cursor.peek()
    if if_exists and CollectionName(token.text) not in declarations:
        return DropTable(CollectionName(_name(cursor).text))
    declaration = _collection(cursor, declarations)
    if cursor.looks_at("PURGE"):
        raise cursor.syntax("there is no PURGE: a dropped collection can be brought back until its hold ends", cursor.peek())
    _refuse_referred(cursor, token, f"DROP TABLE {declaration.name}", declaration, declarations)
    return DropTable(declaration.name)


def _refuse_referred(cursor: Cursor, token: Token, action: str, declaration: Declaration, declarations: Declarations) -> None:
    users = tuple(referring(declaration, None, declarations))
    if users:
        cursor.note(NameInUse, token, action=action, users=users)


def _create(cursor: Cursor, declarations: Declarations) -> CreateTable:
    """Read a CREATE TABLE as in schema.sql. With IF NOT EXISTS the collection may be there, if it is declared the same."""
    if_not_exists = cursor.peek(2).upper == "IF" and cursor.peek(3).upper == "NOT"
    draft = create_table(cursor)
    declaration, foreign_keys = Builder(cursor, draft).build()
    new = _resolved(cursor, declaration, foreign_keys, declarations)
    if new.name in declarations and not (if_not_exists and declarations[new.name] == new):
        cursor.note(DuplicateName, draft.name, kind="collection", name=new.name)
    return CreateTable(new)


def _resolved(
    cursor: Cursor, declaration: Declaration, foreign_keys: tuple[tuple[ForeignKey, Token], ...], declarations: Declarations
) -> Declaration:
    """Return the declaration with the columns its foreign keys refer to; wrong ones are noted."""
    found: list[ForeignKey] = []
    for key, token in foreign_keys:
        target = declaration if key.references == declaration.name else declarations.get(key.references)
        if target is None:
            cursor.note(UnknownName, token, what=f"collection {key.references}", near=near(key.references, declarations))
            continue
        resolved = referenced(key, target)
        reason = wrong_reference(declaration, resolved, target)
        if reason is not None:
            cursor.note(InvalidUse, token, used_by=foreign_key_text(key), reason=reason)
        if any(replace(resolved, name=other.name) == other for other in found):
            cursor.note(DuplicateName, token, kind="constraint", name=foreign_key_text(key))
        found.append(resolved)
    return replace(declaration, foreign_keys=sorted_foreign_keys(found)) if foreign_keys else declaration


def _check_referring(cursor: Cursor, new: Declaration, declarations: Declarations, place: Token) -> None:
    """Note what other collections' foreign keys to this one would then be wrong about."""
    for other in declarations.values():
        for key in other.foreign_keys:
            reason = wrong_reference(other, key, new) if other.name != new.name and key.references == new.name else None
            if reason is not None:
                cursor.note(InvalidUse, place, used_by=f"{foreign_key_text(key)} of {other.name}", reason=reason)
