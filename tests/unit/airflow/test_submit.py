"""Submitting through Airflow's Spark connection: the command line, what goes into files instead, and what comes back."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from airflow_provider_schemamig.core.spark import session
from airflow_provider_schemamig.core.spark.driver.submit import SubmitRunner
from airflow_provider_schemamig.core.spark.errors import SparkDriverDied
from airflow_provider_schemamig.core.spark.translate import error_to_json
from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.hooks.spark import HookSubmitRunner
from airflow_provider_schemamig.operators.arguments import BadArgument

REQUEST = {"collection": "flights", "storage_options": {"aws_secret_access_key": "hush-hush", "aws_endpoint": "http://minio:9000"}}


@dataclass
class Driver:
    """Stands for spark-submit: serves one request with ``document`` (None: it ends without), and ends with ``code`` when it is told to."""

    document: dict[str, Any] | None = None
    code: int = 0
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    properties: str = ""
    properties_mode: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    killed: threading.Event = field(default_factory=threading.Event)

    def __call__(self, command: list[str], env: dict[str, str], **options: Any) -> Driver:
        self.command, self.environment = command, env
        properties = Path(self.after("--properties-file"))
        self.properties, self.properties_mode = properties.read_text(), stat.S_IMODE(properties.stat().st_mode)
        return self

    @property
    def stdout(self) -> Iterator[str]:
        folder = Path(self.after("--exchange-uri").removeprefix("file://"))
        (folder / "driver.json").write_text('{"state": "ready"}')
        for number in (1, 2):
            request = folder / f"request-{number}.json"
            while not request.exists() and not self.killed.is_set():
                time.sleep(0.01)
            if self.killed.is_set() or self.document is None:
                break
            self.requests.append(json.loads(request.read_text()))
            if number == 1:
                (folder / "result-1.json").write_text(json.dumps(self.document))
        yield "the driver's last words\n"
        yield f"exit code: {self.code}\n"  # as Kubernetes says it, where spark-submit's own code does not
        self.over.set()

    def wait(self) -> int:
        self.over.wait()
        return self.code

    def poll(self) -> int | None:
        return self.code if self.over.is_set() else None

    def kill(self) -> None:
        self.killed.set()

    def after(self, flag: str) -> str:
        return self.command[self.command.index(flag) + 1]


def connect(monkeypatch: pytest.MonkeyPatch, host: str, port: int | None, extra: dict[str, str]) -> None:
    document = {"conn_type": "spark", "host": host, "port": port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(document))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    connect(monkeypatch, "spark://master", 7077, {})
    monkeypatch.setattr(session, "require_jars", lambda: (Path("/jars/delta.jar"),))
    monkeypatch.setattr("airflow_provider_schemamig.core.spark.driver.submit.find_java", lambda: None)
    found = Driver(document={"rows": 3})
    monkeypatch.setattr(spark_submit, "subprocess", _with_popen(found))
    return found


def _with_popen(driver: Driver) -> Any:
    class Patched:
        PIPE, STDOUT = subprocess.PIPE, subprocess.STDOUT
        Popen = staticmethod(driver)

    return Patched


def run(tmp_path: Path, job: Any = "fill") -> dict[str, Any]:
    runner = HookSubmitRunner("cluster", shared_uri=str(tmp_path / "jobs"))
    try:
        return runner.run(job, REQUEST)
    finally:
        runner.stop()


def test_a_driver_is_submitted_and_its_result_returned(driver: Driver, tmp_path: Path) -> None:
    assert run(tmp_path) == {"rows": 3}
    assert driver.command[:3] == ["spark-submit", "--master", "spark://master:7077"]
    assert driver.after("--name") == "schemamig"
    assert Path(driver.command[-3]).parts[-2:] == ("spark_jobs", "serve.py")
    assert "--load-spark-defaults" in driver.command
    assert Path(driver.environment["PATH"].split(os.pathsep)[0], "spark-submit").exists()
    assert [request["job"] for request in driver.requests] == ["fill", "end"]
    assert not driver.killed.is_set(), "it ended by itself"


@pytest.mark.parametrize(
    "host, extra, arguments",
    [
        ("yarn", {"deploy-mode": "cluster", "queue": "etl"}, ["--master", "yarn", "--queue", "etl", "--deploy-mode", "cluster"]),
        (
            "k8s://https://api:6443",
            {"deploy-mode": "cluster", "namespace": "lake"},
            ["--master", "k8s://https://api:6443", "--conf", "spark.kubernetes.namespace=lake", "--deploy-mode", "cluster"],
        ),
        ("yarn", {"deploy-mode": "client"}, ["--master", "yarn", "--deploy-mode", "client"]),
    ],
)
def test_in_deploy_mode_cluster_they_talk_through_the_environment(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, extra: dict[str, str], arguments: list[str]
) -> None:
    connect(monkeypatch, host, None, extra)
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    assert run(tmp_path) == {"rows": 3}
    given = iter(driver.command)
    assert all(argument in given for argument in arguments), f"{driver.command} has not {arguments} in this order"
    assert "spark.yarn.maxAppAttempts=1" in driver.properties
    folder = driver.after("--exchange-uri")
    assert folder.startswith(f"file://{tmp_path}/jobs/job-") == (extra["deploy-mode"] == "cluster")
    assert not Path(folder.removeprefix("file://")).exists()


def test_an_environment_in_an_object_store_is_spelt_as_hadoop_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.spark.driver.exchange import FileExchange

    assert FileExchange("s3://lake/prod/_schemamig/jobs", {}).uri.startswith("s3a://lake/prod/_schemamig/jobs/job-")


def test_credentials_travel_in_a_file_of_ones_own_only(driver: Driver, tmp_path: Path) -> None:
    run(tmp_path)
    assert "hush-hush" not in " ".join(driver.command)
    assert "hush-hush" not in json.dumps(driver.requests)
    assert "spark.hadoop.fs.s3a.secret.key=hush-hush" in driver.properties
    assert driver.properties_mode == 0o600


def test_a_typed_error_crosses_the_border(driver: Driver, tmp_path: Path) -> None:
    error = BadArgument(argument="a", value="b", wanted="c", collection="flights")
    driver.document = {"error": error_to_json(error)}
    with pytest.raises(SchemamigError) as caught:
        run(tmp_path)
    assert caught.value.collection == "flights"
    assert caught.value.retryable is False


def test_a_driver_that_left_nothing_is_tried_again(driver: Driver, tmp_path: Path) -> None:
    driver.document, driver.code = None, 137
    with pytest.raises(SparkDriverDied, match="the driver's last words") as caught:
        run(tmp_path)
    assert caught.value.retryable


def test_a_driver_dies_with_the_call_that_waits_for_it(driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("airflow_provider_schemamig.core.spark.driver.client.Driver._answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert driver.killed.is_set()


def test_it_is_the_submit_runner_in_all_else() -> None:
    assert issubclass(HookSubmitRunner, SubmitRunner)
    assert HookSubmitRunner.run is SubmitRunner.run
