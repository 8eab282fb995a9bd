"""What can be wrong between the steps of a release and its snapshots: one class a reason.

The first kind is known from the folder alone (``validate_chain``), the second when a source version is known (``merge``).
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import FileRefusal
from airflow_provider_schemamig.exceptions import Refusal, listed


class StepRefusal(FileRefusal):
    """Base: about ``collection`` in the migration to ``version``. ``line`` is the step's, if there is one."""

    version: Version


class StepOfUnknownCollection(StepRefusal):
    code = "unknown_collection"
    message = "{where}: the release before {version} has no collection {name!r}."
    name: str
    similar: Sequence[str] = ()

    @property
    def next_action(self) -> str:
        if self.similar:
            return f"Did you mean {listed(self.similar, 8)}? Otherwise delete the step."
        return "Delete the step, or name the collection as the release before has it."


class StepForNewCollection(StepRefusal):
    code = "step_for_new_collection"
    message = "{where}: the collection is new in {version}; it is created as declared, and this step would never run for it."
    next_action = (
        "Delete the step. If the collection had another name before, say renamed_from in an evolution; if a query gives its rows, write "
        "replacement(..., fill=...)."
    )


class DuplicateSteps(StepRefusal):
    code = "duplicate_steps"
    message = "{where}: a second step for one collection in {version}."
    next_action = "Put both into one step, or the second into a later version."


class StepExplainsNothing(StepRefusal):
    code = "step_explains_nothing"
    message = "{where}: the {kind} explains no change, {version} declares the collection as the release before did."
    next_action = "Delete the step (comments and order need none), or make the change in schema.sql and take the snapshot again."
    kind: str


class UnexplainedChange(StepRefusal):
    code = "unexplained_change"
    message = "{version} changes it ({changes:.8}), and no step in {file} explains that."
    next_action = 'Add a step, for instance evolution("{collection}"), or take the change out of schema.sql.'
    changes: Sequence[str]


class UnnamedDrop(StepRefusal):
    code = "unnamed_drop"
    message = "{where}: {paths:.8} is gone in {version}, and the step does not name it; its values would be lost."
    next_action = "Add it to drop=[...], or to rename={{old: new}} if it has another name now."
    paths: Sequence[str]


class StepOfUnknownPath(StepRefusal):
    code = "unknown_path"
    message = "{where}: {argument} names {path}, which the release before {version} does not have."
    next_action = "Give the path as it is in the snapshot before, parts separated by dots (through arrays `element`, through maps `value`)."
    path: str
    argument: str


class StepNotDone(StepRefusal):
    code = "step_not_done"
    message = "{where}: the step declares {what}, but the snapshot of {version} has no such change."
    next_action = "Correct the step, or make the change in schema.sql and take the snapshot again."
    what: str


class RemovalNotNamed(StepRefusal):
    code = "removal_not_named"
    message = "{version} no longer declares this collection, and no step in {file} removes or renames it; its rows would be lost."
    next_action = 'Add removal("{collection}"), or renamed_from="{collection}" to the evolution of its new name.'


class RemovedButDeclared(StepRefusal):
    code = "removed_but_declared"
    message = "{where}: the step removes the collection, and {version} still declares it."
    next_action = "Delete it from schema.sql; if it is to start empty with other columns, use replacement(...)."


class CollectionNameReused(StepRefusal):
    code = "collection_name_reused"
    message = "{where}: the name {name!r} means two collections in {version}: {reason}."
    next_action = "Do it in two releases, so that no reader takes one collection for the other."
    name: str
    reason: str


class ReferenceMoved(StepRefusal):
    code = "reference_moved"
    message = "{where}: its FOREIGN KEY ({columns}) refers to {references}.{referred}, and {version} gives that name to another column."
    next_action = "Drop the key in this version, and add it in the next one: then rows are asked."
    columns: Sequence[str]
    references: str
    referred: str


class NeedsRewrite(StepRefusal):
    code = "needs_rewrite"
    message = "{where}: an evolution keeps every file as it is and cannot make {changes:.8}."
    next_action = "Use rewrite(...), which keeps the rows, or replacement(...), which does not."
    changes: Sequence[str]


class StopInBetween(Refusal):
    """The releases from ``source`` to ``target`` cannot be merged into one upgrade; ``stop`` is the version to upgrade to first."""

    code = "stop_in_between"
    message = "The upgrade from {source} to {target} cannot be made in one go: {reason}."
    next_action = "Upgrade to {stop} first (with that release's folder), then to {target}."
    source: Version
    target: Version
    stop: Version
    reason: str


class DowngradeRefused(Refusal):
    code = "downgrade_refused"
    message = "The environment is at {source}, and the release folder is the older {target}."
    next_action = "Use `schemamig rollback`, while the hold of the last upgrade is open, or the newer release folder."
    source: Version
    target: Version


class SourceBelowMinimum(Refusal):
    code = "source_below_minimum"
    message = "The environment is at {source}; release {target} upgrades from {minimum} at the least."
    next_action = "Upgrade with an older release folder to {minimum} or later first."
    source: Version
    minimum: Version
    target: Version


class UnknownSourceVersion(Refusal):
    code = "unknown_source_version"
    message = "The environment is at {source}, which release {target} does not know (it knows {known:.8})."
    next_action = (
        "A migration into an older line must be part of every later release: take a release folder that has this version's snapshot."
    )
    source: Version
    target: Version
    known: Sequence[str]
