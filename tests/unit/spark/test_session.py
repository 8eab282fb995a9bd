"""Settings, prerequisites and addresses: all that can be known of Spark without starting one."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.spark import errors, jars, launch, runner_for
from airflow_provider_schemamig.core.spark.conf import own_settings
from airflow_provider_schemamig.core.spark.jars import JARS, LOG_STORE, SHA256, fetch, jars_folder, require_jars, verified
from airflow_provider_schemamig.core.spark.launch import find_java, spark_submit_command
from airflow_provider_schemamig.core.spark.runners import ConnectRunner, EmbeddedRunner, SubmitRunner, connect_session
from airflow_provider_schemamig.core.spark.session import embedded_session, settings_for
from airflow_provider_schemamig.core.storage import spark_uri


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JAR folder with files of the right names."""
    monkeypatch.setenv("SCHEMAMIG_JARS", str(tmp_path))
    for name in JARS:
        (tmp_path / name).write_text(name)
    return tmp_path


READ_AS_NOTHING = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")

# --- settings ------------------------------------------------------------------------------------------------------------------------


def test_a_cluster_keeps_its_sizing_and_loses_its_meaning(folder: Path) -> None:
    conf = {"spark.executor.memory": "4g", "spark.sql.session.timeZone": "Asia/Tokyo", "spark.jars": "/extra.jar"}
    conf["spark.sql.parquet.outputTimestampType"] = "INT96"
    conf |= dict.fromkeys(READ_AS_NOTHING, "true")
    settings = settings_for("yarn", conf)
    assert settings["spark.executor.memory"] == "4g"
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"
    assert [settings[name] for name in READ_AS_NOTHING] == ["false", "false"], "what VACUUM took would be no rows"
    assert settings["spark.jars"] == ",".join([*(str(folder / name) for name in JARS), "/extra.jar"])
    assert "spark.driver.host" not in settings
    assert "spark.sql.shuffle.partitions" not in settings


def test_a_local_spark_listens_on_loopback_only_and_its_settings_can_be_changed(folder: Path) -> None:
    settings = settings_for("local[*]", {"spark.sql.shuffle.partitions": "8"})
    assert (settings["spark.driver.host"], settings["spark.driver.bindAddress"], settings["spark.ui.enabled"]) == (
        "127.0.0.1",
        "127.0.0.1",
        "false",
    )
    assert (settings["spark.sql.shuffle.partitions"], settings["spark.databricks.delta.snapshotPartitions"]) == ("8", "1")


def test_jars_and_extensions_are_everybodys(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = tmp_path_factory.mktemp("conf")
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults))
    (defaults / "spark-defaults.conf").write_text(
        "# ours\nspark.jars   /site.jar,/extra.jar\nspark.sql.extensions=org.Site\nspark.executor.memory: 2g\n"
    )
    settings = settings_for("yarn", {"spark.jars": "/extra.jar", "spark.sql.extensions": "org.Extra"})
    ours = [str(folder / name) for name in JARS]
    assert settings["spark.jars"].split(",") == [*ours, "/site.jar", "/extra.jar"]
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,org.Site,org.Extra"
    assert "spark.executor.memory" not in settings, "what is no list is Spark's own to read"


