"""Real drivers: one that succeeds and fails, one that is killed, one whose task is killed, and what their callers get."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner, SubmitRunner
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.processes import alive_in_group, drivers, wait_until
from tests.support.rows.fills import SLOW, Lake, fill_request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: A task: it fills once, and is then asked nothing more.
TASK = """
import json, sys, time
from airflow_provider_schemamig.core.spark.runners import SubmitRunner
SubmitRunner("local[1]").run("fill", json.loads(sys.argv[1]))
print("filled", flush=True)
time.sleep(600)
"""


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake.make(spark, tmp_path)


@pytest.mark.soak
def test_a_driver_fills_finds_a_repeat_done_and_gives_its_typed_error_back(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)  # the package must come to the driver, not the driver to the package
    monkeypatch.delenv("PYTHONPATH", raising=False)
    caplog.set_level(logging.INFO)
    exchange = tmp_path / "exchange"
    runner = SubmitRunner("local[1]", conf={"spark.driver.memory": "512m"}, exchange_uri=str(exchange))

    done = runner.run("fill", fill_request(lake))
    again = runner.run("fill", fill_request(lake))
    with pytest.raises(errors.BadValue) as caught:
        runner.run("fill", fill_request(lake, query="SELECT id, CAST(v AS BIGINT) AS n FROM s", number=2))
    runner.stop()

    assert (done["rows"], done["inputs"], done["skipped"]) == (3, {"s": 1}, False)
    assert again | {"seconds": 0} == done | {"seconds": 0, "skipped": True}
    assert lake.target() == [(1, 1), (2, 2), (3, 3)]
    assert list(exchange.iterdir()) == [], "request and result were left behind"
    assert any("SparkSubmit" in message or "spark" in message.lower() for message in caplog.messages), "the driver's output is in the log"
    assert (caught.value.collection, caught.value.condition) == ("target", "CAST_INVALID_INPUT")
    assert "'a'" in caught.value.detail


@pytest.mark.soak
def test_a_driver_killed_in_mid_job_commits_nothing_and_a_retry_does(lake: Lake) -> None:
    runner = SubmitRunner("local[1]")
    caught: list[SchemamigError] = []

    def submit() -> None:
        try:
            runner.run("fill", fill_request(lake, query=SLOW.format(milliseconds=60_000)))
        except SchemamigError as error:
            caught.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    wait_until(lambda: lake.files("target"), 150)
    (pid,) = drivers(os.getpid())
    os.kill(pid, signal.SIGKILL)
    thread.join(30)

    (error,) = caught
    assert isinstance(error, errors.SparkDriverDied)
    assert error.retryable
    assert error.exit_code == -signal.SIGKILL
    wait_until(lambda: not alive_in_group(pid))
    assert (lake.version(), lake.target()) == (0, [])
    assert EmbeddedRunner().run("fill", fill_request(lake))["rows"] == 3


@pytest.mark.soak
@pytest.mark.parametrize("at_work", [False, True])
def test_a_driver_ends_by_itself_when_its_task_was_killed(lake: Lake, at_work: bool) -> None:
    request = fill_request(lake, query=SLOW.format(milliseconds=300_000)) if at_work else fill_request(lake)
    with subprocess.Popen([sys.executable, "-c", TASK, json.dumps(request)], stdout=subprocess.PIPE, text=True) as task:
        assert task.stdout is not None
        if at_work:
            wait_until(lambda: lake.files("target"), 150)
        else:
            assert task.stdout.readline() == "filled\n"
        (pid,) = drivers(task.pid)
        task.kill()
        task.wait()
    killed = time.monotonic()
    assert alive_in_group(pid)
    wait_until(lambda: not alive_in_group(pid), 120)
    assert time.monotonic() - killed > 10, "it has patience with a task that is slow"
    assert lake.version() == (0 if at_work else 1)
