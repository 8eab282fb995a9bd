"""Read-only mode: plan, preflight and what it builds; what is to be done, and what is true now. No live table is touched.

They may be repeated, raced or killed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.errors import LedgerFormatOld
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter
from airflow_provider_schemamig.core.names import CollectionName, Generation, Version
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import check_seal
from airflow_provider_schemamig.core.transfer.schema_age import SchemaAge
from airflow_provider_schemamig.core.transfer.throttle import why_not
from airflow_provider_schemamig.core.upgrade.compact import schema_ages
from airflow_provider_schemamig.core.upgrade.context.context import (
    Outcome,
    check_named,
    deployment_of,
    plan_of,
)
from airflow_provider_schemamig.core.upgrade.errors import EnvironmentMoved
from airflow_provider_schemamig.core.upgrade.execute import promote as promotion
from airflow_provider_schemamig.core.upgrade.execute.cancel import give_back_claim
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import HoldOptions
from airflow_provider_schemamig.core.upgrade.plan.live_tables import consistent_look
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS, Copy, Online
from airflow_provider_schemamig.core.upgrade.plan.target import target_of
from airflow_provider_schemamig.core.upgrade.prepare.build import stale_fills, unfilled
from airflow_provider_schemamig.core.upgrade.prepare.claim import DEFAULT_HOLD, Claim
from airflow_provider_schemamig.core.upgrade.prepare.copy import is_behind
from airflow_provider_schemamig.core.upgrade.prepare.fill import FillContext, Jobs, build_all
from airflow_provider_schemamig.core.upgrade.prepare.kept_history import with_history_notes
from airflow_provider_schemamig.core.upgrade.prepare.preflight import PlanReport, Preflight, check_data, report_on, too_slow
from airflow_provider_schemamig.core.upgrade.prepare.prepare import plan_target, preflight_plan, refused_place
from airflow_provider_schemamig.core.upgrade.prepare.tail import follow_while_claimed
from airflow_provider_schemamig.core.upgrade.status import Status
from airflow_provider_schemamig.core.upgrade.status import status as read_status
from airflow_provider_schemamig.core.upgrade.tables.half_rolled_back import unfinished_rollbacks
from airflow_provider_schemamig.exceptions import raise_refusals


def plan(
    env: EnvironmentRoot,
    release_dir: Path,
    *,
    end_hold: bool = False,
    ignore_nodes: bool = False,
    seal_seconds: int = SEAL_SECONDS,
    jobs: Jobs | None = None,
) -> PlanReport:
    """Return what an upgrade to the release would do. Writes nothing at all; with ``jobs`` also preflight's checks on the data."""
    started = time.monotonic()
    view, planned = plan_of_release(env, load_checked(release_dir), HoldOptions(end_hold, ignore_nodes))
    planned = with_history_notes(env, view, planned, DEFAULT_HOLD)
    planned = replace(planned, refusals=(*refused_place(env, view.state, create=True), *planned.refusals))
    report = report_on(env, view, planned) if jobs is None else check_data(env, view, planned, jobs, started)
    refusals = (*report.refusals, *too_slow(report, seal_seconds))
    return replace(report, planned=replace(report.planned, refusals=refusals), seal_seconds=seal_seconds)


def _reasons(release: Release, source: Version | None) -> tuple[tuple[str, str], ...]:
    """Return version and docstring of each migration that leads from ``source`` to the head of the release."""
    modules = sorted(release.modules.items())
    return tuple((str(version), module.docstring) for version, module in modules if source and version > source)


def plan_of_release(env: EnvironmentRoot, release: Release, holds: HoldOptions) -> tuple[View, Planned]:
    def planned(state: State | None) -> tuple[View, Planned]:
        view, found = plan_target(env, state, target_of(release, state), holds)
        half_way = () if state is None else unfinished_rollbacks(env, state)
        return view, replace(found, refusals=(*found.refusals, *half_way))

    return consistent_look(LedgerReader(env).state_or_none, planned, lambda found: found[1].refusals)


def check_format(env: EnvironmentRoot, release_dir: Path, holds: HoldOptions) -> None:
    """Refuse an upgrade on an older ledger format before anything is claimed, with all else against it. It could not be promoted."""
    state = LedgerReader(env).state_or_none()
    if state is None or state.is_current:
        return
    _, planned = plan_of_release(env, load_checked(release_dir), holds)
    if planned.plan.is_empty and not planned.refusals:
        return
    try:
        state.require_current("upgrade")
    except LedgerFormatOld as old:
        raise_refusals((*planned.refusals, old))


def preflight(
    env: EnvironmentRoot,
    release_dir: Path,
    *,
    claim_id: str | None = None,
    hold: timedelta | None = None,
    end_hold: bool = False,
    ignore_nodes: bool = False,
    jobs: Jobs,
    fill: bool = True,
    create: bool = False,
    seal_seconds: int = SEAL_SECONDS,
    listen: Listener = silent,
) -> Preflight:
    """Check everything, claim a generation, build (with ``fill``: fill) its shards; ``create`` an environment. No live table is touched.

    Where another process moves the environment meanwhile, the plan is made once more; raises EnvironmentMoved if it moves again. Where
    nothing is left to do, a claim of before under ``claim_id`` is given back: nobody else would.
    """
    started = pendulum.now("UTC")
    options = HoldOptions(end_hold, ignore_nodes)
    request = Claim(claim_id, hold, options)
    check_seal(seal_seconds)

    def prepare() -> Preflight:
        listen(Event("plan", note="reading the release and the tables"))
        release = load_checked(release_dir)
        view, planned = plan_of_release(env, release, options)
        why = _reasons(release, planned.plan.target.source)
        asked: Any = {"jobs": jobs, "fill": fill, "create": create, "seal_seconds": seal_seconds, "reasons": why, "listen": listen}
        return preflight_plan(env, view, planned, request, **asked)

    try:
        found = prepare()
    except EnvironmentMoved:
        found = prepare()
    seen = found.report.view.state
    if found.generation is None and claim_id is not None and seen is not None:
        given_back = give_back_claim(env, seen, claim_id, listen)
        if given_back is not None:
            detail = "nothing was left to do: another upgrade was faster"
            append_history(env, HistoryEntry.ended("cancel", started, generation=given_back, detail=detail))
    return found


