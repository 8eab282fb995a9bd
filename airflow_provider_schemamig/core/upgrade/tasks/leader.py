"""Leader mode: the tasks from promotion to the end of the hold, rollback, and ``upgrade`` for all in order.

Each takes the generation: the plan is stored with it. They may be repeated, raced or killed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.admin.maintenance import keep_short, maintain
from airflow_provider_schemamig.core.ledger.errors import LedByAnother
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history, detail_of, detail_of_alter, detail_of_ends, here
from airflow_provider_schemamig.core.ledger.objects.known_heads import store_heads
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import check_seal
from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.transfer.throttle import Pace
from airflow_provider_schemamig.core.upgrade.compact import DEFAULT_LIMITS, Compacted, Compaction, Limits, compact_all, is_due
from airflow_provider_schemamig.core.upgrade.context.context import (
    LED,
    LeaderWriter,
    Outcome,
    check_named,
    deployment_of,
    keep_fences,
    lead,
    led_past,
    no_open_deployment,
    no_open_hold,
    pending_holds,
)
from airflow_provider_schemamig.core.upgrade.execute import promote as promotion
from airflow_provider_schemamig.core.upgrade.execute.cancel import cancel_claim
from airflow_provider_schemamig.core.upgrade.execute.cleanup import clean_up
from airflow_provider_schemamig.core.upgrade.execute.contract import by_hand_notes, contract_due, due_holds
from airflow_provider_schemamig.core.upgrade.execute.executors import CHANGE, CUT_OVER, EXPAND, run_stages, until_committed
from airflow_provider_schemamig.core.upgrade.execute.release_updates import names_of_renamed
from airflow_provider_schemamig.core.upgrade.plan.live_tables import live_places
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS
from airflow_provider_schemamig.core.upgrade.prepare.copy import unless_over
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs, without_spark
from airflow_provider_schemamig.core.upgrade.prepare.refill import refill_stale
from airflow_provider_schemamig.core.upgrade.rollback.rollback import roll_back
from airflow_provider_schemamig.core.upgrade.tasks.read_only import schema_age
from airflow_provider_schemamig.credentials import blank_typed
from airflow_provider_schemamig.exceptions import SchemamigError


def cancel(env: EnvironmentRoot, generation: Generation, *, jobs: Jobs = without_spark, listen: Listener = silent) -> Outcome:
    """Give a claimed generation up: what it built goes. A promoted one goes back to the release before; one that is committed, or that
    another took over from, is refused."""
    state, started = LedgerReader(env).state(), pendulum.now("UTC")
    if deployment_of(state, generation).state is DeploymentState.PROMOTED:
        outcome = roll_back(env, jobs, listen, allow_lossy=False, promoted=generation)
        _remember(env, "rollback", generation, started, detail=detail_of(outcome.target))
        return outcome
    outcome = cancel_claim(env, generation, listen)
    _remember(env, "cancel", generation, started)
    return outcome


def promote(
    env: EnvironmentRoot,
    generation: Generation,
    *,
    approved_by: str | None = None,
    approved_plan: str | None = None,
    rejected_at: pendulum.DateTime | None = None,
    bundle: str | None = None,
    over_rollback: bool = False,
    again: bool = True,
    listen: Listener = silent,
) -> Outcome:
    """Take the leader row, if the plan is still the one that was checked.

    ``approved_by``: who approved it elsewhere, which plan that was, and of when the rejection is that stood when that was asked: any other
    one is the last word. ``bundle``: the bundle of DAG files, with its version, whose run does it. ``over_rollback``: whether it goes on
    although a rollback of it, or a cancel, has begun. ``again``: whether the tables are looked at again, which who has just made the plan
    need not do. Raises PlanChanged, PlanRejected, Paused, WrongState.
    """
    ledger, started = LedgerWriter(env), pendulum.now("UTC")
    answer = None if approved_by is None else promotion.GateAnswer(blank_typed(approved_by), approved_plan, rejected_at)
    pace = Pace(lambda: unless_over(ledger, generation, None, "promote"), listen, waits=env.waits)
    by = env.who or here()
    try:
        state = pace.until_done(promotion.attempts(env, generation, by, answer, bundle, over_rollback=over_rollback, again=again))
    except LedByAnother as fenced:
        return led_past(ledger.state(), generation, fenced)
    deployment = deployment_of(state, generation)
    epoch = state.leader.epoch if state.leader is not None else None
    listen(Event("promote", note=f"generation {generation} leads in epoch {epoch}"))
    claimed = f"plan {deployment.plan_digest[:12]}, claimed by {deployment.claim_id}, schemamig {deployment.promoted_with}"
    claimed += f", bundle {deployment.promoted_from}" if deployment.promoted_from else ""
    claimed += f", approved by {deployment.promoted_by}, typed by {by}" if env.who is None and deployment.promoted_by != by else ""
    note = _remember(env, "promote", generation, started, who=deployment.promoted_by, detail=f"epoch {epoch}, {claimed}")
    return Outcome(deployment.source, deployment.target, generation, epoch, (), pending_holds(state), (note,) if note else ())


def expand(env: EnvironmentRoot, generation: Generation, *, jobs: Jobs = without_spark, listen: Listener = silent) -> Outcome:
    """Settle the leftovers of earlier leaders, end the holds named by the plan, and make every instant change that nobody notices.

    ``jobs`` only where a change of type had come to its swap, was left open, and rows came since (``recovery.settle``)."""
    return _led(env, generation, "expand", listen, lambda leader: run_stages(EXPAND, leader, jobs))


def change(
    env: EnvironmentRoot, generation: Generation, *, jobs: Jobs, collections: Sequence[str] | None = None, listen: Listener = silent
) -> Outcome:
    """Fill again what went stale while the gate waited, and make the online changes (all, or those of the named collections).

    Raises UnknownCollection."""

    def run(leader: LeaderWriter) -> None:
        check_named(leader.state, leader.plan, collections or ())
        until_committed(leader, lambda: refill_stale(leader, jobs, collections))
        run_stages(CHANGE, leader, jobs, collections)

    return _led(env, generation, "change", listen, run)


def cutover(
    env: EnvironmentRoot,
    generation: Generation,
    *,
    seal_seconds: int = SEAL_SECONDS,
    jobs: Jobs = without_spark,
    listen: Listener = silent,
) -> Outcome:
    """Follow and check what is rewritten, seal, catch up, rename, swap columns of another type, and commit in one ledger append.

    ``seal_seconds``: for how long writers may be locked out; after that the tables are unsealed, and a next try begins anew."""
    check_seal(seal_seconds)

    def ended(leader: LeaderWriter) -> dict[str, Any]:
        """Return what is recorded of a run's end; one that did not commit has ended nothing, as a rollback may be under way."""
        if leader.committed_at is None:
            return {"outcome": "found_committed"}
        target = leader.plan.target
        detail = detail_of_alter(target.version, names_of_renamed(leader)) if target.ahead else detail_of(target.version)
        return {"at": leader.committed_at, "detail": detail}

    def run(leader: LeaderWriter) -> None:
        run_stages(CUT_OVER, leader, jobs)

    return _led(env, generation, "cutover", listen, run, ended=ended, seal_seconds=seal_seconds)


