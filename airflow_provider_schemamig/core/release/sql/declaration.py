"""From a draft to a declaration: names resolved, duplicates and impossible uses refused, everything in canonical order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace

from airflow_provider_schemamig.core.names import CollectionName, InvalidName, collection_name, constraint_rule, name_key
from airflow_provider_schemamig.core.release.sql.create_table import DraftCheck, DraftColumn, DraftForeignKey, DraftKey, TableDraft
from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.errors import DuplicateName, InvalidSqlName, InvalidUse, UndeclaredColumn, UnsafeProperty
from airflow_provider_schemamig.core.schema.delta_rules.properties import refusal_reason
from airflow_provider_schemamig.core.schema.expressions.parse import unknown_references
from airflow_provider_schemamig.core.schema.expressions.tokens import Token
from airflow_provider_schemamig.core.schema.model import (
    Check,
    DataType,
    Declaration,
    Field,
    ForeignKey,
    Key,
    Primitive,
    Struct,
    plain_field,
)
from airflow_provider_schemamig.core.schema.ordering import sorted_checks, sorted_foreign_keys, sorted_keys, sorted_properties

#: Delta's own limit: it clusters by the columns it keeps statistics of, and by four of them.
MAX_CLUSTERING_COLUMNS = 4


class Builder:
    """Checks one draft; findings are noted on the cursor, at their places."""

    def __init__(self, cursor: Cursor, draft: TableDraft) -> None:
        self._cursor = cursor
        self._draft = draft
        self._fields: tuple[Field, ...] = ()
        self._by_name: dict[str, Field] = {}

    def build(self) -> tuple[Declaration, tuple[tuple[ForeignKey, Token], ...]]:
        """Build the declaration, and its foreign keys with their places.

        What the keys refer to is checked when all collections are known.
        """
        draft = self._draft
        name = self._collection_name(draft.name)
        self._fields = self._columns()
        self._by_name = {f.name.lower(): f for f in self._fields}
        self._unique_constraint_names()
        foreign_keys = tuple((self._foreign_key(key), key.token) for key in draft.foreign_keys)
        primary, uniques = self._keys()
        declaration = Declaration(
            name=name,
            fields=self._required(primary),
            partitioned_by=self._partitioning(),
            clustered_by=self._clustering(),
            checks=self._checks(),
            primary_key=primary,
            uniques=uniques,
            foreign_keys=sorted_foreign_keys(key for key, _ in foreign_keys),
            properties=self._properties(),
            comment=draft.comment,
        )
        return declaration, foreign_keys

    def _collection_name(self, token: Token) -> CollectionName:
        try:
            return collection_name(token.text)
        except InvalidName as error:
            self._cursor.note(InvalidSqlName, token, kind="collection", name=token.text, rule=error.rule)
            return CollectionName(token.text)

    def _columns(self) -> tuple[Field, ...]:
        seen: set[str] = set()
        fields = []
        for column in self._draft.columns:
            key = name_key(column.token.text)
            if key in seen:
                self._duplicate("column", column.token)
                continue
            seen.add(key)
            fields.append(new_field(column))
        for column in self._draft.columns:
            note_misuses(self._cursor, column, tuple(fields))
        return tuple(fields)

    def _required(self, primary: Key | None) -> tuple[Field, ...]:
        """Make the columns of a PRIMARY KEY NOT NULL, as everywhere in SQL."""
        if primary is None:
            return self._fields
        return tuple(replace(f, nullable=False) if f.name in primary.columns else f for f in self._fields)

    def _unique_constraint_names(self) -> None:
        constraints: list[DraftCheck | DraftKey | DraftForeignKey] = [*self._draft.checks, *self._draft.keys, *self._draft.foreign_keys]
        names = [constraint.name for constraint in constraints if constraint.name is not None]
        seen: set[str] = set()
        for token in sorted(names, key=lambda name: name.start):
            if token.text.lower() in seen:
                self._duplicate("constraint", token)
            rule = constraint_rule(token.text)
            if rule is not None:
                self._cursor.note(InvalidSqlName, token, kind="constraint", name=token.text, rule=rule)
            seen.add(token.text.lower())

    def _checks(self) -> tuple[Check, ...]:
        found: dict[str, Check] = {}
        for draft in self._draft.checks:
            name = check_name(draft.expression) if draft.name is None else draft.name.text.lower()
            for reference in unknown_references(draft.expression, self._fields):
                self._unknown(draft.token, reference, "the CHECK")
            if name in found and draft.name is None:
                self._duplicate("constraint", draft.token, f"CHECK ({draft.expression})")
            found[name] = Check(name, draft.expression)
        return sorted_checks(found.values())

    def _keys(self) -> tuple[Key | None, tuple[Key, ...]]:
        primary: Key | None = None
        uniques: set[Key] = set()
        for draft in self._draft.keys:
            used_by = "PRIMARY KEY" if draft.primary else "UNIQUE"
            key = Key(self._key_columns(draft.columns, used_by), _text(draft.name))
            if draft.primary and primary is not None:
                self._invalid_use(draft.token, "a second PRIMARY KEY", "a collection has one")
            if draft.primary:
                primary = key
            elif any(key.columns == other.columns for other in uniques):
                self._duplicate("constraint", draft.token, f"UNIQUE ({', '.join(key.columns)})")
            else:
                uniques.add(key)
        return primary, sorted_keys(uniques)

    def _foreign_key(self, draft: DraftForeignKey) -> ForeignKey:
        return ForeignKey(
            columns=self._key_columns(draft.columns, "FOREIGN KEY"),
            references=self._collection_name(draft.references),
            referenced_columns=tuple(token.text for token in draft.referenced_columns),
            name=_text(draft.name),
        )

    def _key_columns(self, tokens: Iterable[Token], used_by: str) -> tuple[str, ...]:
        return self._top_level(tokens, used_by, lambda data_type: isinstance(data_type, Primitive), "a key is made of atomic columns")

    def _partitioning(self) -> tuple[str, ...]:
        tokens = self._draft.partitioned_by
        found = self._top_level(tokens, "PARTITIONED BY", lambda data_type: isinstance(data_type, Primitive), "it has no atomic type")
        if tokens and len(found) == len(self._fields):
            self._invalid_use(tokens[0], "PARTITIONED BY", "a Delta table needs a column that is none of its partitioning")
        return found

    def _top_level(self, tokens: Iterable[Token], used_by: str, fits: Callable[[DataType], bool], reason: str) -> tuple[str, ...]:
        """Return the declared names of columns, each once."""
        found: list[str] = []
        for token in tokens:
            column = self._by_name.get(token.text.lower())
            if column is None:
                self._unknown(token, token.text, used_by)
            elif column.name in found:
                self._duplicate(f"{used_by} column", token)
            elif not fits(column.type):
                self._invalid_use(token, f"{used_by} {column.name}", reason)
            else:
                found.append(column.name)
        return tuple(found)

    def _clustering(self) -> tuple[str, ...]:
        paths = self._draft.clustered_by
        found = [(parts[0], path) for parts in paths if (path := self._clustering_path(parts)) is not None]
        names = tuple(path for _, path in found)
        if paths and self._draft.partitioned_by:
            self._invalid_use(paths[0][0], "CLUSTER BY", "the table is PARTITIONED BY columns already, and Delta knows one of the two")
        if len(paths) > MAX_CLUSTERING_COLUMNS:
            self._invalid_use(paths[0][0], "CLUSTER BY", f"Delta clusters by at most {MAX_CLUSTERING_COLUMNS} columns")
        for number, (token, path) in enumerate(found):
            if path in names[:number]:
                self._duplicate("CLUSTER BY column", token, path)
        return names

    def _clustering_path(self, parts: list[Token]) -> str | None:
        here: DataType = Struct(self._fields)
        names: list[str] = []
        for token in parts:
            inside = here.fields if isinstance(here, Struct) else ()
            column = next((f for f in inside if f.name.lower() == token.text.lower()), None)
            if column is None:
                self._unknown(token, ".".join(part.text for part in parts), "CLUSTER BY")
                return None
            names.append(column.name)
            here = column.type
        if not isinstance(here, Primitive) or here.name in ("binary", "boolean"):
            self._invalid_use(parts[0], f"CLUSTER BY {'.'.join(names)}", "Delta keeps no minimum and maximum of its type")
            return None
        return ".".join(names)

    def _properties(self) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        for token, key, value in self._draft.properties:
            reason = refusal_reason(key)
            if reason is not None:
                self._cursor.note(UnsafeProperty, token, key=key, reason=reason)
            elif key in found:
                self._duplicate("table property", token, key)
            else:
                found[key] = value
        return sorted_properties(found.items())

    def _duplicate(self, kind: str, token: Token, name: str | None = None) -> None:
        self._cursor.note(DuplicateName, token, kind=kind, name=token.text if name is None else name)

    def _unknown(self, token: Token, name: str, used_by: str) -> None:
        self._cursor.note(UndeclaredColumn, token, name=name, used_by=used_by)

    def _invalid_use(self, token: Token, used_by: str, reason: str) -> None:
        self._cursor.note(InvalidUse, token, used_by=used_by, reason=reason)


def new_field(column: DraftColumn) -> Field:
    """Return the column of a draft, with its clauses as they are stored (``DEFAULT NULL`` is none)."""
    if not column.clauses and column.comment is None:
        return plain_field(column.token.text, column.type, column.nullable)
    clauses = {clause.attribute: clause.stored(text) for clause, (text, _) in column.clauses.items()}
    return Field(column.token.text, column.type, column.nullable, comment=column.comment, **clauses)


def note_misuses(cursor: Cursor, column: DraftColumn, fields: tuple[Field, ...]) -> None:
    """Note each clause that a column among ``fields`` cannot have."""
    for clause, (text, token) in column.clauses.items():
        reason = clause.misuse(text, new_field(column), fields)
        if reason is not None:
            cursor.note(InvalidUse, token, used_by=f"a {clause.name}", reason=reason)


def check_name(expression: str) -> str:
    """Return the name of an unnamed CHECK: always the same for the same (canonical) expression."""
    return f"check_{hashlib.sha256(expression.encode()).hexdigest()[:10]}"


def _text(token: Token | None) -> str | None:
    return None if token is None else token.text
