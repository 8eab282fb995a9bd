"""Start-up is part of the contract: what is imported, measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("deltalake", "pyarrow", "obstore", "sqlglot", "pyspark", "py4j", "delta", "fastapi", "pandas", "airflow", "rich", "pendulum")

#: Runs the command line and prints to stderr, as the last line, which of the heavy packages it imported.
PROBE = """
import atexit, json, sys
heavy = json.loads(sys.argv.pop(1))
atexit.register(lambda: print(json.dumps([name for name in heavy if name in sys.modules]), file=sys.stderr))
from airflow_provider_schemamig.cli.main import main
main()
"""


def imported(*arguments: object, **environment: str) -> set[str]:
    command = [sys.executable, "-c", PROBE, json.dumps(HEAVY), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert ran.returncode in (0, 3), ran.stdout + ran.stderr
    return set(json.loads(ran.stderr.splitlines()[-1]))


def test_help_imports_rich_alone() -> None:
    assert imported("--help") == {"rich"}


def test_a_plan_for_programs_imports_neither_spark_nor_rich(env: Path, old_release: Path) -> None:
    found = imported("plan", "--env", env, "--release", old_release, "--json")
    assert found.isdisjoint({"pyspark", "py4j", "delta", "fastapi", "pandas", "airflow", "rich"})


def test_a_schema_status_is_light(env: Path) -> None:
    found = imported("schema", "status", "--cluster", "--env", env, "--json", JAVA_HOME="/nonexistent", PATH="/nonexistent")
    assert found.isdisjoint({"sqlglot", "pyspark", "py4j", "delta", "fastapi", "pandas", "airflow", "rich"})


@pytest.mark.parametrize("command", ["plan", "upgrade"])
def test_schema_only_work_needs_no_java(env: Path, new_release: Path, command: str) -> None:
    found = imported(command, "--env", env, "--release", new_release, "--json", JAVA_HOME="/nonexistent", PATH="/nonexistent")
    assert found.isdisjoint({"pyspark", "py4j"})


def test_the_probe_sees_what_is_imported(env: Path) -> None:
    assert imported("ledger", "dump", "--env", env) >= {"rich", "pendulum"}
