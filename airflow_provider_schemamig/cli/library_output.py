"""What libraries print past Python to the terminal: passed on, but for a panic that follows each write to a full disk.

The write itself fails with an error that says so; the panic is of the thread that cleans up after it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_PANIC = re.compile(r"thread '.*' (\(\d+\) )?panicked at .*object_store\S*/src/buffered\.rs:")
_AFTER_A_FAILED_WRITE = "Already shut down"
_TRACE = re.compile(r"stack backtrace:|\s+\d+: |\s+at |note: (Some details are omitted|run with `RUST_BACKTRACE)")


def without_panics(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines but those of such panics; any other panic stays."""
    held: list[str] = []
    is_trace = False
    for line in lines:
        text = line.rstrip("\r\n")
        if is_trace and _TRACE.match(text):
            continue
        is_trace = False
        if held and _PANIC.match(held[-1]) and text == _AFTER_A_FAILED_WRITE:
            held, is_trace = [], True
        elif _PANIC.match(text) and held in ([], ["\n"]):
            held.append(line)
        else:
            yield from held
            held = []
            if text:
                yield line
            else:
                held = ["\n"]  # a panic begins with an empty line
    yield from held


@contextmanager
def filtered_stderr() -> Iterator[None]:
    """Filter what is written to file descriptor 2 inside; Python's own ``sys.stderr`` goes where it went. SCHEMAMIG_DEBUG: no filter."""
    try:
        is_real = sys.stderr.fileno() == 2 and not os.environ.get("SCHEMAMIG_DEBUG")
    except OSError:  # a test's buffer
        is_real = False
    if not is_real:
        yield
        return
    ours, kept = sys.stderr, os.dup(2)
    read_end, write_end = os.pipe()
    os.dup2(write_end, 2)
    os.close(write_end)
    with os.fdopen(kept, "w", encoding=ours.encoding, errors="backslashreplace", buffering=1) as terminal:
        reader = threading.Thread(target=_pass_on, args=(read_end, kept), name="schemamig-library-output", daemon=True)
        reader.start()
        sys.stderr = terminal
        try:
            yield
        finally:
            sys.stderr = ours
            terminal.flush()
            os.dup2(kept, 2)
            reader.join(1.0)  # a process that was started inside may hold the other end for longer


def _pass_on(read_end: int, to: int) -> None:
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as lines:
        for line in without_panics(lines):
            os.write(to, line.encode())
