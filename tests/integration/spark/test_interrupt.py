"""Ctrl-C while Spark works: a person reads our one message, and no traces of Java's bridge before it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.spark

#: Spark works for minutes, so the signal meets a call that waits for it.
_AT_WORK = """
import signal
import threading
import time

from airflow_provider_schemamig.core.spark import runners

def tell(tracker):
    while not tracker.getActiveStageIds():
        time.sleep(0.1)
    print("at work", flush=True)

def works(spark, job, request):
    threading.Thread(target=tell, args=(spark.sparkContext.statusTracker(),), daemon=True).start()
    spark.range(10**13).selectExpr("sum(id % 7)").collect()

runners.run_job = works
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs the tests in the background has it ignored
runner = runners.EmbeddedRunner("local[1]")
try:
    runner.run("preflight", {})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.soak
def test_an_interrupt_ends_the_work_and_prints_no_trace() -> None:
    process = subprocess.Popen([sys.executable, "-c", _AT_WORK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors, errors
    assert "py4j" not in errors
    assert (shown, process.returncode) == ("interrupted\n", 0)
