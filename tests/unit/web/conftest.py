from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.airflow import home as airflow_home

airflow_home.prepare()

from tests.support.page.app import Page, Site  # noqa: E402 - imports Airflow
from tests.support.page.runs import Start, runs_started  # noqa: E402 - imports Airflow


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Airflow's database and auth manager, and the page's app: loading them takes longer than all that is asked of them."""
    from airflow.utils.db import initdb

    initdb()
    with Site.opened(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture
def page(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """A page that knows no environment yet."""
    with Page.opened(site, tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def start() -> Iterator[Start]:
    """Start runs, as far as the page sees of them."""
    with runs_started() as found:
        yield found
