"""Holds the steps of each release against the difference of its two snapshots.

What loses data or identity is always named; a new collection needs no step, and what only adds or relaxes needs one without details.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Version
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.release.folder.modules import Migration
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge import errors as e
from airflow_provider_schemamig.core.release.merge.references import Kept, moved_references
from airflow_provider_schemamig.core.release.queries.query import check_query
from airflow_provider_schemamig.core.release.queries.row_local import RewriteQuery, check_lookups, check_rewrite_query
from airflow_provider_schemamig.core.release.steps import Evolution, Removal, Replacement, Rewrite, Step
from airflow_provider_schemamig.core.schema.changes import Change, Cost
from airflow_provider_schemamig.core.schema.diff.compare import Diff, diff
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.exceptions import Refusal

Declarations = Mapping[CollectionName, Declaration]


def validate_chain(release: Release) -> tuple[Refusal, ...]:
    """Return every refusal between adjacent supported versions, oldest first. Raises the parser's refusals if a snapshot does not parse."""
    refusals: list[Refusal] = []
    for before, version in pairwise(release.versions):
        refusals.extend(validate_pair(release, before, version))
    return tuple(refusals)


def validate_pair(release: Release, before: Version, version: Version) -> Iterator[Refusal]:
    """Yield the refusals of one migration, from ``before`` to the next supported version."""
    migration = release.modules[version]
    old, new = release.declarations(before), release.declarations(version)
    pair = _Pair(migration, before, version, old, new)
    yield from pair.steps()
    yield from pair.collections()


def describe(change: Change) -> str:
    """Describe a change in a few words, for the lists in messages: ``drop_column hour``."""
    name = next((getattr(change, a) for a in ("path", "key", "check", "foreign_key") if getattr(change, a, None)), "")
    shown = name if isinstance(name, str) else getattr(name, "name", None) or ", ".join(getattr(name, "columns", ()))
    return f"{change.op} {shown}".rstrip()


def is_unchanged(old: Declaration, new: Declaration) -> bool:
    """Return whether two declarations differ in nothing that needs a step. Identity and equality come first: most pairs are one cached
    value."""
    return old is new or old == new or diff(old, new, {}).outcome == Cost.NONE


