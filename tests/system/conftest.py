"""An Airflow whose tasks are killed, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import airflow_home
from tests.support.killing import KillingRuns

airflow_home.prepare()


@pytest.fixture(scope="session")
def airflow_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillingRuns]:
    """One process for all runs: loading Airflow takes longer than a run."""
    from airflow.utils.db import initdb

    initdb()
    runs = KillingRuns(tmp_path_factory.mktemp("airflow_runs") / "log")
    yield runs
    runs.close()
