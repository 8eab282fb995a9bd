"""A full disk is one message: no trace of the library that met it before that, and nothing else is hidden."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_provider_schemamig.cli.library_output import without_panics

PLACE = "/build/.cargo/registry/src/index-1949cf8c6b5b557f"
PANIC = f"""
thread 'tokio-rt-worker' (21962) panicked at {PLACE}/object_store-0.13.2/src/buffered.rs:369:41:
Already shut down
stack backtrace:
   0: std::panicking::begin_panic
             at {PLACE}/object_store-0.13.2/src/buffered.rs:369:41
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
ANOTHER = PANIC.replace("Already shut down", "index out of bounds")
ELSEWHERE = PANIC.replace("buffered.rs", "local.rs")


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("", ""),
        ("a\n\nb\n", "a\n\nb\n"),
        (PANIC, ""),
        (f"before\n{PANIC}{PANIC}after\n\nend\n", "before\nafter\n\nend\n"),
        (ANOTHER, ANOTHER),
        (ELSEWHERE, ELSEWHERE),
        (f"{PANIC}{ANOTHER}", ANOTHER),
    ],
    ids=["nothing", "plain", "panic", "panics between lines", "another panic", "a panic elsewhere", "both"],
)
def test_library_output_only_the_panic_after_a_failed_write_is_hidden(printed: str, shown: str) -> None:
    assert "".join(without_panics(printed.splitlines(keepends=True))) == shown


_COMMAND = f"""
import os, sys
from airflow_provider_schemamig.cli.output import Answer, answered

@answered
def command(*, as_json):
    os.write(2, {PANIC!r}.encode())
    os.write(2, b"from a library\\n")
    os.write(1, b"from another\\n")
    print("from Python", file=sys.stderr)
    return Answer({{}}, lambda to: to.print("the answer"))

command(as_json=False)
"""


@pytest.mark.parametrize(("debug", "panics"), [("", 0), ("1", 1)], ids=["plain", "debug"])
def test_a_command_shows_all_else(debug: str, panics: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND], capture_output=True, text=True, env={"SCHEMAMIG_DEBUG": debug}, check=False, timeout=60
    )
    assert done.stdout == "the answer\n"
    assert done.stderr.count("panicked") == panics
    for line in ("from a library", "from another", "from Python"):
        assert done.stderr.count(line) == 1, done.stderr
