"""What Spark's Java process prints: passed on to standard error, but for what every start prints and nobody needs."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
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
_LAST_WORDS_SECONDS = 2.0


def is_noise(line: str) -> bool:
    """Return whether every start prints such a line."""
    return _NOISE.match(line) is not None


def pass_on(lines: Iterable[str]) -> None:
    """Print to standard error what is no noise, until there is no more; what cannot be printed is dropped."""
    for line in lines:
        text = line.rstrip("\r\n")
        if text and not is_noise(text):
            try:
                sys.stderr.write(visible(text) + "\n")
                sys.stderr.flush()
            except (OSError, ValueError):  # closed: the process is on its way out, and Java must not wait for a full pipe
                continue


@contextmanager
def passed_on() -> Iterator[int]:
    """Yield the file descriptor that a process started inside may print to for as long as it lives."""
    read_end, write_end = os.pipe()
    lines = os.fdopen(read_end, encoding="utf-8", errors="replace")
    reader = threading.Thread(target=pass_on, args=(lines,), name="schemamig-java-output", daemon=True)
    reader.start()
    try:
        yield write_end
    except BaseException:
        os.close(write_end)
        reader.join(_LAST_WORDS_SECONDS)  # why it did not start stands before the error that says so
        raise
    os.close(write_end)
