"""Why an upgrade is refused or has to be tried again (the layer's branch of the error tree)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pendulum

from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class DriftFound(Refusal):
    """The live table is not what the ledger says: somebody changed it behind our back.

    ``under_way``: it was found while an upgrade or a contract was at work on the table, so the three ways on wait for its end.
    """

    code = "drift"
    differences: Sequence[str]
    under_way: bool = False

    @property
    def message(self) -> str:
        return "the live table differs from what the ledger recorded: " + "; ".join(self.differences) + "."

    @property
    def next_action(self) -> str:
        if self.under_way:
            return (
                "Undo that on the table itself (ALTER TABLE), then run this, or `schemamig rollback`, again: `accept`, `revert` and "
                "`unmanage` wait until what is under way has ended."
            )
        which = f" --collection {self.collection}" if self.collection else ""
        return (
            f"Three ways on: `schemamig accept{which}` takes it into the release, `schemamig revert{which}` undoes it on the table, "
            f"`schemamig unmanage{which}` gives the table back; `schemamig status` shows what each would do."
        )


@dataclass(eq=False)
class SourceTouched(Conflict):
    """A sealed table got a commit of somebody else before the release was committed: only RESTORE can do that."""

    code = "source_touched"
    shard: str

    @property
    def message(self) -> str:
        return f"the sealed shard {self.shard} was changed by somebody else (RESTORE?) before the commit; nothing was committed."

    @property
    def next_action(self) -> str:
        return "Try again: the seal was lifted, what the shard holds now is followed, and it is sealed anew."


@dataclass(eq=False)
class SealExpired(Conflict):
    """Writers were locked out for as long as is allowed, and the commit was not ready."""

    code = "seal_expired"
    seconds: float

    @property
    def message(self) -> str:
        return f"the release could not be committed within {self.seconds:.0f} s after its seals; they are lifted, nothing was committed."

    @property
    def next_action(self) -> str:
        return "Try again: what was tailed stays, so there is less to catch up with; a time with fewer writers helps."


@dataclass(eq=False)
class SparkNotGiven(Refusal):
    """The deployment works on rows, and the caller gave no Spark to do it."""

    code = "spark_not_given"

    @property
    def message(self) -> str:
        return "this deployment copies or fills rows, and no Spark was given to do it."

    @property
    def next_action(self) -> str:
        return "Pass jobs=lambda: runner_for(url) (core.spark); the command line takes --spark, the operators spark_conn_id."


@dataclass(eq=False)
class ShardMissing(Refusal):
    code = "shard_missing"
    uri: str

    @property
    def message(self) -> str:
        return f"there is no Delta table at {self.uri}."

    @property
    def next_action(self) -> str:
        return "Restore the table's folder, or declare replacement(...) or removal(...) for the collection."


@dataclass(eq=False)
class HoldInUse(Refusal):
    """A hold would end, and somebody still works with a release before its own."""

    code = "hold_in_use"
    generation: int
    until: pendulum.DateTime
    nodes: Sequence[str]

    @property
    def message(self) -> str:
        until, nodes = minute(self.until), ", ".join(self.nodes)
        return f"the hold of generation {self.generation} (until {until}) would end, and live nodes still need what it keeps: {nodes}."

    @property
    def next_action(self) -> str:
        return "Move these nodes to the current release or wait for them; --ignore-nodes takes away what they need."


@dataclass(eq=False)
class PlanChanged(Refusal):
    code = "plan_changed"
    approved: str
    current: str

    @property
    def message(self) -> str:
        return f"the plan that was checked ({self.approved[:12]}) is not the plan that would run now ({self.current[:12]})."

    @property
    def next_action(self) -> str:
        return "Run preflight again, read the new plan, and approve that one."


@dataclass(eq=False)
class UnknownGeneration(Refusal):
    code = "unknown_generation"
    generation: int

    @property
    def message(self) -> str:
        return f"the environment has no deployment of generation {self.generation}."

    @property
    def next_action(self) -> str:
        return "`schemamig status` lists the deployments; preflight claims a new generation."


@dataclass(eq=False)
class WrongState(Refusal):
    """A protocol task was called before or after its time."""

    code = "wrong_state"
    generation: int
    state: str
    task: str
    first: str

    @property
    def message(self) -> str:
        return f"generation {self.generation} is {self.state}; {self.task} cannot run on it."

    @property
    def next_action(self) -> str:
        return self.first


@dataclass(eq=False)
class NotBuilt(Refusal):
    code = "not_built"

    @property
    def message(self) -> str:
        return "its replacement shard has not been built, or its fill has not finished."

    @property
    def next_action(self) -> str:
        return "Run preflight (or its fill tasks) for this generation again; it goes on where it stopped."


@dataclass(eq=False)
class DeploymentOpen(Conflict):
    """Another deployment is promoted and not committed: nothing else may change the environment."""

    code = "deployment_open"
    generation: int

    @property
    def message(self) -> str:
        return f"generation {self.generation} is promoted and not committed yet."

    @property
    def next_action(self) -> str:
        return "Let it finish, or roll it back, then try again."


@dataclass(eq=False)
class HoldOpen(Conflict):
    """A release can still be rolled back, and what its way back can undo hangs on what came to the tables since."""

    code = "hold_open"
    generation: int
    until: pendulum.DateTime

    @property
    def message(self) -> str:
        until = minute(self.until)
        return f"generation {self.generation} can be rolled back until {until}; until then nothing else may change its tables."

    @property
    def next_action(self) -> str:
        return "Wait for the hold and its contract; a new release (--end-hold) can end it at once."


@dataclass(eq=False)
class NeverAgreed(Conflict):
    """Others changed the schema again and again between looking at it and changing it."""

    code = "never_agreed"

    @property
    def message(self) -> str:
        return "the schema was changed by others each time it was looked at."

    @property
    def next_action(self) -> str:
        return "Try again when fewer leaders are at work."


@dataclass(eq=False)
class UnknownCollection(Refusal):
    """``release``: the one that declares none of this name; None: the environment has none."""

    code = "unknown_collection"
    release: str | None = None

    @property
    def message(self) -> str:
        return "the environment has no such collection." if self.release is None else f"release {self.release} declares no such collection."

    @property
    def next_action(self) -> str:
        if self.release is not None:
            return "Give a name that its schema has."
        return "`schemamig status` lists the collections; a new one comes with a release."


@dataclass(eq=False)
class AheadNotInRelease(Refusal):
    """The collection was changed outside of a release, and the release would take the change away unseen."""

    code = "ahead_not_in_release"
    changes: Sequence[str]

    @property
    def message(self) -> str:
        return f"its schema was changed outside of a release, and this release does not contain: {'; '.join(self.changes)}."

    @property
    def next_action(self) -> str:
        return (
            "Make the same change in schema.sql, with an evolution step for the collection (renamed_from where it was renamed), or a "
            "removal where it was dropped; the environment has it already."
        )


@dataclass(eq=False)
class MovedAhead(Refusal):
    """A release's query reads a collection that was renamed or dropped outside of one. ``now``: its name here; None: it is gone."""

    code = "moved_ahead"
    now: str | None

    @property
    def message(self) -> str:
        where = "was dropped" if self.now is None else f"is called {self.now} here"
        return f"this release rewrites, replaces or reads it, but it {where} since an `alter`."

    @property
    def next_action(self) -> str:
        if self.now is None:
            return "Deploy a release first that has its removal and nothing that reads it."
        return f"Take the name back first: `schemamig alter --env URI 'ALTER TABLE {self.now} RENAME TO {self.collection}'`."


