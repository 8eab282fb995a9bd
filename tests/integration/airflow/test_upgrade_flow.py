"""What the upgrade DAG does around the verbs: which tasks run, are skipped, tried again. The verbs are played by a script."""

from __future__ import annotations

from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.upgrade.plan.explain import Explanation
from airflow_provider_schemamig.exceptions import Conflict, Refusal
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.triggers.ledger import PauseTrigger
from airflow_provider_schemamig.web import runs
from tests.support.airflow.fake_verbs import FakeVerbs, install
from tests.support.airflow.runs import Answer, RunDag

pytestmark = pytest.mark.airflow

LEADER = ("promote", "expand", "to_change", "change", "cutover_and_commit", "cleanup", "contract")


class Overtaken(Conflict):
    code = "overtaken"


class Incompatible(Refusal):
    code = "incompatible"


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> FakeVerbs:
    monkeypatch.setattr(SchemamigHook, "environment", property(lambda hook: f"opened {hook.schemamig_conn_id}"))
    return install(monkeypatch, FakeVerbs())


def states(found: dict[str, tuple[str, int]], *tasks: str) -> list[str]:
    return [found[task][0] for task in tasks]


def upgrade(run_dag: RunDag, **params: Any) -> dict[str, tuple[str, int]]:
    return run_dag("schemamig_upgrade", **{"environment": "/lake", "release": "/release", "gate": "none", **params})


@pytest.mark.some(1, of="flows of Airflow")
def test_empty_maps_do_not_skip_the_commit(run_dag: RunDag, verbs: FakeVerbs) -> None:
    found = upgrade(run_dag)
    assert states(found, "fill", "tail", "change", "approval", "ledger_approval") == ["skipped"] * 5
    assert states(found, "preflight", "gate", *LEADER[:3], "cutover_and_commit", "cleanup", "") == ["success"] * 8
    assert found["contract"][0] == "skipped", "the hold is not over"


@pytest.mark.some(1, of="flows of Airflow")
def test_the_verbs_get_what_the_run_was_given(run_dag: RunDag, verbs: FakeVerbs) -> None:
    upgrade(run_dag, hold=1.5, end_hold=True)
    preflight = verbs.calls["preflight"][0]
    assert preflight["env"] == "opened /lake"
    assert (str(preflight["release"]), preflight["hold"].total_seconds(), preflight["end_hold"]) == ("/release", 5400.0, True)
    assert (preflight["fill"], preflight["create"]) == (False, False)
    assert verbs.calls["plan"][0]["end_hold"] is True
    assert {verbs.calls[verb][0]["generation"] for verb in ("stale", "promote", "expand", "cutover", "cleanup", "contract")} == {7}


