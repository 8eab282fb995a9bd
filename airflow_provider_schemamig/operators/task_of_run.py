"""Another task of the same run, as an operator asks for it: in a mapped task group that of its own index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


@dataclass(frozen=True, slots=True)
class TaskOfRun:
    """``asks``: the operator that wants to know, in the run of ``context``."""

    asks: BaseOperator
    context: Context
    task_id: str

    @property
    def key(self) -> str:
        """Return what Airflow calls the task among the states of a run's tasks."""
        index = self._map_index
        return self.task_id if index is None else f"{self.task_id}_{index}"

    @property
    def state(self) -> str | None:
        ti = self.context["ti"]
        found = ti.get_task_states(dag_id=ti.dag_id, task_ids=[self.task_id], run_ids=[ti.run_id])
        state = found.get(ti.run_id, {}).get(self.key)
        return None if state is None else str(state)

    def pull(self, key: str = "return_value") -> Any:
        """Return what it pushed, also in an earlier try; None: nothing."""
        index = self._map_index
        which: dict[str, Any] = {} if index is None else {"map_indexes": index}  # of a mapped task Airflow gives all that were pushed
        return self.context["ti"].xcom_pull(task_ids=self.task_id, key=key, **which)

    @property
    def _map_index(self) -> int | None:
        if self.task_id != self.asks.task_id:
            group = self.asks.get_closest_mapped_task_group()
            other = self.asks.dag.task_dict.get(self.task_id) if group is not None else None
            if other is None or other.get_closest_mapped_task_group() is not group:
                return None
        index = self.context["ti"].map_index
        return index if index is not None and index >= 0 else None
