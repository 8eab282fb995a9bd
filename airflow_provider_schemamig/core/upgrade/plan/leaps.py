"""A column or collection of no release must not be taken for another one of its name, as a leap over several releases would: what came
outside of a release, and what is hidden since a rollback.

Such a column or collection is told by its name alone: the release that declares the name means it. Releases after that one may give the
name to something else, or read what has it; merged with the one that declares it, they would find it as if it were new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from airflow_provider_schemamig.core.ledger.rows import UnreleasedChange
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Version
from airflow_provider_schemamig.core.release.columns import Origins, match
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.errors import StopInBetween
from airflow_provider_schemamig.core.release.queries.query import placeholders
from airflow_provider_schemamig.core.release.steps import Evolution, Removal, Replacement, Rewrite, Step
from airflow_provider_schemamig.core.schema.diff.renames import shown_as
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Declaration, Field, walk
from airflow_provider_schemamig.core.schema.paths import parent_and_name, path_in_files, translate
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import kept_fields, unclosed_holds

Declarations = Mapping[CollectionName, Declaration]
#: Names in the data files -> the releases that had it, and what each calls it.
Owners = Mapping[tuple[str, ...], list[tuple[Version, ColumnPath]]]


def taken_again(release: Release, state: State) -> Iterator[StopInBetween]:
    """Yield one refusal for each collection of no release that the way to the head declares and then changes again.

    To upgrade to the version before that first is always right: there nothing was done about it yet.
    """
    source = state.release.version if state.release is not None else release.version
    versions = [version for version in release.versions if version >= source]
    if len(versions) < 3:
        return
    for name in sorted(state.objects):
        unreleased = state.unreleased_of(name)
        followed: list[_Followed] = [] if unreleased is None else [_Outside.of(unreleased)]
        followed += _Hidden.of(state, name, unreleased, _owners(release, versions[1:], state, name))
        stops = [stop for item in followed if (stop := _stop(release, versions, item)) is not None]
        if stops:
            yield min(stops, key=lambda stop: stop.stop)


def _stop(release: Release, versions: Sequence[Version], followed: _Followed) -> StopInBetween | None:
    for before, version in pairwise(versions):
        followed.at = version
        what = followed.advance(release.declarations(before), release.declarations(version), release.steps(version))
        if what is not None:
            reason = f"{before} has {what[0]}, which {followed.HOW}, and {version} {what[1]}"
            return StopInBetween(collection=followed.collection, source=versions[0], target=versions[-1], stop=before, reason=reason)
        if followed.is_over:
            break
    return None


@dataclass
class _Followed:
    """A collection with something of no release, from release to release. What is found is told as what it is and what is done about it, in
    words."""

    HOW = ""

    #: What it is called here.
    collection: CollectionName
    #: Its name in the release; None: not declared yet.
    name: CollectionName | None
    #: The release that is looked at.
    at: Version = field(init=False)
    #: The columns that only a release to come declares, as far as they are declared by now.
    come: set[ColumnPath] = field(init=False, default_factory=set)
    is_over: bool = field(init=False, default=False)

    def advance(self, old: Declarations, new: Declarations, steps: Iterable[Step]) -> tuple[str, str] | None:
        """Go on to the next release, unless it does something about the followed collection or columns. Return this, in words."""
        if self.name is None:
            self.name = self.collection if self.collection in new else None
            if self.name is not None:
                self._go_on(new[self.name], {}, {})
            return None
        found = {step.collection: step for step in steps}
        renamed = {step.renamed_from: name for name, step in found.items() if isinstance(step, Evolution) and step.renamed_from}
        there = renamed.get(self.name, self.name)
        own = found.get(there)
        touched = self._collection(there, own, is_gone=there not in new) or self._read(found.values())
        if touched is None and (there not in new or self._ends_with(own)):
            self.is_over = True  # none of its rows goes on, or nothing of what it had beside them
        elif touched is None:
            renames = own.renames if isinstance(own, Evolution) else {}
            origins = match(old[self.name], new[there], renames)
            touched = self._columns(new[there], origins)
            if touched is None:
                self.name = there
                self._go_on(new[there], renames, origins)
        return touched

    def _ends_with(self, own: Step | None) -> bool:
        return isinstance(own, Removal | Replacement)

    def _collection(self, there: CollectionName, own: Step | None, *, is_gone: bool) -> tuple[str, str] | None:
        """Return what a release does with the collection itself if its name is new there; else None."""
        return None

    def _read(self, steps: Iterable[Step]) -> tuple[str, str] | None:
        """Return the query of a release that reads the collection; None if none does.

        Over several releases, the query would be shown the table without what came.
        """
        if not self.come:
            return None
        for step in steps:
            query = step.up if isinstance(step, Rewrite) else step.fill if isinstance(step, Replacement) else None
            if query is not None and self.name in placeholders(query):
                return self._named(self.come), f"reads {self.name} in the {step.kind} of {step.collection}"
        return None

    def _columns(self, new: Declaration, origins: Origins) -> tuple[str, str] | None:
        moved = {path for path in self.come if origins.get(path) != path}
        return (self._named(moved), "renames or drops that") if moved else None

    def _go_on(self, declared: Declaration, renames: Mapping[ColumnPath, str], origins: Origins) -> None:
        """Note what a release declares first. ``origins``: what it has from the release before, of which ``renames`` has other names."""
        raise NotImplementedError

    @staticmethod
    def _named(paths: Iterable[ColumnPath]) -> str:
        return f"the column {min(paths)}"


@dataclass
class _Outside(_Followed):
    """A collection that is ahead of its release."""

    HOW = "came outside of a release"

    unreleased: UnreleasedChange
    new: frozenset[ColumnPath]

    @classmethod
    def of(cls, unreleased: UnreleasedChange) -> _Outside:
        released, declared = unreleased.released, unreleased.declared
        new = frozenset(match(declared, declared, {}).keys() - match(released, declared, {}).keys())
        return cls(unreleased.collection, released.name if released.fields else None, unreleased, new)

    def _go_on(self, declared: Declaration, renames: Mapping[ColumnPath, str], origins: Origins) -> None:
        self.come |= self.new & match(declared, declared, {}).keys()

    def _collection(self, there: CollectionName, own: Step | None, *, is_gone: bool) -> tuple[str, str] | None:
        is_released = bool(self.unreleased.released.fields) and self.name == self.unreleased.released.name
        if is_released or self.name != self.collection:
            return None
        if is_gone or isinstance(own, Removal):
            return f"the collection {self.name}", "removes it"
        if there != self.name:
            return f"the collection {self.name}", f"renames it to {there}"
        return (f"the collection {self.name}", f"has a {own.kind} for it") if isinstance(own, Replacement | Rewrite) else None


@dataclass
class _Hidden(_Followed):
    """A collection with columns that the release before does not have: values in them come up with the release that has them again."""

    HOW = "is on the table already, hidden, with the values that it had"

    #: Of those that have not come yet, and of those that have: what the table has.
    types: dict[ColumnPath, Any]
    #: Of those that a release on the way had brought, and was rolled back: that release, and their names there. Before it nobody has them.
    own: dict[ColumnPath, tuple[Version, ColumnPath]]

    @classmethod
    def of(cls, state: State, collection: CollectionName, unreleased: UnreleasedChange | None, owners: Owners) -> Iterator[_Hidden]:
        """Yield it if it has such columns. What a hold keeps does not come up again: its name is refused, or it is gone by then."""
        entry = state.entry(collection)
        fields, declared = dict(walk(entry.physical.fields)), match(entry.declared, entry.physical, {}).keys()
        kept, names = kept_fields(state, collection, unclosed_holds(state)), dict(entry.stored_names)
        hidden = [
            path
            for path in fields
            if path not in declared and path not in kept and not any(p not in declared for p in _around(path, fields))
        ]
        own = {path: owner for path in hidden if (owner := _owner(owners.get(path_in_files(path, names), ()), path)) is not None}
        released = collection if unreleased is None else unreleased.released.name if unreleased.released.fields else None
        if hidden:
            yield cls(collection, released, {path: canonical_type(fields[path].type) for path in hidden}, own)

    def _ends_with(self, own: Step | None) -> bool:
        return isinstance(own, Removal | Replacement | Rewrite)

    def _columns(self, new: Declaration, origins: Origins) -> tuple[str, str] | None:
        fields = dict(walk(new.fields))
        retyped = {path for path in self.come if path in fields and canonical_type(fields[path].type) != self.types[path]}
        return super()._columns(new, origins) or ((self._named(retyped), "gives it another type") if retyped else None)

    def _go_on(self, declared: Declaration, renames: Mapping[ColumnPath, str], origins: Origins) -> None:
        """Note what is declared first, unless it is another column of the name: a release that wants that in its place is refused."""
        fields, left = dict(walk(declared.fields)), dict[ColumnPath, Any]()
        own = {translate(before, renames): owner for before, owner in self.own.items()}
        for before, found in self.types.items():
            path = translate(before, renames)
            since, name = own.get(path, (None, path))
            if since is not None and self.at <= since:
                if self.at < since:
                    left[path] = found
                elif name in fields:
                    left[name] = found
                    self.come.add(name)
                continue
            there = path if before in self.come else shown_as(path)
            if before in self.come:
                left[path] = found
            elif any(around not in origins for around in _around(path, fields)) or path in origins:
                continue  # gone with the struct around it, or its name is another column's
            elif there != path:  # it made way: only what is declared without an origin is this column again
                is_new = there in fields and there not in origins
                left[there if is_new else path] = found
                if is_new and canonical_type(fields[there].type) == found:
                    self.come.add(there)
            else:
                left[path] = found
                if path in fields and canonical_type(fields[path].type) == found:
                    self.come.add(path)
        self.types, self.own = left, own


def _owners(release: Release, versions: Sequence[Version], state: State, collection: CollectionName) -> Owners:
    """Return what releases on the way had brought to a table, and were rolled back: by the names in the data files.

    A release that was fixed since may have some of it with another type, which is refused where it is planned, or no more. One that has
    none of it is another one of the number, and its names mean nothing.
    """
    found: dict[tuple[str, ...], list[tuple[Version, ColumnPath]]] = {}
    for known in state.schemas_of(state.objects[collection].shard):
        version = known.release
        if known.rolled_back is None or version is None or version not in versions:
            continue
        shown = {path for path, _ in walk(state.entry(collection).declared.fields)}
        declared, names = release.declarations(version).get(known.collection), dict(known.stored_names)
        there = {path for path, _ in walk(declared.fields)} if declared is not None else set[ColumnPath]()
        paths = [path for path, _ in walk(known.declared.fields)]
        if any(path in there and path not in shown for path in paths):
            for path in paths:
                found.setdefault(path_in_files(path, names), []).append((version, path))
    return found


def _owner(found: Iterable[tuple[Version, ColumnPath]], hidden: ColumnPath) -> tuple[Version, ColumnPath] | None:
    """Return the first of the releases with the name that the hidden column shows: a hidden column is taken by its name."""
    _, name = parent_and_name(shown_as(hidden))
    return min((item for item in found if parent_and_name(item[1])[1] == name), default=None)


def _around(path: ColumnPath, fields: Mapping[ColumnPath, Field]) -> Iterator[ColumnPath]:
    """Yield those of ``fields`` that the one at ``path`` is in."""
    parent, _ = parent_and_name(path)
    while parent:
        if parent in fields:
            yield ColumnPath(parent)
        parent, _ = parent_and_name(parent)
