"""The Java of a Spark in this process is killed, as it is when it takes more memory than there is: told as what it is, and started anew."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

#: Killed while it works, and between two jobs; each time the job after it runs.
_KILLED = """
from airflow_provider_schemamig.core.spark import runners
from airflow_provider_schemamig.core.spark.errors import SparkDriverDied
from airflow_provider_schemamig.core.spark.watched import WatchedRunner

def java():
    from pyspark import SparkContext
    return SparkContext._gateway.proc

def works(spark, job, request):
    if request.get("kill"):
        java().kill()
    return {"rows": spark.range(10).count()}

runners.run_job = works
runner = WatchedRunner(runners.EmbeddedRunner("local[1]"), lambda event: None)
print(runner.run("fill", {}))
for request in ({"kill": True, "collection": "t"}, {}):
    try:
        if not request:
            java().kill()
            java().wait()
        print(runner.run("fill", request))
    except SparkDriverDied as died:
        print(died.exit_code, died.collection, died.retryable)
print(runner.run("fill", {}))
"""


@pytest.mark.soak
def test_a_killed_java_is_a_driver_that_died_and_the_next_job_has_another() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stdout.splitlines() == ["{'rows': 10}", "-9 t True", "{'rows': 10}", "{'rows': 10}"]
