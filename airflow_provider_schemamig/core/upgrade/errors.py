"""Why an upgrade is refused or has to be tried again (the layer's branch of the error tree)."""

from __future__ import annotations

from collections.abc import Sequence

import pendulum

from airflow_provider_schemamig.core.ledger.admin.findings import REMEDIES
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.exceptions import Conflict, Refusal


class DriftFound(Refusal):
    """The live table is not what the ledger says: somebody changed it behind our back.

    ``under_way``: it was found while an upgrade or a contract was at work on the table, so the three ways on wait for its end; ``held``:
    why accept and unmanage do not go (``plan.holds.rules.options_refused``), "" where they do; ``only_sealed``: by a history that was lost,
    and none of the three opens it; ``made_anew``: it is another table, in the place of the one that is known.
    """

    code = "drift"
    message = "the live table differs from what the ledger recorded: {differences:; }."
    differences: Sequence[str]
    under_way: bool = False
    held: str = ""
    only_sealed: bool = False
    made_anew: bool = False

    @property
    def next_action(self) -> str:
        if self.only_sealed:
            return REMEDIES["seal_unknown"]
        if self.made_anew:
            return self._after_made_anew()
        if self.under_way:
            return (
                "Undo that on the table itself (ALTER TABLE; where a column was dropped, RESTORE TABLE), then run this, or `schemamig "
                "rollback`, again: `accept`, `revert` and `unmanage` wait until what is under way has ended."
            )
        which = f" --collection {self.collection or 'NAME'}"
        if self.held:
            return (
                f"`schemamig revert{which}` reverts it on the table; `schemamig status` shows what that would do. `accept` and `unmanage` "
                f"do not go now: {self.held}"
            )
        return (
            f"Choose one: `schemamig accept --release DIR{which}` takes it into the release, `schemamig revert{which}` reverts it on the "
            f"table, `schemamig unmanage{which}` stops managing the table; `schemamig status` shows what each would do."
        )

    def _after_made_anew(self) -> str:
        restore = "Restore the folder of the table that was there from a backup, and run this again"
        if self.under_way:
            return f"{restore}. `unmanage` (and `adopt`, which takes the new table) waits until what is under way has ended."
        if self.held:
            return f"{restore}. `unmanage` (and `adopt`, which takes the new table) does not go now: {self.held}"
        name = self.collection or "NAME"
        return f"{restore}; or `schemamig unmanage --collection {name}`, after which `schemamig adopt` can take the new table."


class NamesUnderWay(Refusal):
    """A query would read a table whose columns an unfinished upgrade or rollback has given other names, or another type."""

    code = "names_under_way"
    message = "{columns:.8} still have the names or types of an unfinished upgrade or rollback, and no query can read the table now."
    next_action = (
        "If somebody is at work on that, wait for its end. If it was killed, `schemamig rollback` takes it back, or ends the rollback; "
        "then run this again."
    )
    columns: Sequence[str]


class EnvironmentMoved(Conflict):
    """Another deployment was committed, or rolled back, while a plan was being made."""

    code = "environment_moved"
    message = "the environment went from release {planned} to {current} while this plan was being made; nothing was claimed."
    next_action = "Try again: a new plan is made from where the environment is now."
    planned: str
    current: str


class SourceTouched(Conflict):
    """A sealed table got a commit of somebody else before the release was committed: only RESTORE can do that."""

    code = "source_touched"
    message = "the sealed shard {shard} was changed by somebody else (RESTORE?) before the commit; nothing was committed."
    next_action = "Try again: the shard was unsealed. The next try takes what it holds now, and seals it again."
    shard: str


class SealExpired(Conflict):
    """Writers were locked out for as long as is allowed, and the commit was not ready."""

    code = "seal_expired"
    message = "the release could not be committed within {seconds:.0f} s after its seals; the tables are unsealed, nothing was committed."
    next_action = (
        "Try again: what was tailed stays, so there is less to catch up with; a time with fewer writers helps, or more time "
        "(`--seal-seconds`, `seal_seconds` of the operator)."
    )
    seconds: float


