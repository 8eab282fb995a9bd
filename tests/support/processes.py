"""Processes that a test started, and waiting for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def wait_until(condition: Callable[[], object], seconds: float = 20, *, pause_seconds: float = 0.05) -> None:
    """Look until it holds; the generous limit is for a loaded machine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(pause_seconds)


def alive_in_group(group: int) -> list[str]:
    """The command names in a process group, those that have ended but were not yet waited for left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _parent, process_group, *_ = rest.split()
        if int(process_group) == group and state not in "ZX":
            found.append(name)
    return found


def children(pid: int) -> list[int]:
    """The processes that ``pid`` started and has not waited for."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