@pytest.mark.some(1, of="flows of Airflow")
def test_a_paused_task_is_deferred_and_goes_on_in_the_same_try(run_dag: RunDag, verbs: FakeVerbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its trigger is asked, twice, before the task is run again; the fills of a map wait each by itself."""
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__POLL_INTERVAL", "0.1")
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "0")
    looks: list[tuple[str, list[str], int | None]] = []

    def look(trigger: PauseTrigger) -> bool:
        looks.append((trigger.environment, trigger.scopes, trigger.generation))
        return len(looks) % 2 == 0

    monkeypatch.setattr(PauseTrigger, "look", look)
    verbs.fills, paused = ["a"], Paused(stage="copy", why="paused by ann", scopes=("*",), hours=True)
    for verb in ("fill", "promote", "cutover"):
        verbs.raises[verb] = [paused]
    found = upgrade(run_dag)
    assert looks == [("/lake", ["*"], 7)] * 6
    assert [found[task] for task in ("fill", "promote", "cutover_and_commit")] == [("success", 1)] * 3
    assert [len(verbs.calls[verb]) for verb in ("fill", "promote", "cutover")] == [2, 2, 2]


@pytest.mark.some(1, of="flows of Airflow")
def test_fills_are_mapped_in_chunks(run_dag: RunDag, verbs: FakeVerbs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__FILL_CHUNK_SIZE", "2")
    verbs.fills, verbs.to_change_now = ["a", "b", "c"], ["c"]
    found = upgrade(run_dag, hold=0)
    assert sorted(call["arguments"][0] for call in verbs.calls["fill"]) == [["a", "b"], ["c"]]
    assert [call["collections"] for call in verbs.calls["change"]] == [["c"]]
    assert states(found, "fill", "change", "cutover_and_commit", "") == ["success"] * 4


@pytest.mark.some(1, of="flows of Airflow")
def test_upgrade_flow_what_is_rewritten_is_copied_and_followed_until_it_is_promoted(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.fills, verbs.rewritten = ["stats"], ["planes"]
    verbs.raises["tail"] = [Overtaken()]
    found = upgrade(run_dag)
    assert [call["arguments"][0] for call in verbs.calls["fill"]] == [["stats", "planes"]]
    assert states(found, "fill", "tail", "cutover_and_commit", "") == ["success"] * 4
    assert found["tail"][1] == 1, "a conflict in a round is no failed try"
    assert {tuple(call["collections"]) for call in verbs.calls["tail"]} == {("planes",)}
    assert all(call["once"] for call in verbs.calls["tail"])


RISK = Explanation("cutover", "flights", "rename n to m", breaks=("readers and writers that use the old name fail",))


@pytest.mark.some(1)
@pytest.mark.parametrize(("explained", "asked"), [((), False), ((RISK,), True)], ids=["without risk", "with risk"])
def test_the_gate_auto_asks_where_there_is_a_risk(
    run_dag: RunDag, verbs: FakeVerbs, explained: tuple[Explanation, ...], asked: bool
) -> None:
    verbs.explained = explained
    person = Answer("Approve")
    if asked:
        person.start()
    found = upgrade(run_dag, gate="auto")
    assert states(found, "approval", "promote", "") == ["success" if asked else "skipped", "success", "success"]
    assert [call["approved_by"] for call in verbs.calls["promote"]] == ["ann" if asked else None]


@pytest.mark.soak
def test_a_rejected_approval_ends_the_tail(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.rewritten = ["planes"]
    person = Answer("Reject")
    person.start()
    found = upgrade(run_dag, gate="approval")
    assert verbs.calls["tail"], "it followed while the gate waited"
    assert states(found, "tail", "promote", "") == ["success", "skipped", "success"]
    assert not verbs.calls["cancel"]


@pytest.mark.soak
def test_a_refused_promotion_ends_the_tail(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.rewritten = ["planes"]
    verbs.raises["promote"] = [Incompatible()]
    found = upgrade(run_dag)
    assert states(found, "tail", "promote", "cutover_and_commit", "") == ["success", "failed", "upstream_failed", "failed"]


@pytest.mark.soak
def test_a_tail_that_is_refused_blocks_nothing_and_is_told(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.rewritten = ["planes"]
    verbs.raises["tail"] = [Incompatible(collection="planes")]
    found = upgrade(run_dag)
    assert found["tail"] == ("failed", 1)
    assert states(found, "cutover_and_commit", "cleanup", "") == ["success", "success", "failed"]


@pytest.mark.some(1, of="flows of Airflow")
def test_upgrade_flow_nothing_to_do_skips_everything(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.due = False
    found = upgrade(run_dag)
    assert states(found, "fingerprint", "preflight", "gate", *LEADER) == ["skipped"] * 10
    assert found[""][0] == "success"
    assert set(verbs.calls) == {"plan"}


@pytest.mark.some(1, of="flows of Airflow")
def test_drift_fails_the_gate_at_once(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.refusals = [Incompatible(collection="flights")]
    found = upgrade(run_dag)
    assert found["fingerprint"] == ("failed", 1)
    assert states(found, *LEADER, "") == ["upstream_failed"] * 7 + ["failed"]
    assert set(verbs.calls) == {"plan"}


@pytest.mark.soak
def test_with_hold_zero_contract_is_the_last_task(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.hold_over = True
    assert upgrade(run_dag, hold=0)["contract"][0] == "success"


@pytest.mark.some(1, of="flows of Airflow")
def test_a_rejected_approval_skips_everything_after_it(run_dag: RunDag, verbs: FakeVerbs) -> None:
    seen: dict[str, Any] = {}

    def look(task: Any) -> None:
        """As our page does, for the plan of this environment, for another plan, and for another environment of the same run."""
        for name, planned_by, plan in (("it", "upgrade", "d"), ("plan", "upgrade", "e"), ("group", "other", "d")):
            claim = f"airflow:{task.dag_id}/{task.run_id}/{planned_by}.preflight"
            seen[name] = getattr(runs.waiting_approval(claim, plan * 64), "task_id", None)

    person = Answer("Reject", look)
    person.start()
    found = upgrade(run_dag, gate="approval")
    assert person.question is not None
    assert seen == {"it": "upgrade.approval", "plan": None, "group": None}
    assert "Upgrade /lake?" in person.question
    assert "- `flights`: add gate STRING (instant)" in person.question
    assert "- 1.1.0: Gates are known." in person.question
    assert states(found, "approval", *LEADER) == ["success"] + ["skipped"] * 7
    assert found[""][0] == "success"
    assert not {"promote", "expand", "cutover", "cleanup", "contract"} & set(verbs.calls)
    (rejected,) = verbs.calls["reject"]
    assert (rejected["generation"], rejected["digest"], rejected["by"]) == (7, "d" * 64, "ann")


@pytest.mark.soak
def test_an_approval_lets_it_through(run_dag: RunDag, verbs: FakeVerbs) -> None:
    person = Answer("Approve")
    person.start()
    found = upgrade(run_dag, gate="approval")
    assert states(found, "approval", "ledger_approval", "promote", "cutover_and_commit") == ["success", "skipped", "success", "success"]
    (promoted,) = verbs.calls["promote"]
    assert (promoted["approved_by"], promoted["approved_plan"]) == ("ann", "d" * 64)
    assert promoted["rejected_at"] == pendulum.datetime(2026, 11, 24, 3), "the no that stood when it asked"


@pytest.mark.some(1, of="flows of Airflow")
def test_the_ledgers_approval_is_waited_for(run_dag: RunDag, verbs: FakeVerbs, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs.approvals = [False, False, True]
    monkeypatch.setattr("airflow_provider_schemamig.triggers.base.asyncio.sleep", _no_sleep)
    found = upgrade(run_dag, gate="ledger")
    assert states(found, "approval", "ledger_approval", "promote", "cutover_and_commit") == ["skipped", "success", "success", "success"]
    assert len(verbs.calls["approved"]) == 4, "looked before deferring, twice in the trigger, and once when resumed"


async def _no_sleep(seconds: float) -> None:
    assert 0 < seconds <= 30


@pytest.mark.some(1, of="flows of Airflow")
def test_conflicts_are_tried_again(run_dag: RunDag, verbs: FakeVerbs) -> None:
    tasks = {"preflight": "preflight", "promote": "promote", "expand": "expand", "cutover": "cutover_and_commit"}
    for verb in tasks:
        verbs.raises[verb] = [Overtaken(collection="flights"), Overtaken(collection="planes")]
    found = upgrade(run_dag)
    assert {task: found[task] for task in tasks.values()} == dict.fromkeys(tasks.values(), ("success", 3))
    assert found[""][0] == "success"


@pytest.mark.some(1)
@pytest.mark.parametrize("verb, task", [("promote", "promote"), ("cutover", "cutover_and_commit")])
def test_upgrade_flow_what_is_refused_fails_on_the_first_try(run_dag: RunDag, verbs: FakeVerbs, verb: str, task: str) -> None:
    verbs.raises[verb] = [Incompatible()]
    found = upgrade(run_dag)
    assert found[task] == ("failed", 1)
    assert found["contract"][0] == "upstream_failed"
    assert found[""][0] == "failed"


@pytest.mark.soak
def test_a_conflict_that_stays_uses_up_the_tries_and_no_more(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.raises["expand"] = [Overtaken() for _ in range(9)]
    assert upgrade(run_dag)["expand"] == ("failed", 4)


@pytest.mark.some(1, of="flows of Airflow")
def test_a_retry_claims_what_its_first_try_claimed(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.raises["preflight"] = [Overtaken()]
    upgrade(run_dag)
    upgrade(run_dag)
    first, second, other_run = (call["claim_id"] for call in verbs.calls["preflight"])
    assert first == second != other_run
    assert first.startswith("airflow:schemamig_upgrade/manual__")


@pytest.mark.soak
def test_a_failed_cleanup_is_harmless(run_dag: RunDag, verbs: FakeVerbs) -> None:
    verbs.raises["cleanup"] = [Incompatible()]
    found = upgrade(run_dag)
    assert states(found, "cutover_and_commit", "cleanup", "contract", "") == ["success", "failed", "skipped", "success"]


@pytest.mark.some(1, of="flows of Airflow")
def test_upgrade_flow_control(run_dag: RunDag, verbs: FakeVerbs, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.ledger.rows import Control
    from airflow_provider_schemamig.core.upgrade.context import controls

    said: list[Any] = []

    def throttle(env: object, collection: str | None, **limits: Any) -> Control:
        said.append((env, collection, limits))
        return Control(collection or "*")

    monkeypatch.setattr(controls, "throttle", throttle)
    assert run_dag("schemamig_control", environment="/lake", action="throttle", rows_per_second=500)["throttle"] == ("success", 1)
    limits = {"rows_per_second": 500, "max_files": None, "commits_per_minute": None, "window": None}
    assert said == [("opened /lake", None, {**limits, "by": "dag_test"})]
    assert run_dag("schemamig_control", environment="/lake", action="cancel", generation=7)["cancel"] == ("success", 1)
    assert verbs.calls["cancel"][0]["generation"] == 7
    assert run_dag("schemamig_control", environment="/lake", action="cancel", generation=None)["cancel"] == ("failed", 1)


@pytest.mark.some(1, of="flows of Airflow")
def test_rollback_and_maintenance(run_dag: RunDag, verbs: FakeVerbs) -> None:
    assert run_dag("schemamig_rollback", environment="/lake", allow_lossy=True)["rollback"] == ("success", 1)
    assert verbs.calls["rollback"][0]["allow_lossy"] is True
    assert run_dag("schemamig_maintenance", environment="/lake")["contract"][0] == "skipped"
    verbs.hold_over = True
    assert run_dag("schemamig_maintenance", environment="/lake")["contract"][0] == "success"
    assert verbs.calls["contract"][0]["generation"] is None
