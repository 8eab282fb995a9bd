"""Start-up is part of the contract: what is imported, measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_schemamig.cli import commands
from airflow_provider_schemamig.cli.main import COMMANDS, LEDGER, SCHEMA

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


OWN = """
import atexit, sys
atexit.register(lambda: print(*(name for name in sys.modules if name.startswith("airflow_provider_schemamig.")), file=sys.stderr))
from airflow_provider_schemamig.cli.main import main
main()
"""


def own_modules(*arguments: str) -> set[str]:
    """Modules of ours that a command imports, without the package's name."""
    ran = subprocess.run([sys.executable, "-c", OWN, *arguments], capture_output=True, text=True, check=True)
    return {name.removeprefix("airflow_provider_schemamig.") for name in ran.stderr.splitlines()[-1].split()}


def test_a_version_imports_no_command() -> None:
    assert own_modules("--version") == {"cli", "cli.lazy", "cli.main", "cli.streams", "cli.usage", "visible"}


@pytest.mark.parametrize(("arguments", "module"), [(["jars", "--help"], "jars"), (["ledger", "dump", "--help"], "ledger.dump")])
def test_a_command_imports_no_other_command(arguments: list[str], module: str) -> None:
    found = {name for name in own_modules(*arguments) if name.startswith("cli.commands.")}
    assert found - {"cli.commands.ledger"} == {f"cli.commands.{module}"}


def test_every_module_of_commands_is_a_command() -> None:
    """But for what commands share."""
    folder, shared = Path(str(commands.__file__)).parent, {"copies", "row_edits"}
    for panels, below in ((COMMANDS, folder), (SCHEMA, folder / "schema"), (LEDGER, folder / "ledger")):
        named = [name for names in panels.values() for name in names]
        assert sorted(named) == sorted(path.stem for path in below.glob("[a-z]*.py") if path.stem not in shared)


def test_an_environment_imports_no_network() -> None:
    code = "import airflow_provider_schemamig.core.environment, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(found).isdisjoint({"concurrent.futures", "email", "http.client", "ssl", "urllib.request"})


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
