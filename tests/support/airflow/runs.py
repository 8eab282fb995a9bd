"""Runs of whole DAGs inside the test process, and the person who answers their questions."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

#: Runs a DAG by its id with the given parameters; answers state and try number of each task, and of the run under "".
RunDag = Callable[..., dict[str, tuple[str, int]]]


def impatient(sleep: Callable[[float], None] = time.sleep) -> Callable[[float], None]:
    """For the place of ``time.sleep``: ``dag.test()`` sleeps a second whenever no task is due, as after every one that is skipped."""
    return lambda seconds: sleep(min(float(seconds), 0.05))


def hurry(task: Any) -> None:
    """Conflicts are tried again at once, and tables followed without a rest, so that a test does not wait for either."""
    arguments = getattr(task, "partial_kwargs", {})
    if "ends_with" in arguments:
        arguments["poke_interval"] = 0.1
    policy = getattr(task, "retry_policy", None)
    if policy is not None and hasattr(policy, "shortest"):
        policy.shortest = policy.longest = timedelta(seconds=0.1)


class Answer(threading.Thread):
    """A person at Airflow's page, who answers the run's question through the route that the page calls. ``look``: is called with the task
    that asks, before the answer."""

    def __init__(self, option: str, look: Callable[[Any], None] = lambda task: None) -> None:
        super().__init__(daemon=True)
        self.option = option
        self.look = look
        self.question: str | None = None
        self._asked_by: Any = None

    def run(self) -> None:
        """Answer the question that waits; looked for again where the task that asks it holds the database meanwhile."""
        from sqlalchemy.exc import OperationalError

        deadline = time.monotonic() + 300
        is_taken_up = False
        while not is_taken_up and time.monotonic() < deadline:
            with contextlib.suppress(OperationalError):
                is_taken_up = self._is_taken_up() if self.question else self._answer()
            threading.Event().wait(0.2)  # the runs of these tests take all sleeps away

    def _answer(self) -> bool:
        from airflow.models.hitl import HITLDetail
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            waiting = [row for row in session.scalars(select(HITLDetail)) if not row.response_received]
            if not waiting or str(waiting[0].task_instance.state) != "awaiting_input":
                return False
            question = f"{waiting[0].subject}\n{waiting[0].body}"
            self._asked_by = waiting[0].ti_id
            self.look(waiting[0].task_instance)
            self._respond(waiting[0].task_instance, session)
        self.question = question
        return False

    def _is_taken_up(self) -> bool:
        """Return whether the task goes on. ``dag.test()`` parks it a second time, a moment after the task did; an answer that came in
        between has to wake it again."""
        from airflow.models.hitl import HITLDetail
        from airflow.models.taskinstance import TaskInstance
        from airflow.models.trigger import handle_event_submit
        from airflow.triggers.base import TriggerEvent
        from airflow.utils.session import create_session

        with create_session() as session:
            task, detail = session.get(TaskInstance, self._asked_by), session.get(HITLDetail, self._asked_by)
            if task is None or detail is None or task.end_date is not None:
                return True
            if str(task.state) == "awaiting_input":
                event = TriggerEvent(detail.as_resume_event_payload())  # type: ignore[no-untyped-call]
                handle_event_submit(event, task_instance=task, session=session)
        return False

    def _respond(self, ti: Any, session: Any) -> None:
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
        from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail

        update_hitl_detail(
            dag_id=ti.dag_id,
            dag_run_id=ti.run_id,
            task_id=ti.task_id,
            update_hitl_detail_payload=UpdateHITLDetailPayload(chosen_options=[self.option]),
            user=SimpleAuthManagerUser(username="ann", role="admin"),
            session=session,
        )
