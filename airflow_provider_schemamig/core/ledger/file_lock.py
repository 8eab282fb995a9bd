"""Writers take turns.

Compare-and-append alone is correct but not fair: who has just won knows the state without reading and wins again, and a newcomer that
has to read first can lose for minutes (seen: 137 appends to 1; on an object store 18,289 to none of seven others). An advisory lock on
local disks gives everybody a turn; elsewhere who appends again and again with little between leaves gaps. Nothing rests on either.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

#: A holder that takes longer (stopped, or deciding on a Spark job) does not hold up the others.
_WAIT_SECONDS = 2.0
#: Left free after each turn, and polled in: longer than a poll, so that whoever waits gets in.
_GAP_SECONDS = 0.002
#: So many appends of one process, each begun soon after the last one ended, are more than any command makes. From there on one gap in so
#: many is enough where there are short pauses between them, too.
_IN_A_ROW = 16
#: The longest gap, in times of what an append took and in seconds: a process that lost reads two objects for each commit that it missed.
_LONGEST_GAP, _LONGEST_GAP_SECONDS = 16, 1.0
#: Of the time that an append took: after a longer pause a process begins anew, as others got in; after a shorter one none could begin.
_ENOUGH, _NOTHING = 3.0, 0.25


@contextlib.contextmanager
def writing_lock(env: EnvironmentRoot) -> Iterator[None]:
    """Hold the lock of the environment's system folder, or go on without it after two seconds. The kernel frees it when its holder dies."""
    root = env.location.local_path
    try:
        # The folder itself is locked: no lock file that readers, backups and comparisons would have to know.
        descriptor = None if root is None else os.open(root / env.SYSTEM_FOLDER, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # what is wrong there the append will say
        descriptor = None
    if descriptor is None:
        yield
        return
    try:
        _take(descriptor)
        yield
    finally:
        os.close(descriptor)
        time.sleep(_GAP_SECONDS)


def _take(descriptor: int) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(random.uniform(_GAP_SECONDS / 4, _GAP_SECONDS))
        except OSError:  # a file system without locks
            return
        else:
            return


@dataclass(slots=True)
class Streak:
    """The appends of this process since it last left enough time for others to get in."""

    count: int = 0
    took_seconds: float = 0.0
    ended_at: float = 0.0

    def leave_gap(self, env: EnvironmentRoot) -> None:
        """Wait before the next append of a long streak where there is no lock."""
        pause_seconds = time.monotonic() - self.ended_at
        if pause_seconds > _ENOUGH * self.took_seconds:
            self.count = 0
        is_due = pause_seconds < _NOTHING * self.took_seconds or self.count % _IN_A_ROW == 0
        if env.location.local_path is None and self.count > _IN_A_ROW and is_due:
            time.sleep(random.uniform(0, min(_LONGEST_GAP * self.took_seconds, _LONGEST_GAP_SECONDS)))

    def goes_on(self, began: float) -> None:
        """Count an append that ended now. ``began``: by the monotonic clock."""
        self.count, self.ended_at = self.count + 1, time.monotonic()
        self.took_seconds = self.ended_at - began
