from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return Environment.open(str(tmp_path / "lake"))
