"""One table while a statement's actions are applied to it, from left to right: constraints, clustering and properties.

Columns are ``columns``. Each action's outcome passes all checks of CREATE TABLE; what does not is noted on the cursor, the
action is left out, and reading goes on, so that one run finds all errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.sql.alter.draft import draft_of
from airflow_provider_schemamig.core.release.sql.alter.errors import UnknownName
from airflow_provider_schemamig.core.release.sql.alter.paths import foreign_key_text, near
from airflow_provider_schemamig.core.release.sql.create_table import TableDraft
from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.declaration import Builder
from airflow_provider_schemamig.core.release.sql.errors import InvalidUse
from airflow_provider_schemamig.core.schema.expressions.tokens import Token
from airflow_provider_schemamig.core.schema.model import Declaration, ForeignKey, Key


class Altered:
    """``declaration`` is the table as the actions so far leave it, ``renames`` what they amount to: old path -> new last name.

    ``foreign_keys``: its foreign keys with their places, which ``statement`` resolves when all actions are read.
    """

    def __init__(self, cursor: Cursor, declaration: Declaration, declarations: Mapping[CollectionName, Declaration]) -> None:
        self.cursor = cursor
        self.declaration = declaration
        self.declarations = declarations
        self.renames: dict[ColumnPath, str] = {}
        self.foreign_keys: tuple[tuple[ForeignKey, Token], ...] = ()

    def keep(self, declaration: Declaration, place: Token) -> None:
        """Go on with this declaration, which the action at ``place`` made, if it holds."""
        self._build(draft_of(declaration, place))

    def edit(self, place: Token, change: Callable[[TableDraft], None]) -> None:
        """Go on with what ``change`` makes of the draft, if it holds."""
        draft = draft_of(self.declaration, place)
        change(draft)
        self._build(draft)

    def _build(self, draft: TableDraft) -> None:
        noted = len(self.cursor.refusals)
        declaration, foreign_keys = Builder(self.cursor, draft).build()
        if len(self.cursor.refusals) == noted:
            self.declaration, self.foreign_keys = declaration, foreign_keys

    def unknown(self, token: Token, what: str, known: Sequence[str] = ()) -> None:
        self.cursor.note(UnknownName, token, what=what, near=known)

    def invalid_use(self, token: Token, used_by: str, reason: str) -> None:
        self.cursor.note(InvalidUse, token, used_by=used_by, reason=reason)


def add_constraint(altered: Altered, place: Token, part: TableDraft) -> None:
    """Add the one constraint that ``part`` holds. A new PRIMARY KEY's columns become NOT NULL."""

    def change(draft: TableDraft) -> None:
        draft.checks += part.checks
        draft.keys += part.keys
        draft.foreign_keys += part.foreign_keys

    altered.edit(place, change)


def drop_constraint(altered: Altered, name: Token, if_exists: bool) -> None:
    """Drop the CHECK, key or foreign key of that name (compared without case); an unnamed CHECK is found by the name it was given."""
    found = next((left for known, left in _named(altered.declaration) if known.lower() == name.text.lower()), None)
    if found is not None:
        altered.keep(found, name)
    elif not if_exists:
        known = [known for known, _ in _named(altered.declaration)]
        altered.unknown(name, f"constraint {name.text}", near(name.text, known) or known[:3])


def _named(declaration: Declaration) -> Iterator[tuple[str, Declaration]]:
    """Yield the name of each constraint, and the declaration without that one."""
    for check in declaration.checks:
        yield check.name, replace(declaration, checks=tuple(other for other in declaration.checks if other != check))
    if declaration.primary_key is not None and declaration.primary_key.name is not None:
        yield declaration.primary_key.name, replace(declaration, primary_key=None)
    for key in declaration.uniques:
        if key.name is not None:
            yield key.name, _without_unique(declaration, key)
    for foreign_key in declaration.foreign_keys:
        if foreign_key.name is not None:
            yield foreign_key.name, _without_foreign_key(declaration, foreign_key)


def _without_unique(declaration: Declaration, key: Key) -> Declaration:
    return replace(declaration, uniques=tuple(other for other in declaration.uniques if other != key))


def _without_foreign_key(declaration: Declaration, key: ForeignKey) -> Declaration:
    return replace(declaration, foreign_keys=tuple(other for other in declaration.foreign_keys if other != key))


def drop_primary_key(altered: Altered, place: Token, if_exists: bool) -> None:
    """Drop the PRIMARY KEY; its columns stay NOT NULL."""
    if altered.declaration.primary_key is not None:
        altered.keep(replace(altered.declaration, primary_key=None), place)
    elif not if_exists:
        altered.unknown(place, "PRIMARY KEY")


def drop_unique(altered: Altered, place: Token, columns: Sequence[Token], if_exists: bool) -> None:
    """Drop the UNIQUE over these columns, in this order, whether it has a name or not."""
    declaration = altered.declaration
    found = next((key for key in declaration.uniques if _same(key.columns, columns)), None)
    if found is not None:
        altered.keep(_without_unique(declaration, found), place)
    elif not if_exists:
        known = [f"UNIQUE ({', '.join(key.columns)})" for key in declaration.uniques]
        altered.unknown(place, f"UNIQUE ({', '.join(token.text for token in columns)})", known[:3])


def drop_foreign_key(altered: Altered, place: Token, columns: Sequence[Token], target: Token | None, if_exists: bool) -> None:
    """Drop the foreign key of these columns, in this order; ``target`` tells it from another one of the same columns."""
    declaration = altered.declaration
    found = [key for key in declaration.foreign_keys if _same(key.columns, columns) and (target is None or key.references == target.text)]
    if len(found) == 1:
        altered.keep(_without_foreign_key(declaration, found[0]), place)
    elif found:
        reason = f"there are {len(found)} ({'; '.join(map(foreign_key_text, found))}); say REFERENCES, or drop it by its name"
        altered.invalid_use(place, "DROP FOREIGN KEY", reason)
    elif not if_exists:
        words = f"FOREIGN KEY ({', '.join(token.text for token in columns)})" + ("" if target is None else f" REFERENCES {target.text}")
        altered.unknown(place, words, [foreign_key_text(key) for key in declaration.foreign_keys][:3])


def _same(columns: Sequence[str], tokens: Sequence[Token]) -> bool:
    return [column.lower() for column in columns] == [token.text.lower() for token in tokens]


def set_clustering(altered: Altered, place: Token, paths: list[list[Token]]) -> None:
    """Cluster by these columns and no others; none: not at all."""

    def change(draft: TableDraft) -> None:
        draft.clustered_by = paths

    altered.edit(place, change)


def set_properties(altered: Altered, place: Token, properties: list[tuple[Token, str, str]]) -> None:
    def change(draft: TableDraft) -> None:
        keys = {key for _, key, _ in properties}
        draft.properties = [*(old for old in draft.properties if old[1] not in keys), *properties]

    altered.edit(place, change)


def unset_property(altered: Altered, token: Token, key: str, if_exists: bool) -> None:
    declaration = altered.declaration
    if key in dict(declaration.properties):
        altered.keep(replace(declaration, properties=tuple(pair for pair in declaration.properties if pair[0] != key)), token)
    elif not if_exists:
        known = [known for known, _ in declaration.properties]
        altered.unknown(token, f"declared table property {key}", near(key, known))
