from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.hooks.schemamig import ConnectionMissing, ConnectionUnusable, SchemamigHook, Settings


def connection(monkeypatch: pytest.MonkeyPatch, conn_id: str, conn_type: str = "schemamig", **extra: Any) -> str:
    document = {"conn_type": conn_type, "extra": extra} | ({"host": "local[*]"} if conn_type == "spark" else {})
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(document))
    return conn_id


@pytest.mark.parametrize("uri", ["s3://lake/prod", "/srv/lake", "abfss://c@a.dfs.core.windows.net/lake"])
def test_a_uri_or_path_needs_no_connection(uri: str) -> None:
    assert SchemamigHook(uri).settings == Settings(uri, spark_conn_id="local")


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_settings_come_from_the_connection(monkeypatch: pytest.MonkeyPatch, form: Any) -> None:
    options, secrets = {"aws_allow_http": True, "timeout": 90}, {"aws_secret_access_key": "hush-hush"}
    extras = {"environment_uri": "s3://lake/prod", "storage_options": form(options), "storage_secrets": form(secrets)}
    conn_id = connection(monkeypatch, "prod", **extras, spark_conn_id="cluster")
    settings = SchemamigHook(conn_id).settings
    assert (settings.environment_uri, settings.spark_conn_id) == ("s3://lake/prod", "cluster")
    assert settings.storage_options == {"aws_secret_access_key": "hush-hush", "aws_allow_http": "true", "timeout": "90"}
    assert "hush-hush" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("azure_storage_sas_key", "sv=1&sig=hush-hush-hush", "hush-hush-hush"),
        ("azure_storage_connection_string", "AccountName=a;AccountKey=hush-hush-hush;", "hush-hush-hush"),
        ("authorization", "hush-hush-hush", "hush-hush-hush"),
        ("aws_secret_access_key", "hush/hush", "hush%2Fhush"),
    ],
)
def test_credentials_are_hidden_with_the_connection_and_masked_in_logs(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, secret: str
) -> None:
    from airflow.sdk._shared.secrets_masker import redact

    conn_id = connection(monkeypatch, "blob", environment_uri="az://c/lake", storage_secrets={name: value})
    assert SchemamigHook(conn_id).settings.storage_options == {name: value}
    assert secret not in str(redact(f"the key is {secret}"))
    shown = redact({"environment_uri": "az://c/lake", "storage_secrets": json.dumps({name: "another-value"})})
    assert "another-value" not in str(shown) and "az://c/lake" in str(shown)


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"storage_options": {"aws_region": "x", "aws_secret_access_key": "hush-hush-1"}}, "aws_secret_access_key"),
        ({"storage_options": {"azure_storage_connection_string": "AccountKey=hush-hush-1"}}, "azure_storage_connection_string"),
        ({"storage_options": {"aws_endpoint_url": "http://minio:hush-hush-1@host"}}, "aws_endpoint_url"),
        ({"storage_options": {"of_tomorrow": "hush-hush-1"}}, "of_tomorrow"),
        ({"environment_uri": "s3://AKIA:hush-hush-1@bucket/x"}, "environment_uri"),
    ],
)
def test_credentials_where_airflow_shows_them_are_refused(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], named: str) -> None:
    conn_id = connection(monkeypatch, "open", **{"environment_uri": "s3://lake/prod"} | extra)
    with pytest.raises(ConnectionUnusable, match=named) as caught:
        _ = SchemamigHook(conn_id).settings
    assert "hush-hush-1" not in str(caught.value)


@pytest.mark.parametrize(
    "extra, conn_type, problem",
    [
        ({}, "schemamig", "it names no environment"),
        ({"environment_uri": "/lake", "storage_options": "{not json"}, "schemamig", "not a JSON object"),
        ({"environment_uri": "/lake", "storage_options": ["a"]}, "schemamig", "not a JSON object"),
        ({"environment_uri": "/lake", "storage_options": {"a": {}}}, "schemamig", "not a JSON object"),
        ({"environment_uri": "/lake"}, "http", "its type is 'http'"),
        ({"environment_uri": ["/lake", "hush"]}, "schemamig", "environment_uri is no text"),
        ({"environment_uri": "lakes/prod"}, "schemamig", "its environment_uri 'lakes/prod' is relative"),
    ],
)
def test_an_unusable_connection_says_why(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], conn_type: str, problem: str) -> None:
    conn_id = connection(monkeypatch, "bad", conn_type, **extra)
    with pytest.raises(ConnectionUnusable, match=problem) as caught:
        _ = SchemamigHook(conn_id).settings
    assert caught.value.conn_id == "bad"


def test_a_missing_connection_is_named() -> None:
    with pytest.raises(ConnectionMissing, match="no connection 'nowhere'"):
        _ = SchemamigHook("nowhere").settings


# --- which Spark ---------------------------------------------------------------------------------------------------------------------


def hook_with_spark(monkeypatch: pytest.MonkeyPatch, spark_conn_id: str) -> SchemamigHook:
    return SchemamigHook(connection(monkeypatch, "lake", environment_uri="s3://lake/prod", spark_conn_id=spark_conn_id))


@pytest.mark.parametrize("spark_conn_id", ["", "local"])
def test_without_a_spark_connection_spark_runs_in_the_task(monkeypatch: pytest.MonkeyPatch, spark_conn_id: str) -> None:
    from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner

    hook = hook_with_spark(monkeypatch, spark_conn_id)
    assert isinstance(hook.job_runner(), EmbeddedRunner)
    assert hook.job_runner() is hook.job_runner()


