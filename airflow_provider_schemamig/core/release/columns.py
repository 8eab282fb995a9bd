"""The matching of two declarations' columns: by name and declared rename within a step, by composition over several.

A field keeps its identity as long as its struct does and no step drops it; a name alone proves nothing once releases are merged
(dropped and added again, it is another column). Pure values; paths are dotted, see ``names.ColumnPath``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Struct

#: New path -> old path, for every field that both sides have.
Origins = Mapping[ColumnPath, ColumnPath]


@dataclass(frozen=True, slots=True)
class ColumnLevel:
    """One struct on both sides, or the columns themselves. Prefixes end with a dot, or are empty."""

    old_prefix: str
    old: tuple[Field, ...]
    new_prefix: str
    new: tuple[Field, ...]

    def pairs(self, origins: Origins) -> Iterator[tuple[Field, Field, ColumnPath, ColumnPath]]:
        """Yield (old field, new field, old path, new path) of the fields that are the same one."""
        by_path = {ColumnPath(f"{self.old_prefix}{f.name}"): f for f in self.old}
        for new in self.new:
            new_path = ColumnPath(f"{self.new_prefix}{new.name}")
            old_path = origins.get(new_path)
            if old_path is not None and old_path in by_path:
                yield by_path[old_path], new, old_path, new_path


def match(old: Declaration, new: Declaration, renames: Mapping[ColumnPath, str]) -> Origins:
    """Match two adjacent declarations by name and ``renames`` (old path -> new last name), at any depth."""
    origins: dict[ColumnPath, ColumnPath] = {}
    todo = [ColumnLevel("", old.fields, "", new.fields)]
    while todo:
        level = todo.pop()
        names = {f.name: f"{level.old_prefix}{f.name}" for f in level.old if f"{level.old_prefix}{f.name}" not in renames}
        for field in level.old:
            path = ColumnPath(f"{level.old_prefix}{field.name}")
            if path in renames:  # a declared rename takes the name from whoever had it
                names[renames[path]] = path
        for field in level.new:
            if field.name in names:
                origins[ColumnPath(f"{level.new_prefix}{field.name}")] = ColumnPath(names[field.name])
        for before, after, old_path, new_path in level.pairs(origins):
            todo.extend(inner_levels(before.type, after.type, old_path, new_path))
    return origins


def compose(earlier: Origins, later: Origins) -> Origins:
    """Compose the origins of two steps: map ``later``'s new paths to ``earlier``'s old ones."""
    return {path: earlier[middle] for path, middle in later.items() if middle in earlier}


def levels(old: Declaration, new: Declaration, origins: Origins) -> Iterator[ColumnLevel]:
    """Yield every struct that both sides have, outermost first."""
    todo = [ColumnLevel("", old.fields, "", new.fields)]
    while todo:
        level = todo.pop(0)
        yield level
        for before, after, old_path, new_path in level.pairs(origins):
            todo.extend(inner_levels(before.type, after.type, old_path, new_path))


def inner_levels(old: DataType, new: DataType, old_path: str, new_path: str) -> Iterator[ColumnLevel]:
    """Yield the structs directly within a pair of types; none where the kinds of type differ."""
    match (old, new):
        case (Struct(fields=before), Struct(fields=after)):
            yield ColumnLevel(f"{old_path}.", before, f"{new_path}.", after)
        case (Array(element=before_type), Array(element=after_type)):
            yield from inner_levels(before_type, after_type, f"{old_path}.element", f"{new_path}.element")
        case (Map(key=before_key, value=before_value), Map(key=after_key, value=after_value)):
            yield from inner_levels(before_key, after_key, f"{old_path}.key", f"{new_path}.key")
            yield from inner_levels(before_value, after_value, f"{old_path}.value", f"{new_path}.value")


def renames_of(old: Declaration, new: Declaration, origins: Origins) -> dict[ColumnPath, str]:
    """Map the old path of every field whose name differs to its new last name."""
    pairs = (pair for level in levels(old, new, origins) for pair in level.pairs(origins))
    return {old_path: after.name for before, after, old_path, _ in pairs if before.name != after.name}


def readded_of(old: Declaration, new: Declaration, origins: Origins) -> Iterator[ColumnPath]:
    """Yield the new paths of fields that took the name of a dropped one.

    A difference of the two declarations cannot show that: by name, the dropped field and the new one are the same. (A name that goes from
    one column to another by renames is another matter: ``schema.diff`` gives it to both in turn.)
    """
    kept = set(origins.values())
    for level in levels(old, new, origins):
        dropped = {f.name for f in level.old if f"{level.old_prefix}{f.name}" not in kept}
        for field in level.new:
            path = ColumnPath(f"{level.new_prefix}{field.name}")
            if path not in origins and field.name in dropped:
                yield path
