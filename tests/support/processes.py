"""Processes that a test started, and waiting for what they do."""

from __future__ import annotations

import contextlib
import os
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
    return list(in_group(group).values())


def in_group(group: int) -> dict[int, str]:
    """The same, by process id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _parent, process_group, *_ = rest.split()
        if int(process_group) == group and state not in "ZX":
            found[int(path.parent.name)] = name
    return found


def listening(pid: int) -> set[str]:
    """Where a process takes TCP connections, as ``address:port``; an IPv6 address in Linux's hexadecimal."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(link))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                address, _, port = local.partition(":")
                shown = ".".join(map(str, reversed(bytes.fromhex(address)))) if table == "tcp" else address
                found.add(f"{shown}:{int(port, 16)}")
    return found


def drivers(pid: int) -> list[int]:
    """The Spark drivers that ``pid`` has submitted; each leads a process group of its own."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            with contextlib.suppress(FileNotFoundError):
                if b"--exchange-uri" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(child)
    return found
