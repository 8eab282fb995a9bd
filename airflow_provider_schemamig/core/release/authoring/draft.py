"""The steps from one schema to another, with every question that only their author can answer.

What loses data or identity is never chosen silently: a drop, a removal, a conversion come with a question that ``check``
refuses until it is decided, and a column that may have another name now is asked about, or left as a question, too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.authoring.draft_query import DraftQuery, draft_query
from airflow_provider_schemamig.core.release.merge.validate import Declarations, is_unchanged
from airflow_provider_schemamig.core.release.steps import Evolution, Removal, Rewrite, Step
from airflow_provider_schemamig.core.schema.changes import AddColumn, ChangeType, Cost
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.compare import Diff, diff
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.paths import field_at, parent_and_name
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.exceptions import Refusal

#: Two collections with this share of their columns in common may be one under another name, two columns with as much of their names, too.
_ALIKE = 0.5


@dataclass(frozen=True, slots=True)
class RenameQuestion:
    """Is ``new`` the new name of ``old``? A column's path and new last name, or with ``column`` False two collections."""

    collection: CollectionName
    old: str
    new: str
    column: bool = True

    @property
    def text(self) -> str:
        what = f"{self.collection}.{self.old}" if self.column else f"the collection {self.old}"
        return f"is {self.new} the new name of {what}?"


#: Answers a question; None where nobody can be asked, so that the question is left in the draft.
Ask = Callable[[RenameQuestion], bool]


@dataclass(frozen=True, slots=True)
class DraftStep:
    """One step, and what its author has to decide before it is one."""

    step: Step
    questions: tuple[str, ...] = ()


def draft_steps(old: Declarations, new: Declarations, ask: Ask | None = None) -> tuple[DraftStep, ...]:
    """Return the steps from ``old`` to ``new``, by collection. Without their questions they pass ``validate_pair``."""
    return tuple(_Drafter(old, new, ask).steps())


@dataclass(frozen=True)
class _Drafter:
    old: Declarations
    new: Declarations
    ask: Ask | None

    def steps(self) -> Iterator[DraftStep]:
        created = [name for name in self.new if name not in self.old]
        for name, before in sorted(self.old.items()):
            after = self.new.get(name)
            if after is None:
                yield self._gone(before, created)
            elif not is_unchanged(before, after):
                yield self._changed(before, after)

    # --- collections -------------------------------------------------------------------------------------------------------------

    def _gone(self, before: Declaration, created: list[CollectionName]) -> DraftStep:
        name = before.name
        alike = sorted((candidate for candidate in created if _share(before, self.new[candidate]) >= _ALIKE), key=_like(name))
        for candidate in alike:
            if self.ask is not None and self.ask(RenameQuestion(name, name, candidate, column=False)):
                created.remove(candidate)
                return self._renamed(before, self.new[candidate])
        question = f"removal of {name}: all its rows are gone when the hold is over"
        if alike and self.ask is None:
            question += (
                f'; or {RenameQuestion(name, name, alike[0], column=False).text} Then evolution("{alike[0]}", renamed_from="{name}")'
            )
        return DraftStep(Removal(name), (question,))

    def _renamed(self, before: Declaration, after: Declaration) -> DraftStep:
        drafted = self._changed(before, after)
        if isinstance(drafted.step, Evolution):
            step = drafted.step
            return DraftStep(Evolution(after.name, step.rename, step.drop, before.name), drafted.questions)
        question = f"{after.name} has another name and is rewritten, too: do that in two releases; this removal would lose all rows of it"
        return DraftStep(Removal(before.name), (question,))

    # --- one collection ----------------------------------------------------------------------------------------------------------

    def _changed(self, before: Declaration, after: Declaration) -> DraftStep:
        renames, open_questions = self._renames(before, after, diff(before, after))
        found = _evolvable(before, after, renames)
        if found is None:
            return _rewrite(before, after, renames, open_questions)
        questions = [*_drop_questions(found, open_questions), *_change_questions(found)]
        step = Evolution(after.name, tuple(sorted(renames.items())), tuple(path for path in found.dropped if path not in renames))
        return DraftStep(step, tuple(questions))

    def _renames(self, before: Declaration, after: Declaration, found: Diff) -> tuple[dict[ColumnPath, str], dict[ColumnPath, str]]:
        """Return the renames answered with yes, and the likeliest new names of dropped columns where nobody is asked."""
        added = [change.path for change in found.changes if isinstance(change, AddColumn)]
        renames: dict[ColumnPath, str] = {}
        unanswered: dict[ColumnPath, str] = {}
        for path in found.dropped:
            for candidate in _candidates(before, after, path, added):
                name = parent_and_name(candidate)[1]
                if self.ask is None:
                    unanswered.setdefault(path, name)
                elif self.ask(RenameQuestion(before.name, path, name)):
                    renames[path] = name
                    added.remove(candidate)
                    break
        return renames, unanswered


