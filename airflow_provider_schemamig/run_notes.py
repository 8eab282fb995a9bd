"""What became of a run, as its note: rejected, nothing to do and upgraded are all a success to Airflow, and look alike in its list of runs;
a failed one says why, with the code.

Tasks push their sentence (``say``); the scheduler, which alone may write a note, puts the last one on the run when that ends. A listener of
the plugin: Airflow loads it in every process, so it imports nothing before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow.models.dagrun import DagRun
    from airflow.sdk import Context
    from sqlalchemy.orm import Session

#: The XCom of the sentence, and what it begins with: that line of a note is ours.
KEY = "schemamig_run_note"
MARK = "schemamig: "
_LONGEST = 900


def say(context: Context, text: str) -> None:
    """Keep the sentence for the run's note."""
    if (ti := context.get("ti")) is not None:
        _keep(ti, text)


def _keep(ti: Any, text: str) -> None:
    ti.xcom_push(KEY, cut(f"{MARK}{' '.join(text.split())}"))


def cut(text: str) -> str:
    """Return as much of a text as a note has room for. It ends between words, and never within a command: somebody may paste that."""
    if len(text) <= _LONGEST:
        return text
    kept = text[:_LONGEST].rpartition(" ")[0]
    return (kept.rpartition("`")[0] if kept.count("`") % 2 else kept).rstrip() + " ..."


def last_sentences(session: Session, runs: Collection[int]) -> dict[int, str]:
    """Return the last sentence of each run that has one, by the id of its row: also of a run whose note is not written yet."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    query = select(XComModel).where(XComModel.dag_run_id.in_(runs), XComModel.key == KEY).order_by(XComModel.timestamp)
    return {item.dag_run_id: str(XComModel.deserialize_value(item)) for item in session.scalars(query)} if runs else {}


@hookimpl
def on_task_instance_failed(task_instance: Any, error: Any) -> None:
    """Keep why a task failed: the refusal with its code, or the conflict that its tries did not get over. The next try takes it back."""
    if not isinstance(error, Exception):
        return  # somebody marked it failed
    from airflow_provider_schemamig.exceptions import SchemamigError

    if isinstance(error, SchemamigError) or isinstance(getattr(error, "error", None), SchemamigError):
        _keep(task_instance, f"{task_instance.task_id} failed: {error}")


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    _write(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    _write(dag_run)


def _write(dag_run: DagRun) -> None:
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return  # `airflow dags test`: its own session holds the database, and nobody lists its runs
    with session.no_autoflush:
        last = last_sentences(session, [dag_run.id]).get(dag_run.id)
    if last is not None:
        kept = [line for line in (dag_run.note or "").splitlines() if not line.startswith(MARK)]
        dag_run.note = "\n".join([*kept, last])
