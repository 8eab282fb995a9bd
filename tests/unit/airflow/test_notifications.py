"""What people are told through Airflow's notifiers: by which task, in which words, without credentials, and at no risk to the task."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.providers.smtp.hooks.smtp import SmtpHook
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG, BaseNotifier
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput, TaskDeferred

from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.upgrade.context.context import Outcome
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.get_provider_info import get_provider_info
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.notifications.schemamig import EVENTS, LONGEST, Notice, SchemamigNotifier, UnknownEvent, tell
from airflow_provider_schemamig.operators.gate import PlanApprovalOperator
from airflow_provider_schemamig.operators.leader import ContractOperator, CutoverOperator, PromoteLeaderOperator
from airflow_provider_schemamig.operators.replica_errors import StreamStopped
from airflow_provider_schemamig.operators.replicas import ReplicateCollectionOperator
from airflow_provider_schemamig.operators.rollback import RollbackOperator
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from airflow_provider_schemamig.sensors.promotion import PromotionSensor
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group
from tests.support.airflow.fake_verbs import FakeVerbs, install

LAKE = "/lake/prod"


class Recorded(BaseNotifier):
    """Keeps what it would send, as its templates render it."""

    template_fields = ("words",)

    def __init__(self, sent: list[tuple[str, str]], words: str = "{{ schemamig.subject }}") -> None:
        super().__init__()
        self.sent = sent
        self.words = words

    def notify(self, context: Any) -> None:
        self.sent.append((context["schemamig"]["event"], self.words))


class Unreachable(BaseNotifier):
    def notify(self, context: Any) -> None:
        raise OSError("https://bot:hunter22secret@chat.example.org is not there")


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> FakeVerbs:
    monkeypatch.setattr(SchemamigHook, "environment", property(lambda hook: f"opened {hook.schemamig_conn_id}"))
    return install(monkeypatch, FakeVerbs())


@pytest.fixture
def sent() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def context() -> Any:
    ti = SimpleNamespace(dag_id="up", run_id="r1", task_id="t", map_index=-1, xcom_push=lambda *_, **__: None, xcom_pull=lambda **_: None)
    ti.get_task_states = lambda run_ids, task_ids, **_: {run_ids[0]: dict.fromkeys(task_ids, "success")}
    return {"ti": ti, "params": {}}


def paused() -> Paused:
    return Paused(stage="cutover", why="ben said so", scopes=("*",), hours=False)


@pytest.mark.parametrize(
    "make, event, words",
    [
        (lambda kw: PromoteLeaderOperator(generation=7, **kw), "promoted", "Generation 7 of /lake/prod is promoted"),
        (lambda kw: CutoverOperator(generation=7, **kw), "committed", "/lake/prod is at "),
        (lambda kw: RollbackOperator(**kw), "rolled_back", "/lake/prod is back at "),
    ],
    ids=["promoted", "committed", "rolled back"],
)
def test_notifications_what_is_done_is_told_once(make: Any, event: str, words: str, verbs: FakeVerbs, sent: Any, context: Any) -> None:
    context["dag_run"] = SimpleNamespace(dag_id="up", run_id="r1", triggering_user_name="ann")
    make({"task_id": "t", "environment": LAKE, "notifiers": SchemamigNotifier(via=Recorded(sent))}).execute(context)
    assert [(name, text.startswith(words)) for name, text in sent] == [(event, True)]


def test_drift_is_told_with_the_reason_and_the_task_still_fails(verbs: FakeVerbs, sent: Any, context: Any) -> None:
    verbs.raises["cutover"] = [DriftFound(collection="flights", differences=("a",))]
    notifier = SchemamigNotifier(via=Recorded(sent, "{{ schemamig.text }}"))
    with pytest.raises(AirflowFailException):
        CutoverOperator(task_id="t", environment=LAKE, generation=7, notifiers=notifier).execute(context)
    assert [(event, "[drift] flights" in text) for event, text in sent] == [("drift", True)]


def test_the_sensor_of_drift_tells_what_it_waited_for(verbs: FakeVerbs, sent: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FingerprintSensor, "poke", lambda self, context: True)
    sensor = FingerprintSensor(
        task_id="t", environment=LAKE, looks_for="drift", deferrable=True, notifiers=SchemamigNotifier(via=Recorded(sent))
    )
    sensor.execute(context)
    assert sent == [("drift", "/lake/prod was changed by somebody else")]


def test_a_pause_is_told_when_the_task_is_deferred(verbs: FakeVerbs, sent: Any, context: Any) -> None:
    verbs.raises["cutover"] = [paused()]
    with pytest.raises(TaskDeferred):
        CutoverOperator(task_id="t", environment=LAKE, generation=7, notifiers=SchemamigNotifier(via=Recorded(sent))).execute(context)
    assert sent == [("paused", "t on /lake/prod is paused")]


@pytest.mark.parametrize("minutes, told", [(-1, 0), (90, 1), (150, 0)])
def test_the_end_of_a_hold_is_told_before_it_comes(
    verbs: FakeVerbs, sent: Any, context: Any, monkeypatch: pytest.MonkeyPatch, minutes: int, told: int
) -> None:
    until = pendulum.now("UTC").add(minutes=minutes)
    hold = {"generation": 2, "from": "1.0.0", "to": "1.1.0", "until": until.isoformat(), "state": "open", "over": minutes < 0}
    monkeypatch.setattr(verbs, "contract", lambda *_, **__: Outcome(None, None, None, None, (), (hold,)))
    monkeypatch.setattr("airflow_provider_schemamig.core.commands.contract", verbs.contract)
    with pytest.raises(AirflowSkipException):
        ContractOperator(task_id="t", environment=LAKE, notifiers=SchemamigNotifier(via=Recorded(sent))).execute(context)
    assert sent == [("hold_ends_soon", f"The way back of /lake/prod to 1.0.0 ends at {until:%Y-%m-%d %H:%M} UTC")] * told


def test_a_stream_that_stopped_is_told(sent: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise StreamStopped(collection="flights", origin="/west", detail="a gap")

    monkeypatch.setattr(ReplicateCollectionOperator, "_bring", stop)
    task = ReplicateCollectionOperator(task_id="t", origin="/west", target="/east", notifiers=SchemamigNotifier(via=Recorded(sent)))
    monkeypatch.setattr(task, "whereabouts", lambda context: ("/east", "DIR"))
    with pytest.raises(AirflowFailException):
        task.resume_execution("execute_complete", {"event": {"deadline": 0, "brought": {}}}, context)
    assert sent == [("stream_stopped", "A stream to /east stopped")]


def test_the_gate_of_the_ledger_tells_what_to_type(verbs: FakeVerbs, sent: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PromotionSensor, "poke", lambda self, context: False)
    monkeypatch.setattr("airflow_provider_schemamig.sensors.promotion.offer_plan", lambda *_: None)
    notifier = SchemamigNotifier(via=Recorded(sent, "{{ schemamig.text }}"))
    with pytest.raises(TaskDeferred):
        PromotionSensor(task_id="t", environment=LAKE, generation=7, deferrable=True, notifiers=notifier).execute(context)
    assert [event for event, _ in sent] == ["gate_waits"]
    assert f"schemamig approve --env /lake/prod --generation 7 --plan {'d' * 64}" in sent[0][1]


def test_the_gate_in_airflow_tells_the_plan_and_the_page(sent: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own code calls the notifiers of an approval; here its database is not asked."""
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **_: None)
    monkeypatch.setattr(
        "airflow_provider_schemamig.operators.gate._request_shown", lambda task, _: SimpleNamespace(body=task.body, assigned_users=None)
    )
    monkeypatch.setattr("airflow_provider_schemamig.operators.gate.offer_plan", lambda *_: None)
    monkeypatch.setattr("airflow_provider_schemamig.operators.gate.page_of", lambda ti, task: "http://af/t")
    notifier = SchemamigNotifier(via=Recorded(sent, "{{ schemamig.subject }} {{ schemamig.text }} {{ schemamig.environment }}"))
    about: Any = {"environment": LAKE, "plan_task_id": "p", "notifiers": notifier}
    task = PlanApprovalOperator(task_id="t", subject="Upgrade?", body="**gate** is added", **about)
    context["ti"].id = "1"
    context["task_instance"] = context["ti"]
    with pytest.raises(TaskAwaitingInput):
        task.execute(context)
    (event, text), *more = sent
    assert (event, more) == ("gate_waits", [])
    assert all(part in text for part in ("Upgrade?", "http://af/t/required_actions", "gate is added", LAKE))


