"""Settle and expand: ONE task for all instant changes of all collections that nobody notices."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from airflow_provider_schemamig.core.delta.commit.create import create_table
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.rows import CreateIntent, IntentKind, Shard
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.context.pausing import unless_paused
from airflow_provider_schemamig.core.upgrade.errors import WrongState
from airflow_provider_schemamig.core.upgrade.execute.contract import end_holds
from airflow_provider_schemamig.core.upgrade.execute.recovery import settle
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import kept_fields, unclosed_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.prepare.build import inside_tables, new_shard, table_id_of
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition, commit_transitions
from airflow_provider_schemamig.exceptions import raise_refusals


def settle_first(leader: LeaderWriter, _stages: Sequence[s.Settle], jobs: Jobs) -> None:
    """Adopt or undo what earlier leaders left; the only stage of this task that may need Spark.

    An expand of before is undone where the end of a hold comes first, which begins with the columns that the ledger knows.
    """
    ending = [hold for hold in unclosed_holds(leader.state) if hold.generation in leader.plan.ends]

    def wanted(collection: CollectionName) -> Declaration | None:
        return None if kept_fields(leader.state, collection, ending) else expanded(leader, collection)

    settle(leader, wanted, jobs)


def end_planned_holds(leader: LeaderWriter, stages: Sequence[s.EndHold], _jobs: Jobs) -> None:
    """End the holds that the plan ends before their time."""
    end_holds(leader, {stage.generation for stage in stages}, unless_paused(leader, "expand"))


def expand_tables(leader: LeaderWriter, stages: Sequence[s.Expand], _jobs: Jobs) -> None:
    """Commit what readers and writers of the source release do not notice. Safe to repeat: what is in place is adopted."""
    transitions = [expand_transition(leader, stage) for stage in stages]
    commit_transitions(leader, IntentKind.EXPAND, transitions, unless_paused(leader, "expand"))


def create_tables(leader: LeaderWriter, creates: Sequence[s.CreateShard], _jobs: Jobs) -> None:
    """Make the tables of new collections: one append with shards and intents, one version-0 commit each, one append with the results."""
    raise_refusals(inside_tables(leader.env, (stage.collection for stage in creates)))
    allow = unless_paused(leader, "expand")

    def announce(state: State) -> list[Update]:
        allow(state)
        updates: list[Update] = []
        for stage in creates:
            shard = new_shard(state, stage.collection, leader.deployment)
            if shard.shard not in state.shards:
                updates += [Put(shard), Put(_create_intent(leader, stage, shard))]
        return updates

    leader.append(announce)

    def make(stage: s.CreateShard) -> tuple[float, Head]:
        started, shard = time.monotonic(), new_shard(leader.state, stage.collection, leader.deployment).shard
        store = table_store(leader.env, leader.state, shard)
        return started, create_table(store, stage.declaration, table_id_of(leader.state.config.env_id, shard), leader.tag("create"))

    with contextlib.closing(leader.env.each(make, creates)) as made:
        for number, (stage, (started, head)) in enumerate(zip(creates, made, strict=True), start=1):
            leader.report("create", stage.collection, head.version, started, number, len(creates))


def expand_transition(leader: LeaderView, stage: s.Expand) -> Transition:
    """Return the commit of an expand stage."""
    return Transition(stage.source, leader.state.objects[stage.source].shard, leader.state.entry(stage.source).physical, stage.changes)


def expanded(leader: LeaderView, collection: CollectionName) -> Declaration | None:
    """Return the physical schema this plan's expand gives a collection; None if the plan does not evolve it."""
    step = next((step for step in leader.evolutions() if step.old.name == collection), None)
    stage = None if step is None else leader.evolution(step).stage(s.Expand)
    return None if stage is None else expand_transition(leader, stage).after


def not_expanded(leader: LeaderView, collection: CollectionName | None, why: str, task: str = "cutover") -> WrongState:
    first = f"Run `schemamig expand --generation {leader.generation}` again: {why}."
    return WrongState(collection=collection, generation=leader.generation, state="not expanded", task=task, first=first)


def check_expanded(leader: LeaderView, step: Evolve) -> None:
    """Raise WrongState if the collection lacks its expand commit."""
    stage = leader.evolution(step).stage(s.Expand)
    if stage is None:
        return
    transition = expand_transition(leader, stage)
    intent = leader.state.intents.get((transition.shard, IntentKind.EXPAND, leader.generation))
    if intent is None or intent.epoch != leader.epoch or intent.done_version is None:
        raise not_expanded(leader, step.collection, "it lacks its expand commit", task="change")


def _create_intent(leader: LeaderView, stage: s.CreateShard, shard: Shard) -> CreateIntent:
    return CreateIntent(**leader.intent(IntentKind.CREATE, stage.collection, shard.shard, -1), after=stage.declaration)
