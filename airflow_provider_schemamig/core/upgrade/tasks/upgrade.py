"""All tasks of an upgrade in their order, in one process: what ``schemamig upgrade`` and ``alter`` run."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Listener, silent
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import Outcome, StageResult, deployment_of, pending_holds
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import HoldOptions
from airflow_provider_schemamig.core.upgrade.plan.planner import NO_HOLD_ENDS
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables.seals import unseal_left
from airflow_provider_schemamig.core.upgrade.tasks.leader import change, cleanup, contract, cutover, expand, promote
from airflow_provider_schemamig.core.upgrade.tasks.read_only import check_format, preflight
from airflow_provider_schemamig.exceptions import SchemamigError


def upgrade(
    env: EnvironmentRoot,
    release_dir: Path,
    *,
    hold: timedelta | None = None,
    end_hold: bool = False,
    ignore_nodes: bool = False,
    claim_id: str | None = None,
    create: bool = False,
    seal_seconds: int = SEAL_SECONDS,
    jobs: Jobs,
    listen: Listener = silent,
) -> Outcome:
    """Return all tasks in order; with ``create`` an environment that is not there is made at head. With ``hold`` zero also contract."""
    check_format(env, release_dir, HoldOptions(end_hold, ignore_nodes))
    with _unsealed(env, listen):
        checked = preflight(
            env,
            release_dir,
            claim_id=claim_id,
            hold=hold,
            end_hold=end_hold,
            ignore_nodes=ignore_nodes,
            jobs=jobs,
            create=create,
            seal_seconds=seal_seconds,
            listen=listen,
        )
    if checked.generation is None:
        there = Outcome(checked.report.plan.target.source, checked.report.plan.target.version, None, None)
        if not LedgerReader(env).exists():
            return there
        there = replace(there, pending=pending_holds(LedgerReader(env).state()))
        done = _once_committed("contract", lambda: contract(env, listen=listen), there)
        is_left = end_hold and any(hold["state"] == "open" for hold in done.pending)
        return replace(there, stages=done.stages, pending=done.pending, notes=(*done.notes, *((NO_HOLD_ENDS,) if is_left else ())))
    generation, filled, notes, again = checked.generation, checked.filled, checked.report.plan.notes, checked.took_long
    del checked  # what it looked at: of 10,000 tables 70 MiB
    is_anew = claim_id is None
    return go_through(
        env, generation, filled, notes, over_rollback=is_anew, again=again, seal_seconds=seal_seconds, jobs=jobs, listen=listen
    )


def go_through(
    env: EnvironmentRoot,
    generation: Generation,
    filled: Sequence[StageResult],
    notes: Sequence[str],
    *,
    over_rollback: bool,
    again: bool,
    seal_seconds: int = SEAL_SECONDS,
    jobs: Jobs,
    listen: Listener = silent,
) -> Outcome:
    """Return all that comes after preflight, in order. ``filled``, ``notes``: what that did and has to say; ``over_rollback``, ``again``:
    as of ``promote``."""
    outcomes = [promote(env, generation, over_rollback=over_rollback, again=again, listen=listen)]
    outcomes.append(expand(env, generation, jobs=jobs, listen=listen))
    outcomes.append(change(env, generation, jobs=jobs, listen=listen))
    outcomes.append(cutover(env, generation, seal_seconds=seal_seconds, jobs=jobs, listen=listen))
    committed = outcomes[-1]
    outcomes.append(_once_committed("cleanup", lambda: cleanup(env, generation, listen=listen), committed))
    deployment = deployment_of(LedgerReader(env).state(), generation)
    if not deployment.hold_seconds:
        end = functools.partial(contract, env, generation, ignore_nodes=deployment.ignore_nodes, listen=listen)
        outcomes.append(_once_committed("contract", end, outcomes[-1]))
    last = outcomes[-1]
    stages = (*filled, *(stage for outcome in outcomes for stage in outcome.stages))
    all_notes = tuple(dict.fromkeys((*notes, *(note for outcome in outcomes for note in outcome.notes))))
    return Outcome(outcomes[0].source, outcomes[0].target, generation, outcomes[0].epoch, stages, last.pending, all_notes)


def _once_committed(task: str, run: Callable[[], Outcome], before: Outcome) -> Outcome:
    """Return the outcome of ``task``, or, if it was refused, a note that says why.

    The environment is at the release by then, so no refusal makes a failure of the upgrade: maintenance does the rest.
    """
    try:
        return run()
    except SchemamigError as error:
        note = f"The release is committed; only {task} was not done: {error}"
        return replace(before, stages=(), notes=(note,))


@contextlib.contextmanager
def _unsealed(env: EnvironmentRoot, listen: Listener) -> Iterator[None]:
    """Let no writer wait for preflight, nor for a person where it fails, as for want of a Spark: a run that died left tables sealed.

    Before it, those whose time is over; a run that is alive may need the others. Where it failed, all of them: nobody knows of one.
    """
    unseal_left(env, listen, only_expired=True)
    try:
        yield
    except BaseException:
        unseal_left(env, listen, only_expired=False)
        raise
