"""Airflow in a folder of the project: SQLite, this machine only, the project's DAGs.

``python -m example.airflow_home`` (``make airflow``) opens its web page.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

PROJECT = Path(__file__).parents[1]
HOME = PROJECT / ".airflow"
DEMO = PROJECT / ".demo"
LAKE = DEMO / "lake"
RELEASE = PROJECT / "example" / "flights_lake"
AIRFLOW = PROJECT / ".venv" / "bin" / "airflow"
PORT = 8080
#: After a part was asked to end.
SECONDS_TO_END = 10.0
#: What Airflow consists of. Without the switch scheduler and triggerer serve logs on every interface; the page reads them from disk here.
PARTS = (("api-server",), ("scheduler", "--skip-serve-logs"), ("dag-processor",), ("triggerer", "--skip-serve-logs"))


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
    port = os.environ.get("AIRFLOW__API__PORT", str(PORT))
    fixed = {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
    }
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
    if LAKE.exists():
        to.print("The DAGs propose the lake of `make demo`, which is at its newest release: `schemamig_rollback` takes it back.")
    else:
        to.print("The lake that the DAGs propose is not there yet: `make demo` makes it.")
    to.print("Logs are read from disk, so a waiting task's log says that it reached no log server.", style="dim")
    to.print("Ready in about 20 s; Ctrl-C ends it.\n", style="dim")
    run(PARTS, environment)


def run(parts: Iterable[Sequence[str]], environment: Mapping[str, str]) -> None:
    """Run the parts until one of them ends, or until Ctrl-C or SIGTERM; then end them all, with what they started."""
    signal.signal(signal.SIGTERM, _stop)
    running: list[subprocess.Popen[bytes]] = []
    try:
        running += (subprocess.Popen([AIRFLOW, *part], env=environment, start_new_session=True) for part in parts)
        while all(process.poll() is None for process in running):
            time.sleep(0.5)
    except KeyboardInterrupt:
        pass
    finally:
        _end(running)


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _end(running: Iterable[subprocess.Popen[bytes]]) -> None:
    """SIGTERM, and SIGKILL for what is left of a part after ``SECONDS_TO_END``: each is a session, and so a process group, of its own."""
    for process in running:
        process.terminate()
    deadline = time.monotonic() + SECONDS_TO_END
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