def fill(env: EnvironmentRoot, generation: Generation, collections: Sequence[str], *, jobs: Jobs, listen: Listener = silent) -> Outcome:
    """Fill or copy the named collections' new shards of a claimed generation (one mapped task a chunk). Raises UnknownCollection."""
    ledger = LedgerWriter(env)
    state = ledger.state()
    deployment = deployment_of(state, generation)
    found = plan_of(env, deployment)
    check_named(state, found, collections)
    todo = [name for name in unfilled(state, deployment, found) if name in set(collections)]
    results = build_all(FillContext(env, ledger, deployment, found, jobs, listen), todo)
    return Outcome(deployment.source, deployment.target, generation, None, results)


def tail(
    env: EnvironmentRoot,
    generation: Generation,
    collections: Sequence[str] | None = None,
    *,
    jobs: Jobs,
    once: bool = False,
    listen: Listener = silent,
) -> Outcome:
    """Follow the sources of a claimed generation's copies until it is promoted (the cut-over goes on then) or rejected, or ``once``."""
    ledger = LedgerWriter(env)
    deployment = deployment_of(ledger.state(), generation)
    found = plan_of(env, deployment)
    results = follow_while_claimed(FillContext(env, ledger, deployment, found, jobs, listen), collections, once=once)
    return Outcome(deployment.source, deployment.target, generation, None, results)


def followed(env: EnvironmentRoot, generation: Generation, collections: Sequence[str]) -> tuple[str, ...]:
    """Return those of ``collections`` whose sources ``tail`` still has to follow.

    These are the rewritten ones, and none once the generation is promoted, rejected or given up.
    """
    state = LedgerReader(env).state()
    deployment = deployment_of(state, generation)
    if not deployment.may_be_promoted:
        return ()
    found = plan_of(env, deployment)
    check_named(state, found, collections)
    return tuple(stage.collection for stage in found.of_kind(Copy) if stage.collection in collections)


def behind(env: EnvironmentRoot, generation: Generation, collections: Sequence[str]) -> tuple[str, ...]:
    """Return those of ``collections`` that a round of ``tail`` has something to do for: commits came since, and nobody holds them. Starts
    no Spark."""
    state = LedgerReader(env).state()
    deployment = deployment_of(state, generation)
    if not deployment.may_be_promoted:
        return ()
    now, copies = pendulum.now("UTC"), plan_of(env, deployment).of_kind(Copy)
    stages = [stage for stage in copies if stage.collection in collections and why_not(state, stage.collection, now) is None]
    return tuple(stage.collection for stage in stages if is_behind(env, state, deployment, stage))


def approved(env: EnvironmentRoot, generation: Generation) -> bool:
    """Return whether the generation's plan is approved, or it was promoted without that.

    Raises PlanRejected, WrongState where it was given up, Fenced where another one leads: nobody can approve it any more."""
    state = LedgerReader(env).state()
    deployment = deployment_of(state, generation)
    is_over = deployment.state is DeploymentState.COMMITTED
    return promotion.is_approved(state, generation) or is_over or promotion.is_leader(state, deployment)


def plan_digest(env: EnvironmentRoot, generation: Generation) -> str:
    """Return the digest of the generation's plan, which an approval names."""
    return deployment_of(LedgerReader(env).state(), generation).plan_digest


def open_claims(env: EnvironmentRoot) -> tuple[tuple[Generation, str], ...]:
    """Return the upgrades that are neither committed nor given up, as generation and claim id, in the order of their claims."""
    state = LedgerReader(env).state_or_none()
    if state is None:
        return ()
    leader = state.leader.generation if state.leader is not None else Generation(0)
    found = (item for generation, item in sorted(state.deployments.items()) if generation >= leader)
    return tuple((item.generation, item.claim_id) for item in found if item.state in (DeploymentState.CLAIMED, DeploymentState.PROMOTED))


def status(env: EnvironmentRoot) -> Status:
    """Return the environment as it is."""
    return read_status(env)


def to_change(env: EnvironmentRoot, generation: Generation) -> tuple[str, ...]:
    """Return the collections that ``change`` has work for: with online changes, or with a fill whose inputs got rows since."""
    state = LedgerReader(env).state()
    deployment = deployment_of(state, generation)
    if deployment.state is DeploymentState.COMMITTED:
        return ()
    plan = plan_of(env, deployment)
    online = [stage.collection for stage in plan.of_kind(Online)]
    return (*online, *stale_fills(env, state, deployment, plan))


def schema_age(env: EnvironmentRoot, collections: Sequence[str] = ()) -> tuple[SchemaAge, ...]:
    """Return the schema age of the named collections, or of all: the files by the schema they were written under. Reads only."""
    return schema_ages(env, LedgerReader(env).state(), [CollectionName(name) for name in collections])
