"""The README's session, line by line on tables of somebody else: what it shows is what the command line prints.

``python -m tests.unit.cli.test_readme`` writes the output into it anew: read the diff.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app

README = Path(__file__).parents[3] / "README.md"
_BLOCK = re.compile(r"```(console|python)\n(.*?)```\n", re.DOTALL)
_MODULE = "rel/migrations/v1_1_0.py"
#: What differs from run to run, and what stands for it.
_VARIES = ((r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME"), (r"\bplan [0-9a-f]{12}\b", "PLAN"), (r"\b\d+\.\d\d$", "S.SS"))


def test_the_session_prints_what_the_readme_shows(tmp_path: Path) -> None:
    text = README.read_text()
    assert _same(played(text, tmp_path)) == _same(text)


def test_readme_goes_there_and_back() -> None:
    shown = re.findall(r"^\$ schemamig (\w+)", README.read_text(), re.MULTILINE)
    assert shown == ["adopt", "new", "snapshot", "plan", "upgrade", "rollback"]


def played(text: str, folder: Path) -> str:
    """Return the README with the output that its commands have here."""
    write_deltalake(folder / "lake/flights", pa.table({"flight_id": [1, 2, 3], "dep_delay": [2.0, 4.0, None]}))
    write_deltalake(folder / "lake/planes", pa.table({"tailnum": ["N14228", "N24211"], "year": [1999, 1998]}))
    here = Path.cwd()
    os.chdir(folder)
    try:
        return _BLOCK.sub(lambda block: f"```{block[1]}\n{_play(block[1], block[2], folder)}```\n", text)
    finally:
        os.chdir(here)


def _play(kind: str, block: str, folder: Path) -> str:
    if kind == "python":
        if "STEPS" in block:
            Path(_MODULE).write_text(block)
        return block
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{output}" for command, output in _run(commands, folder))


def _run(commands: list[str], folder: Path) -> Iterator[tuple[str, str]]:
    """The product in this process, anything else in a shell."""
    for command in commands:
        if command.startswith("schemamig "):
            words = re.findall(r'"[^"]*"|\S+', command)[1:]
            ran = CliRunner().invoke(app, [word.strip('"') for word in words], env={"SCHEMAMIG_ENV": "env"})
            assert ran.exit_code == (3 if words[0] == "plan" else 0), ran.stdout + ran.stderr
            yield command, ran.stdout.replace(str(folder), "/data")
        else:
            yield command, subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


def _same(text: str) -> list[str]:
    for pattern, stands in _VARIES:
        text = re.sub(pattern, stands, text, flags=re.MULTILINE)
    return text.splitlines()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        README.write_text(played(README.read_text(), Path(scratch)))
