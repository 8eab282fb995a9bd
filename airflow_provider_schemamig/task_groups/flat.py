"""A task group that is drawn without its box."""

from __future__ import annotations

from typing import cast

from airflow.sdk import TaskGroup
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator


def flat(group: TaskGroup) -> None:
    """Make the tasks of ``group`` tasks of the DAG itself, so that its graph shows them at once.

    Airflow draws a group as one closed box, and has no setting to open it. Task ids stay ``<group_id>.<name>``; the graph calls a task by
    its name. The group is gone then, so its neighbours are wired before.

    :param group: of tasks alone, and no part of another group: ``upgrade_task_group``, ``replicate_task_group``.
    """
    root = group.dag.task_group
    del root.children[str(group.group_id)]
    for task_id, child in group.children.items():
        task, name = cast(BaseOperator | MappedOperator, child), task_id.removeprefix(f"{group.group_id}.")
        task.task_group = root
        root.children[task_id] = task
        if isinstance(task, MappedOperator):
            task.partial_kwargs["task_display_name"] = name
        else:
            task._task_display_name = name
