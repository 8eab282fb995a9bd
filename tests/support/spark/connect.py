"""A Spark Connect server of the tests' own."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from airflow_provider_schemamig.core.spark.launch import spark_submit_command
from airflow_provider_schemamig.core.spark.session import settings_for

_running: dict[str, subprocess.Popen[bytes]] = {}


def kill_server(url: str) -> None:
    """As a machine that is gone: nothing of it answers any more."""
    os.killpg(_running[url].pid, signal.SIGKILL)
    _running.pop(url).wait()


def hold_server(url: str, *, on: bool) -> None:
    """As a machine that hangs: its connections stay, and nothing of it answers until it goes ``on``."""
    os.killpg(_running[url].pid, signal.SIGCONT if on else signal.SIGSTOP)


def limit_files(url: str, size_bytes: int) -> None:
    """As a disk that is full: no file of the server may grow beyond this from now on."""
    resource.prlimit(_running[url].pid, resource.RLIMIT_FSIZE, (size_bytes, size_bytes))


@contextmanager
def connect_server(
    folder: Path, settings: Mapping[str, str] = MappingProxyType({}), master: str = "local[1]", port: int | None = None
) -> Iterator[str]:
    """The URL of a server with Delta, in a process group of its own that is gone afterwards, whatever happens; its log is in ``folder``.

    ``port``: that of a server that was killed, as one that is started anew has it.
    """
    port = port or free_port()
    listening = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    command, environment = spark_submit_command()
    command += ["--master", master, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in {**settings_for(master), **listening, **settings}.items():
        command += ["--conf", f"{name}={value}"]
    with (folder / "server.log").open("w") as log:
        command.append("spark-internal")
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True)
    url = f"sc://127.0.0.1:{port}"
    _running[url] = process
    try:
        _wait(process, port, folder / "server.log")
        yield url
    finally:
        _running.pop(url, None)
        with contextlib.suppress(ProcessLookupError):  # killed by its test, and waited for there
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Wire:
    """A way to a server that can be cut: then its connections stay, nothing comes through, and nobody listens at its address."""

    def __init__(self, url: str) -> None:
        self._to = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_cut = threading.Event()
        self.url = f"sc://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_cut.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it was cut
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if self._is_cut.is_set():
                    threading.Event().wait(600)  # neither an end nor a reset
                other.sendall(data)
            other.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"the Connect server did not come up:\n{log.read_text()}")
