"""What the page does, by POST with JSON: who and a reason go into the ledger's history.

A verb of the ledger alone acts at once, in the reading process; what touches tables is a run of a shipped DAG.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Depends, HTTPException, status
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, field_validator

from airflow_provider_schemamig.credentials import blank_typed
from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.visible import visible
from airflow_provider_schemamig.web import runs
from airflow_provider_schemamig.web.access import doer
from airflow_provider_schemamig.web.pages import Known, reader
from airflow_provider_schemamig.web.places import Place
from airflow_provider_schemamig.web.runs import CONTROL, RESTORE, ROLLBACK

actions = APIRouter()

Controller = Annotated[BaseUser, Depends(doer(CONTROL))]
Rollbacker = Annotated[BaseUser, Depends(doer(ROLLBACK))]
Restorer = Annotated[BaseUser, Depends(doer(RESTORE))]
Reason = Annotated[str, Field(min_length=1, max_length=500, description="Why; it is written into the history.")]
GivenName = Annotated[str, Field(min_length=1, max_length=255)]


class Asked(BaseModel):
    """Every action has a reason. What the page itself knows of the button, and fields that a verb does not take, are passed over."""

    model_config = ConfigDict(extra="ignore")
    reason: Reason

    @field_validator("reason")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("a reason says something")
        return visible(" ".join(blank_typed(value).split()))

    @field_validator("*", mode="before")
    @classmethod
    def _nothing_for_empty(cls, value: Any) -> Any:
        return None if value == "" else value


class ScopeAsked(Asked):
    collection: GivenName | None = None


class CollectionAsked(Asked):
    collection: GivenName


class LimitsAsked(ScopeAsked):
    rows_per_second: Annotated[int | None, Field(ge=1, le=2**53)] = None
    max_files: Annotated[int | None, Field(ge=1, le=2**53)] = None
    commits_per_minute: Annotated[int | None, Field(ge=1, le=2**53)] = None
    window: Annotated[str | None, Field(pattern=r"^\d{1,2}-\d{1,2}$")] = None


class PlanAsked(Asked):
    generation: Annotated[int, Field(ge=1, le=2**53)]
    plan: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class GenerationAsked(Asked):
    generation: Annotated[int, Field(ge=1, le=2**53)]


class HoldAsked(GenerationAsked):
    ignore_nodes: bool = False


class RollbackAsked(GenerationAsked):
    allow_lossy: bool = False


class RevertAsked(CollectionAsked):
    allow_lossy: bool = False


class RestoreAsked(CollectionAsked):
    origin: GivenName
    allow_lossy: bool = False


# --- the ledger alone ----------------------------------------------------------------------------------------------------------------


@actions.post("/env/{key}/pause")
async def pause(place: Known, user: Controller, asked: ScopeAsked) -> JSONResponse:
    """Let nothing go further."""
    return await _act(place, user, "pause", asked)


@actions.post("/env/{key}/resume")
async def resume(place: Known, user: Controller, asked: ScopeAsked) -> JSONResponse:
    """Take a pause or a postponement back."""
    return await _act(place, user, "resume", asked)


@actions.post("/env/{key}/postpone")
async def postpone(place: Known, user: Controller, asked: ScopeAsked) -> JSONResponse:
    """Let the last step of online changes wait."""
    return await _act(place, user, "postpone", asked)


@actions.post("/env/{key}/force")
async def force(place: Known, user: Controller, asked: CollectionAsked) -> JSONResponse:
    """Let writers be locked out for the last step."""
    return await _act(place, user, "force", asked)


@actions.post("/env/{key}/throttle")
async def throttle(place: Known, user: Controller, asked: LimitsAsked) -> JSONResponse:
    """Set the limits to exactly these."""
    hours = None if asked.window is None else [int(part) for part in asked.window.split("-")]
    return _answer(await reader.act(place, "throttle", user.get_name(), **{**asked.model_dump(), "window": hours}))


@actions.post("/env/{key}/approve")
async def approve(place: Known, user: Controller, asked: PlanAsked) -> JSONResponse:
    """Approve a plan; an approval of Airflow's that waits for it is answered, too."""
    waiting = await _waiting(place, user, asked)
    known = None if waiting is None or waiting.rejected_at is None else waiting.rejected_at.isoformat()
    found = await reader.act(place, "approve", user.get_name(), **asked.model_dump(), rejected_at=known)
    if "error" not in found and waiting is not None:
        await asyncio.to_thread(runs.answer, waiting, user, approve=True)
        found = {"text": f"{found['text']} Airflow's approval is answered."}
    return _answer(found)