def cleanup(env: EnvironmentRoot, generation: Generation, *, listen: Listener = silent) -> Outcome:
    """Remove what earlier generations built and nothing references. Failing is harmless."""

    def clean(leader: LeaderWriter) -> None:
        no_open_deployment(leader.state)
        clean_up(leader)
        leader.notes.extend(maintain(leader.ledger, leader.leadership))

    return _led(env, generation, "cleanup", listen, clean)


def contract(
    env: EnvironmentRoot,
    generation: Generation | None = None,
    *,
    at_once: bool = False,
    ignore_nodes: bool = False,
    listen: Listener = silent,
) -> Outcome:
    """End the holds that are due, the oldest first, unless live nodes need them; ``at_once``: also those that are not due; ``generation``:
    only its. Raises UnknownGeneration, HoldInUse unless ``ignore_nodes``, HoldKeeps (an older one is open), RollbackOpen and
    DeploymentOpen."""
    ledger = LedgerWriter(env)
    state = ledger.state()
    no_open_deployment(state)
    if generation is not None:
        deployment_of(state, generation)
    due, at = due_holds(state, generation, at_once=at_once), state.release_version
    if state.leader is None or not due:
        return Outcome(at, at, None, None, (), pending_holds(state), by_hand_notes(state))

    # A deployment that was promoted and rolled back leaves the hold before it open.
    states = (DeploymentState.COMMITTED, DeploymentState.ROLLED_BACK)

    def run(leader: LeaderWriter) -> None:
        contract_due(leader, generation, at_once, ignore_nodes)

    ended = {"detail": detail_of_ends(hold.generation for hold in due)}
    outcome = _led(env, state.leader.generation, "contract", listen, run, states=states, ended=lambda leader: ended)
    return replace(outcome, source=at, target=at)


