"""The graph of a shipped DAG shows every task at once: none lies in a group that somebody would have to open."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_schemamig.task_groups.flat import flat
from airflow_provider_schemamig.task_groups.replicate import replicate_task_group
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group
from airflow_provider_schemamig.task_groups.upgrade_dags import upgrade_dags
from tests.support.airflow.home import DAGS

#: What belongs to the place of a task in the graph; all else of it stays as it is in a group.
OF_PLACE = ("_task_display_name", "task_group")


def graph(dag: Any) -> list[dict[str, Any]]:
    """The nodes as the page's server makes them, of the DAG that comes back out of Airflow's database."""
    from airflow.api_fastapi.core_api.services.ui.task_group import task_group_to_dict

    return [task_group_to_dict(child) for child in kept(dag).task_group.topological_sort()]  # type: ignore[no-untyped-call]


def edges(dag: Any) -> set[tuple[str, str]]:
    from airflow.utils.dag_edges import dag_edges

    return {(edge["source_id"], edge["target_id"]) for edge in dag_edges(kept(dag))}


def kept(dag: Any) -> Any:
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.from_dict(DagSerialization.to_dict(dag))


def dag_with(make: Any, is_flat: bool, **arguments: Any) -> Any:
    with DAG("made", schedule=None) as dag:
        group = make(**arguments)
        if is_flat:
            flat(group)
    return dag


CASES = {
    "upgrade": (upgrade_task_group, {"environment": "/lake", "release": "/release"}),
    "replicate": (replicate_task_group, {"origin": "/west", "target": "/east"}),
}
FIRST = {"upgrade": ("fingerprint", "preflight"), "replicate": ("collections", "bring")}


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_every_task_of_a_shipped_dag_is_drawn_and_called_by_its_name(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DAGS)
    dags = [dag for dag in runpy.run_path(str(path)).values() if isinstance(dag, DAG)]
    assert dags
    for dag in dags:
        assert {node["id"]: node["label"] for node in graph(dag)} == {name: name.rpartition(".")[2] for name in dag.task_ids}


def test_so_is_every_task_of_a_dag_for_one_of_several_environments() -> None:
    (dag,) = upgrade_dags(["lake"], release="release").values()
    nodes = graph(dag)
    assert [node["label"] for node in nodes][:3] == ["fingerprint", "preflight", "fill_chunks"]
    assert {node["id"] for node in nodes} == set(dag.task_ids)


@pytest.mark.parametrize("name", CASES)
def test_a_group_in_a_dag_of_ones_own_stays_one(name: str) -> None:
    make, arguments = CASES[name]
    (node,) = graph(dag_with(make, False, **arguments))
    assert node["id"] == name
    assert {child["id"] for child in node["children"]} > {f"{name}.{task}" for task in FIRST[name]}


@pytest.mark.parametrize("name", CASES)
def test_tasks_and_edges_are_those_of_the_group(name: str) -> None:
    make, arguments = CASES[name]
    grouped, flattened = dag_with(make, False, **arguments), dag_with(make, True, **arguments)
    assert edges(flattened) == edges(grouped) != set()
    assert {task.task_id: said(task) for task in flattened.tasks} == {task.task_id: said(task) for task in grouped.tasks}
    assert [task.task_id for task in flattened.tasks if task.is_mapped] == [task.task_id for task in grouped.tasks if task.is_mapped] != []


def said(task: Any) -> dict[str, Any]:
    """What the scheduler and the worker get of a task."""
    from airflow.serialization.serialized_objects import OperatorSerialization

    found: dict[str, Any] = OperatorSerialization.serialize(task)["__var"]
    for name in OF_PLACE:
        found.pop(name, None)
        found.get("partial_kwargs", {}).pop(name.removeprefix("_"), None)
    return found


def test_its_neighbours_stay() -> None:
    from airflow.providers.standard.operators.empty import EmptyOperator

    with DAG("made", schedule=None) as dag:
        before, after = EmptyOperator(task_id="before"), EmptyOperator(task_id="after")
        group = upgrade_task_group(environment="/lake", release="/release")
        before >> group >> after
        flat(group)
    assert {("before", "upgrade.fingerprint"), ("upgrade.contract", "after")} <= edges(dag)
    assert {node["id"] for node in graph(dag)} == set(dag.task_ids)


def test_a_part_of_it_can_be_run() -> None:
    """What the page does for *clear, with what follows*, and for the filter of the graph."""
    dag = kept(dag_with(upgrade_task_group, True, environment="/lake", release="/release"))
    part = dag.partial_subset("upgrade.cutover_and_commit", include_downstream=True, include_upstream=False)
    wanted = {f"upgrade.{name}" for name in ("cutover_and_commit", "cleanup", "contract")}
    assert set(part.task_group.children) == set(part.task_ids) == wanted
