"""An Airflow of the tests' own: SQLite in a temporary folder, set up before anything imports airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
DAGS = ROOT / "dags"
#: The DAGs in it, which ``contract.txt`` holds: one file makes several.
SHIPPED = [line.removeprefix("dag ") for line in (ROOT / "tests/unit/contract.txt").read_text().splitlines() if line.startswith("dag ")]
#: Where a process says to its children what it prepared. Each worker of pytest-xdist has a home of its own, although they are children of
#: one process that may have one too.
_PREPARED = f"SCHEMAMIG_TEST_AIRFLOW_HOME_{os.environ.get('PYTEST_XDIST_WORKER', 'main').upper()}"


def prepare() -> Path:
    """Point this process, and those it starts, to the tests' Airflow home; returns the folder. Safe to call again."""
    if _PREPARED in os.environ:
        return Path(os.environ[_PREPARED])
    if "airflow.configuration" in sys.modules:
        raise RuntimeError("airflow was imported before its home was set")
    home = Path(tempfile.mkdtemp(prefix="schemamig-airflow-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ |= {
        _PREPARED: str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    return home