@actions.post("/env/{key}/reject")
async def reject(place: Known, user: Controller, asked: PlanAsked) -> JSONResponse:
    """Answer Airflow's waiting approval with no; where none waits, give the generation up, by a run of the DAG schemamig_control."""
    waiting = await _waiting(place, user, asked)
    if waiting is None:
        return await _run(place, user, CONTROL, "reject", asked, {"action": "cancel", "generation": asked.generation})
    found = await reader.act(place, "reject", user.get_name(), **asked.model_dump())
    if "error" not in found:
        await asyncio.to_thread(runs.answer, waiting, user, approve=False)
    return _answer(found)


async def _waiting(place: Place, user: BaseUser, asked: PlanAsked) -> runs.WaitingApproval | None:
    """Return the approval that waits for a generation's plan. 403 for one who may not answer it: before anything is written."""
    look = await reader.newest(place, "overview")
    if look.error is not None:
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, dict(look.error))
    claims: Mapping[str, int] = (look.document or {}).get("claims", {})
    claimed_by = next((name for name, number in claims.items() if number == asked.generation), "")
    found = await asyncio.to_thread(runs.waiting_approval, claimed_by, asked.plan)
    if found is not None and not await asyncio.to_thread(runs.may_answer, found, user):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden: Airflow's approval is assigned to others.")
    return found


async def _act(place: Place, user: BaseUser, verb: str, asked: Asked) -> JSONResponse:
    return _answer(await reader.act(place, verb, user.get_name(), **asked.model_dump()))


# --- runs of DAGs --------------------------------------------------------------------------------------------------------------------


@actions.post("/env/{key}/cancel")
async def cancel(place: Known, user: Controller, asked: GenerationAsked) -> JSONResponse:
    """Give a generation up, by a run of the DAG schemamig_control."""
    return await _run(place, user, CONTROL, "cancel", asked, {"action": "cancel", "generation": asked.generation})


@actions.post("/env/{key}/end_hold")
async def end_hold(place: Known, user: Controller, asked: HoldAsked) -> JSONResponse:
    """End a hold before its time, by a run of the DAG schemamig_control."""
    conf = {"action": "end_hold", "generation": asked.generation, "ignore_nodes": asked.ignore_nodes}
    return await _run(place, user, CONTROL, "end_hold", asked, conf)


@actions.post("/env/{key}/revert")
async def revert(place: Known, user: Controller, asked: RevertAsked) -> JSONResponse:
    """Take drift back, by a run of the DAG schemamig_control."""
    conf = {"action": "revert", "collection": asked.collection, "allow_lossy": asked.allow_lossy}
    return await _run(place, user, CONTROL, "revert", asked, conf)


@actions.post("/env/{key}/unmanage")
async def unmanage(place: Known, user: Controller, asked: CollectionAsked) -> JSONResponse:
    """Give a table back, by a run of the DAG schemamig_control."""
    return await _run(place, user, CONTROL, "unmanage", asked, {"action": "unmanage", "collection": asked.collection})


@actions.post("/env/{key}/rollback")
async def rollback(place: Known, user: Rollbacker, asked: RollbackAsked) -> JSONResponse:
    """Take the generation of the preview back to the release before, by a run of the DAG schemamig_rollback."""
    conf = {"generation": asked.generation, "allow_lossy": asked.allow_lossy}
    return await _run(place, user, ROLLBACK, "rollback", asked, conf)


@actions.post("/env/{key}/restore")
async def restore(place: Known, user: Restorer, asked: RestoreAsked) -> JSONResponse:
    """Copy a collection anew from its origin, by a run of the DAG schemamig_restore."""
    conf = {"origin": asked.origin, "target": place.given, "collection": asked.collection, "allow_lossy": asked.allow_lossy}
    return await _run(place, user, RESTORE, "restore", asked, conf)


async def _run(place: Place, user: BaseUser, dag_id: str, verb: str, asked: Asked, conf: Mapping[str, Any]) -> JSONResponse:
    about = {"collection": getattr(asked, "collection", None), "generation": getattr(asked, "generation", None)}
    full = {**({} if "target" in conf else {"environment": place.given}), **conf}
    try:
        await asyncio.to_thread(runs.check_startable, dag_id)
        found = await reader.act(place, "ask", user.get_name(), what=verb, **about, reason=asked.reason)
        if "error" in found:
            return _answer(found)
        run_id = await asyncio.to_thread(runs.start, dag_id, user, full)
    except SchemamigError as error:
        return _answer({"error": error.to_json()})
    text = f"{dag_id} does it: run {run_id}. Whether it could is told here, under Asked for lately; what was done, in History, too."
    return _answer({"text": text, "dag_id": dag_id, "run_id": run_id})


def _answer(found: Mapping[str, Any]) -> JSONResponse:
    return JSONResponse(found, 409 if "error" in found else 200)