def test_spark_settings_and_jars_of_the_connection_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    own: dict[str, Any] = {"spark_conf": {"spark.executor.cores": 2}, "spark_jars": ["/a.jar", "/b.jar"]}
    conf = {"spark.executor.cores": "2", "spark.jars": "/a.jar,/b.jar"}
    embedded = SchemamigHook(connection(monkeypatch, "lake", environment_uri="s3://lake/prod", **own)).job_runner()
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "client"}}))
    own["spark_jars"] = "/a.jar, /b.jar"
    submitted = SchemamigHook(connection(monkeypatch, "lake", environment_uri="s3://l", spark_conn_id="cluster", **own)).job_runner()
    assert [vars(runner)["conf"] for runner in (embedded, submitted)] == [conf, conf]


@pytest.mark.parametrize(
    "extra, problem",
    [
        ({"spark_conf": {"spark.hadoop.fs.s3a.secret.key": "hush"}}, "secret.key cannot be used: it may hold a credential"),
        ({"spark_conf": {"memory": "4g"}}, "memory cannot be used"),
        ({"spark_conf": "{not json"}, "its spark_conf are not a JSON object"),
        ({"spark_jars": "https://bot:hush@repo/x.jar"}, "spark.jars cannot be used: it may hold a credential"),
        ({"spark_jars": ["/a.jar", "https://repo/x.jar?sig=hush"]}, "spark.jars cannot be used: it may hold a credential"),
        ({"spark_jars": 5}, "its spark_jars are no list"),
    ],
)
def test_spark_settings_that_cannot_be_used_are_refused(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConnectionUnusable, match=problem) as caught:
        _ = SchemamigHook(connection(monkeypatch, "lake", environment_uri="s3://lake/prod", **extra)).settings
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("mode, exchange", [("client", None), ("cluster", "s3://lake/prod/_schemamig/jobs")])
def test_a_spark_connection_is_submitted_to(monkeypatch: pytest.MonkeyPatch, mode: str, exchange: str | None) -> None:
    from airflow_provider_schemamig.hooks.spark import HookSubmitRunner

    document = {"conn_type": "spark", "host": "spark://master", "port": 7077, "extra": {"deploy-mode": mode}}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(document))
    runner = hook_with_spark(monkeypatch, "cluster").job_runner()
    assert isinstance(runner, HookSubmitRunner)
    assert (runner.master, runner.exchange_uri) == ("spark://master:7077", exchange)


def test_a_connect_connection_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.spark.runners import ConnectRunner

    monkeypatch.setenv("AIRFLOW_CONN_SERVER", json.dumps({"conn_type": "spark_connect", "host": "127.0.0.1", "port": 15002}))
    runner = hook_with_spark(monkeypatch, "server").job_runner()
    assert isinstance(runner, ConnectRunner)
    assert runner.url == "sc://127.0.0.1:15002/"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"host": "localhost:abc"},
        {"host": "localhost", "port": 99999},
        {"host": "[::1"},
        {"host": "localhost:15002;token=hush"},
        {"host": "localhost:15002/;token=hush"},
        {"host": "me:hush@localhost"},
        {"host": "localhost:15002?token=hush"},
        {"host": "localhost:15002#token=hush"},
        {"host": "localhost", "extra": {"use_ssl": "hush"}},
    ],
)
def test_an_address_that_is_none_of_connect_is_refused(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SERVER", json.dumps({"conn_type": "spark_connect", **fields}))
    with pytest.raises(ConnectionUnusable, match="no address of Spark Connect") as caught:
        hook_with_spark(monkeypatch, "server").job_runner()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("conn_type", ["schemamig", "spark", "spark_connect"])
def test_extras_that_are_no_object_are_refused(monkeypatch: pytest.MonkeyPatch, conn_type: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ODD", json.dumps({"conn_type": conn_type, "host": "h", "extra": json.dumps(["hush"])}))
    with pytest.raises(ConnectionUnusable, match="its extras are not a JSON object") as caught:
        (SchemamigHook("odd") if conn_type == "schemamig" else hook_with_spark(monkeypatch, "odd")).job_runner()
    assert caught.value.conn_id == "odd" and "hush" not in str(caught.value)


def test_a_token_with_a_slash_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.spark.runners import ConnectRunner

    monkeypatch.setenv("AIRFLOW_CONN_SERVER", json.dumps({"conn_type": "spark_connect", "host": "h", "port": 1, "password": "a/b=="}))
    runner = hook_with_spark(monkeypatch, "server").job_runner()
    assert isinstance(runner, ConnectRunner)
    assert runner.url == "sc://h:1/;token=a%2Fb%3D%3D"


def test_kubernetes_without_its_client_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", "host": "k8s://https://api:6443"}))
    with pytest.raises(ConnectionUnusable) as caught:
        hook_with_spark(monkeypatch, "cluster").job_runner()
    assert "pip install 'apache-airflow-providers-cncf-kubernetes'" in str(caught.value)


def test_another_kind_of_connection_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, "web", "http")
    with pytest.raises(ConnectionUnusable, match="its type is 'http'"):
        hook_with_spark(monkeypatch, "web").job_runner()
    with pytest.raises(ConnectionMissing):
        hook_with_spark(monkeypatch, "nowhere").job_runner()


def test_killing_a_task_stops_its_job_and_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.operators.leader import ChangeOperator

    stopped: list[str] = []

    class Runner(JobRunner):
        def run(self, job: str, request: Any) -> dict[str, Any]:
            raise AssertionError

        def cancel(self) -> None:
            stopped.append("job")

    operator = ChangeOperator(task_id="change", environment="/lake", generation=1, collections=["a"])
    operator.on_kill()
    assert not stopped
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: Runner())
    operator.hook.job_runner()
    operator.on_kill()
    assert stopped == ["job"]
