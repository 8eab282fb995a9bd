"""Another task of the same run, as an operator asks for it: in a mapped task group that of its own index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.mappedoperator import MappedOperator

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


@dataclass(frozen=True, slots=True)
class TaskOfRun:
    """``asks``: the operator that wants to know, in the run of ``context``. ``instance``: which one of a mapped task; None: its own."""

    asks: BaseOperator
    context: Context
    task_id: str
    instance: int | None = None

    @property
    def key(self) -> str:
        """Return what Airflow calls the task among the states of a run's tasks."""
        index = self.map_index
        return self.task_id if index is None else f"{self.task_id}_{index}"

    @property
    def state(self) -> str | None:
        state = self._states().get(self.key)
        return None if state is None else str(state)

    def pull(self, key: str = "return_value") -> Any:
        """Return what it pushed, also in an earlier try; None: nothing."""
        index = self.map_index
        which: dict[str, Any] = {} if index is None else {"map_indexes": index}  # of a mapped task Airflow gives all that were pushed
        return self.context["ti"].xcom_pull(task_ids=self.task_id, key=key, **which)

    @property
    def map_index(self) -> int | None:
        """Return its index: that of the task that asks, where both are mapped, by one task group or each by itself."""
        if self.instance is not None:
            return self.instance
        if self.task_id != self.asks.task_id:
            other = self._task()
            if not _is_mapped(other) or other.get_closest_mapped_task_group() is not self.asks.get_closest_mapped_task_group():
                return None
        own = self.context["ti"].map_index
        return own if own is not None and own >= 0 else None

    def instances(self) -> Sequence[TaskOfRun]:
        """Return the instances of the task that Airflow waits for before the asking one.

        Of a mapped task these are all of them, unless both tasks are in the same mapped group.
        """
        other = self._task()
        group = None if other is None else other.get_closest_mapped_task_group()
        if not _is_mapped(other) or (group is not None and group is self.asks.get_closest_mapped_task_group()):
            return [self]
        there = {key for key, state in self._states().items() if state != "removed"}  # of a map that was longer in an earlier try
        indexes = [key.removeprefix(f"{self.task_id}_") for key in sorted(there)]
        return [replace(self, instance=int(index)) for index in indexes if index.isdecimal()] or [self]  # of an empty map: the task

    def _states(self) -> dict[str, Any]:
        ti = self.context["ti"]
        found = ti.get_task_states(dag_id=ti.dag_id, task_ids=[self.task_id], run_ids=[ti.run_id])
        return dict(found.get(ti.run_id, {}))

    def _task(self) -> Any:
        """Return the task; None if the DAG has none of this id."""
        asks: Any = self.asks  # Airflow says no types here
        return asks.dag.task_dict.get(self.task_id) if asks.has_dag() else None


def _is_mapped(task: Any) -> bool:
    return isinstance(task, MappedOperator) or (task is not None and task.get_closest_mapped_task_group() is not None)