def compact(
    env: EnvironmentRoot, collections: Sequence[str] = (), *, limits: Limits = DEFAULT_LIMITS, jobs: Jobs, listen: Listener = silent
) -> Compaction:
    """Rewrite the files that were written under older schemas, of the named collections or of all; nobody sees a difference."""
    state = LedgerReader(env).state()
    no_open_deployment(state)
    names = [CollectionName(name) for name in collections]
    ages = schema_age(env, names)
    if state.leader is None or not is_due(state, ages):
        at = state.release_version
        return Compaction(Outcome(at, at, None, None, (), pending_holds(state)), tuple(map(Compacted, ages)))
    no_open_hold(state)
    found: list[Compacted] = []
    states = (DeploymentState.COMMITTED, DeploymentState.ROLLED_BACK)
    outcome = _led(
        env,
        state.leader.generation,
        "compact",
        listen,
        lambda leader: found.extend(compact_all(leader, names, limits, jobs)),
        states=states,
    )
    return Compaction(outcome, tuple(found))


def rollback(
    env: EnvironmentRoot,
    *,
    jobs: Jobs = without_spark,
    allow_lossy: bool = False,
    claim_id: str | None = None,
    generation: Generation | None = None,
    listen: Listener = silent,
) -> Outcome:
    """Roll back to the release before: a promoted deployment by its inverses, a committed one while its hold is open.

    ``claim_id``: what is done under it is one release back, however often it is asked for. ``generation``: only this one.
    """
    started = pendulum.now("UTC")
    listen(Event("rollback", note="reading what there is to take back"))
    outcome = roll_back(env, jobs, listen, allow_lossy=allow_lossy, claim_id=claim_id, generation=generation)
    remember = functools.partial(_remember, env, "rollback", outcome.generation, started, detail=detail_of(outcome.target))
    try:
        ledger = LedgerWriter(env)
        state = ledger.state()
        store_heads(env, live_places(env, state))
        keep_short(ledger, at_end=True)
        note = remember()  # last: a run without it is one that nobody had an answer of
    except KeyboardInterrupt:  # it is through: who stops it now is told so, and not to run it again
        note = remember()
    return replace(outcome, notes=(*outcome.notes, note)) if note else outcome


def _led(
    env: EnvironmentRoot,
    generation: Generation,
    task: str,
    listen: Listener,
    run: Callable[[LeaderWriter], None],
    states: Sequence[DeploymentState] = LED,
    ended: Callable[[LeaderWriter], dict[str, Any]] = lambda leader: {},
    seal_seconds: int = SEAL_SECONDS,
) -> Outcome:
    """Run one leader task under the generation's authority, and remember how it went; ``ended``: what is to say more of that."""
    started = pendulum.now("UTC")
    try:
        leader = lead(env, generation, listen, task=task, states=states, seal_seconds=seal_seconds)
    except LedByAnother as fenced:
        if states is not LED:  # maintenance is of the environment, not of a generation
            raise
        return led_past(LedgerReader(env).state(), generation, fenced)

    def taken_up() -> LeaderWriter:
        again = lead(env, generation, listen, task=task, states=states, seal_seconds=seal_seconds)
        return replace(again, results=leader.results, notes=leader.notes)

    tries = 0

    def attempt() -> LeaderWriter:
        nonlocal tries
        tries += 1
        found = leader if tries == 1 else taken_up()
        keep_fences(found)
        run(found)
        return found

    pace = Pace(lambda: taken_up().state, listen, waits=env.waits)
    who = leader.who if states is LED else None  # what maintenance does is nobody's who promoted
    try:
        leader = pace.until_done(attempt)
    except Paused:  # no failure: whoever runs the task runs it again
        raise
    except KeyboardInterrupt:
        _remember(env, task, generation, started, who=who, outcome="interrupted", detail="Ctrl-C")
        raise
    except BaseException as error:
        _remember(env, task, generation, started, who=who, outcome="failed", detail=_reason(error)[:500])
        raise
    keep_short(leader.ledger, leader.leadership)
    store_heads(env, live_places(env, leader.state))
    done = f"{len(leader.results)} stage(s)" if leader.results else "nothing to do"
    note = _remember(env, task, generation, started, **{"who": who, "detail": done, **ended(leader)})
    outcome = leader.outcome()
    return replace(outcome, notes=(*outcome.notes, note)) if note else outcome


def _reason(error: BaseException) -> str:
    """Return why a task failed, in one line; what to do next was told to whoever ran it."""
    text = error.headline if isinstance(error, SchemamigError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _remember(env: EnvironmentRoot, what: str, generation: Generation | None, started: pendulum.DateTime, **rest: Any) -> str:
    """Write one line of audit; the upgrade does not fail because of it. Return the note if it could not be written, else ""."""
    return append_history(env, HistoryEntry.ended(what, started, generation=generation, **rest)) or ""
