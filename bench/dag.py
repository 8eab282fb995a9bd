"""The shipped upgrade DAG in Airflow at many collections: how long its tasks take, and how much goes between them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.scale import FEW, MANY
from bench.schema_only import SCHEMAMIG, lake
from bench.tools.airflow_home import AIRFLOW, make_home
from bench.tools.measure import Usage, run
from bench.tools.table import Row, cell, growth, usage_cell

DAG_ID = "schemamig_upgrade"
#: Airflow keeps an XCom in its database; what is much larger slows down its page and its scheduler.
XCOM_GOAL = "64 KB"


def run_at_scale(folder: Path) -> Iterator[Row]:
    home = make_home(folder / "airflow", Path(__file__).parents[1] / "dags", {})
    few, many = (_run(home, folder / str(tables), tables) for tables in (FEW, MANY))
    for tables, found in ((FEW, few), (MANY, many)):
        yield Row(
            f"{DAG_ID} in Airflow, a column added to {tables:,} collections",
            usage_cell(found.usage),
        )
        yield Row(
            "  XComs of all its tasks; the largest",
            cell("{:.1f} KB; {:.1f} KB", found.xcom_bytes / 1000, found.largest_xcom_bytes / 1000),
            goal=XCOM_GOAL,
        )
    yield growth(few.usage, many.usage, MANY / FEW)


@dataclass(frozen=True, slots=True)
class DagUsage:
    """What a run took in all its tasks, and how large the values are that its tasks gave to each other."""

    usage: Usage
    xcom_bytes: int
    largest_xcom_bytes: int


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
