"""Which gate a run goes through, and who may answer it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_schemamig.operators.arguments import BadArgument
from airflow_provider_schemamig.operators.base import bundle_of
from airflow_provider_schemamig.operators.gate import PromotionGateOperator
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group

PATHS = {"approval": "g.approval", "ledger": "g.ledger_approval", "none": "g.promote"}


def chosen(gate: str, risks: Any = None, generation: int | None = 7, *, pushed: dict[str, Any]) -> Any:
    operator = PromotionGateOperator(task_id="gate", gate=gate, paths=PATHS, plan_task_id="g.preflight")

    def xcom_pull(*, task_ids: str, key: str) -> Any:
        assert task_ids == "g.preflight"
        return {"generation": generation, "risks": risks}[key]

    ti = SimpleNamespace(xcom_pull=xcom_pull, xcom_push=lambda key, value: pushed.update({key: value}))
    return operator.choose_branch({"ti": ti})  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("gate", "risks", "wanted"),
    [
        ("approval", None, "g.approval"),
        ("ledger", [], "g.ledger_approval"),
        ("none", ["a risk"], "g.promote"),
        ("auto", [], "g.promote"),
        ("auto", ["a risk"], "g.approval"),
        ("auto", None, "g.approval"),
    ],
)
def test_the_gate_that_is_followed_and_of_which_generation_it_knows(
    pushed: dict[str, Any], gate: str, risks: list[str] | None, wanted: str
) -> None:
    assert chosen(gate, risks, pushed=pushed) == wanted
    assert pushed == {"let_through": {"generation": 7, "plan_task_id": "g.preflight", "environment": "", "path": wanted}}


def test_no_gate_is_followed_where_nothing_was_planned(pushed: dict[str, Any]) -> None:
    assert chosen("none", [], None, pushed=pushed) == ()
    assert not pushed


def test_an_unknown_gate_is_refused(pushed: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match="approval, ledger, none, auto"):
        chosen("garden", pushed=pushed)
    assert not pushed


def test_the_group_hands_on_who_may_answer() -> None:
    with DAG("d", schedule=None) as dag:
        upgrade_task_group("one", environment="/lake", release="/release", assigned_users=["ann", "ben"])
        upgrade_task_group("two", environment="/lake", release="/release")
    found: Any = dag.get_task("one.approval")
    assert found.assigned_users == [{"id": "ann", "name": "ann"}, {"id": "ben", "name": "ben"}]
    everybody: Any = dag.get_task("two.approval")
    assert everybody.assigned_users is None


@pytest.mark.parametrize(
    ("bundle", "wanted"),
    [
        (None, None),
        (SimpleNamespace(name="dags-folder", version=None), "dags-folder"),
        (SimpleNamespace(name="flights", version="1a2b3c"), "flights@1a2b3c"),
    ],
)
def test_the_bundle_of_a_run(bundle: Any, wanted: str | None) -> None:
    assert bundle_of({"ti": SimpleNamespace(bundle_instance=bundle)}) == wanted  # type: ignore[typeddict-item]
    assert bundle_of({}) is None
