"""What can be wrong between the steps of a release and its snapshots: one class a reason.

The first kind is known from the folder alone (``validate_chain``), the second when a source version is known (``merge``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import FileRefusal
from airflow_provider_schemamig.exceptions import Refusal


def _listed(items: Sequence[str]) -> str:
    shown = ", ".join(items[:8])
    return shown if len(items) <= 8 else f"{shown} and {len(items) - 8} more"


@dataclass(eq=False, kw_only=True)
class StepRefusal(FileRefusal):
    """Base: about ``collection`` in the migration to ``version``. ``line`` is the step's, if there is one."""

    version: Version


@dataclass(eq=False, kw_only=True)
class StepOfUnknownCollection(StepRefusal):
    code = "unknown_collection"
    name: str
    similar: Sequence[str] = ()

    @property
    def message(self) -> str:
        return f"{self.where}: the release before {self.version} has no collection {self.name!r}."

    @property
    def next_action(self) -> str:
        if self.similar:
            return f"Did you mean {_listed(self.similar)}? Otherwise delete the step."
        return "Delete the step, or name the collection as the release before has it."


@dataclass(eq=False, kw_only=True)
class StepForNewCollection(StepRefusal):
    code = "step_for_new_collection"

    @property
    def message(self) -> str:
        return f"{self.where}: the collection is new in {self.version}; it is created as declared, and no step would ever run for it."

    @property
    def next_action(self) -> str:
        return "Delete the step; if the collection had another name before, say renamed_from in an evolution."


@dataclass(eq=False, kw_only=True)
class DuplicateSteps(StepRefusal):
    code = "duplicate_steps"

    @property
    def message(self) -> str:
        return f"{self.where}: a second step for one collection in {self.version}."

    @property
    def next_action(self) -> str:
        return "Put both into one step, or the second into a later version."


@dataclass(eq=False, kw_only=True)
class StepExplainsNothing(StepRefusal):
    code = "step_explains_nothing"
    kind: str

    @property
    def message(self) -> str:
        return f"{self.where}: the {self.kind} explains no change, {self.version} declares the collection as the release before did."

    @property
    def next_action(self) -> str:
        return "Delete the step (comments and order need none), or make the change in schema.sql and take the snapshot again."


@dataclass(eq=False, kw_only=True)
class UnexplainedChange(StepRefusal):
    code = "unexplained_change"
    changes: Sequence[str]

    @property
    def message(self) -> str:
        return f"{self.version} changes it ({_listed(self.changes)}), and no step in {self.file} explains that."

    @property
    def next_action(self) -> str:
        return f'Add a step, for instance evolution("{self.collection}"), or take the change out of schema.sql.'


@dataclass(eq=False, kw_only=True)
class UnnamedDrop(StepRefusal):
    code = "unnamed_drop"
    paths: Sequence[str]

    @property
    def message(self) -> str:
        return f"{self.where}: {_listed(self.paths)} is gone in {self.version}, and the step does not name it; its values would be lost."

    @property
    def next_action(self) -> str:
        return "Add it to drop=[...], or to rename={old: new} if it has another name now."


@dataclass(eq=False, kw_only=True)
class StepOfUnknownPath(StepRefusal):
    code = "unknown_path"
    path: str
    argument: str

    @property
    def message(self) -> str:
        return f"{self.where}: {self.argument} names {self.path}, which the release before {self.version} does not have."

    @property
    def next_action(self) -> str:
        return "Give the path as it is in the snapshot before, parts separated by dots (through arrays `element`, through maps `value`)."


@dataclass(eq=False, kw_only=True)
class StepNotDone(StepRefusal):
    code = "step_not_done"
    what: str

    @property
    def message(self) -> str:
        return f"{self.where}: the step says {self.what}, and the snapshot of {self.version} does not."

    @property
    def next_action(self) -> str:
        return "Correct the step, or make the change in schema.sql and take the snapshot again."


@dataclass(eq=False, kw_only=True)
class RemovalNotNamed(StepRefusal):
    code = "removal_not_named"

    @property
    def message(self) -> str:
        return f"{self.version} does not declare it any more, and no step in {self.file} names that; all its rows would be lost."

    @property
    def next_action(self) -> str:
        return f'Add removal("{self.collection}"), or renamed_from="{self.collection}" to the evolution of its new name.'


@dataclass(eq=False, kw_only=True)
class RemovedButDeclared(StepRefusal):
    code = "removed_but_declared"

    @property
    def message(self) -> str:
        return f"{self.where}: the step removes the collection, and {self.version} still declares it."

    @property
    def next_action(self) -> str:
        return "Delete it from schema.sql; if it is to begin anew with other columns, use replacement(...)."


@dataclass(eq=False, kw_only=True)
class CollectionNameReused(StepRefusal):
    code = "collection_name_reused"
    name: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where}: the name {self.name!r} means two collections in {self.version}: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Do it in two releases, so that no reader takes one collection for the other."


@dataclass(eq=False, kw_only=True)
class NeedsRewrite(StepRefusal):
    code = "needs_rewrite"
    changes: Sequence[str]

    @property
    def message(self) -> str:
        return f"{self.where}: an evolution keeps every file as it is and cannot make {_listed(self.changes)}."

    @property
    def next_action(self) -> str:
        return "Use rewrite(...), which keeps the rows, or replacement(...), which does not."


@dataclass(eq=False, kw_only=True)
class StopInBetween(Refusal):
    """The releases from ``source`` to ``target`` cannot be merged into one upgrade; ``stop`` is the version to upgrade to first."""

    code = "stop_in_between"
    source: Version
    target: Version
    stop: Version
    reason: str

    @property
    def message(self) -> str:
        return f"The upgrade from {self.source} to {self.target} cannot be made in one go: {self.reason}."

    @property
    def next_action(self) -> str:
        return f"Upgrade to {self.stop} first (with that release's folder), then to {self.target}."


@dataclass(eq=False, kw_only=True)
class DowngradeRefused(Refusal):
    code = "downgrade_refused"
    source: Version
    target: Version

    @property
    def message(self) -> str:
        return f"The environment is at {self.source}, and the release folder is the older {self.target}."

    @property
    def next_action(self) -> str:
        return "Use `schemamig rollback`, while the hold of the last upgrade is open, or the newer release folder."


@dataclass(eq=False, kw_only=True)
class SourceBelowMinimum(Refusal):
    code = "source_below_minimum"
    source: Version
    minimum: Version
    target: Version

    @property
    def message(self) -> str:
        return f"The environment is at {self.source}; release {self.target} upgrades from {self.minimum} at the least."

    @property
    def next_action(self) -> str:
        return f"Upgrade with an older release folder to {self.minimum} or later first."


@dataclass(eq=False, kw_only=True)
class UnknownSourceVersion(Refusal):
    code = "unknown_source_version"
    source: Version
    target: Version
    known: Sequence[str]

    @property
    def message(self) -> str:
        return f"The environment is at {self.source}, which release {self.target} does not know (it knows {_listed(self.known)})."

    @property
    def next_action(self) -> str:
        return "A migration into an older line must be part of every later release: take a release folder that has this version's snapshot."
