"""Runs in Airflow's database as the page finds them, and what the listener keeps of a task's failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from airflow_provider_schemamig import run_notes

Start = Callable[..., str]


@contextmanager
def runs_started() -> Iterator[Start]:
    """Put a run into Airflow's database, as it stands after some time, and what its task said."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    made: list[str] = []

    def started(dag_id: str, state: str, said: str = "", minutes_ago: float = 1, **conf: Any) -> str:
        made.append(f"manual__{len(made)}")
        run = DagRun(
            dag_id=dag_id,
            run_id=made[-1],
            run_after=datetime.now(UTC) - timedelta(minutes=minutes_ago),
            conf={"environment": "lake", **conf},
            state=DagRunState(state),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name="ann",
            note="my own words",
        )
        with create_session() as session:
            session.add(run)
            if said:
                session.flush()
                with DAG(dag_id):
                    task: Any = EmptyOperator(task_id="revert")
                session.add(TaskInstance(task, dag_version_id=None, run_id=run.run_id, state=state))
                session.flush()
                about = {"dag_id": dag_id, "run_id": run.run_id, "dag_run_id": run.id, "task_id": "revert", "map_index": -1}
                session.add(XComModel(key=run_notes.KEY, value=said, **about))

        return made[-1]

    yield started
    with create_session() as session:
        for run in session.query(DagRun).filter(DagRun.run_id.in_(made)):
            session.delete(run)


def kept_of(error: Exception) -> str:
    """What the listener keeps of a task's failure."""
    pushed: dict[str, str] = {}
    ti = SimpleNamespace(task_id="revert", xcom_push=lambda key, value: pushed.update({key: value}))
    run_notes.on_task_instance_failed(task_instance=ti, error=error)
    return pushed.get(run_notes.KEY, "")
