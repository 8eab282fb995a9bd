"""The shipped upgrade DAG in Airflow at many collections: how long its tasks take, what goes between them, and the chunks of its fills."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from bench.scale import FEW, MANY
from bench.schema_only import GROWTH_GOAL, SCHEMAMIG, lake
from bench.tools.measure import Usage, run
from bench.tools.table import Row, cell
from tests.support.product import Product

AIRFLOW = str(Path(sys.executable).with_name("airflow"))
DAG_ID = "schemamig_upgrade"
#: Airflow keeps an XCom in its database; what is much larger slows down its page and its scheduler.
XCOM_GOAL = "64 KB"
CHUNKS_GOAL = "1,024 tasks (max_map_length)"


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
    chunks, size = _chunks(home, folder / "rewrites", MANY)
    yield Row(
        f"  fill_chunks of {MANY:,} rewrites: mapped tasks; what goes to them",
        cell("{:,.0f} tasks; {:.0f} KB", chunks, size / 1000),
        goal=CHUNKS_GOAL,
    )


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


def _chunks(home: dict[str, str], folder: Path, tables: int) -> tuple[int, int]:
    """Claim a release that writes each of the collections anew; return the chunks of their fills, and the bytes of the list of them."""
    product = Product(folder / "product")
    first = product.release("1.0.0", "\n".join(f"CREATE TABLE t{n} (id BIGINT NOT NULL, v INT);" for n in range(tables)))
    steps = ", ".join(f'rewrite("t{n}", up="SELECT id, CAST(v AS STRING) AS v FROM {{t{n}}}")' for n in range(tables))
    second = product.release("1.1.0", "\n".join(f"CREATE TABLE t{n} (id BIGINT NOT NULL, v STRING);" for n in range(tables)), steps)
    env = str(folder / "lake")
    run([SCHEMAMIG, "upgrade", "--env", env, "--release", str(first), "--create", "--json"])
    commands.preflight(Environment.open(env), second, jobs=EmbeddedRunner, fill=False)  # as the DAG's task does
    code = (
        "import json, sys\n"
        "from airflow_provider_schemamig.operators.read_only import FillChunksOperator\n"
        f"task = FillChunksOperator(task_id='fill_chunks', environment={env!r}, generation=2)\n"
        "print(json.dumps(task.execute({})))"
    )
    answer = run([sys.executable, "-c", code], env=home).output.strip().splitlines()[-1]
    return len(json.loads(answer)), len(answer)