@pytest.mark.parametrize(
    "conf, defaults, chosen",
    [
        ({}, "", "schemamig.ConditionalLogStore"),
        ({"spark.delta.logStore.s3a.impl": "org.Mine"}, "", "org.Mine"),
        ({}, "spark.delta.logStore.s3a.impl org.Mine", None),  # Spark reads its own defaults
        ({}, "spark.delta.logStore.class org.Mine", None),
    ],
)
def test_our_log_store_is_set_unless_somebody_chose_one(
    conf: dict[str, str],
    defaults: str,
    chosen: str | None,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path_factory.mktemp("spark")
    (home / "conf").mkdir()
    (home / "conf/spark-defaults.conf").write_text(defaults)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert settings_for("spark://m:7077", conf).get("spark.delta.logStore.s3a.impl") == chosen
    assert settings_for("local[*]")["spark.delta.logStore.s3a.impl"] == "schemamig.ConditionalLogStore", "pyspark's Spark has no such home"


def test_settings_of_ones_own() -> None:
    given = ["spark.executor.memory=4g", "spark.jars=/a.jar", "spark.hadoop.fs.s3a.aws.credentials.provider=org.Roles"]
    assert own_settings(given, ["/b.jar,/a.jar"]) == {
        "spark.executor.memory": "4g",
        "spark.jars": "/a.jar,/b.jar",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.Roles",
    }


@pytest.mark.parametrize(
    "setting",
    ["executor.memory=4g", "spark.executor.memory", "=x", "spark.hadoop.fs.s3a.secret.key=hush", "spark.authenticate.secret=hush"],
)
def test_a_setting_that_cannot_be_used_is_named_without_its_value(setting: str) -> None:
    with pytest.raises(errors.SparkSettingUnusable) as caught:
        own_settings([setting])
    assert "hush" not in str(caught.value)


def test_a_connect_server_has_its_own_settings() -> None:
    with pytest.raises(errors.SparkSettingUnusable, match="started with"):
        runner_for("sc://host", {"spark.executor.memory": "4g"})


@pytest.mark.parametrize(
    "url, kind",
    [
        ("local[*]", EmbeddedRunner),
        ("local", EmbeddedRunner),
        ("sc://host:15002/;token=x", ConnectRunner),
        ("spark://m:7077", SubmitRunner),
        ("yarn", SubmitRunner),
        ("k8s://https://x", SubmitRunner),
    ],
)
def test_the_address_says_which_runner(url: str, kind: type) -> None:
    assert isinstance(runner_for(url), kind)


def test_making_a_runner_starts_nothing_and_imports_no_pyspark() -> None:
    code = (
        "import sys\n"
        "from airflow_provider_schemamig.core.spark import runner_for\n"
        "[runner_for(url) for url in ('local[*]', 'sc://nowhere', 'yarn')]\n"
        "print(sorted({'pyspark', 'py4j', 'delta', 'pandas', 'pyarrow', 'deltalake', 'grpc'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- storage -------------------------------------------------------------------------------------------------------------------------


def test_hadoop_knows_s3_as_s3a() -> None:
    assert spark_uri("s3://bucket/a") == "s3a://bucket/a"
    assert [spark_uri(uri) for uri in ("s3a://b/a", "file:///a b", "gs://b/s3://")] == ["s3a://b/a", "file:///a b", "gs://b/s3://"]


# --- Java and JARs -------------------------------------------------------------------------------------------------------------------


def fake_java(folder: Path, says: str) -> None:
    path = folder / "bin/java"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "says", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19 LTS', 'openjdk version "25-ea" 2025-09-16']
)
def test_java_that_is_new_enough(says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == tmp_path / "bin/java"


@pytest.mark.parametrize(
    "says, found", [('java version "1.8.0_392"', "8"), ('openjdk version "11.0.2"', "11"), ("no java here", "unknown")]
)
def test_java_that_is_too_old(says: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(errors.JavaMissing) as caught:
        find_java()
    assert caught.value.found == found


def test_no_java_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.JavaMissing, match="apt-get install openjdk-17"):
        find_java()


def test_jars_lie_beside_the_interpreter_or_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEMAMIG_JARS", raising=False)
    assert jars_folder() == Path(sys.prefix) / "share/schemamig/jars"
    monkeypatch.setenv("SCHEMAMIG_JARS", "/elsewhere")
    assert jars_folder() == Path("/elsewhere")
    with pytest.raises(errors.SparkJarsMissing) as caught:
        require_jars()
    assert caught.value.names == JARS


class FakeIvy:
    """Stands for the resolution: puts the given contents where Ivy would."""

    def __init__(self, contents: dict[str, str]) -> None:
        self.contents = contents
        self.calls = 0

    def __call__(self, scratch: Path, *_: str) -> None:
        self.calls += 1
        (scratch / "jars").mkdir()
        for name, content in self.contents.items():
            (scratch / "jars" / f"io.delta_{name}").write_text(content)


def test_fetch_verifies_replaces_what_is_damaged_and_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {name: f"content of {name}" for name in SHA256}
    ivy = FakeIvy(good)
    monkeypatch.setattr(jars, "SHA256", {name: hashlib.sha256(text.encode()).hexdigest() for name, text in good.items()})
    monkeypatch.setattr(jars, "resolve", ivy)
    log_store = packed_log_store(tmp_path / "package", monkeypatch)
    first, second = good

    assert fetch(tmp_path / "new") == (first, second, LOG_STORE)
    assert fetch(tmp_path / "new") == ()
    (tmp_path / "new" / first).write_text("damaged")
    assert fetch(tmp_path / "new") == (first,)
    assert ivy.calls == 2
    (tmp_path / "new" / LOG_STORE).write_text("damaged")
    assert fetch(tmp_path / "new") == (LOG_STORE,)
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == {
        **{name: text.encode() for name, text in good.items()},
        LOG_STORE: log_store.read_bytes(),
    }
    assert verified(tmp_path / "new") == (first, second, LOG_STORE)


def packed_log_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the package bring the LogStore along, as a wheel does."""
    folder.mkdir()
    source = b"class ConditionalLogStore {}"
    (folder / "ConditionalLogStore.java").write_bytes(source)
    with zipfile.ZipFile(folder / LOG_STORE, "w") as archive:
        archive.writestr("META-INF/schemamig-source.sha256", hashlib.sha256(source).hexdigest())
    monkeypatch.setattr(jars, "_LOG_STORE_FOLDER", folder)
    return folder / LOG_STORE


def test_a_clone_says_that_its_log_store_is_to_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = packed_log_store(tmp_path / "package", monkeypatch)
    monkeypatch.setattr(jars, "SHA256", {})
    packed.with_name("ConditionalLogStore.java").write_text("class Newer {}")  # nor is one taken that is of another source
    with pytest.raises(errors.LogStoreNotBuilt, match="make setup"):
        fetch(tmp_path / "jars")


def test_a_jar_with_another_digest_is_refused_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "resolve", FakeIvy(dict.fromkeys(SHA256, "not what was pinned")))
    with pytest.raises(errors.SparkJarsDiffer, match="mirror"):
        fetch(tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []


def test_a_failed_resolution_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("spark")
    (home / "bin").mkdir()
    (home / "bin/spark-submit").write_text("#!/bin/sh\necho unresolved dependency; exit 1\n")
    (home / "bin/spark-submit").chmod(0o755)
    fake_java(home, 'openjdk version "17"')
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(errors.SparkJarsNotFetched, match="unresolved dependency"):
        fetch(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(JARS)


def test_a_folder_that_cannot_be_made_says_which_to_name(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("a file")
    with pytest.raises(errors.SparkJarsNotStored, match=r"Not a directory.*SCHEMAMIG_JARS"):
        fetch(tmp_path / "share/schemamig/jars")


@pytest.mark.parametrize(
    "work",
    [embedded_session, lambda: connect_session("sc://localhost:1"), spark_submit_command],
    ids=["embedded", "connect", "spark-submit"],
)
def test_without_the_extra_it_says_what_to_install(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with pytest.raises(errors.PysparkMissing, match=r"pip install 'airflow-provider-schemamig\[spark\]'"):
        work()


# --- Connect -------------------------------------------------------------------------------------------------------------------------


def test_connect_without_a_server_fails_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = time.monotonic()
    with pytest.raises(errors.SparkUnavailable, match=f"127.0.0.1:{port}") as caught:
        ConnectRunner(f"sc://127.0.0.1:{port}/;token=secret").run("fill", {})
    assert time.monotonic() - started < 5
    assert caught.value.retryable
    assert "secret" not in str(caught.value)


def test_connect_to_no_address() -> None:
    with pytest.raises(errors.SparkUnavailable):
        ConnectRunner("sc://host.invalid:15002").run("fill", {})
    with pytest.raises(errors.SparkUnavailable, match=r"at sc://\[::1\]:1: "):
        ConnectRunner("sc://[::1]:1/;token=x").run("fill", {})


@pytest.mark.parametrize(
    "url", ["sc://", "sc://host:port", "sc://host:15002;token=secret", "sc://me:secret@host", "sc://a..b:1", "sc://host:1?token=secret"]
)
def test_an_address_that_is_none_is_refused_before_any_job(url: str) -> None:
    for work in (runner_for, connect_session):
        with pytest.raises(errors.SparkAddressUnusable) as caught:
            work(url)
        assert "secret" not in str(caught.value)


def test_a_ctrl_c_stays_one_where_spark_fails_on_its_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark calls the JVM once more when a statement is interrupted, on a connection that may be cut by then."""

    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise errors.SparkUnavailable(where="local[*]", reason="Answer from Java side is empty")

    class _Session:
        def newSession(self) -> None: ...

    runner = EmbeddedRunner()
    monkeypatch.setattr("airflow_provider_schemamig.core.spark.runners.embedded_session", lambda *_: _Session())
    monkeypatch.setattr("airflow_provider_schemamig.core.spark.runners.run_job", interrupted)
    monkeypatch.setattr(runner, "cancel", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        runner.run("preflight", {})
