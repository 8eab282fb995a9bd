"""What the page does in Airflow itself: start runs of the shipped DAGs, answer an approval that waits, and find what a run is about."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pendulum
from airflow.api.common.trigger_dag import trigger_dag
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
from airflow.models.dag import DagModel, DagTag
from airflow.models.hitl import HITLDetail
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk.exceptions import AirflowException
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import and_, select

from airflow_provider_schemamig.exceptions import Refusal
from airflow_provider_schemamig.gates.asked_plans import ASKED, asked_from
from airflow_provider_schemamig.links.plan import run_page
from airflow_provider_schemamig.web.places import TAG

#: The DAGs behind the page's buttons.
CONTROL, ROLLBACK, RESTORE = "schemamig_control", "schemamig_rollback", "schemamig_restore"
_CLAIM = "airflow:"
_TASK_KEY = ("dag_id", "run_id", "task_id", "map_index")
_WAITING = frozenset({"awaiting_input", "deferred", "running"})
#: A release folder is looked at again after so many seconds.
_SECONDS = 30


class RunNotStarted(Refusal):
    code = "run_not_started"
    message = "Airflow did not start a run of {dag_id}: {reason}."
    next_action = "See that the DAG is there, has no import error and is not paused."
    dag_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """An approval of Airflow's that waits for an answer. ``rejected_at``: of the no that stood when it asked. ``assigned``: the ids of
    those who may give it; none: whoever may trigger."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    rejected_at: pendulum.DateTime | None
    assigned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NextRelease:
    """The release that a DAG takes an environment to."""

    dag_id: str
    version: str


@dataclass(frozen=True, slots=True)
class UpgradeDag:
    """A DAG that takes an environment to a release. ``environment``, ``release``: what its sensor is given; ``defaults``: of its form."""

    dag_id: str
    environment: str
    release: str
    defaults: Mapping[str, str]
    file: str

    def given(self, conf: Mapping[str, Any]) -> str:
        """Return what a run with this form calls its environment; "" where only its tasks know."""
        return _filled(self.environment, {**self.defaults, **conf})


def check_startable(dag_id: str) -> None:
    """Raise RunNotStarted where a run of the DAG would not begin."""
    with create_session() as session:
        paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id, ~DagModel.is_stale))
    if paused is None:
        raise RunNotStarted(dag_id=dag_id, reason="there is no such DAG")
    if paused:
        raise RunNotStarted(dag_id=dag_id, reason="it is paused in Airflow")


def start(dag_id: str, user: BaseUser, conf: Mapping[str, Any]) -> str:
    """Start a run in the user's name and return its id. Raises RunNotStarted."""
    try:
        run = trigger_dag(dag_id, triggered_by=DagRunTriggeredByType.UI, triggering_user_name=user.get_name(), conf=dict(conf))
    except (AirflowException, ValueError) as error:
        raise RunNotStarted(dag_id=dag_id, reason=str(error).rstrip(".")) from None
    if run is None:
        raise RunNotStarted(dag_id=dag_id, reason="it gave no reason")
    return str(run.run_id)


def address_of(dag_id: str, run_id: str) -> str:
    """Return the path of a run's page in Airflow."""
    return urlsplit(run_page(SimpleNamespace(dag_id=dag_id, run_id=run_id))).path


def claim_of(claimed_by: str) -> tuple[str, str] | None:
    """Return DAG and run of a claim that a task made (``airflow:dag/run/task``); None for others."""
    found = _claim(claimed_by)
    return None if found is None else found[:2]


def _claim(claimed_by: str) -> tuple[str, str, str] | None:
    """Return DAG, run and task of a claim."""
    if not claimed_by.startswith(_CLAIM):
        return None
    dag_id, _, rest = claimed_by.removeprefix(_CLAIM).partition("/")
    run_id, _, task_id = rest.rpartition("/")
    return (dag_id, run_id, task_id) if dag_id and run_id else None


