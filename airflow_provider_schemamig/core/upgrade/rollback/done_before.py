"""Rollbacks that came through before: asked for again under their claim or by their generation, or cut off before their answer."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Listener
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import Outcome
from airflow_provider_schemamig.core.upgrade.execute.cancel import built_by, delete_built
from airflow_provider_schemamig.core.upgrade.rollback.checks import rolled_back_before
from airflow_provider_schemamig.exceptions import SchemamigError


def done_before(
    env: EnvironmentRoot, ledger: LedgerWriter, listen: Listener, claim_id: str | None, generation: Generation | None
) -> Outcome | None:
    """Return the answer of ``rolled_back_before``, and finish the deleting, as a rollback may have died before it."""
    state = ledger.state()
    done = rolled_back_before(state, claim_id, generation)
    if done is None or done.generation is None or not built_by(state, done.generation):
        return done
    deleted = delete_built(env, ledger, state, done.generation, listen)
    return replace(done, stages=deleted.results, notes=(*done.notes, *deleted.notes))


def cut_off_before(env: EnvironmentRoot, ledger: LedgerWriter, listen: Listener) -> Outcome | None:
    """Return the answer of a rollback that came through and was cut off before it said so; None if there is none.

    Whoever runs the same command again wants this answer, and not the release before that one.
    """
    state = ledger.state()
    leader = state.leader
    taken_back = None if leader is None else state.deployments[leader.generation]
    # Who had a claim has it again.
    if leader is None or taken_back is None or taken_back.state is not DeploymentState.ROLLED_BACK or taken_back.rolled_back_by:
        return None
    try:
        told = {entry.outcome for entry in read_history(env) if (entry.what, entry.generation) == ("rollback", leader.generation)}
    except SchemamigError:  # it tells what was done, and is needed for nothing
        return None
    if "begun" not in told or "done" in told:
        return None
    done = done_before(env, ledger, listen, None, leader.generation)
    assert done is not None  # it is rolled back
    note = (
        f"generation {leader.generation} was rolled back already, by a run that was cut off before its answer; one more goes further back"
    )
    return replace(done, source=taken_back.target, target=taken_back.source, notes=(note, *done.notes[1:]))
