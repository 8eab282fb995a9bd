"""The example DAG of readers and writers: short, cheap to parse, and its tasks' arguments are what the handles take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.airflow import home as airflow_home

DAG_FILE = Path(__file__).parents[3] / "example" / "dags" / "flights_report.py"
HEAVY = ("pyspark", "deltalake", "pyarrow", "airflow_provider_schemamig.core.access", "airflow_provider_schemamig.core.environment")


def test_it_is_a_dag_file_as_they_should_be() -> None:
    airflow_home.prepare()
    assert len(DAG_FILE.read_text().splitlines()) < 60
    code = f"""
import sys
sys.path.insert(0, {str(DAG_FILE.parent)!r})
from flights_report import dag
print(sorted(dag.task_ids), [task.retries for task in dag.tasks], [name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['mean_delays', 'note_cancellations'] [3, 3] []"
