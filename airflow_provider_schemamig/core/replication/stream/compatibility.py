"""Whether an event may go into the target's table as it is, and into which columns (docs/replicas.md has the table).

An event is accepted if its schema is the target's, or one of the last few that the target had: then columns go by their identity, whatever
they are called now. A schema that the target never had is judged by its content, column by column and by name. In both cases columns of one
name have to be the same ones (``lineage``), which no equal hash says. Everything else waits, for what does not fit would have to be made up
or left behind. Pure values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from airflow_provider_schemamig.core.access.field_ids import Shape, live_shape, match_fields
from airflow_provider_schemamig.core.access.read_mapping import Unfit, bare, bare_type
from airflow_provider_schemamig.core.access.releases import shape_of
from airflow_provider_schemamig.core.access.write_mapping import WriteFit, fit_writer
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Fingerprint
from airflow_provider_schemamig.core.replication.errors import TargetTakesNoRows
from airflow_provider_schemamig.core.replication.stream.lineage import ColumnLineage, Doubt, distinct, doubts, lineage_of
from airflow_provider_schemamig.core.schema.clauses import fills_itself
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening, varchar_length
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.paths import Fields, field_at, join
from airflow_provider_schemamig.core.schema.sql import type_sql


class Way(StrEnum):
    """Why an event was accepted."""

    CURRENT = "current"
    PREVIOUS = "previous"
    CONTENT = "content"


@dataclass(frozen=True, slots=True)
class TargetSchema:
    """What the gate has to know of a collection at the target. ``previous``: schemas that it had, the last one first, each once; two with
    one hash may be of other columns. ``live``: the table's columns, hidden ones included."""

    current: SchemaEntry
    previous: tuple[SchemaEntry, ...]
    live: Shape
    lineage: ColumnLineage


@dataclass(frozen=True, slots=True)
class Mapping:
    """``event``: the event's columns that are taken, under its own names. ``fit``: how they go into the target's. ``match``: the target's
    columns that tell which row is meant; none: the whole row does."""

    event: Declaration
    fit: WriteFit
    match: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AcceptedEvent:
    mapping: Mapping
    way: Way


@dataclass(frozen=True, slots=True)
class RefusedEvent:
    """``detail``: the columns that differ, by name. ``local_hash``: the target's."""

    detail: str
    local_hash: Fingerprint


def target_of(state: State, collection: CollectionName, head: Head) -> TargetSchema:
    """Return the gate's view of a collection that the target has. ``head``: of its live table. Raises TargetTakesNoRows, LedgerDamaged."""
    if head.identities_always:
        raise TargetTakesNoRows(collection=collection, uri=head.location.uri, columns=", ".join(head.identities_always))
    current, lineage = state.entry(collection), lineage_of(state, collection)
    _, *previous = (entry for entry, _ in distinct(current, lineage))
    return TargetSchema(current, tuple(previous), live_shape(head, collection), lineage)


