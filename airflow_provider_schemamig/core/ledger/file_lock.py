"""Writers take turns.

Compare-and-append alone is correct but not fair: who has just won knows the state without reading and wins again, and a newcomer that
has to read first can lose for minutes (seen: 137 appends to 1; on an object store 18,289 to none of seven others). An advisory lock on
local disks gives everybody a turn; elsewhere who has appended often in a row leaves gaps. Nothing rests on either.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Iterator

from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

#: A holder that takes longer (stopped, or deciding on a Spark job) does not hold up the others.
_PATIENCE_SECONDS = 2.0
#: Left free after each turn, and polled in: longer than a poll, so that whoever waits gets in.
_GAP_SECONDS = 0.002
#: Elsewhere: so many appends of one process in a row are more than any command makes, so that no command waits where it is alone.
_IN_A_ROW = 16
#: The longest gap, in times of what an append took: whoever lost reads two objects for each commit that he missed.
_LONGEST_GAP = 16


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
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(random.uniform(_GAP_SECONDS / 4, _GAP_SECONDS))
        except OSError:  # a file system without locks
            return
        else:
            return


def leave_gap(env: EnvironmentRoot, in_a_row: int, took_seconds: float) -> None:
    """Wait where there is no lock and this process alone has appended for long. ``took_seconds``: what its last append took."""
    if env.location.local_path is None and in_a_row > _IN_A_ROW:
        time.sleep(random.uniform(0, _LONGEST_GAP * took_seconds))
