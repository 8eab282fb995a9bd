"""A statement's actions on columns, and on fields at any depth; see ``table``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.names import ColumnPath, name_key
from airflow_provider_schemamig.core.release.sql.alter.errors import NameInUse
from airflow_provider_schemamig.core.release.sql.alter.paths import AlteredPlace, find_place, near, referring, users
from airflow_provider_schemamig.core.release.sql.alter.table import Altered
from airflow_provider_schemamig.core.release.sql.create_table import DraftColumn
from airflow_provider_schemamig.core.release.sql.declaration import new_field, note_misuses
from airflow_provider_schemamig.core.release.sql.errors import DuplicateName
from airflow_provider_schemamig.core.release.sql.types import note_not_null_inside
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import RenameColumn
from airflow_provider_schemamig.core.schema.clauses import DEFAULT
from airflow_provider_schemamig.core.schema.expressions.renames import RenameInLambda
from airflow_provider_schemamig.core.schema.expressions.tokens import Token
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Primitive, Struct, walk
from airflow_provider_schemamig.core.schema.paths import Fields, Slot, edit_slot, edit_struct, join, parent_and_name, struct_at
from airflow_provider_schemamig.core.schema.sql import type_sql

Path = Sequence[Token]
_NO_DEFAULT = "only a column has one, a field of a struct has not"


@dataclass(frozen=True, slots=True)
class ColumnPosition:
    """Behind the column ``after``; FIRST if that is None."""

    after: Token | None


def add_column(altered: Altered, parents: Path, column: DraftColumn, position: ColumnPosition | None) -> None:
    """Add a column, or below ``parents`` a field; last if it has no position."""
    place = _struct(altered, parents, column.token)
    if place is None:
        return
    siblings = struct_at(altered.declaration.fields, place.path) or ()
    kind = "field" if parents else "column"
    if any(name_key(f.name) == name_key(column.token.text) for f in siblings):
        altered.cursor.note(DuplicateName, column.token, kind=kind, name=join(place.path, column.token.text))
        return
    noted = len(altered.cursor.refusals)
    field = new_field(column)
    note_misuses(altered.cursor, column, (*siblings, field))
    for clause, (_, token) in column.clauses.items() if parents else ():
        altered.invalid_use(token, f"a {clause.name} of {join(place.path, column.token.text)}", _NO_DEFAULT)
    if place.in_collection and _has_not_null(field):
        note_not_null_inside(altered.cursor, column.token)
    if len(altered.cursor.refusals) > noted:
        return
    placed = (*siblings, field) if position is None else _placed(altered, (*siblings, field), field.name, position)
    _keep_struct(altered, column.token, place.path, placed)


def drop_column(altered: Altered, parts: Path, if_exists: bool) -> None:
    if if_exists and find_place(altered.declaration.fields, _names(parts)) is None:
        return
    place = _field(altered, parts, "DROP COLUMN")
    if place is None:
        return
    parent, name = parent_and_name(place.path)
    left = tuple(f for f in struct_at(altered.declaration.fields, parent) or () if f.name != name)
    found = users(altered.declaration, place.path, altered.declarations)
    if found:
        altered.cursor.note(NameInUse, parts[0], action=f"DROP COLUMN {place.path}", users=found)
    elif not left:
        reason = f"it is the only field of {parent}; drop that" if parent else "it is the only column; DROP TABLE drops the collection"
        altered.invalid_use(parts[0], f"DROP COLUMN {place.path}", reason)
    else:
        _keep_struct(altered, parts[0], parent, left)


def rename_column(altered: Altered, parts: Path, name: Token) -> None:
    """Give a column or field a new last name, also in all that uses it."""
    place = _field(altered, parts, "RENAME COLUMN")
    if place is None:
        return
    parent, old = parent_and_name(place.path)
    others = [name_key(f.name) for f in struct_at(altered.declaration.fields, parent) or () if f.name != old]
    if name.text == old or name_key(name.text) in others:
        altered.cursor.note(DuplicateName, name, kind="field" if parent else "column", name=join(parent, name.text))
        return
    # One statement changes one collection: another one's foreign key cannot follow.
    found = tuple(referring(altered.declaration, place.path, altered.declarations))
    if found:
        altered.cursor.note(NameInUse, parts[0], action=f"RENAME COLUMN {place.path}", users=found)
        return
    try:
        renamed = apply(altered.declaration, [RenameColumn(place.path, name.text)])
    except RenameInLambda as error:
        reason = f"the CHECK ({error.expression}) uses that name where it cannot be followed; drop the CHECK first"
        altered.invalid_use(parts[0], f"RENAME COLUMN {place.path}", reason)
        return
    altered.keep(renamed, parts[0])
    altered.renames[place.path] = name.text


def set_type(altered: Altered, parts: Path, data_type: DataType, token: Token) -> None:
    """Change the type of a column, field, element, key or value. Two structs, arrays or maps differ by their parts, which have paths."""
    place = _find(altered, parts)
    if place is None:
        return
    reason = _by_its_parts(place, data_type)
    if reason is not None:
        altered.invalid_use(token, f"ALTER COLUMN {place.path} TYPE {type_sql(data_type)}", reason)
    elif place.in_collection and _has_not_null(Field("", data_type)):
        note_not_null_inside(altered.cursor, token)
    else:
        _keep_slot(altered, parts[0], place.path, lambda slot: replace(slot, type=data_type))


def _by_its_parts(place: AlteredPlace, data_type: DataType) -> str | None:
    """Return why Spark, too, refuses this change of type; a field that went in it would not have been named."""
    match place.type, data_type:
        case (Primitive(), _) | (_, Primitive()):
            return None
        case old, new if old == new:
            return None
        case Struct(), Struct():
            return f"it is a struct already; add, drop and alter its fields by their paths, as in {place.path}.x"
        case Array(), Array():
            return f"it is an array already; alter {place.path}.element"
        case Map(), Map():
            return f"it is a map already; alter {place.path}.key and {place.path}.value"
    return None


def set_nullable(altered: Altered, parts: Path, nullable: bool, token: Token) -> None:
    """Apply DROP NOT NULL or SET NOT NULL."""
    place = _find(altered, parts)
    if place is None:
        return
    primary = altered.declaration.primary_key
    used_by = f"DROP NOT NULL of {place.path}"
    if not nullable and place.in_collection:
        note_not_null_inside(altered.cursor, token)
    elif nullable and primary is not None and place.path in primary.columns:
        altered.invalid_use(token, used_by, "it belongs to the PRIMARY KEY")
    elif nullable and place.path.endswith(".key") and not place.is_field:
        altered.invalid_use(token, used_by, "a map's key is never NULL")
    else:
        _keep_slot(altered, parts[0], place.path, lambda slot: replace(slot, nullable=nullable))


def set_default(altered: Altered, parts: Path, default: tuple[str, Token] | None, token: Token) -> None:
    """Set the default of rows written from now on; None drops it."""
    noted = len(altered.cursor.refusals)
    place = _field(altered, parts, "DEFAULT")
    if default is not None:
        note_misuses(altered.cursor, DraftColumn(parts[-1], Primitive("void"), clauses={DEFAULT: default}), altered.declaration.fields)
    text = None if default is None else DEFAULT.stored(default[0])
    if place is not None and "." in place.path:
        altered.invalid_use(token, f"a DEFAULT of {place.path}", _NO_DEFAULT)
    if place is not None and len(altered.cursor.refusals) == noted:
        _keep_field(altered, parts[0], place.path, lambda field: replace(field, default=text))


def set_comment(altered: Altered, parts: Path, comment: str) -> None:
    place = _field(altered, parts, "COMMENT")
    if place is not None:
        _keep_field(altered, parts[0], place.path, lambda field: replace(field, comment=comment))


def move_column(altered: Altered, parts: Path, position: ColumnPosition) -> None:
    """Move it FIRST or AFTER another, among the columns or among the fields of its struct."""
    place = _field(altered, parts, "FIRST and AFTER")
    if place is not None:
        parent, name = parent_and_name(place.path)
        siblings = struct_at(altered.declaration.fields, parent) or ()
        _keep_struct(altered, parts[0], parent, _placed(altered, siblings, name, position))


def _placed(altered: Altered, fields: Fields, name: str, position: ColumnPosition) -> Fields | None:
    """Return the fields with ``name`` at its position; None if that was noted."""
    others = [f for f in fields if f.name != name]
    index = 0
    if position.after is not None:
        wanted = position.after.text
        before = next((number for number, f in enumerate(others) if f.name.lower() == wanted.lower()), None)
        if before is None:
            altered.unknown(position.after, f"column {wanted} beside {name}", near(wanted, [f.name for f in others]))
            return None
        index = before + 1
    moving = next(f for f in fields if f.name == name)
    return (*others[:index], moving, *others[index:])


def _find(altered: Altered, parts: Path) -> AlteredPlace | None:
    names = _names(parts)
    place = find_place(altered.declaration.fields, names)
    if place is None:
        known = [path for path, _ in walk(altered.declaration.fields)]
        altered.unknown(parts[0], f"column {'.'.join(names)}", near(".".join(names), known))
    return place


def _field(altered: Altered, parts: Path, action: str) -> AlteredPlace | None:
    """Find a place that has a name of its own; None, with a refusal noted, if it has none."""
    place = _find(altered, parts)
    if place is None or place.is_field:
        return place
    altered.invalid_use(parts[0], f"{action} of {place.path}", "it is the inside of an array or map, and no column or field")
    return None


def _struct(altered: Altered, parents: Path, added: Token) -> AlteredPlace | None:
    """Find the struct, or the columns, to which a field can be added."""
    place = _find(altered, parents) if parents else find_place(altered.declaration.fields, ())
    if place is None or isinstance(place.type, Struct):
        return place
    inside = {Array: ("element",), Map: ("key", "value")}.get(type(place.type), ())
    hint = f"; its inside is {' and '.join(f'{place.path}.{name}' for name in inside)}" if inside else ""
    reason = f"{place.path} is no struct but {type_sql(place.type)}{hint}"
    altered.invalid_use(parents[0], f"ADD COLUMN {place.path}.{added.text}", reason)
    return None


def _names(parts: Path) -> list[str]:
    return [part.text for part in parts]


def _has_not_null(field: Field) -> bool:
    return any(not inner.nullable for _, inner in walk((field,)))


def _keep_struct(altered: Altered, place: Token, path: str, fields: Fields | None) -> None:
    if fields is not None:
        altered.keep(replace(altered.declaration, fields=edit_struct(altered.declaration.fields, path, lambda _: fields)), place)


def _keep_field(altered: Altered, place: Token, path: ColumnPath, edit: Callable[[Field], Field]) -> None:
    parent, name = parent_and_name(path)
    fields = tuple(edit(f) if f.name == name else f for f in struct_at(altered.declaration.fields, parent) or ())
    _keep_struct(altered, place, parent, fields)


def _keep_slot(altered: Altered, place: Token, path: ColumnPath, edit: Callable[[Slot], Slot]) -> None:
    altered.keep(replace(altered.declaration, fields=edit_slot(altered.declaration.fields, path, edit)), place)
