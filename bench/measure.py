"""Whole-process figures, taken from the operating system's own accounting of finished children."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """One finished process: seconds of wall and CPU (user + system), peak resident memory in MiB, its output."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str


def run(command: Sequence[str], expect: Sequence[int] = (0,), env: dict[str, str] | None = None) -> Usage:
    """Run a command to its end. Raises RuntimeError with its output if the exit code is not among ``expect``."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
    assert process.stdout is not None and process.stderr is not None
    output, errors = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    if code not in expect:
        raise RuntimeError(f"{' '.join(map(str, command))} exited {code}:\n{output.decode()}\n{errors.decode()}")
    return Usage(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.decode())


def median_of(runs: int, command: Sequence[str], expect: Sequence[int] = (0,)) -> Usage:
    """The run of median CPU among ``runs``, after one that is not counted (byte code, file cache)."""
    run(command, expect)
    found = sorted((run(command, expect) for _ in range(runs)), key=lambda usage: usage.cpu_s)
    return found[len(found) // 2]


def median_ms(times: int, work: Callable[[int], object]) -> float:
    """Median milliseconds of ``work(0..times-1)`` in this process."""
    found = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        found.append((time.perf_counter() - started) * 1000)
    return statistics.median(found)


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process while ``work`` runs."""
    started = time.process_time()
    work()
    return time.process_time() - started


def floor_commits(folder: Path, tables: int, size_bytes: int = 1_500) -> tuple[float, float]:
    """(CPU, wall) seconds of the least a durable commit on ``tables`` tables can be: write, fsync, link, fsync of the folder."""
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