class SealTooShort(Refusal):
    """The rewrites cannot be caught up with after their seals, on the Spark that preflight has measured, while writers may wait.

    ``statements``: that are run after the seals, at least; ``seconds``: what the smallest one took.
    """

    code = "seal_too_short"
    next_action = (
        "Give Spark cores of its own, rewrite fewer tables in one release, or let writers wait longer (`--seal-seconds`, `seal_seconds` of "
        "the operator)."
    )
    rewrites: int
    statements: int
    seconds: float
    limit: float

    @property
    def message(self) -> str:
        return (
            f"Finishing {self.rewrites} rewrite(s) takes about {self.statements} Spark statements while writers are blocked. At "
            f"{self.seconds:.1f} s each that is {self.statements * self.seconds:.0f} s, and the limit is {self.limit:.0f} s."
        )


class SparkNotGiven(Refusal):
    """The deployment works on rows, and the caller gave no Spark to do it."""

    code = "spark_not_given"
    message = "this deployment copies or fills rows, and no Spark was given to do it."
    next_action = "Pass jobs=lambda: runner_for(url) (core.spark); the command line takes --spark, the operators spark_conn_id."


class ShardMissing(Refusal):
    code = "shard_missing"
    message = "there is no Delta table at {uri}."
    next_action = (
        "Restore the table's folder, give the collection up (`schemamig unmanage --collection {collection}`), or declare "
        "replacement(...) or removal(...) for it."
    )
    uri: str


class HoldInUse(Refusal):
    """A hold would end, and somebody still works with a release before its own."""

    code = "hold_in_use"
    next_action = (
        "Move these nodes to the current release or wait for them; --ignore-nodes takes away what they need. A plan that was approved "
        "without it has to be cancelled first."
    )
    generation: int
    until: pendulum.DateTime
    nodes: Sequence[str]

    @property
    def message(self) -> str:
        until, nodes = minute(self.until), ", ".join(self.nodes)
        return f"the hold of generation {self.generation} (until {until}) would end, and live nodes still need what it keeps: {nodes}."


class PlanChanged(Refusal):
    """``generation``: whose plan was to be approved, by another digest than its own."""

    code = "plan_changed"
    approved: str
    current: str
    generation: int | None = None

    @property
    def message(self) -> str:
        if self.generation is not None:
            return f"the plan of generation {self.generation} is {self.current:.12}, not {self.approved:.12}."
        now = self.current if " " in self.current else self.current[:12]  # in words, where there is no other plan
        return f"the plan that was checked ({self.approved:.12}) is not the plan that would run now ({now})."

    @property
    def next_action(self) -> str:
        if self.generation is not None:
            read = f"Read that plan (`schemamig report --generation {self.generation}`)"
            return f"{read}, then give its digest, or the first 12 digits of that."
        return "Run preflight again, read the new plan, and approve that one."


class PlanRejected(Refusal):
    """The last word on the plan was a no. ``at``: when, in words."""

    code = "plan_rejected"
    message = "plan {plan:.12} of generation {generation} was rejected by {by} at {at}{because}."
    next_action = "Start the upgrade again: preflight claims another generation, and its plan is asked about."
    plan: str
    generation: int
    by: str
    at: str
    why: str | None = None

    @property
    def because(self) -> str:
        """Return the reason, where one was given."""
        return f": {self.why}" if self.why else ""


class UnknownGeneration(Refusal):
    code = "unknown_generation"
    message = "the environment has no deployment of generation {generation}."
    next_action = "`schemamig status` lists the deployments; preflight claims a new generation."
    generation: int


class WrongState(Refusal):
    """A protocol task was called before or after its time."""

    code = "wrong_state"
    message = "generation {generation} is {state}; {task} cannot run on it."
    next_action = "{first}"
    generation: int
    state: str
    task: str
    first: str


class ClaimUsed(Refusal):
    """A statement came under the claim of another one: it is no retry of that, and is not made."""

    code = "claim_used"
    message = "generation {generation} was another statement under the claim {claim_id}; this one was not made."
    next_action = "Give each statement a claim of its own (`--claim-id`, or none)."
    claim_id: str
    generation: int


class NotBuilt(Refusal):
    code = "not_built"
    message = "its replacement shard has not been built, or its fill has not finished."
    next_action = "Run preflight (or its fill tasks) for this generation again; it goes on where it stopped."


class DeploymentOpen(Conflict):
    """Another deployment is promoted and not committed: nothing else may change the environment."""

    code = "deployment_open"
    message = "generation {generation} is promoted and not committed yet."
    next_action = (
        "Wait until it has ended, then try again. If nobody is at work on it, because it was killed: `schemamig upgrade` goes on, "
        "`schemamig rollback` takes it back; of an `alter` the same statement goes on."
    )
    generation: int


