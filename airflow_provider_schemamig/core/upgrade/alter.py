"""Changing, creating, renaming or dropping one table outside of a release: ``schemamig alter``.

A deployment of its own, with all that one has: plan, preflight, promotion, the states of online changes, a hold where something is dropped,
rollback. The release stays what it is; the collection is *ahead* of it, and the next release has to contain the change.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from airflow_provider_schemamig.core.ledger.rows import Deployment, DeploymentState, HoldState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.progress import Listener, silent
from airflow_provider_schemamig.core.release.merge.merged import Create, Evolve, MergedStep, Remove
from airflow_provider_schemamig.core.release.sql.alter.statement import (
    Alter,
    Alteration,
    CreateTable,
    DropTable,
    RenameTable,
    read_alteration,
)
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import Outcome, no_open_deployment, no_open_hold, plan_of
from airflow_provider_schemamig.core.upgrade.errors import ClaimUsed
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import open_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import consistent_look
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View
from airflow_provider_schemamig.core.upgrade.plan.target import Target
from airflow_provider_schemamig.core.upgrade.prepare.claim import Claim
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.prepare.preflight import PlanReport, check_data, report_on
from airflow_provider_schemamig.core.upgrade.prepare.prepare import plan_target, preflight_plan
from airflow_provider_schemamig.core.upgrade.tables.errors import NameOfRelease, NeverDeployed
from airflow_provider_schemamig.core.upgrade.tasks.leader import contract
from airflow_provider_schemamig.core.upgrade.tasks.upgrade import go_through
from airflow_provider_schemamig.exceptions import SchemamigError


def plan_alter(env: EnvironmentRoot, statement: str, *, jobs: Jobs | None = None) -> PlanReport:
    """Return what ``alter`` would do; writes nothing. With ``jobs`` also what only the rows know."""
    started = time.monotonic()
    view, planned = _plan(env, statement)
    return report_on(env, view, planned) if jobs is None else check_data(env, view, planned, jobs, started)


def alter(
    env: EnvironmentRoot,
    statement: str,
    *,
    hold: timedelta = timedelta(0),
    claim_id: str | None = None,
    jobs: Jobs,
    listen: Listener = silent,
) -> Outcome:
    """Make one ``ALTER TABLE``, ``CREATE TABLE`` or ``DROP TABLE``. Killed, the same statement again goes on, or finds its change made.

    Once its hold is over it is a second statement, unless it has the same claim.
    ``rollback`` undoes it before its commit, and while its hold is open also after that. Without a hold what is dropped is gone at once.

    Raises what reading the statement raises, NameOfRelease, DeploymentOpen, HoldOpen, ClaimUsed, and what an upgrade raises.
    """
    request = Claim(claim_id, hold)
    state = LedgerReader(env).state()
    done = _done(env, state, claim_id, statement)
    if done is None:
        try:
            target = _target(state, statement)  # a statement that is refused writes nothing
            done = None if target.steps else _cut_off(state, statement)
        except SchemamigError:
            done = _cut_off(state, statement)
            if done is None:
                raise
    _end_holds_without_time(env, state, listen)
    if done is not None:
        return done
    view, planned = _plan(env, statement)
    _check_leader(view.state, planned)
    checked = preflight_plan(env, view, planned, request, jobs=jobs, listen=listen)
    if checked.generation is None:
        version = planned.plan.target.version
        return Outcome(version, version, None, None)
    notes = checked.report.plan.notes
    is_anew, again = claim_id is None, checked.took_long
    outcome = go_through(env, checked.generation, checked.filled, notes, over_rollback=is_anew, again=again, jobs=jobs, listen=listen)
    return replace(outcome, notes=(*outcome.notes, *_unreleased_notes(LedgerReader(env).state())))


def _unreleased_notes(state: State) -> Iterator[str]:
    """Say what was changed outside of a release, as long as none contains it."""
    names = sorted({*state.dropped, *(name for name in state.objects if state.unreleased_of(name) is not None)})
    if names and state.release is not None:
        what = "is" if len(names) == 1 else "are"
        now = f"{', '.join(names)} {what} ahead of release {state.release.version}"
        yield f"{now}: the next release has to contain what was changed outside of one"


def _plan(env: EnvironmentRoot, statement: str) -> tuple[View, Planned]:
    def planned(state: State) -> tuple[View, Planned]:
        target = _target(state, statement)
        if target.steps:
            no_open_hold(state)
        return plan_target(env, state, target)

    return consistent_look(LedgerReader(env).state, planned, lambda found: found[1].refusals)


def _done(env: EnvironmentRoot, state: State, claim_id: str | None, statement: str) -> Outcome | None:
    """Return what this very claim did before its answer was lost. Raises ClaimUsed if that was another statement."""
    for deployment in state.deployments.values():
        if claim_id is not None and deployment.claim_id == claim_id and deployment.state is DeploymentState.COMMITTED:
            alteration, after = _read_where_made(env, state, deployment, statement)
            if alteration is not None and not _leads_to(after, alteration):
                raise ClaimUsed(claim_id=claim_id, generation=deployment.generation)
            is_there = alteration is None or _leads_to(state.declarations(), alteration)
            return _outcome(deployment) if is_there else replace(_outcome(deployment), notes=(_made_before_note(deployment),))
    return None


def _made_before_note(deployment: Deployment) -> str:
    number = deployment.generation
    return f"generation {number} made this change for the same claim; others changed the table since, and it is not made a second time"


def _read_where_made(
    env: EnvironmentRoot, state: State, deployment: Deployment, statement: str
) -> tuple[Alteration | None, Mapping[CollectionName, Declaration]]:
    """Return the statement, read over the declarations before a deployment, and the declarations after it.

    Where it cannot be read so, both are the declarations of now; None for the statement, where it cannot be read over those either.
    """
    now = state.declarations()
    before, after = dict(now), dict(now)
    with contextlib.suppress(SchemamigError):
        steps = plan_of(env, deployment).target.steps
        gone = {step.old.name: step.old for step in steps if not isinstance(step, Create)}
        made = {step.collection: step.new for step in steps if not isinstance(step, Remove)}
        others = {name: declared for name, declared in now.items() if name not in gone.keys() | made.keys()}
        before, after = {**others, **gone}, {**others, **made}
    for begin, end in ((before, after), (now, now)):
        with contextlib.suppress(SchemamigError):
            return read_alteration(statement, begin), end
    return None, now


def _cut_off(state: State, statement: str) -> Outcome | None:
    """Return the outcome of this statement, if it was the last thing done here and can still be rolled back: its process was killed after
    the commit, or it is given once more."""
    holds = [hold for hold in open_holds(state) if hold.state in (HoldState.OPEN, HoldState.CONTRACTING)]
    if not holds or holds[-1].generation != max(state.deployments):
        return None
    hold, newest = holds[-1], state.deployments[holds[-1].generation]
    if newest.source != newest.target:
        return None
    now = state.declarations()
    held = {held.shard for held in hold.tables}
    before = {
        name: declared for name, declared in now.items() if _made_before(state, name, newest) and state.objects[name].shard not in held
    }
    schemas = (*((held.collection, held.schema_id) for held in hold.tables), *hold.restated)
    before |= {collection: state.schemas[collection, number].declared for collection, number in schemas}
    with contextlib.suppress(SchemamigError):
        if _leads_to(now, read_alteration(statement, before)):
            return _outcome(newest)
    return None


def _made_before(state: State, collection: CollectionName, deployment: Deployment) -> bool:
    return state.shards[state.objects[collection].shard].generation != deployment.generation


def _leads_to(now: Mapping[CollectionName, Declaration], found: Alteration) -> bool:
    match found:
        case CreateTable(new=new):
            return now.get(new.name) == new
        case RenameTable():
            return now.get(found.name) == found.new
        case DropTable(collection=collection):
            return collection not in now
        case Alter():
            return now.get(found.collection) == found.new


def _outcome(deployment: Deployment) -> Outcome:
    return Outcome(deployment.source, deployment.target, deployment.generation, None)


def _end_holds_without_time(env: EnvironmentRoot, state: State, listen: Listener) -> None:
    """End the holds of 0 seconds. A kill right after the commit leaves them open, in everybody's way."""
    for hold in open_holds(state):
        if not state.deployments[hold.generation].hold_seconds:
            contract(env, hold.generation, listen=listen)


