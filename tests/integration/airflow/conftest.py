"""Airflow's metadata database for the tests of this folder, and runs of whole DAGs inside the test process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.airflow import home as airflow_home
from tests.support.airflow.runs import RunDag, hurry, impatient

airflow_home.prepare()


@pytest.fixture(scope="session")
def airflow_db() -> None:
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="session")
def shipped_dags(airflow_db: None) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(airflow_home.DAGS))
    assert not bag.import_errors
    return dict(bag.dags)


@pytest.fixture(scope="session")
def defaults(shipped_dags: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of every DAG before the first run: in one process, a run leaves its own behind for the next."""
    return {dag_id: dict(dag.params.dump()) for dag_id, dag in shipped_dags.items()}


@pytest.fixture(scope="module")
def page(shipped_dags: dict[str, Any]) -> Iterator[Any]:
    """Airflow's server for a person who is logged in."""
    from airflow.api_fastapi.app import create_app
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session
    from fastapi.testclient import TestClient

    with create_session() as session:
        session.merge(DagBundleModel(name="shipped"))
    sync_bag_to_db(DagBag(str(airflow_home.DAGS), bundle_path=airflow_home.DAGS, bundle_name="shipped"), "shipped", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")
        yield TestClient(create_app("core"), base_url="http://testserver")


@pytest.fixture
def run_dag(shipped_dags: dict[str, Any], defaults: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> RunDag:
    """Run a shipped DAG to its end; returns state and try number of each task (of the last map index), and of the run under ''."""

    def run(dag_id: str, **params: Any) -> dict[str, tuple[str, int]]:
        dag = shipped_dags[dag_id]
        for task in dag.tasks:
            hurry(task)
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", impatient())
            run = dag.test(run_conf={**defaults[dag_id], **params})
        states = {ti.task_id.removeprefix("upgrade."): (str(ti.state), ti.try_number) for ti in run.get_task_instances()}
        return {**states, "": (str(run.state), 0)}

    return run
