"""DAG runs whose tasks are killed: real task processes, forked and watched by Airflow's own supervisor, that SIGKILL themselves at a
chosen write and are then cleared, as a person would.

This is the test's side; ``killing_executor`` is the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

_OTHER_SIDE = "tests.support.airflow.killing_executor"


@dataclass(frozen=True)
class Kill:
    """Die at the ``count``-th write moment that is like this; empty fields are like any. As ``Environment.on_write`` tells moments:
    ``when`` "before" or "after"; ``what`` "ledger", "history", "put_if_absent" (a commit of a table), "put", "delete" or "delete_tree"."""

    when: str = ""
    what: str = ""
    count: int = 1


@dataclass(frozen=True)
class Try:
    """One try of a task. ``killed`` says at which write, None if it ended by itself."""

    task: str
    number: int
    killed: str | None


@dataclass
class KilledRun:
    """The end of a DAG run: its state, its tasks' states, and all tries in the order they began."""

    state: str
    states: dict[str, str]
    tries: list[Try]

    @property
    def killed(self) -> dict[str, str]:
        """Where each killed task died."""
        return {item.task: item.killed for item in self.tries if item.killed is not None}


class KillingRuns:
    """A process that runs the shipped DAG, one run after the other."""

    def __init__(self, log: Path) -> None:
        self._log = log
        environment = os.environ | {"AIRFLOW__CORE__EXECUTOR": f"{_OTHER_SIDE}.KillingExecutor"}
        command = [sys.executable, "-c", f"from {_OTHER_SIDE} import main; main()"]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("ab"), text=True
        )

    def upgrade(
        self,
        release: Path,
        environment: str,
        *,
        kills: Mapping[str, Kill],
        clear: bool = True,
        arrivals: Mapping[str, Sequence[tuple[Path, list[dict[str, Any]]]]] = MappingProxyType({}),
        connections: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        **params: Any,
    ) -> KilledRun:
        """One run of ``schemamig_upgrade``. ``kills``: where the first try of a task dies, by the task's name. It is cleared then, unless
        ``clear`` is off: then the run fails there. ``arrivals``: rows that come in just before a task begins, by the task's name.
        ``connections``: Airflow's, by their ids, each as its JSON form."""
        conf = {"environment": environment, "release": str(release), "gate": "none", **params}
        late = {task: [(str(table), rows) for table, rows in found] for task, found in arrivals.items()}
        at = {task: vars(kill) for task, kill in kills.items()}
        self._send({"conf": conf, "connections": dict(connections), "kills": at, "clear": clear, "arrivals": late})
        answer = self._receive()
        return KilledRun(answer["state"], answer["states"], [Try(**item) for item in answer["tries"]])

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
