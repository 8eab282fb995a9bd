"""Airflow in a folder of the project: SQLite, this machine only, the project's DAGs.

``python -m example.airflow_home`` (``make airflow``) opens its web page.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rich.console import Console

PROJECT = Path(__file__).parents[1]
HOME = PROJECT / ".airflow"
DEMO = PROJECT / ".demo"
LAKE = DEMO / "lake"
RELEASE = PROJECT / "example" / "flights_lake"
AIRFLOW = PROJECT / ".venv" / "bin" / "airflow"
PORT = 8080


def airflow_environment() -> dict[str, str]:
    """The variables of a process that runs Airflow here. A user's own variables win, but for the home and where the page listens."""
    defaults = {
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__API__PORT": str(PORT),
        "AIRFLOW__SCHEMAMIG__DEFAULT_ENVIRONMENT": str(LAKE),
        "AIRFLOW__SCHEMAMIG__DEFAULT_RELEASE": str(RELEASE),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    }
    fixed = {"AIRFLOW_HOME": str(HOME), "AIRFLOW__API__HOST": "127.0.0.1"}
    # The tasks' own programs (schemamig, spark-submit) are the virtual environment's, whether it is activated or not.
    path = f"{AIRFLOW.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**defaults, **os.environ, **fixed, "PATH": path}


def migrate_database() -> None:
    """Make or update Airflow's own database. Raises SystemExit, naming the log, if Airflow cannot."""
    HOME.mkdir(exist_ok=True)
    log = HOME / "db-migrate.log"
    with log.open("w") as to:
        result = subprocess.run([AIRFLOW, "db", "migrate"], env=airflow_environment(), stdout=to, stderr=subprocess.STDOUT, check=False)
    if result.returncode:
        raise SystemExit(f"Airflow could not make its database ({HOME / 'airflow.db'}); its own words are in {log}.")


def main() -> None:
    to = Console()
    environment = airflow_environment()
    url = f"http://127.0.0.1:{environment['AIRFLOW__API__PORT']}"
    migrate_database()
    to.print(f"[bold]{url}[/]  user [bold]admin[/], password in {HOME / 'simple_auth_manager_passwords.json.generated'}")
    if not LAKE.exists():
        to.print("The lake that the DAGs propose is not there yet: `make demo` makes it.")
    to.print("Ready in about 20 s; Ctrl-C ends it.\n", style="dim")
    os.execve(AIRFLOW, [str(AIRFLOW), "standalone"], environment)


if __name__ == "__main__":
    main()