def decide(
    event: SchemaEntry,
    origin: ColumnLineage,
    target: TargetSchema,
    depth: int,
    *,
    absent: frozenset[ColumnPath] = frozenset(),
    trusts_names: bool = False,
) -> AcceptedEvent | RefusedEvent:
    """Accept or refuse an event by its schema.

    ``event``: the origin's schema of the event, and ``origin`` all it had. ``depth``: how many of the target's previous schemas are
    accepted. ``absent``: fields of the event that its rows do not have yet; they are left out, as those of a later schema are.
    ``trusts_names``: columns of which nothing else is known are the same if their names are.
    """
    hashed, local = fingerprint(event.declared), fingerprint(target.current.declared)
    left_out = frozenset(path for path in absent if not _is_in_a_value(path, event.declared))
    brought = replace(event.declared, fields=_without(event.declared.fields, left_out, ""))
    try:
        if hashed == local and _is_same(event, origin, target.current, target):
            return AcceptedEvent(_by_identity(brought, target.current, target), Way.CURRENT)
        differences = tuple(_differences(event.declared, target.current.declared))
        for number, entry in enumerate(target.previous):
            # What the collection was called makes no difference: its table is the same one.
            if fingerprint(replace(entry.declared, name=event.declared.name)) == hashed and _is_same(event, origin, entry, target):
                if number < depth:
                    return AcceptedEvent(_by_identity(brought, entry, target), Way.PREVIOUS)
                # What it left behind on purpose: a rewrite may have given the same columns another meaning.
                left = f"the target left the event's schema {number + 1} schemas ago, and accepts the last {depth}"
                return RefusedEvent("; ".join((left, *differences)), local)
        found = doubts(event, origin, target.current, target.lineage)
        doubted = [f"{path} {doubt.value}" for path, doubt in found.items() if doubt is Doubt.OTHER or not trusts_names]
        if differences or doubted:
            return RefusedEvent("; ".join((*differences, *doubted)), local)
        return AcceptedEvent(_by_name(brought, target), Way.CONTENT)
    except Unfit as unfit:
        return RefusedEvent(f"{unfit.path or 'the table'} {unfit.reason}", local)


def _is_in_a_value(path: ColumnPath, declared: Declaration) -> bool:
    """Return whether a field is inside of an array or a map, which are written as a whole."""
    parts = path.split(".")
    outer = (field_at(declared.fields, ".".join(parts[:number])) for number in range(1, len(parts)))
    return any(field is None or not isinstance(field.type, Struct) for field in outer)


def _is_same(event: SchemaEntry, origin: ColumnLineage, entry: SchemaEntry, target: TargetSchema) -> bool:
    """Return whether the columns of ``entry``, whose hash is the event's, are the event's."""
    return not doubts(event, origin, entry, target.lineage)


# --- a schema that the target has or had ---------------------------------------------------------------------------------------------


def _by_identity(event: Declaration, entry: SchemaEntry, target: TargetSchema) -> Mapping:
    """Map the event's columns by the target's own row of the event's schema, ``entry``. Raises Unfit."""
    if entry.shard != target.current.shard:
        raise Unfit("", "was rewritten or replaced since, so rows of the schema before it need what that step did to them")
    wanted = shape_of(entry)
    gone = _dropped(wanted, entry, target)
    kept = replace(wanted, declaration=replace(wanted.declaration, fields=_without(wanted.fields, gone, "")))
    return _mapping(replace(event, fields=_without(event.fields, gone, "")), kept, target)


def _dropped(wanted: Shape, entry: SchemaEntry, target: TargetSchema) -> frozenset[ColumnPath]:
    """Return the fields that the target had then and has dropped since.

    Left out are those that a rollback took away, which may come again, and those whose name is another field's now.
    """
    if _is_later(entry, target.current):
        return frozenset()
    origins = match_fields(target.live, wanted)
    found: set[ColumnPath] = set()

    def look(fields: Fields, path: str, there: str) -> None:
        for field in fields:
            here = join(path, field.name)
            origin = origins.get(here)
            if origin is None:
                if field_at(target.current.declared.fields, join(there, field.name)) is None:
                    found.add(here)
            else:
                look_inside(field.type, here, origin)

    def look_inside(kind: DataType, path: str, there: str) -> None:
        match kind:
            case Struct(fields=fields):
                look(fields, path, there)
            case Array(element=element):
                look_inside(element, join(path, "element"), join(there, "element"))
            case Map(key=key, value=value):
                look_inside(key, join(path, "key"), join(there, "key"))
                look_inside(value, join(path, "value"), join(there, "value"))

    look(wanted.fields, "", "")
    return frozenset(found)


def _is_later(entry: SchemaEntry, current: SchemaEntry) -> bool:
    """Return whether the target went back from ``entry``."""
    is_newer = entry.collection == current.collection and entry.schema_id > current.schema_id  # ids count within one name
    return entry.rolled_back is not None or is_newer


