"""The caller's side of spark-submit, against programs that behave like it: what is passed, read back, cleared and killed."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.spark.jars import SHA256
from airflow_provider_schemamig.core.spark.runners import SubmitRunner
from airflow_provider_schemamig.core.spark.submit import job_file, write_properties, zip_packages
from airflow_provider_schemamig.core.spark.translate import error_to_json
from tests.support.processes import alive_in_group, wait_until

#: A spark-submit that writes down how it was called, then does what BODY says; the last argument is the result's URI.
SUBMIT = """#!/bin/sh
printf '%s\\n' "$@" > "$SEEN/arguments"
while [ "$#" -gt 1 ]; do
  [ "$1" = --properties-file ] && cp -p "$2" "$SEEN/properties"
  [ "$1" = --request-uri ] && cp "${2#file://}" "$SEEN/request"
  shift
done
result="${1#file://}"
BODY
"""


class Cluster:
    """A SPARK_HOME with that spark-submit, a Java and JARs that only look the part."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        monkeypatch.setenv("SPARK_HOME", str(root / "spark"))
        monkeypatch.setenv("JAVA_HOME", str(root / "java"))
        monkeypatch.setenv("SCHEMAMIG_JARS", str(root / "jars"))
        monkeypatch.setenv("SEEN", str(root))
        self.script("java/bin/java", "#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
        (root / "jars").mkdir()
        for name in SHA256:
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

    def runner(self, **conf: str) -> SubmitRunner:
        return SubmitRunner(
            "spark://master:7077", conf={name.replace("_", "."): value for name, value in conf.items()}, exchange_uri=str(self.exchange)
        )


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def test_request_and_result_pass_through_files_that_are_gone_afterwards(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.submit("echo from the driver; echo '{\"rows\": 7}' > $result")
    caplog.set_level(logging.INFO)

    assert cluster.runner(spark_executor_memory="1g").run("fill", {"query": "SELECT 'ü'"}) == {"rows": 7}

    assert json.loads((cluster.root / "request").read_text()) == {"query": "SELECT 'ü'", "storage_options": {}}
    arguments = cluster.arguments
    assert arguments[arguments.index("--master") + 1] == "spark://master:7077"
    assert str(job_file("fill")) in arguments
    assert "from the driver" in caplog.messages
    assert list(cluster.exchange.iterdir()) == []
    properties = (cluster.root / "properties").read_text()
    assert "spark.executor.memory=1g\n" in properties
    assert "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension\n" in properties
    assert "spark.sql.session.timeZone=UTC\n" in properties
    assert "shuffle.partitions" not in properties, "a cluster's own sizing stays"


def test_secrets_travel_in_a_file_of_this_user_and_nowhere_else(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.submit("echo '{}' > $result")
    caplog.set_level(logging.DEBUG)
    cluster.runner().run("fill", {"storage_options": {"AWS_SECRET_ACCESS_KEY": "s3cr:et", "aws_endpoint_url": "http://127.0.0.1:7070"}})
    assert "s3cr" not in "\n".join(cluster.arguments) + (cluster.root / "request").read_text() + caplog.text
    properties = cluster.root / "properties"
    assert "spark.hadoop.fs.s3a.secret.key=s3cr\\:et\n" in properties.read_text()
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600


def test_a_non_zero_exit_with_an_error_raises_that_error(cluster: Cluster) -> None:
    error = errors.ConcurrentWrite(condition="DELTA_CONCURRENT_APPEND", detail="first", collection="flights")
    (cluster.root / "error.json").write_text(json.dumps({"error": error_to_json(error)}))
    cluster.submit('cp "$SEEN/error.json" $result; exit 1')
    with pytest.raises(errors.ConcurrentWrite, match="flights: another writer committed first"):
        cluster.runner().run("fill", {})


@pytest.mark.parametrize("body, code", [("echo why; exit 3", 3), ("kill -9 $$", -9), ("echo nothing", 0)])
def test_a_driver_without_a_result_is_a_retryable_error_with_its_last_lines(cluster: Cluster, body: str, code: int) -> None:
    cluster.submit(f"for i in $(seq 30); do echo line $i; done\n{body}")
    with pytest.raises(errors.SparkDriverDied) as caught:
        cluster.runner().run("fill", {})
    assert (caught.value.exit_code, caught.value.retryable) == (code, True)
    assert "line 30" in caught.value.tail
    assert len(caught.value.tail.splitlines()) == 20
    assert list(cluster.exchange.iterdir()) == []


def test_an_interrupt_takes_the_whole_process_group_along(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # Shell, child and grandchild, the last of them deaf to SIGTERM.
    cluster.submit("sh -c 'trap \"\" TERM; sleep 60 & echo ready $$; wait; sleep 60' & wait")
    monkeypatch.setattr("airflow_provider_schemamig.core.spark.submit._GRACE_SECONDS", 0.5)
    groups: list[int] = []

    class Interrupting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("ready"):
                groups.append(os.getpgid(int(record.getMessage().split()[1])))
                raise KeyboardInterrupt

    logger = logging.getLogger("airflow_provider_schemamig.core.spark.submit")
    handler = Interrupting()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.runner().run("fill", {})
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)

    assert groups[0] != os.getpgid(0)
    wait_until(lambda: not alive_in_group(groups[0]))
    assert list(cluster.exchange.iterdir()) == []


def test_cancel_stops_the_driver_from_another_thread(cluster: Cluster) -> None:
    cluster.submit('touch "$SEEN/started"; sleep 60')
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
    wait_until((cluster.root / "started").exists)
    runner.cancel()
    thread.join(20)
    assert [error.exit_code for error in caught] == [-signal.SIGTERM]


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


def test_the_zip_holds_both_packages_and_imports(tmp_path: Path) -> None:
    path = zip_packages(tmp_path / "p.zip")
    names = zipfile.ZipFile(path).namelist()
    assert {name.split("/")[0] for name in names} == {"airflow_provider_schemamig", "spark_jobs"}
    assert {"spark_jobs/fill.py", "spark_jobs/preflight.py", "airflow_provider_schemamig/core/spark/job.py"} <= set(names)
    # A driver on a cluster has pyspark and nothing else of ours: the jobs may import only the standard library besides.
    code = "import sys; sys.path.insert(0, sys.argv[1]); import spark_jobs.fill as f, spark_jobs.preflight; print(f.__file__)"
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