def _share(before: Declaration, after: Declaration) -> float:
    """Return how much two collections have in common: columns of equal name and type, of all that either has."""
    mine, other = ({(f.name, canonical_type(f.type)) for f in declaration.fields} for declaration in (before, after))
    return len(mine & other) / max(len(mine), len(other), 1)


def _like(name: str) -> Callable[[str], tuple[float, str]]:
    return lambda other: (-difflib.SequenceMatcher(None, parent_and_name(name)[1], parent_and_name(other)[1]).ratio(), other)


def _candidates(before: Declaration, after: Declaration, path: ColumnPath, added: Sequence[ColumnPath]) -> list[ColumnPath]:
    """Return what ``path`` may be now, the likeliest first: columns added in the same struct, of its type, or with a similar name and a
    wider type."""
    old = field_at(before.fields, path)
    found = []
    for other in added:
        new = field_at(after.fields, other)
        if old is None or new is None or parent_and_name(other)[0] != parent_and_name(path)[0]:
            continue
        is_wider = is_widening(old.type, new.type) and -_like(path)(other)[0] >= _ALIKE
        if canonical_type(old.type) == canonical_type(new.type) or is_wider:
            found.append(other)
    return sorted(found, key=_like(path))


def _evolvable(before: Declaration, after: Declaration, renames: Mapping[ColumnPath, str]) -> Diff | None:
    """Return the difference, if one evolution can make it."""
    try:
        found = diff(before, after, renames)
        phases(before, before, after, renames)
    except Refusal:  # such as a name that changes hands while somebody needs it
        return None
    return None if found.outcome is Cost.REWRITE else found


def _drop_questions(found: Diff, candidates: Mapping[ColumnPath, str]) -> Iterator[str]:
    for path in found.dropped:
        question = f"drop of {path}: its values are gone when the hold is over"
        if path in candidates:
            question += f'; or is {candidates[path]} its new name? Then rename={{"{path}":"{candidates[path]}"}} instead'
        yield question


def _change_questions(found: Diff) -> Iterator[str]:
    for change in found.changes:
        if isinstance(change, ChangeType) and not change.widening:
            kinds = f"{type_sql(change.old)} to {type_sql(change.new)}"
            yield f"{change.path} changes from {kinds}: is a CAST right for every value?"
        elif isinstance(change, AddColumn) and not change.field.nullable and change.field.default is None:
            yield f"{change.path} is new and NOT NULL, and older rows have no value for it: give it a DEFAULT, or let it be NULL"


def _rewrite(before: Declaration, after: Declaration, renames: Mapping[ColumnPath, str], candidates: Mapping[ColumnPath, str]) -> DraftStep:
    """Draft a rewrite with casts by name, both ways."""
    names = {path: name for path, name in renames.items() if "." not in path}
    up, down = draft_query(before, after, names), draft_query(after, before, {ColumnPath(new): old for old, new in names.items()})
    because = "; ".join(describe(change) for change in diff(before, after).changes if change.cost is Cost.REWRITE)
    head = [f"rewrite of {before.name} ({because or 'names change hands'}): do up and down say what is meant?"]
    kept = {*names, *(ColumnPath(f.name) for f in after.fields)}
    for field in before.fields:
        path = ColumnPath(field.name)
        if path not in kept:
            question = f"{path} is not copied: its values are gone when the hold is over"
            head.append(question + (f"; or is {candidates[path]} its new name?" if path in candidates else ""))
    return DraftStep(Rewrite(after.name, up.sql, down.sql), (*head, *_side("up", up), *_side("down", down)))


def _side(argument: str, query: DraftQuery) -> Iterator[str]:
    for question in query.questions:
        yield f"{argument}: {question}"
