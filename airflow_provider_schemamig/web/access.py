"""The rights to look and to act: Airflow's auth manager is asked for every route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request, status

#: The DAG whose viewers may look at the page.
SHOWN_WITH = "schemamig_upgrade"


def may_see(user: BaseUser, dag_id: str) -> bool:
    """Return whether the user may see a DAG."""
    return get_auth_manager().is_authorized_dag(method="GET", details=_details(dag_id), user=user)


def may_see_runs(user: BaseUser, dag_id: str) -> bool:
    """Return whether the user may see the runs of a DAG."""
    manager, details = get_auth_manager(), _details(dag_id)
    return manager.is_authorized_dag(method="GET", access_entity=DagAccessEntity.RUN, details=details, user=user)


def may_trigger(user: BaseUser, dag_id: str) -> bool:
    """Return whether the user may trigger a DAG."""
    manager, details = get_auth_manager(), _details(dag_id)
    return manager.is_authorized_dag(method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user)


def viewer(user: GetUserDep) -> BaseUser:
    """Return the user, who may look. 401 for nobody, 403 for one who may not see the DAGs."""
    if not may_see(user, SHOWN_WITH):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"Forbidden: the page is for those who may see the DAG {SHOWN_WITH}.")
    return user


Viewer = Annotated[BaseUser, Depends(viewer)]


def doer(dag_id: str) -> Callable[[Request, BaseUser], BaseUser]:
    """Return a dependency: the user, who may trigger ``dag_id``, by a request of this page's own (JSON, same origin)."""

    def allowed(request: Request, user: Viewer) -> BaseUser:
        if not may_trigger(user, dag_id):
            raise HTTPException(status.HTTP_403_FORBIDDEN, f"Forbidden: this is for those who may trigger the DAG {dag_id}.")
        _refuse_foreign(request)
        return user

    return allowed


def _refuse_foreign(request: Request) -> None:
    """Refuse what another site made the browser send: such a request has no JSON body without being asked about first."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(status.HTTP_415_UNSUPPORTED_MEDIA_TYPE, "Send JSON.")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden: this request comes from another site.")


def _details(dag_id: str) -> DagDetails:
    return DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
