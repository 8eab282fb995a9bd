"""How a release's fields are matched with a table's: by their names in the data files, at any depth.

The name there is a field's identity: a rename leaves it, a field that is dropped and added again gets another, and turning column mapping
on keeps it. So matching needs neither the steps in between nor any record of them. Pure values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.columns import ColumnLevel, Origins, inner_levels
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import Fields, path_in_files

Names = Mapping[ColumnPath, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a table, or those that a release declares.

    ``stored``: dotted path -> name in the data files, where that is not the field's own. ``new``: fields that no table is known to have
    yet, so that nothing but their names is known of them. ``retyped``: columns that took the place of one of another type; where a table
    lacks one, its values are in the other. ``doubtful``: fields of a release that was rolled back, which a release since may
    have brought under another name. ``held``: what a hold keeps of dropped fields, each by its names in the data files: no new field.
    ``identities``: columns of the table whose values Delta makes, which no declaration says.
    """

    declaration: Declaration
    stored: Names = field(default_factory=dict)
    new: frozenset[ColumnPath] = frozenset()
    retyped: frozenset[ColumnPath] = frozenset()
    doubtful: frozenset[ColumnPath] = frozenset()
    held: frozenset[tuple[str, ...]] = frozenset()
    identities: frozenset[str] = frozenset()

    @property
    def fields(self) -> Fields:
        return self.declaration.fields

    @property
    def in_files(self) -> dict[ColumnPath, tuple[str, ...]]:
        """Return what each field, at any depth, is known by in the data files: that tells it from others, also where its struct was
        renamed."""
        return {path: path_in_files(path, self.stored) for path, _ in walk(self.fields)}

    def name_in_files(self, path: ColumnPath) -> str:
        return self.stored.get(path) or path.rpartition(".")[2]


def live_shape(head: Head, collection: CollectionName) -> Shape:
    """Return the columns of a table as they are now."""
    return Shape(head.declaration(collection), head.stored_names, identities=frozenset(head.identities))


def match_fields(live: Shape, wanted: Shape) -> Origins:
    """Map each path in ``wanted`` to the path in ``live`` of the same field. A new field goes by its name, unless another field takes
    that."""
    origins: dict[ColumnPath, ColumnPath] = {}
    todo = [ColumnLevel("", live.fields, "", wanted.fields)]
    while todo:
        level = todo.pop()
        origins |= _match_level(level, live, wanted)
        for before, after, old_path, new_path in level.pairs(origins):
            todo.extend(inner_levels(before.type, after.type, old_path, new_path))
    return origins


def _match_level(level: ColumnLevel, live: Shape, wanted: Shape) -> dict[ColumnPath, ColumnPath]:
    paths = [ColumnPath(f"{level.new_prefix}{f.name}") for f in level.new]
    by_stored = {live.name_in_files(path): path for path in (ColumnPath(f"{level.old_prefix}{f.name}") for f in level.old)}
    found = {path: by_stored[name] for path in paths if path not in wanted.new and (name := wanted.name_in_files(path)) in by_stored}
    # Also of fields that are left out of ``wanted`` now: a rename may have made one of the live name of a new field.
    others = {name for path, name in wanted.stored.items() if path.rpartition(".")[0] == level.new_prefix.rstrip(".")}
    left = {path for name, path in by_stored.items() if path not in found.values() and name not in others}
    free = {path.rpartition(".")[2]: path for path in left if path_in_files(path, live.stored) not in wanted.held}
    return found | {path: free[name] for path in paths if path in wanted.new and (name := path.rpartition(".")[2]) in free}
