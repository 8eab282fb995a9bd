from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.unit.ledger.samples import sound_environment


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentRoot:
    return EnvironmentRoot.open(str(tmp_path / "lake"))


@pytest.fixture
def writer(env: EnvironmentRoot) -> LedgerWriter:
    """A writer on a new ledger at version 0."""
    writer = LedgerWriter(env)
    writer.create("env-1")
    return writer


@pytest.fixture
def sound(tmp_path: Path) -> LedgerWriter:
    """A writer on a ledger in which ``verify`` finds nothing: two collections, at version 1."""
    return sound_environment(tmp_path / "lake", "flights", "planes")
