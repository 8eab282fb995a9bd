"""Storage options, and what the process's environment says, as Spark's file systems take them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_schemamig.core.spark.storage_access import hadoop_settings, session_settings, settings_of
from airflow_provider_schemamig.core.storage.surroundings import with_surroundings

OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


CASES: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "S3, by any of their names": (
        {
            "AWS_ACCESS_KEY_ID": "k",
            "aws_secret_access_key": "s",
            "token": "t",
            "region": "eu-west-1",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:7070",
            "fs.s3a.connection.maximum": "9",
            "schemamig.conditional_log_store": "true",
        },
        {
            "fs.s3a.access.key": "k",
            "fs.s3a.secret.key": "s",
            "fs.s3a.session.token": "t",
            "fs.s3a.endpoint.region": "eu-west-1",
            "fs.s3a.endpoint": "http://127.0.0.1:7070",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.connection.maximum": "9",
        },
    ),
    "a region alone": ({"region": "eu-west-1"}, {"fs.s3a.endpoint.region": "eu-west-1"}),
    "hosts of their own per bucket": (
        {"endpoint": "https://s3.example.org", "virtual_hosted_style_request": "true"},
        {"fs.s3a.endpoint": "https://s3.example.org", "fs.s3a.path.style.access": "false"},
    ),
    "nobody in particular": (
        {"aws_skip_signature": "true"},
        {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
    ),
    "a proxy and times": (
        {"aws_region": "x", "proxy_url": "http://me:p%40ss@proxy:3128", "timeout": "1m 30s", "connect_timeout": "500ms"},
        {
            "fs.s3a.endpoint.region": "x",
            "fs.s3a.connection.request.timeout": "90000ms",
            "fs.s3a.connection.establish.timeout": "500ms",
            "fs.s3a.proxy.host": "proxy",
            "fs.s3a.proxy.port": "3128",
            "fs.s3a.proxy.username": "me",
            "fs.s3a.proxy.password": "p@ss",
        },
    ),
    "Azure, an account's key": (
        {"azure_storage_account_name": "acct", "azure_storage_account_key": "a2V5"},
        {
            "fs.azure.account.auth.type.acct.dfs.core.windows.net": "SharedKey",
            "fs.azure.account.key.acct.dfs.core.windows.net": "a2V5",
        },
    ),
    "Azure, a signature": (
        {"account_name": "acct", "azure_storage_sas_token": "?sv=1&sig=x"},
        {
            "fs.azure.account.auth.type.acct.dfs.core.windows.net": "SAS",
            "fs.azure.sas.fixed.token.acct.dfs.core.windows.net": "sv=1&sig=x",
        },
    ),
    "Azure, an application": (
        {"azure_client_id": "c", "azure_client_secret": "s", "azure_tenant_id": "t"},
        {
            "fs.azure.account.auth.type": "OAuth",
            "fs.azure.account.oauth.provider.type": f"{OAUTH}.ClientCredsTokenProvider",
            "fs.azure.account.oauth2.client.id": "c",
            "fs.azure.account.oauth2.client.secret": "s",
            "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
        },
    ),
    "Azure, a workload's identity": (
        {"client_id": "c", "tenant_id": "t", "azure_federated_token_file": "/var/run/token"},
        {
            "fs.azure.account.auth.type": "OAuth",
            "fs.azure.account.oauth.provider.type": f"{OAUTH}.WorkloadIdentityTokenProvider",
            "fs.azure.account.oauth2.client.id": "c",
            "fs.azure.account.oauth2.msi.tenant": "t",
            "fs.azure.account.oauth2.token.file": "/var/run/token",
        },
    ),
    "GCS, a key file": (
        {"google_service_account": "/etc/key.json"},
        {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs.gs.auth.service.account.json.keyfile": "/etc/key.json"},
    ),
    "GCS, nobody in particular": ({"google_skip_signature": "true"}, {"fs.gs.auth.type": "UNAUTHENTICATED"}),
    "Azure, time limits": (
        {"account_name": "acct", "proxy_url": "http://proxy:3128", "timeout": "30s", "connect_timeout": "2s"},
        {"fs.azure.http.connection.timeout": "2000", "fs.azure.http.read.timeout": "30000"},
    ),
    "GCS, a proxy and times": (
        {"google_skip_signature": "true", "proxy_url": "http://me:p%40ss@proxy:3128", "timeout": "30s", "connect_timeout": "2s"},
        {
            "fs.gs.auth.type": "UNAUTHENTICATED",
            "fs.gs.proxy.address": "proxy:3128",
            "fs.gs.proxy.username": "me",
            "fs.gs.proxy.password": "p@ss",
            "fs.gs.http.connect-timeout": "2000",
            "fs.gs.http.read-timeout": "30000",
        },
    ),
    "nothing": ({"schemamig.throwaway": "true"}, {}),
    "S3 with its machine's roles, a proxy and times": (
        {"proxy_url": "http://proxy:3128", "timeout": "5s", "connect_timeout": "100ns"},
        {
            "fs.s3a.connection.request.timeout": "5000ms",
            "fs.s3a.connection.establish.timeout": "1ms",
            "fs.s3a.proxy.host": "proxy",
            "fs.s3a.proxy.port": "3128",
        },
    ),
    "times of each store": (
        {"aws_region": "x", "account_name": "a", "timeout": "3s", "AWS_TIMEOUT": "1s", "azure_timeout": "2s", "google_timeout": "1m"},
        {
            "fs.s3a.endpoint.region": "x",
            "fs.s3a.connection.request.timeout": "1000ms",
            "fs.azure.http.read.timeout": "2000",
            "fs.gs.http.read-timeout": "60000",
        },
    ),
    "a SOCKS proxy, which Hadoop has no setting for": ({"region": "x", "proxy_url": "socks5://proxy"}, {"fs.s3a.endpoint.region": "x"}),
    "GCS, a proxy by its address": (
        {"google_skip_signature": "true", "google_proxy_url": "http://[::1]:3128"},
        {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.proxy.address": "[::1]:3128"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_options_are_settings_of_hadoop(name: str) -> None:
    options, settings = CASES[name]
    assert settings_of(options) == hadoop_settings(options) == settings


@pytest.mark.parametrize("name", ["S3, by any of their names", "Azure, an account's key", "GCS, a key file"])
def test_variables_of_the_environment_are_the_same_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, settings = CASES[name]
    usual = {"region": "AWS_DEFAULT_REGION", "token": "AWS_SESSION_TOKEN"}
    kept = {option: value for option, value in options.items() if "." in option}
    for option, value in options.items():
        if option not in kept:
            monkeypatch.setenv(usual.get(option, option.upper()), value)
    assert hadoop_settings(kept) == settings
    assert settings_of(with_surroundings(kept)) == settings
    assert settings_of({}) == {}


def test_storage_access_who_somebody_is_comes_from_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of the environment does not go with the keys of the options."""
    for name, value in {"AWS_ACCESS_KEY_ID": "theirs", "AWS_SESSION_TOKEN": "token", "AWS_REGION": "eu-west-1"}.items():
        monkeypatch.setenv(name, value)
    ours = {"fs.s3a.access.key": "ours", "fs.s3a.secret.key": "s", "fs.s3a.endpoint.region": "eu-west-1"}
    assert hadoop_settings({"access_key_id": "ours", "secret_access_key": "s"}) == ours
    assert hadoop_settings({"fs.s3a.access.key": "ours", "fs.s3a.secret.key": "s"}) == ours


