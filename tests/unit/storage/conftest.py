"""A store behind a fake of S3 on loopback, which has not answered yet: one that has is waited for when it goes away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, objects, open_store
from tests.support.stores.fake_s3 import FakeS3, serving

KEYS = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "very-secret-key", "aws_region": "us-east-1"}


@pytest.fixture(autouse=True)
def _nobody_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_answered", set())


@pytest.fixture
def fake() -> FakeS3:
    return FakeS3()


@pytest.fixture
def endpoint(fake: FakeS3, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving(fake) as url:
        yield url


@pytest.fixture
def store(endpoint: str) -> Store:
    return opened({**KEYS, "aws_endpoint_url": endpoint, "aws_allow_http": "true"})


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waited; it does not."""
    found: list[float] = []
    # Only its own: what other threads of this process sleep is none of its waits.
    monkeypatch.setattr(objects, "time", SimpleNamespace(sleep=found.append, monotonic=time.monotonic))
    monkeypatch.setattr(objects._Told, "at", float("-inf"))
    return found


def opened(options: dict[str, str], uri: str = "s3://bucket/lake") -> Store:
    return open_store(Location.parse(uri), StorageOptions(options))
