"""The task's side of a driver, against programs that behave like spark-submit: what is passed, answered, cleared and killed."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.spark.driver import client as drivers
from airflow_provider_schemamig.core.spark.driver.exchange import UNSEEN, UNSEEN_TEXT
from airflow_provider_schemamig.core.spark.driver.submit import application, write_properties, zip_packages
from airflow_provider_schemamig.core.spark.driver.telling import heard
from airflow_provider_schemamig.core.spark.jars import JARS
from airflow_provider_schemamig.core.spark.runners import SubmitRunner
from airflow_provider_schemamig.core.spark.translate import error_to_json
from airflow_provider_schemamig.core.storage import StorageOptions
from tests.support.processes import alive_in_group, wait_until

#: A spark-submit that writes down how it was called, then does what BODY says; the last argument is the exchange's URI.
SUBMIT = """#!/bin/sh
echo submitted >> "$SEEN/submits"
printf '%s\\n' "$@" > "$SEEN/arguments"
while [ "$#" -gt 1 ]; do
  [ "$1" = --properties-file ] && cp -p "$2" "$SEEN/properties"
  shift
done
folder="${1#file://}"
says() { echo "$1" > "$folder/.says"; mv "$folder/.says" "$folder/driver.json"; }
ready() { says '{"state": "ready"}'; }
asked() { while [ ! -e "$folder/request-$1.json" ]; do sleep 0.02; done; cp "$folder/request-$1.json" "$SEEN/"; }
answer() { asked "$1"; echo "$2" > "$folder/.answer"; mv "$folder/.answer" "$folder/result-$1.json"; }
BODY
"""
#: A driver that serves one job, and ends when it is told to.
ONE = "ready; answer 1 '{\"rows\": 7}'; asked 2"


class Cluster:
    """A SPARK_HOME with that spark-submit, a Java and JARs that only look the part."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.runners: list[SubmitRunner] = []
        monkeypatch.setenv("SPARK_HOME", str(root / "spark"))
        monkeypatch.setenv("JAVA_HOME", str(root / "java"))
        monkeypatch.setenv("SCHEMAMIG_JARS", str(root / "jars"))
        monkeypatch.setenv("SEEN", str(root))
        self.script("java/bin/java", "#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
        (root / "jars").mkdir()
        for name in JARS:
            (root / "jars" / name).touch()

    def script(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def submit(self, body: str) -> None:
        self.script("spark/bin/spark-submit", SUBMIT.replace("BODY", body))

    @property
    def arguments(self) -> list[str]:
        return (self.root / "arguments").read_text().splitlines()

    @property
    def exchange(self) -> Path:
        path = self.root / "exchange"
        path.mkdir(exist_ok=True)
        return path

    @property
    def submits(self) -> int:
        return len((self.root / "submits").read_text().splitlines())

    def asked(self, number: int) -> Any:
        return json.loads((self.root / f"request-{number}.json").read_text())

    def runner(self, **conf: str) -> SubmitRunner:
        found = SubmitRunner(
            "spark://master:7077", conf={name.replace("_", "."): value for name, value in conf.items()}, exchange_uri=str(self.exchange)
        )
        self.runners.append(found)
        return found


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(drivers, "_LOOK_SECONDS", 0.05)
    found = Cluster(tmp_path, monkeypatch)
    yield found
    for runner in found.runners:
        runner.cancel()
        runner.stop()


def test_requests_and_results_pass_through_a_folder_that_is_gone_afterwards(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.submit("echo from the driver; ready; answer 1 '{\"rows\": 7}'; answer 2 '{\"digests\": {}}'; asked 3")
    caplog.set_level(logging.INFO)
    runner = cluster.runner(spark_executor_memory="1g")

    assert runner.run("fill", {"query": "SELECT 'ü'"}) == {"rows": 7}
    assert runner.is_started
    assert runner.run("digest", {"parts": []}) == {"digests": {}}
    runner.stop()

    assert cluster.submits == 1
    assert cluster.asked(1) == {"job": "fill", "request": {"query": "SELECT 'ü'", "storage_options": {}}}
    assert cluster.asked(3)["job"] == "end"
    arguments = cluster.arguments
    assert arguments[arguments.index("--master") + 1] == "spark://master:7077"
    assert arguments[-3:-1] == [str(application()), "--exchange-uri"]
    assert "from the driver" in caplog.messages
    assert list(cluster.exchange.iterdir()) == []
    properties = (cluster.root / "properties").read_text()
    assert "spark.executor.memory=1g\n" in properties
    assert "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension\n" in properties
    assert "spark.sql.session.timeZone=UTC\n" in properties
    assert "shuffle.partitions" not in properties, "a cluster's own sizing stays"


def test_secrets_travel_in_a_file_of_this_user_that_is_gone_once_it_was_read(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.submit(ONE)
    caplog.set_level(logging.DEBUG)
    runner = cluster.runner()
    runner.run("fill", {"storage_options": {"AWS_SECRET_ACCESS_KEY": "s3cr:et", "aws_endpoint_url": "http://127.0.0.1:7070"}})
    assert "s3cr" not in "\n".join(cluster.arguments) + (cluster.root / "request-1.json").read_text() + caplog.text
    properties = cluster.root / "properties"
    assert "spark.hadoop.fs.s3a.secret.key=s3cr\\:et\n" in properties.read_text()
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600
    assert not Path(cluster.arguments[cluster.arguments.index("--properties-file") + 1]).exists()


def test_an_error_in_the_place_of_a_result_is_raised_and_the_driver_goes_on(cluster: Cluster) -> None:
    error = errors.ConcurrentWrite(condition="DELTA_CONCURRENT_APPEND", detail="first", collection="flights")
    (cluster.root / "error.json").write_text(json.dumps({"error": error_to_json(error)}))
    cluster.submit('ready; answer 1 "$(cat $SEEN/error.json)"; answer 2 "{}"; asked 3')
    runner = cluster.runner()
    with pytest.raises(errors.ConcurrentWrite, match="flights: another writer committed first"):
        runner.run("fill", {})
    assert runner.run("fill", {}) == {}
    assert cluster.submits == 1


@pytest.mark.some(2)
@pytest.mark.parametrize("when", ["", "ready; asked 1; "])
@pytest.mark.parametrize("body, code", [("echo why; exit 3", 3), ("kill -9 $$", -9), ("echo nothing", 0)])
def test_a_driver_without_a_result_is_a_retryable_error_with_its_last_lines(cluster: Cluster, when: str, body: str, code: int) -> None:
    cluster.submit(f"for i in $(seq 30); do echo line $i; done\n{when}{body}")
    runner = cluster.runner()
    with pytest.raises(errors.SparkDriverDied) as caught:
        runner.run("fill", {})
    assert (caught.value.job, caught.value.exit_code, caught.value.retryable) == ("fill", code, True)
    assert "line 30" in caught.value.tail
    assert len(caught.value.tail.splitlines()) == 20
    assert list(cluster.exchange.iterdir()) == []
    cluster.submit(ONE)
    assert runner.run("fill", {}) == {"rows": 7}, "the next try has another driver"


@pytest.mark.parametrize("body", [f"exit {UNSEEN}", f"echo '{UNSEEN_TEXT}'; exit 1"])
def test_a_driver_that_does_not_see_the_folder_is_an_error_that_no_other_try_mends(cluster: Cluster, body: str) -> None:
    """In deploy mode cluster it is the submit that ends, with a code of its own."""
    cluster.submit(body)
    with pytest.raises(errors.SparkExchangeUnseen) as caught:
        cluster.runner().run("fill", {})
    assert not caught.value.retryable and str(cluster.exchange) in caught.value.uri


def test_an_interrupt_takes_the_whole_process_group_along(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # Shell, child and grandchild, the last of them deaf to SIGTERM.
    cluster.submit('ready; asked 1; sh -c \'trap "" TERM; sleep 60 & echo $$ > "$SEEN/pid"; wait; sleep 60\' & wait')
    monkeypatch.setattr("airflow_provider_schemamig.core.spark.driver.submit._GRACE_SECONDS", 0.5)
    groups, sleep = list[int](), time.sleep

    def interrupted(seconds: float) -> None:
        sleep(seconds)
        if not groups and (cluster.root / "pid").exists() and (text := (cluster.root / "pid").read_text()):
            groups.append(os.getpgid(int(text)))
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.runner().run("fill", {})
    monkeypatch.undo()

    assert groups[0] != os.getpgid(0)
    wait_until(lambda: not alive_in_group(groups[0]))
    assert list(cluster.exchange.iterdir()) == []


def test_cancel_stops_the_driver_from_another_thread(cluster: Cluster) -> None:
    cluster.submit("ready; asked 1; sleep 60")
    runner = cluster.runner()
    runner.cancel()  # nothing runs yet
    caught: list[errors.SparkDriverDied] = []

    def run() -> None:
        try:
            runner.run("fill", {})
        except errors.SparkDriverDied as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until((cluster.root / "request-1.json").exists)
    runner.cancel()
    thread.join(20)
    assert [error.exit_code for error in caught] == [-signal.SIGTERM]


def test_a_driver_that_nobody_asks_ends_and_the_next_job_has_another_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(drivers, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr("airflow_provider_schemamig.core.spark.driver.submit.IDLE_SECONDS", 0.5)
    cluster.submit("ready; asked 1; sleep 1; answer 1 '{\"rows\": 7}'; asked 2")
    runner = cluster.runner()
    assert runner.run("fill", {}) == {"rows": 7}, "a job that runs is no idleness"
    wait_until((cluster.root / "request-2.json").exists)
    assert cluster.asked(2)["job"] == "end"
    assert runner.run("fill", {}) == {"rows": 7}
    assert cluster.submits == 2


def test_a_driver_that_runs_is_the_one_that_an_environment_starts_before_its_seals(cluster: Cluster) -> None:
    cluster.submit(ONE)
    runner = cluster.runner()
    runner.run("fill", {"storage_options": {"aws_region": "here"}})
    runner.start(StorageOptions({"aws_region": "here"}))
    assert cluster.submits == 1


def test_a_driver_serves_one_set_of_storage_options(cluster: Cluster) -> None:
    cluster.submit(ONE)
    runner = cluster.runner()
    for key in ("old", "renewed"):
        runner.run("fill", {"storage_options": {"aws_secret_access_key": key}})
        assert f"spark.hadoop.fs.s3a.secret.key={key}\n" in (cluster.root / "properties").read_text()
    assert cluster.submits == 2


def test_a_driver_without_cores_is_not_waited_for_for_ever(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "CORES_SECONDS", 0.3)
    cluster.submit('says \'{"state": "up"}\'; sleep 60')
    with pytest.raises(errors.SparkUnavailable, match="at spark://master:7077: the cluster gave the driver no core in 0 s") as caught:
        cluster.runner().start({})
    assert caught.value.retryable
    assert list(cluster.exchange.iterdir()) == []


def test_how_far_a_job_is_comes_from_the_driver(cluster: Cluster) -> None:
    cluster.submit(
        'ready; asked 1; says \'{"state": "ready", "number": 1, "tasks": [3, 4], "said": "table 1 of 2"}\'\n'
        'while [ ! -e "$SEEN/heard" ]; do sleep 0.02; done; answer 1 "{}"; asked 2'
    )
    runner, told = cluster.runner(), list[tuple[str, tuple[int, int]]]()

    def hear(text: str) -> None:
        told.append((text, runner.how_far()))
        (cluster.root / "heard").touch()

    assert runner.how_far() == (0, 0)
    with heard(hear):
        runner.run("preflight", {})
    assert told == [("table 1 of 2", (3, 4))]


def test_a_driver_hears_that_its_task_lives(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "BEAT_SECONDS", 0.05)
    cluster.submit('ready; cp "$folder/task.json" "$SEEN/first"; sleep 0.5; cp "$folder/task.json" "$SEEN/later"; ' + ONE)
    cluster.runner().run("fill", {})
    first, later = (json.loads((cluster.root / name).read_text())["beat"] for name in ("first", "later"))
    assert first < later


def test_missing_prerequisites_are_said_before_anything_is_started(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.submit("exit 1")
    next(iter((cluster.root / "jars").iterdir())).unlink()
    with pytest.raises(errors.SparkJarsMissing, match="schemamig jars --fetch"):
        cluster.runner().run("fill", {})
    monkeypatch.setenv("JAVA_HOME", str(cluster.root / "nowhere"))
    with pytest.raises(errors.JavaMissing):
        cluster.runner().run("fill", {})
    assert not (cluster.root / "arguments").exists()


def test_a_spark_home_without_spark_submit(cluster: Cluster) -> None:
    with pytest.raises(errors.SparkUnavailable, match="cannot be started"):
        cluster.runner().run("fill", {})
    assert list(cluster.exchange.iterdir()) == []


def test_the_zip_holds_both_packages_and_imports(tmp_path: Path) -> None:
    path = zip_packages(tmp_path / "p.zip")
    names = zipfile.ZipFile(path).namelist()
    assert {name.split("/")[0] for name in names} == {"airflow_provider_schemamig", "spark_jobs"}
    assert {"spark_jobs/fill.py", "spark_jobs/preflight.py", "airflow_provider_schemamig/core/spark/driver/job.py"} <= set(names)
    # A driver on a cluster has pyspark and nothing else of ours: the jobs may import only the standard library besides.
    code = "import sys; sys.path.insert(0, sys.argv[1]); from spark_jobs import fill, preflight, serve; print(serve.__file__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(path))


@pytest.mark.parametrize(
    "value", ["plain", "a=b:c #!", "back\\slash", " lead and trail ", "tab\there\nline", "ü€", "http://127.0.0.1:7070"]
)
def test_properties_keep_every_value(tmp_path: Path, value: str) -> None:
    path = tmp_path / "p"
    write_properties(path, {"a.key": value})
    assert _java_properties(path.read_text("latin-1")) == {"a.key": value}


def _java_properties(text: str) -> dict[str, str]:
    """The part of java.util.Properties' format that escapes can produce."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        characters, index, parts = line, 0, [""]
        while index < len(characters):
            char = characters[index]
            if char == "\\":
                index += 1
                char = characters[index]
                if char == "u":
                    parts[-1] += chr(int(characters[index + 1 : index + 5], 16))
                    index += 4
                else:
                    parts[-1] += {"t": "\t", "n": "\n", "r": "\r"}.get(char, char)
            elif char == "=" and len(parts) == 1:
                parts.append("")
            else:
                parts[-1] += char
            index += 1
        found[parts[0]] = parts[1]
    return found
