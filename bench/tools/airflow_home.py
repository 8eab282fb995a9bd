"""An Airflow of a benchmark's own: SQLite in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

AIRFLOW = str(Path(sys.executable).with_name("airflow"))
_PROJECT = Path(__file__).parents[2]


def make_home(folder: Path, dags: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Make its database; return the environment of its processes: the shell's without its own Airflow, and ``more``."""
    folder.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH")])),
        **more,
    }
    subprocess.run([AIRFLOW, "db", "migrate"], env=environment, check=True, capture_output=True)
    return environment
