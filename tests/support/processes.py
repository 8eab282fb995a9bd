"""Processes that a test started."""

from __future__ import annotations

from pathlib import Path


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
