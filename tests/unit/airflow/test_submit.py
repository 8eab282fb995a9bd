"""Submitting through Airflow's Spark connection: the command line, what goes into files instead, and what comes back."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from airflow_provider_schemamig.core.spark import session
from airflow_provider_schemamig.core.spark.errors import SparkDriverDied
from airflow_provider_schemamig.core.spark.submit import SubmitRunner
from airflow_provider_schemamig.core.spark.translate import error_to_json
from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.hooks.spark import HookSubmitRunner
from airflow_provider_schemamig.operators.base import BadArgument

REQUEST = {"collection": "flights", "storage_options": {"aws_secret_access_key": "hush-hush", "aws_endpoint": "http://minio:9000"}}


@dataclass
class Driver:
    """Stands for spark-submit: writes ``document`` where the real job would, and ends with ``code``."""

    document: dict[str, Any] | None = None
    code: int = 0
    interrupt: BaseException | None = None
    killed: bool = False
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    properties: str = ""
    properties_mode: int = 0
    request: dict[str, Any] = field(default_factory=dict)

    def __call__(self, command: list[str], env: dict[str, str], **options: Any) -> Driver:
        self.command, self.environment = command, env
        properties = Path(self._after("--properties-file"))
        self.properties, self.properties_mode = properties.read_text(), stat.S_IMODE(properties.stat().st_mode)
        self.request = json.loads(self._path("--request-uri").read_text())
        if self.document is not None:
            self._path("--result-uri").write_text(json.dumps(self.document))
        return self

    @property
    def stdout(self) -> Iterator[str]:
        if self.interrupt is not None:
            raise self.interrupt
        yield "the driver's last words\n"

    def wait(self) -> int:
        return self.code

    def poll(self) -> int | None:
        return None if self.interrupt is not None else self.code

    def kill(self) -> None:
        self.killed = True

    def _after(self, flag: str) -> str:
        return self.command[self.command.index(flag) + 1]

    def _path(self, flag: str) -> Path:
        return Path(self._after(flag).removeprefix("file://"))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", "host": "spark://master", "port": 7077}))
    monkeypatch.setattr(session, "require_jars", lambda: (Path("/jars/delta.jar"),))
    monkeypatch.setattr("airflow_provider_schemamig.core.spark.submit.find_java", lambda: None)
    found = Driver(document={"rows": 3})
    monkeypatch.setattr(spark_submit, "subprocess", _with_popen(found))
    return found


def _with_popen(driver: Driver) -> Any:
    class Patched:
        PIPE, STDOUT = subprocess.PIPE, subprocess.STDOUT
        Popen = staticmethod(driver)

    return Patched


def run(job: Any = "fill") -> dict[str, Any]:
    return HookSubmitRunner("cluster", shared_uri="s3://lake/prod/_schemamig/jobs").run(job, REQUEST)


def test_a_job_is_submitted_and_its_result_returned(driver: Driver) -> None:
    assert run() == {"rows": 3}
    assert driver.command[:3] == ["spark-submit", "--master", "spark://master:7077"]
    assert driver.command[driver.command.index("--name") + 1] == "schemamig-fill"
    assert Path(driver.command[-5]).parts[-2:] == ("spark_jobs", "fill.py")
    assert "--load-spark-defaults" in driver.command
    assert Path(driver.environment["PATH"].split(os.pathsep)[0], "spark-submit").exists()


def test_credentials_travel_in_a_file_of_ones_own_only(driver: Driver) -> None:
    run()
    assert "hush-hush" not in " ".join(driver.command)
    assert "hush-hush" not in json.dumps(driver.request)
    assert "spark.hadoop.fs.s3a.secret.key=hush-hush" in driver.properties
    assert driver.properties_mode == 0o600


def test_a_typed_error_crosses_the_border(driver: Driver) -> None:
    error = BadArgument(argument="a", value="b", wanted="c", collection="flights")
    driver.document, driver.code = {"error": error_to_json(error)}, 1
    with pytest.raises(SchemamigError) as caught:
        run()
    assert caught.value.collection == "flights"
    assert caught.value.retryable is False


def test_a_driver_that_left_nothing_is_tried_again(driver: Driver) -> None:
    driver.document, driver.code = None, 137
    with pytest.raises(SparkDriverDied, match="the driver's last words") as caught:
        run()
    assert caught.value.retryable


def test_a_driver_dies_with_the_call_that_waits_for_it(driver: Driver) -> None:
    driver.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert driver.killed


def test_it_is_the_submit_runner_in_all_else() -> None:
    assert issubclass(HookSubmitRunner, SubmitRunner)
    assert HookSubmitRunner.run is SubmitRunner.run
