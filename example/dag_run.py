"""One run of a DAG by ``airflow dags test``: the real DAG, every task in Airflow's own task runner, without a scheduler."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pendulum

from example.airflow_home import AIRFLOW, airflow_environment

#: What `dags test` logs around each task.
_STARTING = re.compile(r"\[DAG TEST\] starting task_id=(\S+) map_index=(\S+)")


@dataclass(frozen=True, slots=True)
class TaskRun:
    """``seconds`` is None for a task that did not run."""

    task_id: str
    state: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class DagRun:
    tasks: tuple[TaskRun, ...]
    log: Path

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(task.task_id for task in self.tasks if task.state not in ("success", "skipped"))


def run_dag(dag_id: str, params: Mapping[str, Any], log: Path, listen: Callable[[str], None]) -> DagRun:
    """Run the DAG with ``params`` and wait. ``listen`` is told each task as it starts; everything Airflow says goes to ``log``.

    Raises SystemExit, naming the log, if Airflow did not get as far as a run.
    """
    # The logical date names the run: given, it is known afterwards.
    date = pendulum.now("UTC").isoformat()
    command: list[str | Path] = [AIRFLOW, "dags", "test", dag_id, date, "--conf", json.dumps(params)]
    with log.open("w") as to, _start(command) as process:
        assert process.stdout is not None  # it is a pipe
        for line in process.stdout:
            to.write(line)
            if found := _STARTING.search(line):
                listen(found[1] if found[2] == "-1" else f"{found[1]} [{found[2]}]")
    tasks = task_runs(dag_id, date)
    if not tasks:
        raise SystemExit(f"Airflow did not run {dag_id}; its own words are in {log}.")
    return DagRun(tasks, log)


def _start(command: list[str | Path]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, env=airflow_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def task_runs(dag_id: str, date: str) -> tuple[TaskRun, ...]:
    """The run's tasks as Airflow's database has them, in the order they started; those that never started last."""
    command: list[str | Path] = [AIRFLOW, "tasks", "states-for-dag-run", dag_id, date, "--output", "json"]
    answer = subprocess.run(command, env=airflow_environment(), capture_output=True, text=True, check=False)
    # Airflow may log to stdout before it answers; the answer is the line that is a list.
    lines = [line for line in answer.stdout.splitlines() if line.startswith("[{")]
    rows = json.loads(lines[-1]) if lines else []
    rows.sort(key=lambda row: (not row["start_date"], row["start_date"]))
    return tuple(_task_run(row) for row in rows)


def _task_run(row: Mapping[str, str]) -> TaskRun:
    name = row["task_id"] if row["map_index"] in ("", "-1") else f"{row['task_id']} [{row['map_index']}]"
    if not row["start_date"] or not row["end_date"] or row["state"] == "skipped":
        return TaskRun(name, row["state"] or "not run", None)
    start, end = (pendulum.parse(row[key]) for key in ("start_date", "end_date"))
    assert isinstance(start, pendulum.DateTime) and isinstance(end, pendulum.DateTime)  # both are times, not durations
    return TaskRun(name, row["state"], (end - start).total_seconds())