def _without(fields: Fields, gone: frozenset[ColumnPath], path: str) -> Fields:
    kept = [(field, join(path, field.name)) for field in fields if join(path, field.name) not in gone]
    return tuple(replace(field, type=_type_without(field.type, gone, here)) for field, here in kept)


def _type_without(kind: DataType, gone: frozenset[ColumnPath], path: str) -> DataType:
    match kind:
        case Struct(fields=fields):
            return Struct(_without(fields, gone, path))
        case Array(element=element):
            return replace(kind, element=_type_without(element, gone, join(path, "element")))
        case Map(key=key, value=value):
            return replace(kind, key=_type_without(key, gone, join(path, "key")), value=_type_without(value, gone, join(path, "value")))
        case Primitive():
            return kind


# --- a schema that it never had ------------------------------------------------------------------------------------------------------


def _by_name(event: Declaration, target: TargetSchema) -> Mapping:
    """Map the event's columns to the target's of the same names; hidden ones of these names are not meant. Raises Unfit."""
    own = shape_of(target.current)
    return _mapping(event, Shape(event, own.stored, own.new), target)


def _differences(event: Declaration, own: Declaration) -> Iterator[str]:
    """Yield what keeps rows of ``event`` out of a table of ``own``, in words; nothing if they can go in as they are."""
    yield from _unlike(event.fields, own.fields, "")
    before, after = (() if found.primary_key is None else found.primary_key.columns for found in (event, own))
    if before != after:
        yield f"the primary key is ({', '.join(before)}) for the event and ({', '.join(after)}) in the target"


def _unlike(event: Sequence[Field], own: Sequence[Field], path: str) -> Iterator[str]:
    there = {field.name: field for field in own}
    for field in event:
        here, other = join(path, field.name), there.pop(field.name, None)
        if other is None:
            yield f"{here} is not in the target"
            continue
        if field.nullable and not other.nullable:
            yield f"{here} may be NULL, and is NOT NULL in the target"
        yield from _other_type(field.type, other.type, here)
    for field in there.values():
        if not field.nullable and (path or not fills_itself(field)):
            yield f"{join(path, field.name)} is NOT NULL in the target, and not in the event"


def _other_type(event: DataType, own: DataType, path: str) -> Iterator[str]:
    match event, own:
        case Struct(), Struct():
            yield from _unlike(event.fields, own.fields, path)
        case Array(), Array():
            yield from _other_type(event.element, own.element, join(path, "element"))
        case Map(), Map():
            yield from _other_type(event.key, own.key, join(path, "key"))
            yield from _other_type(event.value, own.value, join(path, "value"))
        case Primitive(), Primitive() if _is_wide_enough(event, own):
            pass
        case _:
            yield f"{path} is {type_sql(event)}, and {type_sql(own)} in the target"


def _is_wide_enough(event: Primitive, own: Primitive) -> bool:
    if event == own or is_widening(event, own):
        return True
    limit = varchar_length(own.name)
    if limit is not None:
        other = varchar_length(event.name)
        return other is not None and other <= limit
    return bare_type(event) == bare_type(own)


# --- both ----------------------------------------------------------------------------------------------------------------------------


def _mapping(event: Declaration, wanted: Shape, target: TargetSchema) -> Mapping:
    """Map the columns of ``event``, which ``wanted`` knows by the same names. Raises Unfit."""
    fit = fit_writer(bare(event.fields), wanted, target.live, is_later=False)
    return Mapping(event, fit, _key(fit, target))


def _key(fit: WriteFit, target: TargetSchema) -> tuple[str, ...]:
    """Return the target's primary key as its table calls the columns. Raises Unfit if the event does not have all of it."""
    declared = target.current.declared
    if declared.primary_key is None:
        return ()
    names = match_fields(target.live, shape_of(target.current))
    found = []
    for column in declared.primary_key.columns:
        name = names.get(ColumnPath(column))
        if name is None or name not in fit.columns:
            raise Unfit(column, "is of the target's primary key, and the event does not have it")
        found.append(str(name))
    return tuple(found)
