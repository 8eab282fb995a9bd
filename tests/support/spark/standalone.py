"""A standalone Spark cluster of the tests' own: a master and workers of pip's pyspark, on this machine's loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_schemamig.core.spark.launch import spark_submit_command
from tests.support.spark.connect import free_port

_START_SECONDS = 180.0


@dataclass
class Cluster:
    """``workers``: their processes, each the leader of a group."""

    folder: Path
    port: int = field(default_factory=free_port)
    page: int = field(default_factory=free_port)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def state(self) -> dict[str, Any]:
        """What the master says of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def submits(self) -> int:
        """How many applications were ever submitted to it."""
        found = self.state()
        return len(found["activeapps"]) + len(found["completedapps"])

    def kill_worker(self, number: int) -> None:
        """As a machine that is gone, with its executors."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command, environment = spark_submit_command()
        local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(self.folder)}
        command = [str(Path(command[0]).with_name("spark-class")), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]
        with (self.folder / "cluster.log").open("a") as log:
            return subprocess.Popen(command, env=environment | local, stdout=log, stderr=log, cwd=self.folder, start_new_session=True)


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster of workers with a core each; all of it is gone afterwards, whatever happens."""
    cluster = Cluster(folder)
    processes = [cluster.start("master.Master", "--port", str(cluster.port), "--webui-port", str(cluster.page))]
    try:
        for number in range(workers):
            own = [
                "--work-dir",
                str(folder / f"worker-{number}"),
                "--port",
                str(free_port()),
                "--webui-port",
                str(free_port()),
                "--cores",
                "1",
                "--memory",
                "1g",
            ]
            cluster.workers.append(cluster.start("worker.Worker", *own, cluster.url))
        _wait(cluster, workers)
        yield cluster
    finally:
        for process in [*cluster.workers, *processes]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(cluster: Cluster, workers: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):  # its page is there before what it shows
            if cluster.state()["aliveworkers"] == workers:
                return
        time.sleep(0.3)
    raise AssertionError(f"the cluster did not come up:\n{(cluster.folder / 'cluster.log').read_text()}")
