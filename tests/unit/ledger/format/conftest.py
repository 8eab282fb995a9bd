from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentRoot:
    return EnvironmentRoot.open(str(tmp_path / "lake"))