class HoldOpen(Refusal):
    """A release can still be rolled back, and how far depends on what comes to its tables meanwhile."""

    code = "hold_open"
    generation: int
    until: pendulum.DateTime
    #: Its contract, or a rollback, has begun and did not come to its end.
    state: HoldState = HoldState.OPEN
    #: Its time is over, and only a person ends it.
    by_hand: bool = False

    @property
    def message(self) -> str:
        match self.state:
            case HoldState.OPEN if self.by_hand:
                return (
                    f"the hold of generation {self.generation} ends by hand: the ledger was restored, and had lost a rollback of it, so "
                    "rows may be in what it hides."
                )
            case HoldState.ROLLING_BACK:
                return f"the rollback of generation {self.generation} has begun and did not come to its end."
            case HoldState.CONTRACTING:
                return f"the end of the hold of generation {self.generation} has begun and did not come to its end."
            case _:
                until = minute(self.until)
                return f"generation {self.generation} can be rolled back until {until}; until then nothing else may change any tables."

    @property
    def next_action(self) -> str:
        match self.state:
            case HoldState.OPEN if self.by_hand:
                return f"Look at its tables, then run `schemamig contract --generation {self.generation}`, or `schemamig rollback`."
            case HoldState.ROLLING_BACK:
                return "Run `schemamig rollback` again; it goes on where it stopped."
            case HoldState.CONTRACTING:
                return "Run `schemamig contract` first; it goes on where it stopped."
            case _:
                ends = f"`schemamig contract --generation {self.generation}`"
                at_once = "`schemamig contract --now`, or a new release (--end-hold), ends it at once"
                return f"Wait for the hold and its contract ({ends}); {at_once}."


class NeverAgreed(Conflict):
    """Others changed the schema again and again between looking at it and changing it."""

    code = "never_agreed"
    message = "the schema was changed by others each time it was looked at."
    next_action = "Try again when fewer leaders are at work."


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


class ChangeNotInRelease(Refusal):
    """The collection was changed outside of a release, and the release would take the change away unseen."""

    code = "ahead_not_in_release"
    message = "its schema was changed outside of a release, and this release does not contain: {changes:; }."
    next_action = (
        "Make the same change in schema.sql, with an evolution step for the collection (renamed_from where it was renamed; no step where "
        "it was created), or a removal where it was dropped; the environment has it already."
    )
    changes: Sequence[str]


class RenamedOutsideRelease(Refusal):
    """A release's query reads a collection that was changed outside of one. ``now``: its name here; None: it is gone.

    ``columns``: those that the query takes for others, or does not find, in words.
    """

    code = "moved_ahead"
    now: str | None
    columns: Sequence[str] = ()

    @property
    def message(self) -> str:
        if self.columns:
            columns = "; ".join(self.columns)
            return f"this release rewrites or reads it, but it has not the columns of the release before: {columns}."
        where = "was dropped" if self.now is None else f"is called {self.now} here"
        return f"this release rewrites, replaces or reads it, but it {where} since an `alter`."

    @property
    def next_action(self) -> str:
        if self.columns:
            return "Deploy a release first that has the same changes and reads none of it, or take them back first (`alter`)."
        if self.now is None:
            return "Deploy a release first that has its removal and nothing that reads it."
        return f"Take the name back first: `schemamig alter --env URI 'ALTER TABLE {self.now} RENAME TO {self.collection}'`."


class RollbackOpen(Conflict):
    """A rollback has begun and not ended: its hold must not be contracted under it."""

    code = "rollback_open"
    message = "a rollback of generation {generation} has begun and not ended."
    next_action = "Run `schemamig rollback` again: it goes on where it stopped."
    generation: int


class CommitLost(Conflict):
    """A commit of ours was overwritten by a writer that does not use put-if-absent (local disks only)."""

    code = "commit_lost"
    message = "version {version} of {uri} was overwritten by another writer after it was ours."
    next_action = "Try again: the change is planned again on top of what is there."
    uri: str
    version: int


class DataViolation(Refusal):
    """Rows that the new schema does not allow, found on the data before anything was promoted."""

    code = "data_violation"
    next_action = "Repair these rows or the query that makes them, then run this again."
    rule: str
    count: int
    sample: Sequence[str] = ()

    @property
    def message(self) -> str:
        shown = f" (for example {', '.join(self.sample[:3])})" if self.sample else ""
        return f"{self.count} row(s) violate {self.rule}{shown}."