@dataclass(frozen=True)
class _Pair:
    """One migration with the collections on both sides."""

    migration: Migration
    before: Version
    version: Version
    old: Declarations
    new: Declarations

    def steps(self) -> Iterator[Refusal]:
        """Yield what is wrong with each step."""
        seen: set[CollectionName] = set()
        for step, line in zip(self.migration.steps, self.migration.lines, strict=True):
            taken = {step.collection}
            if isinstance(step, Evolution) and step.renamed_from is not None:
                taken.add(step.renamed_from)
            if seen & taken:
                yield e.DuplicateSteps(**self._at(step.collection, line))
            else:
                yield from self._step(step, line)
            seen |= taken

    def collections(self) -> Iterator[Refusal]:
        """Yield changes that no step explains."""
        named = {step.collection for step in self.migration.steps}
        named |= {step.renamed_from for step in self.migration.steps if isinstance(step, Evolution) and step.renamed_from is not None}
        for name, old in self.old.items():
            if name in named:
                continue
            new = self.new.get(name)
            if new is None:
                yield e.RemovalNotNamed(**self._at(name, None))
            elif not is_unchanged(old, new):
                changes = [describe(change) for change in diff(old, new, {}).changes if change.cost != Cost.NONE]
                yield e.UnexplainedChange(**self._at(name, None), changes=changes)
        for name, key, referred in moved_references(dict(self._kept())):
            yield e.ReferenceMoved(**self._at(name, None), columns=key.columns, references=key.references, referred=referred)

    def _kept(self) -> Iterator[tuple[CollectionName, Kept]]:
        """Yield the collections that keep their tables."""
        steps = {step.collection: step for step in self.migration.steps}
        for name, new in self.new.items():
            step = steps.get(name)
            old = self.old.get(step.renamed_from or name if isinstance(step, Evolution) else name)
            if old is not None and isinstance(step, Evolution | None):
                yield name, Kept(old, new, {} if step is None else step.renames)

    def _step(self, step: Step, line: int) -> Iterator[Refusal]:
        source = step.renamed_from if isinstance(step, Evolution) and step.renamed_from is not None else step.collection
        if source not in self.old:
            if isinstance(step, Replacement) and step.fill is not None and source in self.new:
                yield from self._queries(step, {"fill": (step.fill, self.old, self.before)}, line)
            else:
                yield self._unknown(step, source, line)
            return
        match step:
            case Removal(collection=name):
                if name in self.new:
                    yield e.RemovedButDeclared(**self._at(name, line))
            case Evolution():
                yield from self._evolution(step, source, line)
            case Replacement():
                yield from self._queries(step, {"fill": (step.fill, self.old, self.before)}, line)
                yield from self._explains(step, line)
            case Rewrite():
                queries = {"up": (step.up, self.old, self.before), "down": (step.down, self.new, self.version)}
                yield from self._queries(step, queries, line)
                yield from self._row_local(step, line)
                yield from self._explains(step, line)

    def _unknown(self, step: Step, source: CollectionName, line: int) -> Refusal:
        if source == step.collection and source in self.new:
            return e.StepForNewCollection(**self._at(source, line))
        similar = difflib.get_close_matches(source, self.old, n=3)
        return e.StepOfUnknownCollection(**self._at(step.collection, line), name=source, similar=similar)

    def _explains(self, step: Step, line: int) -> Iterator[Refusal]:
        old, new = self.old[step.collection], self.new.get(step.collection)
        if new is None:
            yield self._not_declared(step, line)
        elif is_unchanged(old, new):
            yield e.StepExplainsNothing(**self._at(step.collection, line), kind=step.kind)

    def _not_declared(self, step: Step, line: int) -> Refusal:
        return e.StepNotDone(**self._at(step.collection, line), what=f"that {step.collection} goes on")

    def _queries(self, step: Step, queries: Mapping[str, tuple[str | None, Declarations, Version]], line: int) -> Iterator[Refusal]:
        for argument, (query, known, version) in queries.items():
            if query is not None:
                yield from check_query(
                    query,
                    known=known.keys(),
                    version=version,
                    collection=step.collection,
                    file=self.migration.file,
                    line=line,
                    argument=argument,
                )

    def _row_local(self, step: Rewrite, line: int) -> Iterator[Refusal]:
        """Yield the refusals of a rewrite's queries and lookups, besides those of any query."""
        name, file, new = step.collection, self.migration.file, self.new.get(step.collection)
        if new is None:
            return
        sides = [("up", step.up, self.old, new), ("down", step.down, self.new, self.old[name])]
        for argument, text, known, gives in sides:
            if text is not None:
                query = RewriteQuery(
                    text=text, own=name, lookups=step.lookups, known=known, gives=gives, file=file, line=line, argument=argument
                )
                yield from check_rewrite_query(query)
        queries = [step.up, *filter(None, [step.down])]
        yield from check_lookups(step.lookups, queries, collection=name, file=file, line=line)

    def _evolution(self, step: Evolution, source: CollectionName, line: int) -> Iterator[Refusal]:
        old, new = self.old[source], self.new.get(step.collection)
        if new is None:
            yield self._not_declared(step, line)
            return
        yield from self._rename(step, line)
        done = dict(step.renames)
        for refusal, path in self._renames(step, old, new, line):
            done.pop(path, None)
            yield refusal
        try:
            found = diff(old, new, done)
            phases(old, old, new, done)
        except Refusal as refusal:  # what cannot be one change, such as a CHECK that a rename cannot follow
            refusal.collection = refusal.collection or step.collection
            yield refusal
            return
        yield from self._drops(step, old, new, found, line)
        if len(done) == len(step.renames):
            yield from self._outcome(step, found, line)

    def _rename(self, step: Evolution, line: int) -> Iterator[Refusal]:
        """Refuse a ``renamed_from`` where either name means another collection on the other side."""
        if step.renamed_from is None:
            return
        at = self._at(step.collection, line)
        if step.collection in self.old:
            yield e.CollectionNameReused(**at, name=step.collection, reason=f"{self.before} has one too")
        if step.renamed_from in self.new:
            yield e.CollectionNameReused(**at, name=step.renamed_from, reason="it is renamed, and still declared")

    def _renames(self, step: Evolution, old: Declaration, new: Declaration, line: int) -> Iterator[tuple[Refusal, ColumnPath]]:
        """Yield renames that the two declarations do not show, each with its old path."""
        if not step.rename:
            return
        at = self._at(step.collection, line)
        known, kept = {path for path, _ in walk(old.fields)}, set(match(old, new, step.renames).values())
        for path, name in step.rename:
            if path not in known:
                yield e.StepOfUnknownPath(**at, path=path, argument="rename"), path
            elif path not in kept:
                yield e.StepNotDone(**at, what=f"{path} is renamed to {name}"), path

    def _drops(self, step: Evolution, old: Declaration, new: Declaration, found: Diff, line: int) -> Iterator[Refusal]:
        at = self._at(step.collection, line)
        known, declared = {path for path, _ in walk(old.fields)}, {path for path, _ in walk(new.fields)}
        for path in step.drop:
            if path not in known:
                yield e.StepOfUnknownPath(**at, path=path, argument="drop")
            elif path not in found.dropped:
                yield e.StepNotDone(**at, what=f"{path} is dropped" + self._why_not_gone(path, found.dropped, declared))
        unnamed = [path for path in found.dropped if path not in step.drop and path not in step.renames]
        if unnamed:
            yield e.UnnamedDrop(**at, paths=unnamed)

    @staticmethod
    def _why_not_gone(path: ColumnPath, gone: tuple[ColumnPath, ...], new_paths: set[ColumnPath]) -> str:
        outer = next((other for other in gone if path.startswith(f"{other}.")), None)
        if outer is not None:
            return f" (naming {outer}, which it is part of, is enough)"
        return " (it is still declared)" if path in new_paths else ""

    def _outcome(self, step: Evolution, found: Diff, line: int) -> Iterator[Refusal]:
        at = self._at(step.collection, line)
        if found.outcome == Cost.NONE and step.renamed_from is None:
            yield e.StepExplainsNothing(**at, kind=step.kind)
        if found.outcome == Cost.REWRITE:
            yield e.NeedsRewrite(**at, changes=[describe(change) for change in found.changes if change.cost == Cost.REWRITE])

    def _at(self, collection: CollectionName, line: int | None) -> dict[str, Any]:
        return {"collection": collection, "file": self.migration.file, "line": line, "version": self.version}