@dataclass(eq=False)
class RollbackOpen(Conflict):
    """A rollback has begun and not ended: its hold must not be contracted under it."""

    code = "rollback_open"
    generation: int

    @property
    def message(self) -> str:
        return f"a rollback of generation {self.generation} has begun and not ended."

    @property
    def next_action(self) -> str:
        return "Run `schemamig rollback` again: it goes on where it stopped."


@dataclass(eq=False)
class CommitLost(Conflict):
    """A commit of ours was overwritten by a writer that does not use put-if-absent (local disks only)."""

    code = "commit_lost"
    uri: str
    version: int

    @property
    def message(self) -> str:
        return f"version {self.version} of {self.uri} was overwritten by another writer after it was ours."

    @property
    def next_action(self) -> str:
        return "Try again: the change is planned anew on top of what is there."


@dataclass(eq=False)
class DataViolation(Refusal):
    """Rows that the new schema does not allow, found on the data before anything was promoted."""

    code = "data_violation"
    rule: str
    count: int
    sample: Sequence[str] = ()

    @property
    def message(self) -> str:
        shown = f" (for example {', '.join(self.sample[:3])})" if self.sample else ""
        return f"{self.count} row(s) violate {self.rule}{shown}."

    @property
    def next_action(self) -> str:
        return "Repair these rows or the query that makes them, then run this again."
