"""Changes of type inside a column (``a.b``, ``a.element``): the shadow is one of the whole column, and a CAST makes it.

A CAST of a struct goes by position, and anybody may put its fields in another order, also while the way back is open: they are found by
their names first. Where a later release has given them other names, they have to stay in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.names import ColumnPath, quote
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import Change, ChangeType, Relax, RenameColumn, ReorderColumns, SetComment, SetNotNull
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_text, is_widening, varchar_length
from airflow_provider_schemamig.core.schema.field_order import by_name
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct, walk
from airflow_provider_schemamig.core.schema.paths import join
from airflow_provider_schemamig.core.schema.sql import type_sql


def joined(changes: Sequence[Change], table: Declaration) -> tuple[Change, ...]:
    """Join the changes inside one column to one change of the column, in the place of the first of them; all others stay as they are."""
    found: dict[str, list[ChangeType]] = {}
    result: list[Change | str] = []
    for change in changes:
        if isinstance(change, ChangeType) and change.shadowable and "." in change.path:
            root = change.path.partition(".")[0]
            if root not in found:
                result.append(root)
            found.setdefault(root, []).append(change)
        else:
            result.append(change)
    return tuple(_of_column(item, found[item], table) if isinstance(item, str) else item for item in result)


def _of_column(root: str, changes: Sequence[ChangeType], table: Declaration) -> ChangeType:
    before, after = table.field(root), apply(table, changes).field(root)
    assert before is not None and after is not None  # something inside is changed
    return ChangeType(ColumnPath(root), before.type, after.type, widening=False, shadowable=True)


def check_beside(change: Change, cutover: Sequence[Change]) -> None:
    """Raise NotOnline for a change that would make the fields of the two columns differ.

    ``cutover``: what is made of the table when all online changes are done.
    """
    if not isinstance(change, ChangeType) or isinstance(change.new, Primitive):
        return
    names = {str(change.path), *(item.name for item in cutover if isinstance(item, RenameColumn) and item.path == change.path)}
    for item in cutover:
        inside = isinstance(item, ReorderColumns) or (isinstance(item, RenameColumn) and "." in item.path)
        if inside and getattr(item, "path", "").partition(".")[0] in names:
            reason = "the same release renames fields in it or puts them in another order; do that in a release of its own"
            raise NotOnline(op=change.op, path=change.path, reason=reason)


def leaves(old: DataType, new: DataType, path: str) -> Iterator[tuple[ColumnPath, DataType, DataType]]:
    """Yield path, old type and new type where the two differ; the outermost place where they are of different kinds."""
    match old, new:
        case Struct(), Struct() if [field.name for field in old.fields] == [field.name for field in new.fields]:
            for before, after in zip(old.fields, new.fields, strict=True):
                yield from leaves(before.type, after.type, join(path, before.name))
        case Array(), Array():
            yield from leaves(old.element, new.element, join(path, "element"))
        case Map(), Map() if old.key == new.key:
            yield from leaves(old.value, new.value, join(path, "value"))
        case _ if old != new:
            yield ColumnPath(path), old, new


def why_not(old: DataType, new: DataType) -> str | None:
    """Return why no CAST leads from one type of a column to the other, and back; None if one does."""
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        return None
    ends = [end for _, before, after in leaves(old, new, "") for end in (before, after)]
    if not all(isinstance(end, Primitive) for end in ends):
        return "its values are made of several, in another way than before"
    if any(isinstance(end, Primitive) and varchar_length(end.name) is not None for end in ends):
        return "inside a column, nothing holds the rows of its fill to the length of a VARCHAR"
    if _in_container(new):
        return "Delta does not enforce NOT NULL inside arrays and maps, so it cannot be given to the column that comes"
    return None


def _in_container(found: DataType) -> bool:
    """Return whether something in an array or map is NOT NULL."""
    match found:
        case Struct(fields=fields):
            return any(_in_container(field.type) for field in fields)
        case Array() | Map():
            return relaxed(found, inside=True) != found
        case _:
            return False


def relaxed(found: DataType, *, inside: bool = False) -> DataType:
    """Return a type without NOT NULL, and without comments unless ``inside``: nobody has to know what such a column requires."""
    match found:
        case Struct(fields=fields):
            return Struct(
                tuple(
                    replace(field, type=relaxed(field.type, inside=inside), nullable=True, comment=field.comment if inside else None)
                    for field in fields
                )
            )
        case Array(element=element):
            return Array(relaxed(element, inside=inside))
        case Map(key=key, value=value):
            return Map(relaxed(key, inside=inside), relaxed(value, inside=inside))
        case Primitive():
            return found


def declared_where_text(there: DataType, declared: DataType, wanted: DataType) -> DataType:
    """Return a table's type ``there``, with the type ``declared`` where ``wanted`` has text.

    That is so only in places that are wider on the table than declared.
    """
    match there, declared, wanted:
        case Struct(fields=fields), Struct(), Struct():
            types = {field.name: field.type for field in declared.fields}
            texts = {field.name: field.type for field in wanted.fields}
            known = [(f, types.get(f.name, f.type), texts.get(f.name, f.type)) for f in fields]
            return Struct(tuple(replace(f, type=declared_where_text(f.type, before, after)) for f, before, after in known))
        case Array(), Array(), Array():
            return replace(there, element=declared_where_text(there.element, declared.element, wanted.element))
        case Map(), Map(), Map():
            return replace(there, value=declared_where_text(there.value, declared.value, wanted.value))
        case Primitive(), Primitive(), Primitive(name=name) if is_text(name):
            return declared if is_widening(declared, there) else there
        case _:
            return there


def relaxes(column: Field) -> Iterator[Change]:
    """Yield changes to lift NOT NULL inside a column that steps aside: Delta checks such a field also where the struct around it is
    NULL."""
    yield from (Relax(path) for path, field in _inside(column) if not field.nullable)


def asks_again(column: Field, there: DataType) -> Iterator[Change]:
    """Yield NOT NULL and comments of fields inside ``column``, for a column of the type ``there`` in its place."""
    known = {path: field.comment for path, field in _inside(replace(column, type=there))}
    for path, field in _inside(column):
        if not field.nullable:
            yield SetNotNull(path)
        if field.comment != known.get(path):
            yield SetComment(path, known.get(path), field.comment)


def _inside(column: Field) -> list[tuple[ColumnPath, Field]]:
    return list(walk((column,)))[1:]


def same_value(one: str, other: str, found: DataType) -> str:
    """Return SQL that is true for two equal values of this type, not true if either is NULL, and tells -0.0 from 0.0."""
    equal = f"{comparable(one, found)} = {comparable(other, found)}"
    return f"({equal} AND {_minus_zero(one)} = {_minus_zero(other)})" if _is_floating(found) else equal


def kept_or_cast(there: Field, used: Field, cast: str) -> str:
    """Return SQL of what a row gets in the column ``there``: the value that it has if that says the same as ``used``, else ``cast``.

    Somebody wrote it so while its release was in use (``007``, not ``7``).
    """
    kept, given = quote(there.name), by_name(quote(used.name), used.type, used.type)
    before = cast_by_name("TRY_CAST", kept, there.type, used.type)
    return f"CASE WHEN {same_value(before, given, used.type)} THEN {by_name(kept, there.type, there.type)} ELSE {cast} END"


def cast_by_name(how: str, value: str, given: DataType, wanted: DataType) -> str:
    """Return SQL of a cast that gives each field of a struct its own value. ``how``: CAST or TRY_CAST."""
    return f"{how}({by_name(value, given, wanted)} AS {type_sql(wanted)})"


def held(value: str, wide: DataType, wanted: DataType, depth: int = 0, *, or_by: DataType | None = None) -> str | None:
    """Return the condition, in SQL, that ``wanted`` holds ``value``; None: always.

    ``wanted`` has fields of ``wide`` in narrower types or the same. ``or_by``: what may hold instead what ``wanted`` does not, in each
    place of its own; text holds everything.
    """
    item = f"x{depth}"
    match wide, wanted:
        case Struct(fields=fields), Struct():
            types = {field.name: field.type for field in fields}
            others = {field.name: field.type for field in or_by.fields} if isinstance(or_by, Struct) else {}
            known = [(f"{value}.{quote(f.name)}", types[f.name], f.type, others.get(f.name)) for f in wanted.fields if f.name in types]
            parts = [held(inside, there, declared, depth, or_by=other) for inside, there, declared, other in known]
        case Array(), Array():
            other = or_by.element if isinstance(or_by, Array) else None
            parts = [_all_held(value, item, held(item, wide.element, wanted.element, depth + 1, or_by=other))]
        case Map(), Map():
            keys, other = held(item, wide.key, wanted.key, depth + 1), or_by.value if isinstance(or_by, Map) else None
            values = held(item, wide.value, wanted.value, depth + 1, or_by=other)
            parts = [_all_held(f"map_keys({value})", item, keys), _all_held(f"map_values({value})", item, values)]
        case Primitive(), Primitive() if is_widening(wanted, wide) and not (isinstance(or_by, Primitive) and is_text(or_by.name)):
            holders = [found for found in (wanted, or_by) if isinstance(found, Primitive)]
            parts = [f"({' OR '.join([f'{value} IS NULL', *(_is_held(value, wide, found) for found in holders)])})"]
        case _:
            parts = []
    found = [part for part in parts if part is not None]
    return f"({' AND '.join(found)})" if found else None


def _is_held(value: str, wide: Primitive, wanted: Primitive) -> str:
    again = f"CAST(TRY_CAST({value} AS {type_sql(wanted)}) AS {type_sql(wide)})"
    return f"({same_value(again, value, wide)}) IS TRUE"


def _all_held(values: str, item: str, condition: str | None) -> str | None:
    return None if condition is None else f"(forall({values}, {item} -> {condition}) IS NOT FALSE)"


def comparable(value: str, found: DataType) -> str:
    """Return SQL that makes a value comparable: ``=`` is defined for it, and true only for the same values.

    Spark compares no maps, and takes -0.0 for 0.0 in nested values.
    """
    match found:
        case Map(value=inner):
            entries = f"map_entries({value})"
            if not _has(inner, _told_by_parts):
                return entries
            return f"transform({entries}, entry -> struct(entry.key AS key, {_part('entry.value', inner)} AS value))"
        case Array(element=element) if _has(element, _told_by_parts):
            return f"transform({value}, item -> {_part('item', element)})"
        case Struct(fields=fields) if _has(found, _told_by_parts):
            parts = ", ".join(f"{_part(f'{value}.{quote(field.name)}', field.type)} AS {quote(field.name)}" for field in fields)
            return f"IF({value} IS NULL, NULL, struct({parts}))"
        case _:
            return value


def _part(value: str, found: DataType) -> str:
    return f"struct({value} AS number, {_minus_zero(value)} AS minus_zero)" if _is_floating(found) else comparable(value, found)


def _minus_zero(value: str) -> str:
    return f"IF({value} = 0, power({value}, -1) < 0, false)"


def _told_by_parts(found: DataType) -> bool:
    return isinstance(found, Map) or _is_floating(found)


def _is_floating(found: DataType) -> bool:
    return isinstance(found, Primitive) and found.name in ("float", "double")


def _has(found: DataType, wanted: Callable[[DataType], bool]) -> bool:
    """Return whether a type is a wanted one, or has one inside; the key of a map does not count."""
    if wanted(found):
        return True
    match found:
        case Array(element=inner) | Map(value=inner):
            return _has(inner, wanted)
        case Struct(fields=fields):
            return any(_has(field.type, wanted) for field in fields)
        case Primitive():
            return False
