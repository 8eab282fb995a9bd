"""Benchmarks of the page in Airflow: what a look takes, and how much larger the api-server gets by it, with the process that reads."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pendulum

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from bench.schema_only import lake
from bench.tools.airflow_home import AIRFLOW, make_home
from bench.tools.table import Row, cell

COLLECTIONS, ENTRIES, TIMES = 1_000, 10_000, 15
VIEWS = {
    "environments": "/",
    "deployment": "/env/lake/deployments/newest",
    "tables": "/env/lake/tables",
    "one table": "/env/lake/tables/t1",
    "drift": "/env/lake/drift",
    "streams": "/env/lake/streams",
    "history": "/env/lake/history",
    "history, filtered": "/env/lake/history?who=ann&first=1",
}
#: For an api-server that has Airflow and this provider, and nothing of what the page needs.
_BARE = """
import importlib.util, sys
_find, _gone = importlib.util.find_spec, ("deltalake", "obstore", "pyarrow", "sqlglot")
importlib.util.find_spec = lambda name, package=None: None if name in _gone else _find(name, package)
class _Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in _gone:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, _Gone())
"""


def page(folder: Path) -> Iterator[Row]:
    """Each view from a running api-server, once what it shows was read; then the memory of both processes."""
    _, _, env = lake(folder, COLLECTIONS)
    now = pendulum.now("UTC")
    entries = [HistoryEntry.ended("pause", now.subtract(seconds=n), who="ann", detail=f"number {n}") for n in range(ENTRIES)]
    append_history(Environment.open(env), *entries)
    home = _home(folder / "airflow", env)
    bare = folder / "bare"
    bare.mkdir()
    (bare / "sitecustomize.py").write_text(_BARE)
    with _server(home, {"PYTHONPATH": str(bare)}) as server:
        without = server.mib()
        answers = server.get("/api/v2/version")[0] == 200 and b"schemamig.css" not in server.get("/schemamig/")[1]
    yield Row("api-server without the page's libraries", cell("starts, no page" if answers else "FAILS"), goal="starts")
    with _server(home, {}) as server:
        for name, path in VIEWS.items():
            server.read(path)
            yield Row(
                f"{name}, {COLLECTIONS:,} collections, {ENTRIES:,} entries of history",
                cell("{:.0f} ms, {:.0f} kB", *server.look(path)),
                goal="200 ms",
            )
        child = server.reading_process()
        after = server.mib()
        yield Row("api-server after these looks", cell("{:.0f} MiB", after), cell("{:.0f} MiB without the page", without))
        yield Row("  more by the page", cell("{:.0f} MiB", after - without), goal="30 MiB")
        yield Row("process that reads, at its peak", cell("{:.0f} MiB", _mib(child, "VmHWM")), goal="300 MiB")


@dataclass
class _Server:
    process: subprocess.Popen[bytes]
    port: int
    token: str = ""

    def get(self, path: str) -> tuple[int, bytes]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, b""

    def read(self, path: str) -> None:
        """Look until it is there."""
        while b"reading" in self.get(f"/schemamig{path}")[1]:
            time.sleep(0.2)

    def look(self, path: str) -> tuple[float, float]:
        """Return the median milliseconds of a look, at the pace of a page, and its kilobytes."""
        took, size = [], 0
        for _ in range(TIMES):
            began = time.perf_counter()
            status, found = self.get(f"/schemamig{path}")
            took.append((time.perf_counter() - began) * 1000)
            assert status == 200, (path, status)
            size = len(found)
            time.sleep(0.3)
        return statistics.median(took), size / 1000

    def mib(self) -> float:
        """Of the api-server's processes, the reading one left out."""
        return sum(_mib(pid, "VmRSS") for pid in _family(self.process.pid) if not _reads(pid))

    def reading_process(self) -> int:
        return next(pid for pid in _family(self.process.pid) if _reads(pid))


def _reads(pid: int) -> bool:
    return b"schemamig.web.child" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _family(pid: int) -> list[int]:
    children = [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]
    return [pid, *(found for child in children for found in _family(child))]


def _mib(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{what}:")), 0.0)


def _home(home: Path, env: str) -> dict[str, str]:
    home.mkdir()
    (home / "dags").mkdir()
    (home / "passwords.json").write_text(json.dumps({"admin": "bench"}))
    more = {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "schemamig", "extra": {"environment_uri": env}}),
    }
    return make_home(home, home / "dags", more)


@contextmanager
def _server(environment: dict[str, str], more: dict[str, str]) -> Iterator[_Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [AIRFLOW, "api-server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        command, env={**environment, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        found = _Server(process, port)
        found.token = _logged_in(port)
        for _ in range(10):  # what every page of Airflow's loads
            found.get("/api/v2/dags")
            found.get("/api/v2/plugins")
        yield found
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _logged_in(port: int) -> str:
    body = json.dumps({"username": "admin", "password": "bench"}).encode()
    for _ in range(600):
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/auth/token", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                return str(json.load(answer)["access_token"])
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("the api-server did not begin to answer")
