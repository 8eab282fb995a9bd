"""The graph of every shipped DAG, from the route that Airflow's page draws it by: every task at once, none in a closed box."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.airflow


def structure(page: Any, dag_id: str) -> dict[str, Any]:
    answer = page.get("/ui/structure/structure_data", params={"dag_id": dag_id})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_no_task_of_a_shipped_dag_lies_in_a_box(page: Any, shipped_dags: dict[str, Any]) -> None:
    for dag_id in (name for name in shipped_dags if name.startswith("schemamig_")):
        nodes = {node["id"]: node for node in structure(page, dag_id)["nodes"]}
        assert set(nodes) == set(shipped_dags[dag_id].task_ids), dag_id
        assert not any(node["children"] for node in nodes.values()), dag_id
        assert {name: node["label"] for name, node in nodes.items()} == {name: name.rpartition(".")[2] for name in nodes}


def test_the_graph_draws_what_is_mapped_and_what_follows(page: Any) -> None:
    found = structure(page, "schemamig_upgrade")
    assert {node["id"] for node in found["nodes"] if node["is_mapped"]} == {f"upgrade.{name}" for name in ("fill", "tail", "change")}
    edges = {(edge["source_id"].removeprefix("upgrade."), edge["target_id"].removeprefix("upgrade.")) for edge in found["edges"]}
    assert {("gate", "approval"), ("gate", "ledger_approval"), ("gate", "promote"), ("fill", "tail"), ("cleanup", "contract")} <= edges
