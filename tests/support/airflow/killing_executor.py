"""The process behind ``killing.KillingRuns``: it has Airflow loaded and forks a process a task.

It never does work of its own, because what the tasks use (delta-rs) cannot be forked once it was used.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

from airflow.executors.base_executor import BaseExecutor

from tests.support.airflow.killing import Kill, Try
from tests.support.airflow.runs import impatient

GROUP = "upgrade."


@dataclass
class _Script:
    """What is to happen in the present run, and what did. ``kill`` and ``seen`` are looked at in a task's own process."""

    kills: dict[str, Kill]
    clear: bool
    arrivals: dict[str, list[tuple[str, list[dict[str, Any]]]]]
    mark: Path
    kill: Kill | None = None
    seen: int = 0
    tries: list[Try] = field(default_factory=list)

    def on_write(self, moment: str, what: str, key: str) -> None:
        kill = self.kill
        if kill is None or kill.when not in ("", moment) or kill.what not in ("", what):
            return
        self.seen += 1
        if self.seen == kill.count:
            self.mark.write_text(f"{moment} {what} {key}")
            os.kill(os.getpid(), signal.SIGKILL)


_script: _Script


class KillingExecutor(BaseExecutor):
    """Runs each task in a process of its own, forked and watched by Airflow's supervisor, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._died: list[Any] = []

    def heartbeat(self) -> None:
        """Those who died in the beat before have been found by Airflow meanwhile, and are up for retry."""
        for task in self._died:
            _end(task, clear=_script.clear)
        self._died.clear()
        super().heartbeat()

    def end(self) -> None:
        """Nothing runs any more when this is called."""

    def _process_workloads(self, workload_items: Sequence[Any]) -> None:
        for workload in workload_items:
            del self.queued_tasks[workload.ti.key]
            self._run(workload)
            self.success(workload.ti.key)  # the supervisor came to its end; what became of the task is in the database

    def _run(self, workload: Any) -> None:
        from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor, supervise_task

        task = workload.ti.task_id.removeprefix(GROUP)
        for table, rows in _script.arrivals.pop(task, ()):
            _in_a_process(table, rows)
        _script.mark.unlink(missing_ok=True)
        _script.kill = _script.kills.pop(task, None)
        supervise_task(
            ti=workload.ti,
            bundle_info=workload.bundle_info,
            dag_rel_path=workload.dag_rel_path,
            token="",
            client=InProcessTestSupervisor._api_client(),  # type: ignore[no-untyped-call]
        )
        killed = _script.mark.read_text() if _script.mark.exists() else None
        _script.tries.append(Try(task, workload.ti.try_number, killed))
        if killed is not None:
            self._died.append(workload.ti)


def _end(task: Any, *, clear: bool) -> None:
    """What a person's Clear does to a task that Airflow found dead; without ``clear``, what Mark as failed does."""
    from airflow.models.taskinstance import TaskInstance, clear_task_instances
    from airflow.utils.session import create_session

    with create_session() as session:
        key = {"dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id, "map_index": task.map_index}
        found = session.query(TaskInstance).filter_by(**key).one()
        session.refresh(found)
        assert found.state == "up_for_retry", found.state
        if clear:
            clear_task_instances([found], session)
        else:
            found.state = "failed"


def _in_a_process(table: str, rows: list[dict[str, Any]]) -> None:
    from tests.support.lake import append

    writer = get_context("fork").Process(target=append, args=(Path(table), rows))
    writer.start()
    writer.join()
    assert writer.exitcode == 0


def _observe_environments() -> None:
    """From now on every environment that a task opens tells the script of its writes."""
    from airflow_provider_schemamig.core.environment import Environment
    from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

    def environment(hook: SchemamigHook) -> Environment:
        opened = Environment.open(hook.settings.environment_uri, dict(hook.settings.storage_options))
        return replace(opened, on_write=_script.on_write)

    setattr(SchemamigHook, "environment", property(environment))  # noqa: B010


def main() -> None:
    """Answer each line of stdin, a run to make, with a line on stdout; everything else that is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.execution_time import supervisor

    from tests.support.airflow.home import DAGS, prepare

    # It looks for the end of its process when it beats, every 5 s; and a run without a task that is due sleeps a second.
    supervisor.MIN_HEARTBEAT_INTERVAL = 0.2  # type: ignore[assignment]
    sleep = time.sleep
    time.sleep = impatient()  # type: ignore[assignment]
    os.register_at_fork(after_in_child=lambda: setattr(time, "sleep", sleep))
    mark = prepare() / f"killed-{os.getpid()}"
    _observe_environments()
    dag = DagBag(str(DAGS)).dags["schemamig_upgrade"]
    for line in sys.stdin:
        _answer(dag, json.loads(line), mark, answers)


def _answer(dag: Any, wanted: dict[str, Any], mark: Path, answers: IO[str]) -> None:
    global _script
    for name, connection in wanted["connections"].items():
        os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(connection)
    _script = _Script({task: Kill(**kill) for task, kill in wanted["kills"].items()}, wanted["clear"], wanted["arrivals"], mark)
    run = dag.test(run_conf=wanted["conf"], use_executor=True)
    states = {ti.task_id.removeprefix(GROUP): str(ti.state) for ti in run.get_task_instances()}
    document = {"state": str(run.state), "states": states, "tries": [vars(item) for item in _script.tries]}
    answers.write(json.dumps(document) + "\n")
    answers.flush()
