"""DAG runs whose tasks are killed: real task processes, forked and watched by Airflow's own supervisor, that SIGKILL themselves at a
chosen write and are then cleared, as a person would.

``KillingRuns`` is the test's side. The other side is one process that has Airflow loaded and forks a process a task; it never does work of
its own, because what the tasks use (delta-rs) cannot be forked once it was used.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

from airflow.executors.base_executor import BaseExecutor

GROUP = "upgrade."
EXECUTOR = f"{__name__}.KillingExecutor"


@dataclass(frozen=True)
class Try:
    """One try of a task: ``killed`` says at which write, None if it came to its end by itself."""

    task: str
    number: int
    state: str
    killed: str | None


@dataclass
class KilledRun:
    """The end of a DAG run."""

    state: str
    tries: list[Try]

    @property
    def killed(self) -> dict[str, str]:
        """Where each killed task died."""
        return {item.task: item.killed for item in self.tries if item.killed is not None}

    @property
    def states(self) -> dict[str, str]:
        return {item.task: item.state for item in self.tries}


class KillingRuns:
    """A process that runs the shipped DAG, one run after the other."""

    def __init__(self, log: Path) -> None:
        self._log = log
        environment = os.environ | {"AIRFLOW__CORE__EXECUTOR": EXECUTOR}
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("ab"), text=True
        )

    def upgrade(
        self,
        release: Path,
        lake: Path,
        *,
        kills: Mapping[str, int],
        clear: bool = True,
        arrivals: Mapping[str, Sequence[tuple[Path, list[dict[str, Any]]]]] | None = None,
        **params: Any,
    ) -> KilledRun:
        """One run of ``schemamig_upgrade``. ``kills``: the first try of a task dies at this moment of its writes (two a write: just
        before, just after). Cleared then, unless ``clear`` is off: then the run fails there. ``arrivals``: rows that come in just
        before a task begins, by the task's name."""
        conf = {"environment": str(lake), "release": str(release), "gate": "none", **params}
        late = {task: [[str(table), rows] for table, rows in found] for task, found in (arrivals or {}).items()}
        self._send({"conf": conf, "kills": dict(kills), "clear": clear, "arrivals": late})
        answer = self._receive()
        return KilledRun(answer["state"], [Try(**item) for item in answer["tries"]])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _send(self, document: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the process of the runs died:\n{self._log.read_text()[-5000:]}")
        found: dict[str, Any] = json.loads(line)
        return found


# --- the other side ------------------------------------------------------------------------------------------------------------------


@dataclass
class _Script:
    """What is to happen in the present run, and what did. ``kill_at`` and ``writes`` are looked at in a task's own process."""

    kills: dict[str, int]
    clear: bool
    arrivals: dict[str, list[tuple[str, list[dict[str, Any]]]]]
    mark: Path
    kill_at: int | None = None
    writes: int = 0
    tries: list[Try] = field(default_factory=list)

    def on_write(self, moment: str, what: str, key: str) -> None:
        self.writes += 1
        if self.kill_at is not None and self.writes > self.kill_at:
            self.mark.write_text(f"{moment} {what} {key}")
            os.kill(os.getpid(), signal.SIGKILL)


_script: _Script


class KillingExecutor(BaseExecutor):
    """Runs each task in a process of its own, forked by Airflow's supervisor, and clears those that were killed on purpose."""

    def end(self) -> None:
        """Nothing runs any more when this is called."""

    def _process_workloads(self, workload_items: Sequence[Any]) -> None:
        for workload in workload_items:
            del self.queued_tasks[workload.ti.key]
            self._run(workload)

    def _run(self, workload: Any) -> None:
        from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor, supervise_task

        ti = workload.ti
        task = ti.task_id.removeprefix(GROUP)
        for table, rows in _script.arrivals.pop(task, ()):
            _in_a_process(table, rows)
        _script.mark.unlink(missing_ok=True)
        _script.kill_at = _script.kills.pop(task, None)
        supervise_task(
            ti=ti,
            bundle_info=workload.bundle_info,
            dag_rel_path=workload.dag_rel_path,
            token="",
            client=InProcessTestSupervisor._api_client(),
        )
        killed = _script.mark.read_text() if _script.mark.exists() else None
        _script.tries.append(Try(task, ti.try_number, _after(ti, clear=killed is not None and _script.clear), killed))


def _after(ti: Any, *, clear: bool) -> str:
    """The state Airflow gave the try; a killed one is cleared, or given up."""
    from airflow.models.taskinstance import TaskInstance, clear_task_instances
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.get_one(TaskInstance, ti.id)
        state = str(found.state)
        if clear:
            clear_task_instances([found], session)
        elif state == "up_for_retry":
            found.state = "failed"
    return state


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

    from tests.support.airflow_home import DAGS, prepare

    # It looks for the end of its process when it beats, every 5 s.
    supervisor.MIN_HEARTBEAT_INTERVAL = 0.2  # type: ignore[assignment]
    mark = prepare() / f"killed-{os.getpid()}"
    _observe_environments()
    dag = DagBag(str(DAGS)).dags["schemamig_upgrade"]
    for line in sys.stdin:
        _answer(dag, json.loads(line), mark, answers)


def _answer(dag: Any, wanted: dict[str, Any], mark: Path, answers: IO[str]) -> None:
    global _script
    _script = _Script(wanted["kills"], wanted["clear"], wanted["arrivals"], mark)
    run = dag.test(run_conf=wanted["conf"], use_executor=True)
    document = {"state": str(run.state), "tries": [vars(item) for item in _script.tries]}
    answers.write(json.dumps(document) + "\n")
    answers.flush()
