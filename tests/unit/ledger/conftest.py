from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerWriter


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return Environment.open(str(tmp_path / "lake"))


@pytest.fixture
def writer(env: Environment) -> LedgerWriter:
    """A writer on a new ledger at version 0."""
    writer = LedgerWriter(env)
    writer.create("env-1")
    return writer
