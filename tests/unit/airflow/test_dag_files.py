"""The shipped DAG files: short, and cheap to parse. How cheap in seconds is a matter of ``make bench``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.airflow_home import DAGS

DAG_FILES = sorted(DAGS.glob("*.py"))
HEAVY = ("pyspark", "delta", "deltalake", "pyarrow", "fastapi", "obstore", "sqlglot")


def heavy_modules_after(statement: str) -> list[str]:
    code = f"import sys; import airflow.sdk; {statement}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=DAGS)
    return done.stdout.splitlines()[-1].split()


def test_there_are_dag_files() -> None:
    wanted = {"upgrade", "rollback", "maintenance", "verify", "control", "alter"}
    assert {f"schemamig_{name}" for name in wanted} <= {path.stem for path in DAG_FILES}


@pytest.mark.parametrize("path", DAG_FILES, ids=[path.stem for path in DAG_FILES])
def test_a_dag_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def test_parsing_imports_nothing_heavy() -> None:
    assert heavy_modules_after("import " + ", ".join(path.stem for path in DAG_FILES)) == []
    assert heavy_modules_after("import sqlglot") == ["sqlglot"], "the test would see it"


def test_the_plugin_is_cheap_for_the_processes_that_load_it() -> None:
    assert heavy_modules_after("import airflow_provider_schemamig.plugins.schemamig") == []
