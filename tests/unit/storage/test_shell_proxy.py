"""The proxy that Spark is told of is the one that our own HTTP client takes: each case asks that client, on loopback."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from airflow_provider_schemamig.core.storage.shell_proxy import shell_proxy
from tests.support.stores.fake_s3 import FakeS3, serving

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
#: @A and @B are two proxies. The endpoint's host, the shell, who is asked.
CASES: tuple[tuple[str, Mapping[str, str], str], ...] = (
    ("127.0.0.1", {}, "store"),
    ("127.0.0.1", {"HTTP_PROXY": "@A"}, "A"),
    ("127.0.0.1", {"http_proxy": "@A"}, "A"),
    ("127.0.0.1", {"HTTPS_PROXY": "@A"}, "store"),
    ("127.0.0.1", {"ALL_PROXY": "@A"}, "A"),
    ("127.0.0.1", {"ALL_PROXY": "@A", "all_proxy": "@B"}, "A"),
    ("127.0.0.1", {"ALL_PROXY": "@A", "http_proxy": "@B"}, "B"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "http_proxy": "@B"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "", "http_proxy": "@B"}, "store"),
    ("127.0.0.1", {"HTTP_PROXY": "", "ALL_PROXY": "@A"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": " ", "ALL_PROXY": "@A"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "no proxy", "ALL_PROXY": "@A"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "http://[::1", "ALL_PROXY": "@A"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "NO_PROXY": "127.0.0.1"}, "store"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "NO_PROXY": "10.0.0.0/8, 127.0.0.0/8"}, "store"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "NO_PROXY": "127.0.0.0/33,127.1.0.0/16"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "NO_PROXY": "127.0.0.1:@PORT"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "NO_PROXY": "*"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "NO_PROXY": "localhost"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "NO_PROXY": "", "no_proxy": "127.0.0.1"}, "A"),
    ("127.0.0.1", {"HTTP_PROXY": "@A", "no_proxy": "127.0.0.1"}, "store"),
    ("localhost", {"HTTP_PROXY": "@A", "NO_PROXY": "*"}, "store"),
    ("localhost", {"HTTP_PROXY": "@A", "NO_PROXY": ".LocalHost"}, "store"),
    ("localhost", {"HTTP_PROXY": "@A", "NO_PROXY": "x , localhost,"}, "store"),
    ("localhost", {"HTTP_PROXY": "@A", "NO_PROXY": "ocalhost"}, "A"),
    ("localhost", {"HTTP_PROXY": "@A", "NO_PROXY": "localhost:@PORT"}, "A"),
    ("localhost", {"HTTP_PROXY": "@A", "NO_PROXY": "127.0.0.1"}, "A"),
)


#: Reads one key of a store, and says nothing of how that ended: who was asked knows.
READ = """
import contextlib, sys
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store
from airflow_provider_schemamig.exceptions import SchemamigError
options = dict(aws_access_key_id="a", aws_secret_access_key="b", aws_region="x", aws_allow_http="true", aws_endpoint_url=sys.argv[1])
with contextlib.suppress(SchemamigError):
    open_store(Location.parse("s3://bucket/lake"), StorageOptions(options)).get("key")
"""


@pytest.mark.parametrize(("host", "shell", "asked"), CASES)
def test_spark_is_told_of_a_proxy(monkeypatch: pytest.MonkeyPatch, host: str, shell: Mapping[str, str], asked: str) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    urls = {"store": "", "A": "http://proxy-a:1", "B": "http://proxy-b:1"}
    for name, value in filled(shell, urls, "9000").items():
        monkeypatch.setenv(name, value)
    told = shell_proxy(f"http://{host}:9000")
    assert (told[1] if told is not None else "") == urls[asked]


@pytest.mark.parametrize(
    ("host", "shell", "asked"), [pytest.param(*case, marks=[pytest.mark.soak] * (number % 5 > 0)) for number, case in enumerate(CASES)]
)
def test_our_client_takes_the_same_proxy(host: str, shell: Mapping[str, str], asked: str) -> None:
    """In a process of its own each: the client looks at the variables once."""
    with contextlib.ExitStack() as stack:
        fakes = {name: FakeS3() for name in ("store", "A", "B")}
        urls = {name: stack.enter_context(serving(fake)) for name, fake in fakes.items()}
        port = urls["store"].rpartition(":")[2]
        bare = {name: value for name, value in os.environ.items() if name.upper() not in VARIABLES}
        env = {**bare, **filled(shell, urls, port)}
        subprocess.run([sys.executable, "-c", READ, f"http://{host}:{port}"], env=env, check=True, timeout=60)
        assert [name for name, fake in fakes.items() if fake.requests] == [asked]


def filled(shell: Mapping[str, str], urls: Mapping[str, str], port: str) -> dict[str, str]:
    return {name: text.replace("@A", urls["A"]).replace("@B", urls["B"]).replace("@PORT", port) for name, text in shell.items()}
