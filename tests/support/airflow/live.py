"""An Airflow as a deployment has it: scheduler, DAG processor, triggerer and api-server, each a process of its own that may be killed."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from example import airflow_home
from tests.support.airflow.home import DAGS, ROOT
from tests.support.processes import alive_in_group, wait_until

#: Each with its switches, as `make airflow` starts it.
PARTS = {name: tuple(switches) for name, *switches in airflow_home.PARTS}
_AIRFLOW = Path(sys.executable).with_name("airflow")


@dataclass
class LiveAirflow:
    """``home``: with everything of it, the logs too. ``port``: of its API, on this machine only; ``password``: of its admin."""

    home: Path
    port: int
    environment: dict[str, str]
    password: str
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _token: str = ""

    def start(self, part: str) -> None:
        """In a process group of its own, as in a container."""
        with self.log(part).open("ab") as log:
            command = [str(_AIRFLOW), part, *PARTS[part]]
            self._running[part] = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, cwd=self.home, start_new_session=True
            )

    @contextmanager
    def second_server(self, port: int, more: Mapping[str, str]) -> Iterator[None]:
        """Another api-server on the same database, with these settings of its own."""
        with self.log("api-server-2").open("ab") as log:
            command = [str(_AIRFLOW), "api-server"]
            server = subprocess.Popen(
                command, env={**self.environment, **more}, stdout=log, stderr=log, cwd=self.home, start_new_session=True
            )
            try:
                wait_until(lambda: _listens(port), 120)
                yield
            finally:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()

    def kill(self, part: str) -> None:
        """``kill -9``, with all that it started."""
        process = self._running.pop(part)
        with contextlib.suppress(ProcessLookupError):  # it ended by itself; the other parts are to be ended all the same
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not alive_in_group(process.pid))

    def close(self) -> None:
        for part in list(self._running):
            self.kill(part)

    def log(self, part: str) -> Path:
        return self.home / f"{part}.log"

    def groups(self) -> list[int]:
        """The process groups of its parts."""
        return [process.pid for process in self._running.values()]

    def died(self) -> list[str]:
        return [part for part, process in self._running.items() if process.poll() is not None]

    # --- what a person sees --------------------------------------------------------------------------------------------------------

    def ask(self, path: str, method: str = "GET", body: Mapping[str, Any] | None = None) -> Any:
        """The REST API's answer to a person who is logged in."""
        assert not self.died(), f"{self.died()} ended; see {self.home}"
        if not self._token:
            self._token = self._send("/auth/token", "POST", {"username": "admin", "password": self.password})["access_token"]
        return self._send(f"/api/v2/{path}", method, body)

    def _send(self, path: str, method: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def unpause(self, dag_id: str) -> None:
        """Waits until the DAG is known."""
        wait_until(lambda: dag_id in [dag["dag_id"] for dag in self._known("dags")["dags"]], 180)
        self.ask(f"dags/{dag_id}", "PATCH", {"is_paused": False})

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """The oldest first."""
        found: list[dict[str, Any]] = self.ask(f"dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]
        return found

    def tasks(self, dag_id: str, run_id: str) -> dict[tuple[str, int], dict[str, Any]]:
        """By task and map index."""
        found = self.ask(f"dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"]
        return {(task["task_id"], task["map_index"]): task for task in found}

    def _known(self, path: str) -> Any:
        """While the server may not be up yet."""
        try:
            return self.ask(path)
        except OSError:
            return {"dags": []}


@contextmanager
def live_airflow(home: Path, *dags: str, **more: str) -> Iterator[LiveAirflow]:
    """All its parts, running, with these shipped DAG files alone; gone afterwards, whatever happens. ``more``: variables."""
    home.mkdir()
    (home / "dags").mkdir()
    for dag in dags:
        shutil.copy(DAGS / dag, home / "dags")
    port, password = free_port(), secrets.token_hex(16)
    (home / "passwords.json").write_text(json.dumps({"admin": password}))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__PARALLELISM": "3",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        **more,
    }
    found = LiveAirflow(home, port, environment, password)
    with found.log("db").open("ab") as log:
        subprocess.run([_AIRFLOW, "db", "migrate"], env=environment, stdout=log, stderr=log, cwd=home, check=True)
    try:
        for part in PARTS:
            found.start(part)
        yield found
    finally:
        found.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