def test_an_option_goes_before_a_variable_and_a_region_before_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-1")
    assert hadoop_settings({}) == {"fs.s3a.endpoint.region": "us-west-1"}
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert hadoop_settings({}) == {"fs.s3a.endpoint.region": "us-west-2"}
    assert hadoop_settings({"region": "eu-west-1"}) == {"fs.s3a.endpoint.region": "eu-west-1"}


def test_the_proxy_of_the_shell_is_sparks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    proxied = {"fs.s3a.endpoint.region": "x", "fs.s3a.proxy.host": "proxy", "fs.s3a.proxy.port": "3128"}
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert hadoop_settings({"region": "x"}) == proxied
    monkeypatch.setenv("NO_PROXY", "localhost,.example.org")
    assert "fs.s3a.proxy.host" not in hadoop_settings({"endpoint": "https://s3.example.org"})
    assert hadoop_settings({"region": "x"}) == proxied
    monkeypatch.setenv("NO_PROXY", ".x.amazonaws.com")  # where our client goes to
    assert hadoop_settings({"region": "x"}) == {"fs.s3a.endpoint.region": "x"}


@pytest.mark.parametrize("store, said", [("AZURE", {"account_name": "a"}), ("GOOGLE", {"google_skip_signature": "true"})])
def test_time_limits_of_the_environment_are_that_stores_alone(store: str, said: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = hadoop_settings(said)
    monkeypatch.setenv("AWS_TIMEOUT", "7s")
    assert hadoop_settings(said) == {**before, "fs.s3a.connection.request.timeout": "7000ms"}
    monkeypatch.delenv("AWS_TIMEOUT")
    monkeypatch.setenv(f"{store}_TIMEOUT", "90s")
    monkeypatch.setenv(f"{store}_CONNECT_TIMEOUT", "9s")
    assert sorted(set(hadoop_settings(said).items()) - set(before.items())) == (
        [("fs.azure.http.connection.timeout", "9000"), ("fs.azure.http.read.timeout", "90000")]
        if store == "AZURE"
        else [("fs.gs.http.connect-timeout", "9000"), ("fs.gs.http.read-timeout", "90000")]
    )
    assert not [name for name in hadoop_settings({"region": "x"}) if name.startswith("fs.s3a.connection")]
    unlike = hadoop_settings({**said, "timeout": "1s"})
    assert [value for name, value in unlike.items() if "read" in name] == ["1000"], "an option goes before a variable"


def test_a_proxy_in_a_variable_of_a_store_is_that_stores_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_PROXY_URL", "http://proxy:3128")
    assert hadoop_settings({"google_skip_signature": "true"})["fs.gs.proxy.address"] == "proxy:3128"
    assert "fs.s3a.proxy.host" not in hadoop_settings({"region": "x"})


def test_no_proxy_is_asked_for_each_stores_own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    google = {"google_skip_signature": "true"}
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", ".amazonaws.com")
    assert hadoop_settings(google)["fs.gs.proxy.address"] == "proxy:3128"
    assert hadoop_settings({"region": "x"}) == {"fs.s3a.endpoint.region": "x"}
    monkeypatch.setenv("NO_PROXY", "googleapis.com")
    assert hadoop_settings(google) == {"fs.gs.auth.type": "UNAUTHENTICATED"}
    assert "fs.gs.proxy.address" in hadoop_settings({**google, "google_base_url": "https://gcs.example.org"})
    assert "fs.s3a.proxy.host" in hadoop_settings({"region": "x"})


@pytest.mark.parametrize("url", ["http://proxy:99999", "http://me:pa/ss@proxy:3128", "http://[::1", "http://me/pa@proxy"])
def test_a_proxy_of_the_shell_that_is_none_is_left_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a store is used, opening it refuses the variable."""
    monkeypatch.setenv("HTTPS_PROXY", url)
    for said in ({"region": "x"}, {"google_skip_signature": "true"}):
        assert not [name for name in hadoop_settings(said) if "proxy" in name]
        assert "aws_proxy_url" not in with_surroundings(said)


@pytest.mark.parametrize(
    "text, millis",
    [("1d", 86_400_000), ("1.5m", 90_000), ("2 days 1h", 176_400_000), ("0.5s", 500), ("1us", 1), ("0s", 0), ("60d", 2**31 - 1)],
)
def test_every_time_limit_that_the_client_takes_is_sparks_too(text: str, millis: int) -> None:
    assert settings_of({"region": "x", "timeout": text})["fs.s3a.connection.request.timeout"] == f"{millis}ms"


class Session:
    """What a Connect session has of its settings; each use lets the other threads go on."""

    session_id = "one"

    def __init__(self, conf: dict[str, str]) -> None:
        self.settings, self.conf = conf, self

    def get(self, name: str, default: str | None) -> str | None:
        time.sleep(0.001)
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        time.sleep(0.001)
        self.settings[name] = value

    def unset(self, name: str) -> None:
        time.sleep(0.001)
        self.settings.pop(name, None)


def test_settings_of_two_threads_on_one_session_do_not_mix() -> None:
    """A session has several Python objects: what they stand for is told by its id."""
    shared = {"zone": "UTC"}
    mixed: list[dict[str, str]] = []
    done: list[str] = []

    def work(name: str) -> None:
        session: Any = Session(shared)
        for number in range(5):
            wanted = {"app": name, "number": str(number), "zone": name}
            with session_settings(session, wanted), session_settings(session, {"inner": name}):
                time.sleep(0.001)
                if shared != {**wanted, "inner": name}:
                    mixed.append(dict(shared))
        done.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (mixed, sorted(done)) == ([], ["a", "b", "c"])
    assert shared == {"zone": "UTC"}
