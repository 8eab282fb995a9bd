"""What became of a run, as its note: rejected, nothing to do and upgraded are all a success to Airflow, and look alike in its list of runs.

Tasks push their sentence (``say``); the scheduler, which alone may write a note, puts the last one on the run when that ends. A listener of
the plugin: Airflow loads it in every process, so it imports nothing before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import Context

#: The XCom of the sentence, and what it begins with: that line of a note is ours.
KEY = "schemamig_run_note"
MARK = "schemamig: "


def say(context: Context, text: str) -> None:
    """Keep the sentence for the run's note."""
    if (ti := context.get("ti")) is not None:
        ti.xcom_push(KEY, f"{MARK}{text}"[:900])


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    _write(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    _write(dag_run)


def _write(dag_run: DagRun) -> None:
    from airflow.models.xcom import XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return  # `airflow dags test`: its own session holds the database, and nobody lists its runs
    query = select(XComModel).where(XComModel.dag_run_id == dag_run.id, XComModel.key == KEY).order_by(XComModel.timestamp.desc())
    with session.no_autoflush:
        last = session.scalars(query.limit(1)).first()
    if last is not None:
        kept = [line for line in (dag_run.note or "").splitlines() if not line.startswith(MARK)]
        dag_run.note = "\n".join([*kept, str(XComModel.deserialize_value(last))])
