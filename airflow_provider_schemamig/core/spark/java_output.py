"""What Spark's Java process prints: passed on, at the level that it names, but for what every start prints and nobody needs."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from airflow_provider_schemamig.visible import visible

#: Printed by every start of a healthy local Spark, before its own log level is in force.
_NOISE = re.compile(
    r"WARNING: Using incubator modules: "
    r"|Using Spark's default log4j profile: "
    r"|Setting default log level to "
    r"|To adjust logging level use sc\.setLogLevel"
    r"|Setting Spark log level to "
    r"|.* WARN Utils: Your hostname, .* resolves to a loopback address"
    r"|.* WARN Utils: Set SPARK_LOCAL_IP if you need to bind"
    r"|.* WARN NativeCodeLoader: Unable to load native-hadoop library"
)
_LEVEL = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) |(?:OpenJDK.*)?(WARNING|warning): ")
_LEVELS = {"TRACE": logging.DEBUG, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}
_LAST_WORDS_SECONDS = 2.0

#: Takes a line and its level (``logging``'s).
Hears = Callable[[int, str], None]


def is_noise(line: str) -> bool:
    """Return whether every start prints such a line."""
    return _NOISE.match(line) is not None


def to_stderr(level: int, text: str) -> None:
    """Print the line; what cannot be printed is dropped."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # closed: the process is on its way out, and Java must not wait for a full pipe
        return


def pass_on(lines: Iterable[str], hears: Hears = to_stderr) -> None:
    """Tell what is no noise, until there is no more. A line without a level (of a trace, of Java itself) has that of the one before."""
    level = logging.ERROR
    for line in lines:
        text = line.rstrip("\r\n")
        if text and not is_noise(text):
            if (found := _LEVEL.match(text)) is not None:
                level = _LEVELS.get(found[1] or "", logging.WARNING)
            hears(level, visible(text))


@contextmanager
def passed_on(hears: Hears = to_stderr) -> Iterator[int]:
    """Yield the file descriptor that a process started inside may print to for as long as it lives."""
    read_end, write_end = os.pipe()
    lines = os.fdopen(read_end, encoding="utf-8", errors="replace")
    reader = threading.Thread(target=pass_on, args=(lines, hears), name="schemamig-java-output", daemon=True)
    reader.start()
    try:
        yield write_end
    except BaseException:
        os.close(write_end)
        reader.join(_LAST_WORDS_SECONDS)  # why it did not start stands before the error that says so
        raise
    os.close(write_end)
