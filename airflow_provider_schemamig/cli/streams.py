"""The process's stdout and stderr, and what libraries print past Python to them.

Either may be closed, or be a file on a full disk: neither stops what a command does. What cannot be told on stderr is lost; what cannot be
written to stdout is remembered, and said at the end. A pipe whose reader went away ends a command that writes its answer into it, as
everywhere.

What libraries print is passed on, but for a panic that follows each write to a full disk: the write itself fails with an error that says
so, and the panic is of the thread that cleans up after it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_STDOUT, _STDERR = 1, 2
_PANIC = re.compile(r"thread '.*' (\(\d+\) )?panicked at .*object_store\S*/src/buffered\.rs:")
_AFTER_A_FAILED_WRITE = "Already shut down"
_TRACE = re.compile(r"stack backtrace:|\s+\d+: |\s+at |note: (Some details are omitted|run with `RUST_BACKTRACE)")


class _Remembering(io.FileIO):
    """A file descriptor whose writes never fail, except into a pipe without a reader. ``failure``: the first error of a write."""

    def __init__(self, descriptor: int, *, breaks: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.breaks = breaks
        self.failure: OSError | None = None

    def write(self, text: Any) -> int:
        try:
            return super().write(text)
        except OSError as error:
            if error.errno == errno.EPIPE and self.breaks:
                raise
            self.failure = self.failure or error
            return len(memoryview(text))


def guard_streams() -> None:
    """Make stdout and stderr such files; a descriptor that is closed is opened on nothing, or the next table's file would be it."""
    for descriptor in (0, _STDOUT, _STDERR):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            continue
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    sys.stdout = _guarded(sys.stdout, _STDOUT, breaks=True)
    sys.stderr = _guarded(sys.stderr, _STDERR, breaks=False)


def why_stdout_was_lost() -> str | None:
    """Return why something of stdout could not be written; None if all of it was, or its reader went away."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)  # the interpreter flushes again
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    failure = raw.failure if isinstance(raw, _Remembering) else None
    return None if failure is None else os.strerror(failure.errno or 0).lower()


def _guarded(like: TextIO | None, descriptor: int, *, breaks: bool) -> TextIO:
    encoding = getattr(like, "encoding", None) or "utf-8"
    is_line_buffered = descriptor == _STDERR or os.isatty(descriptor)
    buffer = io.BufferedWriter(_Remembering(descriptor, breaks=breaks))
    errors = getattr(like, "errors", None) or "backslashreplace"
    return io.TextIOWrapper(buffer, encoding=encoding, errors=errors, line_buffering=is_line_buffered)


# --- what libraries print --------------------------------------------------------------------------------------------------------------


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
    terminal = _guarded(ours, kept, breaks=False)
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
        if not reader.is_alive():
            os.close(kept)


def _pass_on(read_end: int, to: int) -> None:
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as lines:
        for line in without_panics(lines):
            with contextlib.suppress(OSError):
                os.write(to, line.encode())
