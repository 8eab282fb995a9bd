"""The services of docker-compose.yml as processes of this machine, without Docker: own command, own environment, own health check.

What the file says of places is said anew: a service is 127.0.0.1, each of its ports a free one, each mount a folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from tests.support.airflow.home import ROOT
from tests.support.processes import wait_until
from tests.support.spark.connect import free_port

COMPOSE = ROOT / "docker-compose.yml"
#: Where the image has the project.
IMAGE = "/opt/schemamig"
#: In URLs, in a connection's JSON and in switches; or a port that a switch names alone.
_ADDRESS = re.compile(r'(--host |[/@])([\w.-]+)(:|", "port": | --port )(\d+)|(--(?:webui-)?port )(\d+)')
#: What a browser on this machine asks; any other 127.0.0.1 of the file is the service itself.
_BROWSER = "AIRFLOW__API__BASE_URL"
#: Longer than the file's, for a busy machine: Airflow takes a minute to start there.
_PATIENCE_SECONDS = 300.0
_INTERVAL_SECONDS = 2.0
#: Which Airflow takes unasked, in each container again.
_PORTS = {"AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": "8793", "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": "8794"}
#: Of the environment of whoever starts the tests: which Java there is, and how they start it.
_KEPT = ("JAVA_HOME", "JDK_JAVA_OPTIONS")
#: By this variable all that a service started is known, whatever its process group.
_MARK = "SCHEMAMIG_BY_HAND"


@dataclass
class ByHand:
    """``folder``: takes logs, volumes but those in ``volumes``, and what a service keeps for itself. ``images``: for services of another
    image than the Dockerfile's, what that one sets."""

    folder: Path
    volumes: dict[str, Path] = field(default_factory=dict)
    images: dict[str, Mapping[str, str]] = field(default_factory=dict)
    services: dict[str, Any] = field(default_factory=lambda: yaml.safe_load(COMPOSE.read_text())["services"])
    _ports: dict[tuple[str, str], int] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    # --- what the file says, on this machine -----------------------------------------------------------------------------------------

    def port(self, service: str, port: str) -> int:
        """The free port that stands for this one of the service."""
        if (service, port) not in self._ports:
            self._ports[service, port] = free_port()
        return self._ports[service, port]

    def here(self, service: str, text: str, *, in_browser: bool = False) -> str:
        """The text with the places that they are here."""
        places = self._places(service)

        def address(match: re.Match[str]) -> str:
            before, host, between, port, switch, alone = match.groups()
            if switch:
                return f"{switch}{self.port(service, alone)}"
            owner, inside = self._published()[port] if in_browser else (host if host in self.services else service, port)
            return f"{before}127.0.0.1{between}{self.port(owner, inside)}"

        paths = "|".join(map(re.escape, sorted(places, key=len, reverse=True)))
        pieces = re.split(rf"(?<![\w.-])({paths})(?![\w.-])", text.replace("$$", "$"))
        return "".join(str(places[piece]) if piece in places else _ADDRESS.sub(address, piece) for piece in pieces)

    def _places(self, service: str) -> dict[str, Path]:
        """The folders that it sees: those of its image, its own, and what is mounted."""
        own = self.folder / service
        own.mkdir(exist_ok=True)
        places = {IMAGE: ROOT, "/tmp": own}
        for mount in self.services[service]["volumes"]:
            source, target, *_ = mount.split(":")
            places[target] = ROOT / source if source.startswith(".") else self.volumes.setdefault(source, self.folder / source)
            places[target].mkdir(exist_ok=True)
        return places

    def _published(self) -> dict[str, tuple[str, str]]:
        """Which service, and which of its ports, a port of this machine is."""
        found = (
            (name, port.rpartition(":")[2], port.split(":")[1]) for name, each in self.services.items() for port in each.get("ports", [])
        )
        return {outside: (name, inside) for name, inside, outside in found}

    def environment(self, service: str) -> dict[str, str]:
        """What a container has of itself, what its image adds, and the service's own."""
        own = str(self._places(service)["/tmp"])
        found = {name: os.environ[name] for name in _KEPT if name in os.environ} | {_MARK: str(self.folder), "PATH": os.environ["PATH"]}
        found |= {"HOME": own, "TMPDIR": own, "LANG": "C.UTF-8", "HOSTNAME": socket.gethostname(), "SPARK_LOCAL_IP": "127.0.0.1"}
        found |= {name: str(self.port(service, port)) for name, port in _PORTS.items()}
        image = self.images.get(service) or {name: self.here(service, value) for name, value in dockerfile_environment().items()}
        found |= {name: value.replace("$PATH", found["PATH"]) for name, value in image.items()}
        given = self.services[service]["environment"]
        return found | {name: self.here(service, value, in_browser=name == _BROWSER) for name, value in given.items()}

    # --- processes -------------------------------------------------------------------------------------------------------------------

    def order(self) -> Iterable[str]:
        """The services, each after those that it needs."""
        return TopologicalSorter({name: each.get("depends_on", {}) for name, each in self.services.items()}).static_order()

    def wait_for_needs(self, service: str) -> None:
        for needed, need in self.services[service].get("depends_on", {}).items():
            if need["condition"] == "service_completed_successfully":
                assert self._running[needed].wait(_PATIENCE_SECONDS) == 0, self.told(needed)
            else:
                self.wait_until_healthy(needed)

    def start(self, service: str, command: Sequence[str | Path] = (), **more: Any) -> None:
        """Run the file's command, or else the image's, in a process group of its own. ``more``: of Popen."""
        command = command or shlex.split(self.here(service, self.services[service]["command"]))
        more = {"env": self.environment(service), "cwd": ROOT, **more}
        with self._log(service).open("ab") as log:
            self._running[service] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **more)

    def healthy(self, service: str) -> bool:
        """Check once, as the file says."""
        check = self.services[service]["healthcheck"]
        kind, *words = (self.here(service, word) for word in check["test"])
        command = words if kind == "CMD" else ["/bin/sh", "-c", *words]
        options: dict[str, Any] = {"env": self.environment(service), "timeout": float(check["timeout"].removesuffix("s"))}
        with self._log(service).open("ab") as log, contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(command, stdout=log, stderr=log, check=False, **options).returncode == 0
        return False

    def wait_until_healthy(self, service: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.healthy(service):
            assert self.is_alive(service) and time.monotonic() < deadline, self.told(service)
            time.sleep(_INTERVAL_SECONDS)

    def is_alive(self, service: str) -> bool:
        return self._running[service].poll() is None

    def told(self, service: str) -> str:
        return f"{service}:\n{self._log(service).read_text()[-6000:]}"

    def stop(self, service: str, number: int) -> None:
        """Send the signal, and kill what is left of its group."""
        process = self._running.pop(service)
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def down(self) -> None:
        """End all of it, the last one first, and what has left its group. Postgres, if killed, would leave shared memory behind."""
        for service in reversed([*self._running]):
            self.stop(service, signal.SIGINT if service in self.images else signal.SIGKILL)
        wait_until(lambda: not self._kill_strays())

    def _kill_strays(self) -> bool:
        """Whether there were any."""
        mark, found = f"{_MARK}={self.folder}\0".encode(), False
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes():
                    found = True
                    os.kill(int(path.parent.name), signal.SIGKILL)
        return found

    def _log(self, service: str) -> Path:
        return self.folder / f"{service}.log"


def dockerfile_environment() -> dict[str, str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    words = (word for line in re.findall(r"^ENV (.*)$", text, re.MULTILINE) for word in shlex.split(line))
    return {name: value for name, _, value in (word.partition("=") for word in words)}
