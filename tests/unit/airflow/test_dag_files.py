"""The shipped DAG files: short, and cheap to parse. How cheap in seconds is a matter of ``make bench``."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.airflow_home import DAGS, ROOT

EXAMPLE = ROOT / "example" / "dags"
DAG_FILES = sorted(DAGS.glob("*.py"))
HEAVY = ("pyspark", "delta", "deltalake", "pyarrow", "fastapi", "obstore", "sqlglot")


def heavy_modules_after(statement: str) -> list[str]:
    code = f"import sys; import airflow.sdk; {statement}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=DAGS)
    return done.stdout.splitlines()[-1].split()


def test_there_are_dag_files() -> None:
    wanted = {"upgrade", "rollback", "maintenance", "verify", "control", "alter", "replicate"}
    assert {f"schemamig_{name}" for name in wanted} <= {path.stem for path in DAG_FILES}


@pytest.mark.parametrize("path", [*DAG_FILES, EXAMPLE / "rolling_upgrade.py"], ids=lambda path: path.stem)
def test_a_dag_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def test_parsing_imports_nothing_heavy() -> None:
    shipped = ", ".join(path.stem for path in DAG_FILES)
    assert heavy_modules_after(f"sys.path.append({str(EXAMPLE)!r}); import {shipped}, rolling_upgrade") == []
    assert heavy_modules_after("import sqlglot") == ["sqlglot"], "the test would see it"


def test_the_plugin_is_cheap_for_the_processes_that_load_it() -> None:
    assert heavy_modules_after("import airflow_provider_schemamig.plugins.schemamig") == []


def test_the_rolling_upgrade_takes_the_replicas_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    found = importlib.import_module("rolling_upgrade")
    dag = found.rolling_upgrade
    before: set[str] = set()
    for name in ("lake_east", "lake_north", "lake_west"):
        assert dag.get_task(f"upgrade_{name}.fingerprint").upstream_task_ids == before
        before = {f"{name}_accepts"}
    for name in ("lake_east", "lake_north"):
        assert dag.get_task(f"{name}_accepts").upstream_task_ids == {f"{name}_is_there"}
        assert dag.get_task(f"{name}_has_all").upstream_task_ids == {"lake_west_is_there"}
        assert getattr(found, f"replicate_to_{name}").max_active_runs == 1
