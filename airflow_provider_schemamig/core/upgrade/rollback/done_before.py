"""Rollbacks that came through before: asked for again under their claim or by their generation, or cut off before their answer."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Listener
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import Outcome, pending_holds
from airflow_provider_schemamig.core.upgrade.execute.cancel import built_by, delete_built
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import open_holds
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
    """Return the answer of the newest rollback if it came through and was cut off before it said so; None if it was not, by the history.

    Whoever runs it again, or ends by hand what Airflow began, wants this answer and not the release before that one.
    """
    state = ledger.state()
    could_be = {
        found.generation: found
        for found in state.deployments.values()
        if found.state is DeploymentState.ROLLED_BACK and found.source == state.release_version
    }
    if state.is_promoted or not could_be:
        return None
    try:
        told = [entry for entry in read_history(env) if entry.what == "rollback" and entry.generation is not None]
    except SchemamigError:  # a damaged history stands in no rollback's way
        return None
    begun = next((entry.generation for entry in reversed(told) if entry.outcome == "begun"), None)
    if begun is None or any(entry.generation == begun and entry.outcome == "done" for entry in told):
        return None
    taken_back = could_be.get(Generation(begun))
    if taken_back is None:
        return None
    done = done_before(env, ledger, listen, None, taken_back.generation)
    assert done is not None  # it is rolled back
    older = [hold.generation for hold in open_holds(state)]
    further = f"; to go further back, run it again, or with --generation {max(older)}" if older else ""
    note = f"generation {begun} was rolled back already, by a run that was cut off before its answer{further}"
    return replace(done, source=taken_back.target, target=taken_back.source, pending=pending_holds(state), notes=(note, *done.notes[1:]))
