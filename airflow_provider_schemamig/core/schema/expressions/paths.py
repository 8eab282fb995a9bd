"""Which column or field each name in an expression means, followed through the columns' types: ``a[0].b.c``, ``s['q']``, ``m.key.x``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Struct

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class FollowedPath:
    """A reference as far as the types tell. ``type`` and ``path``: of what it ends at; ``node``: the outermost node that belongs to it.

    ``named``: each name in the text (an identifier, or a string in brackets) with the path of the column or field it means.
    ``lost``: the names from the first one on that means none. ``arrays``: arrays that ``points.x`` left to be indexed.
    """

    node: exp.Expr
    type: DataType
    path: str = ""
    named: tuple[tuple[exp.Expr, str], ...] = ()
    lost: tuple[exp.Expr, ...] = ()
    arrays: int = 0


def follow_column(column: exp.Column, fields: Sequence[Field]) -> FollowedPath:
    """Return where a column reference of an expression over ``fields`` ends."""
    here = FollowedPath(column, Struct(tuple(fields)))
    for part in identifiers(column):
        here = _step(here, part)
    return follow(here)


def follow(here: FollowedPath) -> FollowedPath:
    """Follow the fields, indexes and keys behind ``here``."""
    from sqlglot import exp

    while here.node.parent is not None and here.node.arg_key == "this":
        outer = here.node.parent
        if isinstance(outer, exp.Paren):
            here = replace(here, node=outer)
        elif isinstance(outer, exp.Dot) and isinstance(outer.expression, exp.Identifier):
            here = replace(_step(here, outer.expression), node=outer)
        elif isinstance(outer, exp.Bracket):
            here = replace(_in_brackets(here, outer), node=outer)
        else:
            break
    return here


def identifiers(column: exp.Column) -> list[exp.Identifier]:
    """Return the identifiers of ``a.b.c``, outermost first: sqlglot takes the first four for catalog, schema, table and column."""
    from sqlglot import exp

    return [part for part in column.parts if isinstance(part, exp.Identifier)]


def leaves_below(data_type: DataType, path: str) -> Iterator[str]:
    """Yield the paths of all fields inside a type, at any depth."""
    match data_type:
        case Struct(fields=fields):
            for field in fields:
                inner = f"{path}.{field.name}"
                yield inner
                yield from leaves_below(field.type, inner)
        case Array(element=element):
            yield from leaves_below(element, f"{path}.element")
        case Map(key=key, value=value):
            yield from leaves_below(key, f"{path}.key")
            yield from leaves_below(value, f"{path}.value")


def _step(here: FollowedPath, name: exp.Expr) -> FollowedPath:
    """Follow a field's name from ``here``."""
    if here.lost:
        return replace(here, lost=(*here.lost, name))
    if isinstance(here.type, Map):  # ``m.k`` is the value of the key k, whatever k is
        return replace(here, type=here.type.value, path=f"{here.path}.value")
    data_type: DataType = here.type
    path, arrays = here.path, here.arrays
    if isinstance(data_type, Array):  # Spark reads ``points.x`` as the array of all x
        data_type, path, arrays = data_type.element, f"{path}.element", arrays + 1
    inside = data_type.fields if isinstance(data_type, Struct) else ()
    field = next((f for f in inside if f.name.lower() == name.name.lower()), None)
    if field is None:
        return replace(here, lost=(name,))
    path = f"{path}.{field.name}" if path else field.name
    return replace(here, type=field.type, path=path, named=(*here.named, (name, path)), arrays=arrays)


def _in_brackets(here: FollowedPath, bracket: exp.Bracket) -> FollowedPath:
    """Follow ``[0]``, a map's key, or a struct field's name as a string from ``here``."""
    from sqlglot import exp

    if here.lost:
        return here
    if here.arrays:
        return replace(here, arrays=here.arrays - 1)
    match here.type:
        case Array(element=element):
            return replace(here, type=element, path=f"{here.path}.element")
        case Map(value=value):
            return replace(here, type=value, path=f"{here.path}.value")
        case _:
            key = bracket.expressions[0] if bracket.expressions else None
            is_name = isinstance(here.type, Struct) and isinstance(key, exp.Literal) and key.is_string
            return _step(here, key) if is_name and key is not None else replace(here, lost=(bracket,))
