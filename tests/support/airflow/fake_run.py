"""A run of a DAG, as a task in it asks for the states of its other tasks, and for what these pushed."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class FakeRun:
    """``states``: by task id, with ``_3`` for the fourth instance of a mapped task. ``pushed``: by the same, then by key."""

    states: dict[str, Any] = field(default_factory=dict)
    pushed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def context(self, map_index: int = -1) -> Any:
        """Return the context of a task of the run."""
        ti = SimpleNamespace(
            dag_id="up",
            run_id="manual__2026-11-24T03:00:00+00:00",
            map_index=map_index,
            id=uuid.UUID(int=1),
            task_id="t",
            xcom_pull=self._pull,
            xcom_push=lambda key, value: self.pushed.setdefault("t", {}).update({key: value}),
            get_task_states=self._states_of,
        )
        run = SimpleNamespace(dag_id="up", run_id=ti.run_id, triggering_user_name="bob")
        return {"ti": ti, "task_instance": ti, "dag_run": run, "dag": SimpleNamespace(folder="/dags"), "params": {}}

    def _pull(self, task_ids: str, key: str, map_indexes: int | None = None) -> Any:
        """Return what a task pushed; of a mapped one, whose index is not said, all that its instances did, as Airflow does."""
        if map_indexes is not None:
            return self.pushed.get(f"{task_ids}_{map_indexes}", {}).get(key)
        instances = [self.pushed.get(name, {}).get(key) for name in self._instances(task_ids, self.states)]
        return instances or self.pushed.get(task_ids, {}).get(key)

    def _states_of(self, dag_id: str, task_ids: Sequence[str], run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        names = [name for task_id in task_ids for name in (task_id, *self._instances(task_id, self.states))]
        return {run_ids[0]: {name: self.states[name] for name in names if name in self.states}}

    @staticmethod
    def _instances(task_id: str, names: Any) -> list[str]:
        return [name for name in names if name.startswith(f"{task_id}_") and name.removeprefix(f"{task_id}_").isdecimal()]
