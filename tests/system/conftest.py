"""An Airflow whose tasks are killed, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.storage import log_stores
from tests.support.airflow import home as airflow_home
from tests.support.airflow.killing import KillingRuns
from tests.support.stores.object_servers import ObjectServer, s3_server

airflow_home.prepare()


@pytest.fixture(scope="session")
def airflow_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillingRuns]:
    """One process for all runs: loading Airflow takes longer than a run."""
    from airflow.utils.db import initdb

    initdb()
    runs = KillingRuns(tmp_path_factory.mktemp("airflow_runs") / "log")
    yield runs
    runs.close()


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A real S3 server, which the usual variables lead to, and of whose commits this process knows nothing: each has the same bucket."""
    monkeypatch.setattr(log_stores, "_newest", {})
    with s3_server(tmp_path / "server") as found:
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found