def test_notifications_only_the_events_that_were_asked_for_are_told(sent: Any, context: Any) -> None:
    notifier = SchemamigNotifier(via=Recorded(sent), events=["drift"])
    for event in EVENTS:
        tell([notifier], context, Notice(event, LAKE, event))
    assert sent == [("drift", "drift")]
    with pytest.raises(UnknownEvent, match="'sunset'"):
        SchemamigNotifier(via=Recorded(sent), events=["sunset"])


def test_one_sender_renders_each_notice_anew(sent: Any, context: Any) -> None:
    notifier = SchemamigNotifier(via=Recorded(sent))
    for subject in ("first", "second"):
        tell([notifier], context, Notice("drift", LAKE, subject))
    assert [text for _, text in sent] == ["first", "second"]


def test_a_sender_that_fails_fails_nothing_and_the_others_send(sent: Any, context: Any) -> None:
    tell([SchemamigNotifier(via=[Unreachable(), Recorded(sent)])], context, Notice("drift", LAKE, "moved"))
    assert sent == [("drift", "moved")]


def test_no_field_of_a_notice_holds_a_credential_or_markup_of_others() -> None:
    secret = "s3://key:hunter22secret@bucket/lake"
    notice = Notice("paused", secret, f"paused {secret}\x1b[2J", f"<b>{secret}</b>\n" + "x" * 5000, {"approver": f"{secret}\u202e"})
    told = notice.to_context({})
    assert "hunter22" not in json.dumps(told)
    assert "\x1b" not in told["subject"] and "\u202e" not in told["approver"]
    assert "<b>" not in told["html"] and len(told["text"]) < LONGEST + 60