def waiting_approval(claimed_by: str, plan_digest: str) -> WaitingApproval | None:
    """Return the waiting approval of this very plan, in the run that claimed its generation.

    A run may ask about several environments, each by an approval of its own.
    """
    claim = _claim(claimed_by)
    if claim is None:
        return None
    dag_id, run_id, planned_by = claim
    query = (
        select(TaskInstance, HITLDetail, XComModel.value)
        .join(HITLDetail, HITLDetail.ti_id == TaskInstance.id)
        .join(XComModel, and_(*(getattr(XComModel, key) == getattr(TaskInstance, key) for key in _TASK_KEY), XComModel.key == ASKED))
        .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, HITLDetail.responded_at.is_(None))
    )
    with create_session() as session:
        for task, detail, pushed in session.execute(query):
            plan = asked_from(json.loads(pushed) if isinstance(pushed, str) else pushed).get(planned_by.partition("[")[0])
            if plan is None or plan.plan_digest != plan_digest:
                continue
            if task.operator == "PlanApprovalOperator" and str(task.state) in _WAITING:
                assigned = frozenset(str(user["id"]) for user in detail.assigned_users or ())
                return WaitingApproval(task.dag_id, task.run_id, task.task_id, task.map_index, plan.rejected_at, assigned)
    return None


def may_answer(approval: WaitingApproval, user: BaseUser) -> bool:
    """Return whether the user may answer an approval: before anything is written."""
    manager, details = get_auth_manager(), DagDetails(id=approval.dag_id, team_name=DagModel.get_team_name(approval.dag_id))
    if not manager.is_authorized_dag(method="PUT", access_entity=DagAccessEntity.HITL_DETAIL, details=details, user=user):
        return False
    return not approval.assigned or bool(manager.is_authorized_hitl_task(assigned_users=set(approval.assigned), user=user))


def answer(approval: WaitingApproval, user: BaseUser, *, approve: bool) -> None:
    """Answer an approval as the user. Raises HTTPException: 403 for one it is not assigned to, 409 where somebody was faster."""
    payload = UpdateHITLDetailPayload(chosen_options=["Approve" if approve else "Reject"], params_input={})
    with create_session() as session:
        update_hitl_detail(approval.dag_id, approval.run_id, approval.task_id, payload, user, session, approval.map_index)


# --- the upgrade DAGs ----------------------------------------------------------------------------------------------------------------


def next_releases() -> dict[str, NextRelease]:
    """Return the release that a DAG would take an environment to, by the DAG's name of the environment."""
    return dict(_next_releases(int(time.time() / _SECONDS)))


@functools.lru_cache(maxsize=1)
def _next_releases(moment: int) -> tuple[tuple[str, NextRelease], ...]:
    found = ((dag, _version(Path(dag.file).parent / _filled(dag.release, dag.defaults))) for dag in _upgrade_dags(moment))
    return tuple((dag.given({}), NextRelease(dag.dag_id, version)) for dag, version in found if dag.given({}) and version is not None)


def upgrade_dags() -> tuple[UpgradeDag, ...]:
    """Return the DAGs that take environments to releases: ours, and those that are made with our task group."""
    return _upgrade_dags(int(time.time() / _SECONDS))


@functools.lru_cache(maxsize=1)
def _upgrade_dags(_: int) -> tuple[UpgradeDag, ...]:
    return tuple(_found())


def _found() -> Iterator[UpgradeDag]:
    with create_session() as session:
        tagged = session.scalars(select(DagTag.dag_id).where(DagTag.name == TAG)).all()
        for dag_id in tagged:
            dag = SerializedDagModel.get_dag(dag_id, session=session)
            file = session.scalar(select(DagModel.fileloc).where(DagModel.dag_id == dag_id))
            if dag is None:
                continue
            defaults = {name: value for name, value in dag.params.dump().items() if isinstance(value, str)}
            for task in dag.task_dict.values():
                if task.task_type == "FingerprintSensor":
                    environment, release = str(getattr(task, "environment", "")), str(getattr(task, "release", ""))
                    yield UpgradeDag(dag_id, environment, release, defaults, file or "")


def _filled(template: str, params: Mapping[str, Any]) -> str:
    """Return a field of a task with what the DAG's form says in it; "" for any other template."""
    text = template.strip()
    if text.startswith("{{") and text.endswith("}}"):
        return str(params.get(text[2:-2].strip().removeprefix("params.")) or "")
    return text


def _version(folder: Path) -> str | None:
    import tomllib

    try:
        return str(tomllib.loads((folder / "release.toml").read_text())["version"])
    except (OSError, ValueError, KeyError):  # the api-server need not have the folder
        return None
