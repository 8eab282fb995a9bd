"""A stdout or stderr that is closed, or on a full disk: the command does its work, and the answer is given or said to be lost."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_schemamig.cli.streams import without_panics

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
COMMAND = shlex.join([sys.executable, "-m", "airflow_provider_schemamig.cli.main"])


def run(line: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a line of a shell, in which ``schemamig`` is the command."""
    full = line.replace("schemamig", COMMAND)
    environ = {**os.environ, "PYTHONPATH": os.getcwd()}
    ran = subprocess.run(["sh", "-c", full], cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=environ)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture
def lines(env: Path, new_release: Path) -> tuple[str, str]:
    """The lines that upgrade an environment, and that ask at which version it is."""
    return f"schemamig upgrade --env {env} --release {new_release}", f"schemamig status --env {env} --json"


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("where", "code", "told"),
    [
        (">/dev/full", 1, "answer_not_written"),
        ("--json 2>/dev/full", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        (">/dev/full 2>&1", 1, ""),
        ("--json >/dev/full", 1, "answer_not_written"),
        ("2>/dev/full", 0, ""),
        ("2>&-", 0, ""),
        (">&-", 0, ""),
        ("2>&1 | head -1", 0, ""),
    ],
)
def test_streams_that_take_nothing_stop_no_upgrade(lines: tuple[str, str], tmp_path: Path, where: str, code: int, told: str) -> None:
    upgrade, status = lines
    found, stdout, stderr = run(f"{upgrade} {where}", tmp_path)
    assert (found, "Traceback" in stderr, told in stderr) == (code, False, True)
    if "--json" in where and code == 0:
        assert json.loads(stdout)["to"] == "1.1.0"
    assert json.loads(run(status, tmp_path)[1])["version"] == "1.1.0"


def test_streams_whose_reader_went_away_end_the_command(lines: tuple[str, str], tmp_path: Path) -> None:
    assert run(f"{lines[1]} --watch 2>&1 | head -1; true", tmp_path)[0] == 0


def test_streams_whose_reader_never_looked_are_no_traceback(tmp_path: Path) -> None:
    assert run("schemamig --version | true", tmp_path)[2] == ""


def test_help_that_cannot_be_written_is_no_traceback(tmp_path: Path) -> None:
    code, _, stderr = run("schemamig --help >/dev/full", tmp_path)
    assert (code, "Traceback" in stderr, "answer_not_written" in stderr) == (1, False, True)


def test_a_working_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    code, stdout, _ = run("cd gone && rmdir ../gone && schemamig status --env lake --json", tmp_path)
    error = json.loads(stdout)["error"]
    assert (code, error["code"]) == (1, "invalid_location") and "the working directory is gone" in error["message"]


# --- what libraries print --------------------------------------------------------------------------------------------------------------


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
