"""Read-only mode for any target, a release or a single change: planned, checked, claimed, built."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pendulum

from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.ledger.errors import NoEnvironment
from airflow_provider_schemamig.core.ledger.existence import require_environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.objects.nodes import live_nodes
from airflow_provider_schemamig.core.ledger.objects.plan_store import write_plan
from airflow_provider_schemamig.core.ledger.objects.preparing import told_while_preparing
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter
from airflow_provider_schemamig.core.online.backfill import why_not_filled
from airflow_provider_schemamig.core.online.errors import CannotBackfill
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import keep_plan, only_settles, plan_of
from airflow_provider_schemamig.core.upgrade.plan.errors import HoldKeeps
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import KEEP_HOLDS, HoldOptions, open_holds, unclosed_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import read_heads, table_store
from airflow_provider_schemamig.core.upgrade.plan.notes.new_tables import with_notes_on_new_tables
from airflow_provider_schemamig.core.upgrade.plan.notes.reused_columns import with_notes_on_columns
from airflow_provider_schemamig.core.upgrade.plan.notes.unasked_keys import with_notes_on_unasked_keys
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View, build_plan
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS, CreateShard
from airflow_provider_schemamig.core.upgrade.plan.target import Target
from airflow_provider_schemamig.core.upgrade.prepare.build import build_shards, built, inside_tables, unfilled
from airflow_provider_schemamig.core.upgrade.prepare.claim import Claim, as_claimed, claim, other_hold
from airflow_provider_schemamig.core.upgrade.prepare.fill import FillContext, Jobs, build_all
from airflow_provider_schemamig.core.upgrade.prepare.hold_costs import hold_cost_json
from airflow_provider_schemamig.core.upgrade.prepare.kept_history import with_history_notes
from airflow_provider_schemamig.core.upgrade.prepare.log_stores import unsafe_writers
from airflow_provider_schemamig.core.upgrade.prepare.passed_over import refused_names
from airflow_provider_schemamig.core.upgrade.prepare.preflight import PlanReport, Preflight, check_data, too_slow, write_report
from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals


def plan_target(env: EnvironmentRoot, state: State | None, target: Target, holds: HoldOptions = KEEP_HOLDS) -> tuple[View, Planned]:
    """Return the view of the environment, and the plan made from it to reach ``target``. Writes nothing."""
    now = pendulum.now("UTC")
    costs = () if state is None else tuple(hold_cost_json(env, state, hold) for hold in unclosed_holds(state))
    nodes, settles = ((), False) if state is None else (live_nodes(env, now), only_settles(env, state))
    view = View(state, read_heads(env, state), nodes, now, costs, settles)
    planned = build_plan(target, view, holds)
    if planned.plan.is_empty:
        return view, planned
    planned = with_notes_on_columns(env, view, _with_storage(env, view, planned))
    return view, with_notes_on_unasked_keys(view, with_notes_on_new_tables(view, planned))


def _with_storage(env: EnvironmentRoot, view: View, planned: Planned) -> Planned:
    """Return the plan with what the claim, and any later write, would be refused for."""
    made = [stage.collection for stage in (*built(planned.plan), *planned.plan.of_kind(CreateShard))]
    found = (
        *inside_tables(env, made),
        *unsafe_writers(env, view, planned),
        *_unfillable(env, view, planned),
        *refused_names(env, view, planned),
    )
    return replace(planned, refusals=(*planned.refusals, *found))


def _unfillable(env: EnvironmentRoot, view: View, planned: Planned) -> Iterator[CannotBackfill]:
    """Yield a refusal for each table to backfill whose files cannot be written anew; one without rows needs none.

    A table that is sealed right now is another leader's, and says nothing.
    """
    for name, online in planned.online.items():
        head = view.heads.get(name)
        filled = [column for chain in online.chains for operation in chain if operation.fills for column in operation.columns]
        if head is None or view.state is None or head.sealed_for is not None or not filled:
            continue
        reason = why_not_filled(head)
        if reason is not None and active_files(table_store(env, view.state, view.state.objects[name].shard), head.version):
            yield CannotBackfill(collection=name, column=filled[0], reason=reason)


def refused_place(env: EnvironmentRoot, state: State | None, *, create: bool) -> tuple[SchemamigError, ...]:
    """Return why there is no environment to upgrade, and (with ``create``) none can be made either."""
    if state is None:
        try:
            require_environment(env, create=create)
        except NoEnvironment as missing:
            return (missing,)
    return ()


def _ends_too_early(planned: Planned, request: Claim, view: View) -> Iterator[HoldKeeps]:
    """Yield a refusal for a hold that would end at once while an older one goes on: holds end oldest first."""
    if request.hold_seconds or not planned.plan.target.is_deployed:
        return
    for hold in open_holds(view.state):
        if hold.generation not in planned.plan.ends:
            asks = "--hold 0 asks for a hold that ends before an older one, which cannot be (without --hold it lasts as long)"
            yield HoldKeeps(generation=hold.generation, until=hold.until, lost=f"release {hold.source}", asks=asks)


def preflight_plan(
    env: EnvironmentRoot,
    view: View,
    planned: Planned,
    request: Claim,
    *,
    jobs: Jobs,
    fill: bool = True,
    create: bool = False,
    seal_seconds: int = SEAL_SECONDS,
    reasons: tuple[tuple[str, str], ...] = (),
    listen: Listener = silent,
) -> Preflight:
    """Do the work of ``preflight`` for a plan that is made already. Makes an environment only with ``create``.

    ``reasons``: version and docstring of each migration that is gone through, for the report.
    """
    started, began_at = time.monotonic(), pendulum.now("UTC")
    claimed = as_claimed(LedgerReader(env), view.state, planned.plan, request)
    planned = with_history_notes(env, view, planned, claimed.kept)
    early = _ends_too_early(planned, claimed, view)
    raise_refusals((*refused_place(env, view.state, create=create), *planned.refusals, *early))
    if planned.plan.is_empty:
        return Preflight(None, PlanReport(planned, view), None, ())
    target = planned.plan.target
    with told_while_preparing(env, target.source, target.version, exists=view.state is not None) as tell:
        report = replace(check_data(env, view, planned, jobs, started, tell), seal_seconds=seal_seconds, reasons=reasons)
    raise_refusals((*report.refusals, *too_slow(report, seal_seconds)))
    ledger = LedgerWriter(env)
    if view.state is None:
        ledger.create(str(uuid.uuid4()))
    write_plan(env, planned.plan.text)
    planned.plan.forget_text()
    keep_plan(env, planned.plan)
    deployment = claim(ledger, planned.plan, request, view.now)
    if deployment.plan_digest != planned.plan.digest:  # the same, less the holds that are over by now
        planned = replace(planned, plan=plan_of(env, deployment))
        report = replace(report, planned=planned)
    if notes := other_hold(deployment, request):
        planned = planned.noted(*notes)
        report = replace(report, planned=planned)
    listen(Event("claim", note=f"generation {deployment.generation}, plan {deployment.plan_digest[:12]}"))
    state = build_shards(env, ledger, deployment, planned.plan, listen)
    todo = unfilled(state, deployment, planned.plan)
    filled = build_all(FillContext(env, ledger, deployment, planned.plan, jobs, listen), todo) if fill else ()
    uri = write_report(env, deployment, report)
    detail = f"plan {deployment.plan_digest[:12]}"
    append_history(env, HistoryEntry.ended("preflight", began_at, generation=deployment.generation, detail=detail))
    return Preflight(deployment.generation, report, uri, () if fill else todo, filled)
