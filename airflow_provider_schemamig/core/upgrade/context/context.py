"""What every leader task has in hand: the environment, the ledger, the deployment, and the authority it writes under."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, TypeVar

import pendulum

from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import EPOCH_STRIDE, Fence, newest_fence, put_fence
from airflow_provider_schemamig.core.delta.features import CatalogManagedTable, UnsupportedFeature
from airflow_provider_schemamig.core.delta.log.head import look_or_none
from airflow_provider_schemamig.core.ledger.errors import LedByAnother
from airflow_provider_schemamig.core.ledger.leadership import Leadership, check_authority, overtaken
from airflow_provider_schemamig.core.ledger.objects.known_heads import recall_heads
from airflow_provider_schemamig.core.ledger.objects.plan_store import read_plan
from airflow_provider_schemamig.core.ledger.rows import Deployment, DeploymentState, HoldState, IntentKind, Leader, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId, Version
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.schema.diff.drift import forgets
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, DriftFound, UnknownCollection, UnknownGeneration, WrongState
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import hold_json, open_holds, unclosed_holds
from airflow_provider_schemamig.core.upgrade.plan.holds.rules import hold_in_the_way, hold_open
from airflow_provider_schemamig.core.upgrade.plan.live_tables import fence_of, table_store
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stage_list import TableEvolution
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS, EvolutionStage, Stage
from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals

S = TypeVar("S", bound=Stage)


@dataclass(frozen=True, slots=True)
class StageResult:
    """One thing done: ``table_version`` is the commit that did it (None: no table was touched)."""

    kind: str
    collection: str | None
    table_version: int | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "collection": self.collection, "table_version": self.table_version, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class Outcome:
    """What a task or a whole upgrade did."""

    source: Version | None
    target: Version | None
    generation: Generation | None
    epoch: Epoch | None
    stages: tuple[StageResult, ...] = ()
    pending: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "from": str(self.source) if self.source else None,
            "to": str(self.target) if self.target else None,
            "generation": self.generation,
            "epoch": self.epoch,
            "stages": [stage.to_json() for stage in self.stages],
            "pending": list(self.pending),
            "notes": list(self.notes),
        }


class _Overtaken(Exception):
    """A twin of this generation did meanwhile what this process was about to do; control flow of ``LeaderWriter.until``."""


class IntentFields(TypedDict):
    """The fields of all kinds of ``Intent`` that are known before anything is done."""

    collection: CollectionName
    shard: ShardId
    generation: Generation
    epoch: Epoch
    kind: IntentKind
    base_version: int


@dataclass
class LeaderView:
    """What a leader sees: a function that takes this writes nothing to the ledger."""

    env: EnvironmentRoot
    state: State
    deployment: Deployment
    plan: Plan
    leadership: Leadership
    #: For how long others may be locked out.
    seal_seconds: int = field(default=SEAL_SECONDS, kw_only=True)

    @property
    def epoch(self) -> Epoch:
        return self.leadership.epoch

    @property
    def generation(self) -> Generation:
        return self.deployment.generation

    @property
    def who(self) -> str | None:
        """Return whose work this is, for the audit log: where the environment is worked on in somebody's name, theirs who promoted."""
        return self.env.who and (self.deployment.promoted_by or self.env.who)

    def is_committed(self, state: State) -> bool:
        """Return whether the deployment is: by this process, or by a twin."""
        return state.deployments[self.generation].state is DeploymentState.COMMITTED

    def fence(self, shard: ShardId) -> Fence:
        return fence_of(self.state, shard, self.epoch)

    def evolutions(self) -> tuple[Evolve, ...]:
        """Return the steps that change live tables."""
        return tuple(step for step in self.plan.target.steps if isinstance(step, Evolve))

    def evolution(self, step: Evolve) -> TableEvolution:
        """Return what becomes of one live table, as the ledger now leaves it to be run: what was settled is not in the plan as stored."""
        return self.plan.evolution(step, self.state)

    def changes(self, kind: type[EvolutionStage], step: Evolve) -> tuple[Change, ...]:
        """Return the changes of the step's stage of ``kind``, as the ledger now leaves it to be run; none if there is no such stage."""
        return self.evolution(step).changes(kind)

    def stages(self, *kinds: type[S]) -> tuple[S, ...]:
        """Return the stages of ``kinds``, in their order, as the ledger now leaves them to be run."""
        return tuple(stage for stage in self.plan.left(self.state) if isinstance(stage, kinds))

    def intent(self, kind: IntentKind, collection: CollectionName, shard: ShardId, base_version: int) -> IntentFields:
        """Return what every intent of this leader says."""
        return IntentFields(
            collection=collection, shard=shard, generation=self.generation, epoch=self.epoch, kind=kind, base_version=base_version
        )

    def tag(self, action: str) -> Tag:
        return Tag(generation=self.generation, epoch=self.epoch, action=action)


