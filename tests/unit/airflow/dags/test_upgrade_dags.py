"""One upgrade DAG for each of several environments, and who is told of a gate that waits too long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineReference

from airflow_provider_schemamig.notifications.deadlines import gate_deadline
from airflow_provider_schemamig.task_groups.upgrade_dags import upgrade_dags


async def tell(**_: Any) -> None: ...


def test_there_is_a_dag_for_each_environment() -> None:
    found = upgrade_dags(["lake_east", "lake_west"], release="release", gate="auto", assigned_users=["ann"])
    assert list(found) == ["upgrade_lake_east", "upgrade_lake_west"]
    dag: Any = found["upgrade_lake_west"]
    preflight: Any = dag.get_task("upgrade.preflight")
    assert (preflight.environment, preflight.release) == ("lake_west", "{{ params.release }}")
    assert dag.params["release"] == "release"
    gate: Any = dag.get_task("upgrade.gate")
    assert gate.gate == "auto"
    assert (dag.schedule, dag.catchup, dag.tags) == (None, False, {"schemamig"})


def test_arguments_of_the_dag_are_handed_on() -> None:
    dag: Any = upgrade_dags(["lake"], release="release", prefix="go_", dag_arguments={"schedule": "@daily", "tags": ["mine"]})["go_lake"]
    assert (dag.dag_id, dag.schedule, dag.tags) == ("go_lake", "@daily", {"mine"})
    assert dag.get_task("upgrade.preflight").only_params
    assert upgrade_dags(["lake"], release="release", dag_arguments={"default_args": None})
    open_dag: Any = upgrade_dags(["lake"], release="release", dag_arguments={"default_args": {"only_params": False}})["upgrade_lake"]
    assert not open_dag.get_task("upgrade.preflight").only_params


def test_an_argument_that_no_group_takes_is_refused() -> None:
    with pytest.raises(TypeError, match="garden"):
        upgrade_dags(["lake"], release="release", garden=True)


def test_a_run_that_waits_too_long_is_told() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    alert = gate_deadline(timedelta(hours=8), AsyncCallback(tell, {"text": "waits"}))
    assert (alert.reference, alert.interval) == (DeadlineReference.DAGRUN_QUEUED_AT, timedelta(hours=8))
    (dag,) = upgrade_dags(["lake"], release="release", dag_arguments={"deadline": alert}).values()
    assert DagSerialization.to_dict(dag)["dag"]["deadline"], "the scheduler gets it"
