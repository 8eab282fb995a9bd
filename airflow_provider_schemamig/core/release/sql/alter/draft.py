"""A declaration as the draft it could come from, so that the altered one goes through the checks of CREATE TABLE (``sql.declaration``)."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_schemamig.core.release.sql.create_table import DraftCheck, DraftColumn, DraftForeignKey, DraftKey, TableDraft
from airflow_provider_schemamig.core.schema.clauses import clauses_of
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, TokenKind
from airflow_provider_schemamig.core.schema.model import Declaration, Field, ForeignKey, Key


def draft_of(declaration: Declaration, place: Token) -> TableDraft:
    """Return the draft of a declaration. All of it has the place ``place``: the action that is named if it is not valid any more."""
    primary = () if declaration.primary_key is None else (declaration.primary_key,)
    return TableDraft(
        _token(declaration.name, place),
        columns=[_column(field, place) for field in declaration.fields],
        checks=[DraftCheck(_token(check.name, place), check.expression, place) for check in declaration.checks],
        keys=[*(_key(key, True, place) for key in primary), *(_key(key, False, place) for key in declaration.uniques)],
        foreign_keys=[_foreign_key(key, place) for key in declaration.foreign_keys],
        partitioned_by=_tokens(declaration.partitioned_by, place),
        clustered_by=[_tokens(path.split("."), place) for path in declaration.clustered_by],
        properties=[(place, key, value) for key, value in declaration.properties],
        comment=declaration.comment,
    )


def _column(field: Field, place: Token) -> DraftColumn:
    clauses = {clause: (text, place) for clause, text in clauses_of(field)}
    return DraftColumn(_token(field.name, place), field.type, field.nullable, field.comment, clauses)


def _key(key: Key, primary: bool, place: Token) -> DraftKey:
    return DraftKey(_optional(key.name, place), _tokens(key.columns, place), primary, place)


def _foreign_key(key: ForeignKey, place: Token) -> DraftForeignKey:
    target = _token(key.references, place)
    return DraftForeignKey(_optional(key.name, place), _tokens(key.columns, place), target, _tokens(key.referenced_columns, place), place)


def _tokens(names: Iterable[str], place: Token) -> list[Token]:
    return [_token(name, place) for name in names]


def _optional(name: str | None, place: Token) -> Token | None:
    return None if name is None else _token(name, place)


def _token(name: str, place: Token) -> Token:
    return Token(TokenKind.QUOTED, name, place.start, place.end)