@dataclass
class LeaderWriter(LeaderView):
    """A leader's hands. Every append through ``append`` carries the leadership and is refused if another leader took over."""

    ledger: LedgerWriter
    listen: Listener
    results: list[StageResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: When this very run was about to append what commits the release; None: it did not, or found it committed.
    committed_at: pendulum.DateTime | None = None
    _done: Callable[[State], bool] = field(default=lambda state: False)
    _reported_at: float = 0.0

    def append(self, decide: Callable[[State], Sequence[Update]]) -> State:
        def unless_done(state: State) -> Sequence[Update]:
            if self._done(state):
                raise _Overtaken
            return decide(state)

        self.state = self.ledger.transact(unless_done, authority=self.leadership)
        return self.state

    def refresh(self) -> None:
        """Read the ledger. Call it after reading a table's head and before a commit on that: what other processes did before is known
        then, and what they do later fails our put-if-absent. Raises Fenced."""
        self.append(lambda state: ())

    def newest(self) -> State:
        """Return the ledger as it is now, for work that looks at it again and again. Raises Fenced."""
        self.refresh()
        return self.state

    @contextlib.contextmanager
    def until(self, done: Callable[[State], bool]) -> Iterator[None]:
        """End the work inside without an error once ``done`` is true.

        Twins of one generation are legal, and the slower one must neither announce what is over nor take what the faster one made of the
        tables for drift.
        """
        outer, self._done = self._done, done
        try:
            yield
        except _Overtaken:
            self.state = self.ledger.state()
        except SchemamigError:
            self.state = self.ledger.state()
            if not done(self.state):
                check_authority(self.state, self.leadership)
                raise
        finally:
            self._done = outer

    def report(self, kind: str, collection: str | None, version: int | None, started: float, done: int = 1, total: int = 1) -> None:
        """Tell what was done since ``started``, of the monotonic clock. What is done side by side shares the time: each has what came to
        the report before, so that the seconds of all add up to what it took."""
        now = time.monotonic()
        seconds, self._reported_at = now - max(started, self._reported_at), now
        self.results.append(StageResult(kind, collection, version, seconds))
        self.listen(Event(kind, collection, done, total, seconds, measures={} if version is None else {"commits": 1}))

    def outcome(self) -> Outcome:
        target = self.plan.target
        return Outcome(
            target.source, target.version, self.generation, self.epoch, tuple(self.results), pending_holds(self.state), tuple(self.notes)
        )


def pending_holds(state: State | None) -> tuple[dict[str, Any], ...]:
    """Return the holds that are not closed, for documents."""
    return () if state is None else tuple(hold_json(state, hold) for hold in unclosed_holds(state))


def deployment_of(state: State, generation: Generation) -> Deployment:
    found = state.deployments.get(generation)
    if found is None:
        raise UnknownGeneration(generation=generation)
    return found


def plan_of(env: EnvironmentRoot, deployment: Deployment) -> Plan:
    """Return the plan stored with a deployment. It is its digest's content, so a task that asks again does not decode it again."""
    known = _known_plans(env)
    if deployment.plan_digest not in known:
        known[deployment.plan_digest] = Plan.from_document(read_plan(env, deployment.plan_digest))
    return known[deployment.plan_digest]


def only_settles(env: EnvironmentRoot, state: State) -> bool:
    """Return whether a deployment leads, not committed, that brings neither a release nor an ``alter``: it settles what others left."""
    if not state.is_promoted or state.leader is None:
        return False
    deployment = state.deployments[state.leader.generation]
    return deployment.source == deployment.target and not plan_of(env, deployment).target.steps


def check_named(state: State, plan: Plan, collections: Iterable[str]) -> None:
    """Raise UnknownCollection for names that neither the environment nor the plan has: a task for them would do nothing."""
    ours = {*state.objects, *(stage.collection for stage in plan.stages)}
    raise_refusals([UnknownCollection(collection=name) for name in dict.fromkeys(collections) if name not in ours])


def keep_plan(env: EnvironmentRoot, plan: Plan) -> None:
    """Let ``plan_of`` return this newly stored plan: what it knows of its evolutions goes along."""
    _known_plans(env)[plan.digest] = plan.bound


class _KnownPlans(dict[str, Plan]):
    """The plans that were read or stored through one environment, by digest. Who opens it again reads them, and sees a damaged one."""


def _known_plans(env: EnvironmentRoot) -> _KnownPlans:
    known = env.opened.get(_KnownPlans)
    return env.opened.keep(_KnownPlans()) if known is None else known


#: What to do about a deployment that is over.
CLAIM_ANEW = (
    "If it is still wanted, start it under another claim: in Airflow a new run, on the command line `schemamig preflight`, `upgrade` or "
    "`alter` (with another --claim-id, if it had one)."
)
#: The states in which a deployment's own tasks run.
LED = (DeploymentState.PROMOTED, DeploymentState.COMMITTED)


def ends_rollback(state: State, generation: Generation) -> str:
    """Return, in words, how to bring a begun rollback or cancel of ``generation`` to its end."""
    again = f"`schemamig rollback --generation {generation}` again, which goes on where it stopped"
    newer = state.leader.generation if state.leader is not None else generation
    if newer > generation and state.deployments[newer].state in LED:
        return f"Generation {newer} has taken the lead since: take it back first, then run {again}; or let it go on."
    return f"Run {again}; or the same `schemamig upgrade` or `alter` without --claim-id, which goes on with the change."


def lead(
    env: EnvironmentRoot,
    generation: Generation,
    listen: Listener,
    *,
    task: str,
    states: Sequence[DeploymentState] = LED,
    seal_seconds: int = SEAL_SECONDS,
) -> LeaderWriter:
    """Take up a promoted generation's work. Refused if it never was promoted, and on an older format; ``Fenced`` if another leads now."""
    ledger = LedgerWriter(env)
    state = ledger.state()
    state.require_current(task)
    deployment, row = leading(state, generation, task=task, states=states)
    if deployment.rolling_back:
        raise WrongState(generation=generation, state="being rolled back", task=task, first=ends_rollback(state, generation))
    leadership = Leadership(generation, row.epoch)
    recall_heads(env)
    return LeaderWriter(env, state, deployment, plan_of(env, deployment), leadership, ledger, listen, seal_seconds=seal_seconds)


def leading(state: State, generation: Generation, *, task: str, states: Sequence[DeploymentState]) -> tuple[Deployment, Leader]:
    """Return the generation's deployment, which leads in one of ``states``. Raises UnknownGeneration, Fenced, WrongState."""
    deployment, row = deployment_of(state, generation), state.leader
    if row is not None and row.generation > generation:
        raise overtaken(state, generation, Epoch(0))
    if row is None or row.generation != generation or deployment.state not in states:
        is_claimed = deployment.state is DeploymentState.CLAIMED
        first = f"Run `schemamig promote --generation {generation}` first." if is_claimed else CLAIM_ANEW
        raise WrongState(generation=generation, state=deployment.state.value, task=task, first=first)
    return deployment, row


def led_past(state: State, generation: Generation, fenced: LedByAnother) -> Outcome:
    """Return the outcome of a task of a committed generation after a later one took the lead: all that it had to do is done.

    A try that is repeated cannot know that. Raises ``fenced`` where the generation is not committed."""
    deployment = deployment_of(state, generation)
    if deployment.state is not DeploymentState.COMMITTED:
        raise fenced
    note = f"generation {generation} is committed, and generation {fenced.winner} leads by now: nothing was left to do"
    return Outcome(deployment.source, deployment.target, generation, None, (), pending_holds(state), (note,))


def keep_fences(leader: LeaderView) -> None:
    """Put the fence anew on tables that have forgotten it: somebody had them forget transaction identifiers, and a checkpoint came then.

    Before any work of a leader, and also on tables that it has nothing to do with: after a restore of the ledger, statements of the lost
    history may still come to any of them. A table whose fence was seen is asked for its head alone. One that nobody of ours may change gets
    none: the others do not wait for it. Raises DriftFound where a table forgets them still, and what else ``put_fence`` raises.
    """
    rows = [row for row in leader.state.shards.values() if row.fenced_by is not None and row.state is ShardState.LIVE]
    leader.env.for_each(functools.partial(_keep_fence, leader), rows)


def _keep_fence(leader: LeaderView, row: Shard) -> None:
    store, fence = table_store(leader.env, leader.state, row.shard), leader.fence(row.shard)
    head = look_or_none(store)
    if head is None or head.is_another:
        return
    if FORGETS in head.properties:
        raise DriftFound(collection=row.collection, differences=tuple(map(str, forgets(head.properties))), under_way=True)
    if (newest_fence(store, head, fence.app_id) or -1) < (row.fenced_by or 0) * EPOCH_STRIDE:
        with contextlib.suppress(UnsupportedFeature, CatalogManagedTable):
            put_fence(store, fence, leader.tag("fence"))


def no_open_deployment(state: State) -> None:
    """Raise DeploymentOpen while a deployment is promoted and not committed."""
    if state.leader is not None and state.is_promoted:
        raise DeploymentOpen(generation=state.leader.generation)


def close_expired_holds(state: State) -> list[Update]:
    """Return the updates that close expired holds: they would not know of a change that nobody planned, and contract, which ends
    them, asks that there be none. Raises HoldOpen while another one is open."""
    held = hold_in_the_way(state)
    if held is not None:
        raise held
    return [Put(replace(hold, state=HoldState.CONTRACTING)) for hold in open_holds(state) if hold.state is HoldState.OPEN]


def no_open_hold(state: State) -> None:
    """Raise HoldOpen while a release can be rolled back: what its way back may undo depends on what came to the tables since."""
    for hold in open_holds(state):
        raise hold_open(state, hold)
