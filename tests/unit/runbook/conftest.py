"""Environments at each release, made once and copied, and a terminal without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.core import spark
from tests.support.lake import Lake, copy_of
from tests.unit.cli.conftest import SETTINGS
from tests.unit.cli.samples import Ran, Run
from tests.unit.runbook.scenes import Releases, Scene, make_first, make_releases, make_second


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A terminal; whoever starts Spark in it fails."""

    def no_spark(url: str, conf: Any) -> Any:
        raise AssertionError(f"nothing here needs Spark ({url})")

    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spark, "runner_for", no_spark)

    def call(*arguments: object) -> Ran:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return Ran(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return make_releases(tmp_path_factory.mktemp("runbook_releases"))


@pytest.fixture(scope="session")
def first_lake(folders: Releases, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_first(tmp_path_factory.mktemp("runbook_first"), folders)


@pytest.fixture(scope="session")
def second_lake(first_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_second(tmp_path_factory.mktemp("runbook_second"), first_lake)


@pytest.fixture
def first(first_lake: Lake, folders: Releases, run: Run, tmp_path: Path) -> Scene:
    """At 1.0.0, with a row."""
    return Scene(copy_of(first_lake, tmp_path), folders, run)


@pytest.fixture
def second(second_lake: Lake, folders: Releases, run: Run, tmp_path: Path) -> Scene:
    """At 1.1.0, its way back open."""
    return Scene(copy_of(second_lake, tmp_path), folders, run)
