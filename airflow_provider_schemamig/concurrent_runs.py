"""One upgrade of an environment at a time: a run waits for the run before it that has an upgrade of the same environment open.

Airflow's own limit, ``max_active_runs``, is one for all environments of a DAG. This one is in the environment's ledger, so it holds over
DAGs as well, and runs of different environments know nothing of each other. Who has ended, however it did, holds nobody: Airflow is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import Generation

_CLAIM = "airflow:"
#: States of a run that does something. One that was cleared and is queued may wait for the place of the very run that asks
#: (``max_active_runs``); when it begins, its claim is what it was, and the ledger decides.
_ACTIVE = ["running"]
#: States of a task that will not change by itself any more.
ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


@dataclass(frozen=True, slots=True)
class OpenRun:
    """The run of Airflow that has ``generation`` open."""

    generation: Generation
    dag_id: str
    run_id: str


def open_run_before(
    claims: Iterable[tuple[Generation, str]], dag_id: str, run_id: str, is_active: Callable[[str, str], bool]
) -> OpenRun | None:
    """Return the first run that claimed before this one did, and has not ended; None: it is this run's turn.

    A claim of the command line holds nobody: its owner cannot be asked for.
    """
    for generation, claim_id in claims:
        found = run_of(claim_id)
        if found == (dag_id, run_id):
            return None  # who claims later waits for us
        if found is not None and is_active(*found):
            return OpenRun(generation, *found)
    return None


def run_of(claim_id: str) -> tuple[str, str] | None:
    """Return DAG id and run id of a claim of Airflow's, ``airflow:dag/run/task``."""
    dag_id, _, rest = claim_id.removeprefix(_CLAIM).partition("/")
    run_id = rest.rpartition("/")[0]
    return (dag_id, run_id) if claim_id.startswith(_CLAIM) and run_id else None


def is_active(dag_id: str, run_id: str) -> bool:
    """Ask Airflow, through the supervisor of the task or of the triggerer, whether the run is at work."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance.get_dr_count(dag_id=dag_id, run_ids=[run_id], states=_ACTIVE) > 0


def has_ended(dag_id: str, run_id: str, task_id: str, key: str) -> str | None:
    """Ask Airflow, in the same way, how a task ended; None: it may still run. ``key``: what Airflow calls it, of a mapped one with its
    index."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    found = RuntimeTaskInstance.get_task_states(dag_id=dag_id, task_ids=[task_id], run_ids=[run_id])
    state = found.get(run_id, {}).get(key)
    return str(state) if state in ENDED else None


def runs_in_one_process() -> bool:
    """Return whether this is ``airflow dags test``: one task runs after the other there, and a trigger holds up all of them."""
    try:
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS
    except ImportError:
        return False
    return type(SUPERVISOR_COMMS).__name__ == "InProcessSupervisorComms"
