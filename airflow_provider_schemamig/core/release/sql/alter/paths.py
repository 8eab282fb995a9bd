"""The place that a statement means by ``a.b`` or ``arr.element.x``, and its users in declarations."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import RESERVED_PREFIX, CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.expressions.renames import RenameInLambda, rename_columns
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, ForeignKey, Map, Struct
from airflow_provider_schemamig.core.schema.paths import Fields

#: Stands for any other name: no column is called so.
_OTHER = f"{RESERVED_PREFIX}_other"


@dataclass(frozen=True, slots=True)
class AlteredPlace:
    """A place that has a type. ``path`` is spelled as declared; ``is_field``: it has a name of its own, unlike an element, key or value."""

    path: ColumnPath
    type: DataType
    is_field: bool = True
    #: Below an array or a map, where NOT NULL cannot be.
    in_collection: bool = False


def find_place(fields: Fields, parts: Sequence[str]) -> AlteredPlace | None:
    """Return the place at a path, names compared without case as Spark does; None if there is none. No parts: the columns."""
    found = AlteredPlace(ColumnPath(""), Struct(fields))
    for part in parts:
        step = _step(found, part.lower())
        if step is None:
            return None
        found = step
    return found


def _step(here: AlteredPlace, part: str) -> AlteredPlace | None:
    match here.type:
        case Struct(fields=fields):
            field = next((f for f in fields if f.name.lower() == part), None)
            return None if field is None else AlteredPlace(_join(here, field.name), field.type, in_collection=here.in_collection)
        case Array(element=element) if part == "element":
            return AlteredPlace(_join(here, part), element, is_field=False, in_collection=True)
        case Map(key=key, value=value) if part in ("key", "value"):
            return AlteredPlace(_join(here, part), key if part == "key" else value, is_field=False, in_collection=True)
        case _:
            return None


def _join(here: AlteredPlace, name: str) -> ColumnPath:
    return ColumnPath(f"{here.path}.{name}" if here.path else name)


def near(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return at most three of the known names that look like ``name``."""
    spelled = {other.lower(): other for other in known}
    return tuple(spelled[found] for found in difflib.get_close_matches(name.lower(), spelled, n=3))


def users(declaration: Declaration, path: str, declarations: Mapping[CollectionName, Declaration]) -> tuple[str, ...]:
    """Return in words what uses the column or field at ``path``: in its own declaration, and foreign keys of others."""
    return (*_own_users(declaration, path), *referring(declaration, path, declarations))


def _own_users(declaration: Declaration, path: str) -> Iterator[str]:
    if path in declaration.partitioned_by:
        yield "PARTITIONED BY"
    if any(column == path or column.startswith(f"{path}.") for column in declaration.clustered_by):
        yield "CLUSTER BY"
    if declaration.primary_key is not None and path in declaration.primary_key.columns:
        yield f"PRIMARY KEY ({', '.join(declaration.primary_key.columns)})"
    yield from (f"UNIQUE ({', '.join(key.columns)})" for key in declaration.uniques if path in key.columns)
    for key in declaration.foreign_keys:
        if path in key.columns or (key.references == declaration.name and path in key.referenced_columns):
            yield foreign_key_text(key)
    yield from (f"the CHECK {check.name}" for check in declaration.checks if _uses(check.expression, path, declaration))


def _uses(expression: str, path: str, declaration: Declaration) -> bool:
    """Return whether the CHECK would read otherwise, had the column another name."""
    try:
        return rename_columns(expression, {ColumnPath(path): _OTHER}, declaration.fields) != expression
    except RenameInLambda:
        return True


def referring(declaration: Declaration, path: str | None, declarations: Mapping[CollectionName, Declaration]) -> Iterator[str]:
    """Yield other collections' foreign keys to this one; with a ``path`` only those to that column."""
    for other in declarations.values():
        for key in other.foreign_keys:
            refers = other.name != declaration.name and key.references == declaration.name
            if refers and (path is None or path in key.referenced_columns):
                yield f"{foreign_key_text(key)} of {other.name}"


def foreign_key_text(key: ForeignKey) -> str:
    return f"FOREIGN KEY ({', '.join(key.columns)}) REFERENCES {key.references}"
