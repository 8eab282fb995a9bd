"""What came outside of a release must not be taken for another thing of its name, which a leap over several releases would do.

Such a column or collection is told by its name alone: the release that declares the name means it. Releases after that one may give the
name to something else, or read what has it; merged with the one that declares it, they would find it as if it were new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from airflow_provider_schemamig.core.ledger.rows import Ahead
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Version
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.errors import StopInBetween
from airflow_provider_schemamig.core.release.queries.query import placeholders
from airflow_provider_schemamig.core.release.steps import Evolution, Removal, Replacement, Rewrite, Step
from airflow_provider_schemamig.core.schema.model import Declaration


def taken_again(release: Release, state: State) -> Iterator[StopInBetween]:
    """Yield one refusal a collection that is ahead, if the way to the head declares what it has and then does more about it.

    To upgrade to the version before that first is always right: there nothing was done about it yet.
    """
    source = state.release.version if state.release is not None else release.version
    versions = [version for version in release.versions if version >= source]
    if len(versions) < 3 or not state.ahead:
        return
    for name in sorted(state.objects):
        ahead = state.ahead_of(name)
        if ahead is not None:
            yield from _stop(release, versions, ahead)


def _stop(release: Release, versions: Sequence[Version], ahead: Ahead) -> Iterator[StopInBetween]:
    followed = _Followed(ahead)
    for before, version in pairwise(versions):
        old, new = release.declarations(before), release.declarations(version)
        what = followed.advance(old, new, release.steps(version))
        if what is not None:
            reason = f"{before} has {what[0]}, which came outside of a release, and {version} {what[1]}"
            yield StopInBetween(collection=ahead.collection, source=versions[0], target=versions[-1], stop=before, reason=reason)
        if what is not None or followed.is_over:
            return


@dataclass(slots=True)
class _Followed:
    """A collection that is ahead, from release to release. What is found is told as what it is and what is done about it, in words."""

    ahead: Ahead
    #: Its name in the release; None: not declared yet.
    name: CollectionName | None = field(init=False)
    #: The paths that only a release to come declares, and those of them that are declared by now.
    new: frozenset[ColumnPath] = field(init=False)
    come: set[ColumnPath] = field(init=False, default_factory=set)
    is_over: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        released, declared = self.ahead.released, self.ahead.declared
        self.name = released.name if released.fields else None
        self.new = frozenset(match(declared, declared, {}).keys() - match(released, declared, {}).keys())

    def advance(
        self, old: Mapping[CollectionName, Declaration], new: Mapping[CollectionName, Declaration], steps: Iterable[Step]
    ) -> tuple[str, str] | None:
        """Go on to the next release, unless that does something about what has come."""
        if self.name is None:
            self.name = self.ahead.collection if self.ahead.collection in new else None
            if self.name is not None:
                self._come(new[self.name])
            return None
        found = {step.collection: step for step in steps}
        renamed = {step.renamed_from: name for name, step in found.items() if isinstance(step, Evolution) and step.renamed_from}
        there = renamed.get(self.name, self.name)
        own = found.get(there)
        touched = self._collection(there, own, is_gone=there not in new) or self._read(found.values())
        if touched is None and (there not in new or isinstance(own, Removal | Replacement)):
            self.is_over = True  # none of its rows goes on
        elif touched is None:
            touched = self._columns(old[self.name], new[there], own)
        if touched is None and not self.is_over:
            self.name = there
            self._come(new[there])
        return touched

    def _collection(self, there: CollectionName, own: Step | None, *, is_gone: bool) -> tuple[str, str] | None:
        """Return what a release does with the collection itself, where its name is what came; else None."""
        is_released = bool(self.ahead.released.fields) and self.name == self.ahead.released.name
        if is_released or self.name != self.ahead.collection:
            return None
        if is_gone or isinstance(own, Removal):
            return f"the collection {self.name}", "removes it"
        if there != self.name:
            return f"the collection {self.name}", f"renames it to {there}"
        return (f"the collection {self.name}", f"has a {own.kind} for it") if isinstance(own, Replacement | Rewrite) else None

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

    def _columns(self, old: Declaration, new: Declaration, own: Step | None) -> tuple[str, str] | None:
        origins = match(old, new, own.renames if isinstance(own, Evolution) else {})
        moved = {path for path in self.come if origins.get(path) != path}
        return (self._named(moved), "renames or drops that") if moved else None

    def _come(self, declared: Declaration) -> None:
        self.come |= self.new & match(declared, declared, {}).keys()

    @staticmethod
    def _named(paths: Iterable[ColumnPath]) -> str:
        return f"the column {min(paths)}"
