"""The shipped upgrade DAG in Airflow at many collections: how long its tasks take, and how much goes between them."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.scale import FEW, MANY
from bench.schema_only import GROWTH_GOAL, SCHEMAMIG, lake
from bench.tools.measure import Usage, run
from bench.tools.table import Row, cell

AIRFLOW = str(Path(sys.executable).with_name("airflow"))
DAG_ID = "schemamig_upgrade"
#: Airflow keeps an XCom in its database; what is much larger slows down its page and its scheduler.
XCOM_GOAL = "64 KB"


def run_at_scale(folder: Path) -> Iterator[Row]:
    home = _home(folder / "airflow")
    few, many = (_run(home, folder / str(tables), tables) for tables in (FEW, MANY))
    for tables, found in ((FEW, few), (MANY, many)):
        yield Row(
            f"{DAG_ID} in Airflow, a column added to {tables:,} collections",
            cell("{:.1f} s wall, {:.1f} s CPU, {:.0f} MiB", found.usage.wall_s, found.usage.cpu_s, found.usage.peak_mib),
        )
        yield Row(
            "  XComs of all its tasks; the largest",
            cell("{:.1f} KB; {:.1f} KB", found.xcom_bytes / 1000, found.largest_xcom_bytes / 1000),
            goal=XCOM_GOAL,
        )
    exponent = math.log(many.usage.cpu_s / few.usage.cpu_s) / math.log(MANY / FEW)
    yield Row("  growth of its CPU", cell("n^{:.2f}", exponent), goal=GROWTH_GOAL)


@dataclass(frozen=True, slots=True)
class DagUsage:
    """What a run took in all its tasks, and how large the values are that its tasks gave to each other."""

    usage: Usage
    xcom_bytes: int
    largest_xcom_bytes: int


def _home(folder: Path) -> dict[str, str]:
    """Make an Airflow of its own in a folder; returns the variables that lead to it."""
    project = Path(__file__).parents[1]
    variables = {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(project), os.environ.get("PYTHONPATH")])),
    }
    folder.mkdir()
    run([AIRFLOW, "db", "migrate"], env=variables)
    return variables


def _run(home: dict[str, str], folder: Path, tables: int) -> DagUsage:
    _, second, env = lake(folder, tables)
    conf = json.dumps({"environment": env, "release": str(second), "gate": "none"})
    usage = run([AIRFLOW, "dags", "test", DAG_ID, "--conf", conf], env=home)
    status = json.loads(run([SCHEMAMIG, "status", "--env", env, "--json"]).output)
    assert status["version"] == "1.1.0", usage.output[-2000:]
    with sqlite3.connect(Path(home["AIRFLOW_HOME"]) / "airflow.db") as database:
        newest = "SELECT run_id FROM dag_run ORDER BY id DESC LIMIT 1"
        sizes = [size for (size,) in database.execute(f"SELECT length(value) FROM xcom WHERE run_id = ({newest})")]
    return DagUsage(usage, sum(sizes), max(sizes))
