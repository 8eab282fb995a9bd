"""Dotted paths into nested columns: looking one up, and rebuilding the columns with one place changed.

``origin.code`` is a field of a struct, ``tags.element`` what an array holds, ``m.key`` and ``m.value`` the two sides of a map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Struct

Fields = tuple[Field, ...]


class PathNotFound(LookupError):
    """No column, field, element, key or value is at this path."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Any place that has a type: a column, a struct field, an array's element, a map's key or value."""

    type: DataType
    nullable: bool


def join(parent: str, name: str) -> ColumnPath:
    return ColumnPath(f"{parent}.{name}" if parent else name)


def parent_and_name(path: str) -> tuple[str, str]:
    """Split ``a.b.c`` into (``a.b``, ``c``); a top-level column has the empty parent."""
    parent, _, name = path.rpartition(".")
    return parent, name


def translate(path: str, names: Mapping[ColumnPath, str]) -> ColumnPath:
    """Return the path after renames; ``names`` maps full paths before to last names after."""
    if not names:
        return ColumnPath(path)
    result, prefix = "", ""
    for part in path.split("."):
        prefix = join(prefix, part)
        result = join(result, names.get(ColumnPath(prefix), part))
    return ColumnPath(result)


def path_in_files(path: str, names: Mapping[ColumnPath, str]) -> tuple[str, ...]:
    """Return what a field is known by in the data files: the names there of all that it is in, and its own.

    ``names``: full paths -> names there, for those that differ.
    """
    parts = path.split(".")
    prefixes = (".".join(parts[: number + 1]) for number in range(len(parts)))
    return tuple(names.get(ColumnPath(prefix)) or part for prefix, part in zip(prefixes, parts, strict=True))


def slot_at(fields: Fields, path: str) -> Slot | None:
    """Return what is at a path, or None."""
    found: list[Slot] = []

    def look(slot: Slot) -> Slot:
        found.append(slot)
        return slot

    try:
        edit_slot(fields, path, look)
    except PathNotFound:
        return None
    return found[0]


def struct_at(fields: Fields, path: str) -> Fields | None:
    """Return the fields of the struct at a path (empty: the columns), or None if there is no struct."""
    if not path:
        return fields
    slot = slot_at(fields, path)
    return slot.type.fields if slot is not None and isinstance(slot.type, Struct) else None


def field_at(fields: Fields, path: str) -> Field | None:
    """Return the column or struct field at a path, or None (also for elements, keys and values: those are no fields)."""
    parent, name = parent_and_name(path)
    inside = struct_at(fields, parent)
    return None if inside is None else next((f for f in inside if f.name == name), None)


def edit_struct(fields: Fields, path: str, edit: Callable[[Fields], Fields]) -> Fields:
    """Return the columns with the struct at ``path`` (empty: the columns themselves) replaced. Raises PathNotFound."""
    if not path:
        return edit(fields)

    def edit_type(slot: Slot) -> Slot:
        if not isinstance(slot.type, Struct):
            raise PathNotFound(path)
        return Slot(Struct(edit(slot.type.fields)), slot.nullable)

    return edit_slot(fields, path, edit_type)


def edit_slot(fields: Fields, path: str, edit: Callable[[Slot], Slot]) -> Fields:
    """Return the columns with the place at ``path`` replaced. Raises PathNotFound."""
    return _edit_fields(fields, path.split("."), edit)


def _edit_fields(fields: Fields, parts: Sequence[str], edit: Callable[[Slot], Slot]) -> Fields:
    for number, field in enumerate(fields):
        if field.name == parts[0]:
            slot = _edit_here_or_inside(Slot(field.type, field.nullable), parts[1:], edit)
            return (*fields[:number], replace(field, type=slot.type, nullable=slot.nullable), *fields[number + 1 :])
    raise PathNotFound(".".join(parts))


def _edit_here_or_inside(slot: Slot, rest: Sequence[str], edit: Callable[[Slot], Slot]) -> Slot:
    return Slot(_edit_type(slot.type, rest, edit), slot.nullable) if rest else edit(slot)


def _edit_type(data_type: DataType, parts: Sequence[str], edit: Callable[[Slot], Slot]) -> DataType:
    match data_type:
        case Struct(fields=fields):
            return Struct(_edit_fields(fields, parts, edit))
        case Array(element=element, contains_null=contains_null) if parts[0] == "element":
            slot = _edit_here_or_inside(Slot(element, contains_null), parts[1:], edit)
            return Array(slot.type, slot.nullable)
        case Map() if parts[0] == "key":
            return replace(data_type, key=_edit_here_or_inside(Slot(data_type.key, False), parts[1:], edit).type)
        case Map() if parts[0] == "value":
            slot = _edit_here_or_inside(Slot(data_type.value, data_type.value_contains_null), parts[1:], edit)
            return replace(data_type, value=slot.type, value_contains_null=slot.nullable)
        case _:
            raise PathNotFound(".".join(parts))
