"""The upgrade DAG for each of several environments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pendulum
from airflow.sdk import DAG, Param

from airflow_provider_schemamig.task_groups.flat import flat
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group


def upgrade_dags(
    environments: Iterable[str], *, release: str, prefix: str = "upgrade_", dag_arguments: dict[str, Any] | None = None, **group: Any
) -> dict[str, DAG]:
    """Make one DAG for each environment, ``upgrade_<environment>``, in a DAG file that names ``airflow`` and ``DAG``.

    Environments do not share runs, pauses, schedules or permissions then. Its runs may be given another release folder.

    :param environments: connection ids of type ``schemamig``.
    :param release: the release folder; a relative path is looked for in the folder of the DAG file.
    :param prefix: what the DAGs' ids begin with.
    :param dag_arguments: of ``DAG``: ``schedule``, ``deadline`` (``notifications.deadlines``), ``default_args`` and so on.
    :param group: of ``upgrade_task_group``: ``gate``, ``hold``, ``notifiers``, ``assigned_users`` and so on.
    """
    usual = {"schedule": None, "start_date": pendulum.datetime(2025, 1, 1), "catchup": False, "tags": ["schemamig"]}
    found: dict[str, DAG] = {}
    for environment in environments:
        title = Param(release, type="string", minLength=1, title="Release folder")
        arguments = {**usual, "description": f"Upgrade {environment}", "params": {"release": title}, **(dag_arguments or {})}
        arguments["default_args"] = {"only_params": True, **(arguments.get("default_args") or {})}
        with DAG(f"{prefix}{environment}", **arguments) as dag:
            flat(upgrade_task_group(environment=environment, release="{{ params.release }}", **group))
        found[dag.dag_id] = dag
    return found