def test_a_mail_of_airflows_own_notifier_has_the_words(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mails: list[dict[str, Any]] = []
    monkeypatch.setattr(SmtpHook, "__enter__", lambda self: SimpleNamespace(send_email_smtp=lambda **mail: mails.append(mail)))
    monkeypatch.setattr(SmtpHook, "__exit__", lambda *_: None)
    mail = SmtpNotifier(
        to="a@example.org", from_email="b@example.org", subject="{{ schemamig.subject }}", html_content="{{ schemamig.html }}"
    )
    tell([SchemamigNotifier(via=mail)], context, Notice("committed", LAKE, "prod is at 1.1.0", "a < b"))
    assert [(sent["subject"], sent["html_content"]) for sent in mails] == [("prod is at 1.1.0", "<pre>a &lt; b</pre>")]


def test_the_group_gives_its_notifiers_to_every_task_and_serializes_alike() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    def written() -> tuple[DAG, str]:
        with DAG("told", schedule=None) as dag:
            upgrade_task_group(environment=LAKE, release="/r", notifiers=SchemamigNotifier(via=Recorded([])))
        return dag, json.dumps(DagSerialization.to_dict(dag), sort_keys=True, default=str)

    dag, first = written()
    assert first == written()[1], "a DAG that is parsed again is the same DAG"
    silent = {
        task.task_id for task in dag.tasks if not (getattr(task, "notifiers", None) or getattr(task, "partial_kwargs", {}).get("notifiers"))
    }
    assert silent == {"upgrade.gate"}, "it only chooses"


def test_the_provider_lists_the_notifier() -> None:
    assert get_provider_info()["notifications"] == [f"{SchemamigNotifier.__module__}.{SchemamigNotifier.__name__}"]
