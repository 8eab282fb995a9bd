"""Whole-process figures, taken from the operating system's own accounting of finished children."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: As wherever it is installed: a shell that forbids byte code would have all modules compiled by each command.
_BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": ""}
_CHILD = str(Path(__file__).with_name("child.py"))


@dataclass(frozen=True, slots=True)
class Usage:
    """One finished process: seconds of wall and CPU (user + system), peak resident memory in MiB, its output."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str


def run(command: Sequence[str], expect: Sequence[int] = (0,), env: dict[str, str] | None = None) -> Usage:
    """Run a command to its end. Raises RuntimeError with its output if the exit code is not among ``expect``."""
    report, write = os.pipe()
    done = subprocess.run(
        [sys.executable, "-I", "-S", _CHILD, str(write), *command],
        capture_output=True,
        env={**os.environ, **_BYTE_CODE, **(env or {})},
        pass_fds=[write],
        text=True,
        check=False,
    )
    os.close(write)
    with os.fdopen(report) as found:
        taken = found.read().split()
    if not taken or int(taken[3]) not in expect:
        raise RuntimeError(f"{' '.join(map(str, command))} exited {taken[3:]}:\n{done.stdout}\n{done.stderr}")
    return Usage(float(taken[0]), float(taken[1]), float(taken[2]) / 1024, done.stdout)


def run_warm(command: Sequence[str], expect: Sequence[int] = (0,)) -> Usage:
    """Run a command twice and return what the second run took: the first one writes byte code and fills the file cache."""
    run(command, expect)
    return run(command, expect)


def median_ms(times: int, work: Callable[[int], object]) -> float:
    """Return the median milliseconds of ``work(0..times-1)`` in this process."""
    found = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        found.append((time.perf_counter() - started) * 1000)
    return statistics.median(found)


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process while ``work`` runs."""
    started = time.process_time()
    work()
    return time.process_time() - started


def floor_commits(folder: Path, tables: int, size_bytes: int = 1_500) -> tuple[float, float]:
    """Return the (CPU, wall) seconds of the least a durable commit on ``tables`` tables can be: write, fsync, link, fsync of the folder."""
    data = b"x" * size_bytes
    for number in range(tables):
        (folder / f"t{number}").mkdir(parents=True)
    started, cpu = time.perf_counter(), time.process_time()
    for number in range(tables):
        table = folder / f"t{number}"
        temporary = table / ".tmp"
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(handle, data)
        os.fsync(handle)
        os.close(handle)
        os.link(temporary, table / "1.json")
        os.unlink(temporary)
        directory = os.open(table, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
    return time.process_time() - cpu, time.perf_counter() - started
