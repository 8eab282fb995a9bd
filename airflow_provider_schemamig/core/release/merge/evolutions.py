"""Several evolutions of one collection as one: identity of columns, and what cannot be one change.

Merging must give what step by step gives, rows included. Instant changes always compose, except where a name changes hands; changes that
touch rows (a default filled into older files, a type change through values) compose only if nothing else happens to that column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.columns import Origins, compose, levels, match, readded_of, renames_of
from airflow_provider_schemamig.core.release.merge.lineage import LineageEvent
from airflow_provider_schemamig.core.release.merge.merged import PassedName
from airflow_provider_schemamig.core.release.steps import Evolution
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Map, Primitive, Struct, walk
from airflow_provider_schemamig.core.schema.paths import join, parent_and_name


class CannotMerge(Exception):
    """Why several releases cannot be one upgrade for a collection; ``merge`` turns it into StopInBetween."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Composition:
    """Evolutions from ``old`` to ``new`` as one: ``renames`` (old path -> new last name) say all that the declarations do not, but for what
    new columns were called in between (``passed_names``)."""

    old: Declaration
    new: Declaration
    renames: dict[ColumnPath, str]
    passed_names: tuple[PassedName, ...] = ()


@dataclass(frozen=True, slots=True)
class _Facts:
    """What happened to one column on the way."""

    added: bool = False
    #: The default it was added with, which older files were filled with.
    filled_with: str | None = None
    type_changes: int = 0
    through_values: bool = False


def compose_events(old: Declaration, new: Declaration, events: Sequence[LineageEvent]) -> Composition:
    """Compose the evolutions from ``old`` to ``new``, and the changes that needed no step. Raises CannotMerge."""
    if len(events) == 1:  # most: nothing comes together, and a look at each column twelve times was 4 % of an upgrade
        (event,) = events
        renames = event.step.renames if isinstance(event.step, Evolution) else {}
        return Composition(old, new, renames_of(old, new, match(old, new, renames)) if renames else {})
    origins: Origins = match(old, old, {})
    facts: dict[ColumnPath, _Facts] = {}
    steps = [match(event.old, event.new, event.step.renames if isinstance(event.step, Evolution) else {}) for event in events]
    for event, step in zip(events, steps, strict=True):
        facts = _follow(event, step, facts)
        origins = compose(origins, step)
    for path in readded_of(old, new, origins):
        raise CannotMerge(f"{path} is dropped on the way, and a new column takes its name")
    for reason in _contradictions(new, facts):
        raise CannotMerge(reason)
    return Composition(old, new, renames_of(old, new, origins), tuple(sorted(_passed_names(new, origins, events, steps), key=repr)))


def _passed_names(new: Declaration, origins: Origins, events: Sequence[LineageEvent], steps: Sequence[Origins]) -> Iterator[PassedName]:
    """Yield the new columns whose names other columns of the same struct had on the way. The struct may have had another name then."""
    added = {path for path, _ in walk(new.fields)} - origins.keys()
    forward: Origins = match(new, new, {})
    for number in reversed(range(1, len(events))):
        forward = compose(steps[number], forward)
        ends = {before: after for after, before in forward.items()}
        for path, _ in walk(events[number - 1].new.fields):
            parent, name = parent_and_name(path)
            now = ColumnPath(join(_end_of(parent, ends), name))
            if now in added and forward.get(now) != path:
                yield PassedName(path, now, events[number - 1].version, events[number].version)


def _end_of(path: str, ends: Mapping[ColumnPath, ColumnPath]) -> str:
    """Return what a struct is called at the end; what is in an array or a map has no name of its own."""
    if not path or path in ends:
        return ends.get(ColumnPath(path), path)
    parent, name = parent_and_name(path)
    return join(_end_of(parent, ends), name)


def _follow(event: LineageEvent, step: Origins, facts: dict[ColumnPath, _Facts]) -> dict[ColumnPath, _Facts]:
    found: dict[ColumnPath, _Facts] = {}
    for level in levels(event.old, event.new, step):
        kept = set()
        for before, after, old_path, new_path in level.pairs(step):
            kept.add(new_path)
            fact = facts.get(old_path, _Facts())
            changes = list(_type_changes(before.type, after.type))
            if changes:
                hard = fact.through_values or not all(is_widening(old, new) for old, new in changes)
                fact = replace(fact, type_changes=fact.type_changes + 1, through_values=hard)
            if fact != _Facts():
                found[new_path] = fact
        for field in level.new:
            path = ColumnPath(f"{level.new_prefix}{field.name}")
            if path not in kept:
                found[path] = _Facts(added=True, filled_with=field.default)
    return found


def _contradictions(new: Declaration, facts: dict[ColumnPath, _Facts]) -> Iterator[str]:
    for path, fact in sorted(facts.items()):
        if fact.through_values and (fact.type_changes > 1 or fact.filled_with is not None):
            yield f"the values of {path} change type through other values on the way"
        field = new.field(path)
        if fact.added and field is not None and field.default != fact.filled_with:
            first, later = fact.filled_with or "NULL", field.default or "NULL"
            yield f"{path} is added with DEFAULT {first}, which older rows get, and has DEFAULT {later} later"


def _type_changes(old: DataType, new: DataType) -> Iterator[tuple[DataType, DataType]]:
    """Yield pairs of unequal types within a pair, not looking into the fields of structs: those have paths of their own."""
    match (old, new):
        case (Struct(), Struct()):
            return
        case (Array(), Array()):
            yield from _type_changes(old.element, new.element)
        case (Map(), Map()):
            yield from _type_changes(old.key, new.key)
            yield from _type_changes(old.value, new.value)
        case (Primitive(), Primitive()) if old == new:
            return
        case _:
            yield old, new
