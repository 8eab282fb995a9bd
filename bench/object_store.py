"""An environment in an object store that answers each request after 50 ms (``slow_store``): seconds, and requests a table."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.schema_only import SCHEMAMIG, releases
from bench.tools.measure import Usage, run
from bench.tools.table import Row, cell

LATENCY_MS = 50
#: Collections -> seconds that plan, upgrade and status may take.
GOALS = {200: {"plan": "2 s", "upgrade": "8 s"}, 1_000: {"plan": "6 s", "upgrade": "25 s", "status": "6 s"}}
REQUEST_GOALS = {"plan": "1.2 a table", "upgrade": "5 a table"}
#: Seconds a table, by requests one after the other. What an environment of 1,000 took at 2e44944: 0.22 s a table and look, 1.1 s a table
#: and upgrade; a rollback of 400 took 75 s behind one lock.
BEFORE = {"plan": 0.22, "upgrade": 1.1, "status": 0.2, "rollback": 0.19}


@dataclass(frozen=True, slots=True)
class SlowStore:
    """A running ``slow_store``."""

    endpoint: str

    def taken(self) -> int:
        """Return how many requests there were since this was asked last."""
        with urllib.request.urlopen(f"{self.endpoint}/_requests") as answer:
            found: dict[str, int] = json.load(answer)
        return sum(found.values())

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment of a process that uses it."""
        options = {
            "aws_endpoint": self.endpoint,
            "aws_allow_http": "true",
            "aws_access_key_id": "bench",
            "aws_secret_access_key": "bench",
            "aws_region": "us-east-1",
            "schemamig.conditional_log_store": "true",
        }
        return {"SCHEMAMIG_STORAGE_OPTIONS": json.dumps(options)}


@contextlib.contextmanager
def slow_store(latency_ms: float = LATENCY_MS) -> Iterator[SlowStore]:
    server = subprocess.Popen([sys.executable, "-m", "bench.tools.slow_store", str(latency_ms)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield SlowStore(f"http://127.0.0.1:{server.stdout.readline().strip()}")
    finally:
        server.kill()
        server.wait()


def far_away(folder: Path) -> Iterator[Row]:
    for tables in GOALS:
        yield from _measured(folder / str(tables), tables)


def _measured(folder: Path, tables: int) -> Iterator[Row]:
    first, second = releases(folder, tables)
    with slow_store() as store:

        def command(name: str, *options: str, expect: tuple[int, ...] = (0,)) -> tuple[Usage, int]:
            usage = run([SCHEMAMIG, name, "--env", "s3://bench/lake", "--json", *options], expect, store.variables)
            return usage, store.taken()

        command("upgrade", "--release", str(first), "--create")
        found = {"plan": command("plan", "--release", str(second), expect=(3,))}
        found["upgrade"] = command("upgrade", "--release", str(second))
        found["status"] = command("status")
        found["rollback"] = command("rollback")
    for name, (usage, requests) in found.items():
        yield Row(
            f"{name}, {tables:,} collections at {LATENCY_MS} ms a request",
            cell("{:.1f} s wall, {:.1f} s CPU", usage.wall_s, usage.cpu_s),
            cell(f"one after the other: about {BEFORE[name] * tables:,.0f} s"),
            goal=GOALS[tables].get(name, ""),
        )
        yield Row("  requests a table", cell("{:.2f}", requests / tables), goal=REQUEST_GOALS.get(name, ""))
