"""The compaction task: what it hands to the verb, and when it is skipped rather than failed."""

from __future__ import annotations

from typing import Any

import pendulum
import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, HoldOpen
from airflow_provider_schemamig.operators.compaction import CompactOperator
from tests.support.airflow.fake_verbs import FakeVerbs, install


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> FakeVerbs:
    return install(monkeypatch, FakeVerbs(old_files=True))


def run(**arguments: Any) -> Any:
    return CompactOperator(task_id="compact", environment="/lake", **arguments).execute({})


def test_compact_operator_what_was_rewritten_is_counted(verbs: FakeVerbs) -> None:
    summary = run(collections=["flights"], max_files=7)
    assert (summary["files"], summary["stages"]["compact"]["count"]) == (5, 1)
    (call,) = verbs.calls["compact"]
    assert (call["collections"], call["limits"].max_files) == (["flights"], 7)


@pytest.mark.parametrize(("given", "taken"), [("flights, planes", ["flights", "planes"]), ("flights", ["flights"]), ("", []), (None, [])])
def test_compact_operator_a_rendered_text_is_names_with_commas(verbs: FakeVerbs, given: Any, taken: list[str]) -> None:
    run(collections=given)
    (call,) = verbs.calls["compact"]
    assert call["collections"] == taken


def test_compact_operator_nothing_old_is_a_skip(verbs: FakeVerbs) -> None:
    verbs.old_files = False
    with pytest.raises(AirflowSkipException):
        run()


@pytest.mark.parametrize(
    "error",
    [
        DeploymentOpen(generation=3),
        HoldOpen(generation=3, until=pendulum.now("UTC")),
        Fenced(what="shard x", held_epoch=1, current_epoch=2),
    ],
)
def test_a_deployment_goes_first(verbs: FakeVerbs, error: Exception) -> None:
    verbs.raises["compact"] = [error]
    with pytest.raises(AirflowSkipException):
        run()


def test_a_conflict_is_tried_again(verbs: FakeVerbs) -> None:
    from airflow_provider_schemamig.core.transfer.errors import FilesMoved

    verbs.raises["compact"] = [FilesMoved(uri="file:///t", version=3)]
    with pytest.raises(FilesMoved):
        run()