def _check_leader(state: State | None, planned: Planned) -> None:
    """Refuse to take over what another deployment left half-done.

    An upgrade does take over, this does not, unless the deployment is its own.
    """
    assert state is not None  # planned on it
    leader = state.leader
    if leader is not None and state.deployments[leader.generation].plan_digest != planned.plan.digest:
        no_open_deployment(state)


def _target(state: State, statement: str) -> Target:
    if state.release is None:
        raise NeverDeployed()
    found = read_alteration(statement, state.declarations())
    release = state.release
    return Target(
        release.name, release.version, release.version, release.fingerprint, _steps(state, found), ahead=True, passed=release.steps
    )


def _steps(state: State, found: Alteration) -> tuple[MergedStep, ...]:
    """Return the step of the alteration; none if the table is like that already."""
    match found:
        case CreateTable(new=new):
            if new.name in state.objects:
                return ()
            _refuse_name(state, new.name, {})
            return (Create(new.name, new),)
        case RenameTable():
            _refuse_name(state, found.name, state.released(state.objects[found.collection]))
            return (Evolve(found.name, found.collection, state.entry(found.collection).declared, found.new, {}, ()),)
        case DropTable(collection=collection):
            return (Remove(collection, state.entry(collection).declared),) if collection in state.objects else ()
        case Alter():
            old = state.entry(found.collection).declared
            changes = diff(old, found.new, found.renames)
            return (Evolve(found.collection, None, old, found.new, found.renames, changes.dropped),) if changes.changes else ()


def _refuse_name(state: State, name: CollectionName, own: Collection[CollectionName]) -> None:
    """Raise NameOfRelease if the release has the name. ``own``: what the release calls the collection itself."""
    if name in state.release_set() and name not in own:
        assert state.release is not None  # ``_target`` refused otherwise
        raise NameOfRelease(collection=name, version=str(state.release.version))
