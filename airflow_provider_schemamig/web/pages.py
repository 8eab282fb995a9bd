"""The views, and the same documents as JSON. Reads only; each answers at once with what is known."""

from __future__ import annotations

import asyncio
import csv
import functools
import hashlib
import io
import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from fastapi.responses import HTMLResponse

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.core.html.render import STATIC, render, report_html, static
from airflow_provider_schemamig.core.html.runbook import runbook_html
from airflow_provider_schemamig.visible import visible
from airflow_provider_schemamig.web import runs
from airflow_provider_schemamig.web.access import Viewer, may_see, may_see_runs, viewer
from airflow_provider_schemamig.web.lately import AskedRun, asked_lately, failed_upgrades, of_place, run_told, unclaimed, unmended
from airflow_provider_schemamig.web.places import Place, key_of_run, place_of, places, run_of
from airflow_provider_schemamig.web.reading import UNREACHABLE, Look, PageReader

#: Nothing is loaded from elsewhere, and nothing that a document holds can run.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PAGE_SIZE = 200

pages = APIRouter(dependencies=[Depends(viewer)])
#: Holds no data, so it asks nobody who he is.
files = APIRouter()
reader = PageReader()


def known_place(key: str, user: Viewer) -> Place:
    """Return the environment of that key. 404 where there is none; 403 if it is known by a run that the user may not see."""
    run = run_of(key)
    if run is not None and not may_see(user, run[0]):
        raise HTTPException(403, f"Forbidden: this is for those who may see the DAG {run[0]}.")
    place = place_of(key)
    if place is None:
        raise HTTPException(404, "No such environment: there is no connection of that name and of type schemamig.")
    return place


#: What a database takes as a name.
GivenId = Annotated[str, Query(min_length=1, max_length=250, pattern=r"^[^\x00]+$")]
Number = Annotated[int | None, Query(ge=1, le=2**53)]
Known = Annotated[Place, Depends(known_place)]


def root_of(request: Request) -> str:
    """Return the relative way from the asked page to the page's root, wherever that is mounted."""
    inside = request.url.path.removeprefix(str(request.scope.get("root_path", ""))).lstrip("/")
    return "../" * inside.count("/") or "./"


async def page(
    request: Request, template: str, *, title: str, view: str, etag: str, place: Place | None = None, look: Look | None = None, **more: Any
) -> Response:
    """Return a view; 204 to who has this very one."""
    tag = hashlib.sha256(etag.encode()).hexdigest()[:32] if etag else ""  # it comes back in a header, which takes no other letters
    if etag and request.headers.get("if-none-match") == tag:
        return Response(status_code=204, headers={"X-As-Of": (look.as_of if look is not None else None) or ""})
    values = {"root": root_of(request), "title": title, "view": view, "etag": tag, "place": place, "look": look, **more}
    html = await asyncio.to_thread(functools.partial(render, template, **values))  # others are answered meanwhile
    return HTMLResponse(html)


# --- the views -----------------------------------------------------------------------------------------------------------------------


@pages.get("/", response_class=HTMLResponse)
async def environments(request: Request, user: Viewer) -> Response:
    """List the environments, what needs attention counted first."""
    known = await asyncio.to_thread(places)
    looks = await asyncio.gather(*(reader.look(place, "overview") for place in known))
    following = await asyncio.to_thread(_seen_releases, user)
    asked, upgrades = await asyncio.to_thread(asked_lately, user), await asyncio.to_thread(failed_upgrades, user)
    stopped = [
        unclaimed(of_place(upgrades, place), (look.document or {}).get("claims", ())) for place, look in zip(known, looks, strict=True)
    ]
    failed = [unmended(of_place(asked, place)) for place in known]
    rows = [
        (place, look, _due(following.get(place.given), look), runs_stopped + runs_failed)
        for place, look, runs_stopped, runs_failed in zip(known, looks, stopped, failed, strict=True)
    ]
    found = [look.document or {} for look in looks]
    counts = [
        ("environments", len(known), ""),
        ("unreachable", sum(1 for look in looks if look.error), "bad"),
        ("drifted tables", sum(item.get("drifted", 0) for item in found), "bad"),
        ("upgrades under way", sum(1 for item in found if item.get("open")), "warn"),
        (
            "paused",
            sum(1 for item in found if any(control["paused"] and not control["last_step"] for control in item.get("controls", ()))),
            "warn",
        ),
        ("upgrades failed", sum(1 for item in found if (item.get("open") or {}).get("failed")) + sum(map(len, stopped)), "bad"),
        ("asked for and failed", sum(len(runs_failed) for runs_failed in failed), "bad"),
        ("streams waiting", sum(item.get("streams_waiting", 0) for item in found), "warn"),
        ("streams stopped", sum(item.get("streams_stopped", 0) for item in found), "bad"),
        ("ways back open", sum(len(item.get("holds", ())) for item in found), ""),
    ]
    parts = [f"{place.key} {look.etag}" for place, look, *_ in rows] + [f"{name} {item.version}" for name, item in following.items()]
    etag = "|".join([*parts, *(run.mark for *_, runs_failed in rows for run in runs_failed)])
    return await page(request, "environments.html", title="schemamig", view="Environments", etag=etag, rows=rows, counts=counts)


def _seen_releases(user: BaseUser) -> dict[str, runs.NextRelease]:
    """Return the next release of each environment, from the DAGs that the user may see."""
    return {given: following for given, following in runs.next_releases().items() if may_see(user, following.dag_id)}


def _due(following: runs.NextRelease | None, look: Look) -> runs.NextRelease | None:
    at = (look.document or {}).get("version")
    return None if following is None or following.version == at else following


@pages.get("/env/{key}/deployments/{generation}", response_class=HTMLResponse)
async def deployment(request: Request, user: Viewer, place: Known, generation: str) -> Response:
    """Show one deployment: the plan in words, how far it is, what can be done."""
    look = await reader.look(place, "deployment", generation=_generation(generation))
    return await _deployment(request, user, place, look)


@pages.get("/run", response_class=HTMLResponse)
async def run(request: Request, user: Viewer, dag_id: GivenId, run_id: GivenId) -> Response:
    """Show the deployment of a DAG run: the tab of the run."""
    if not may_see(user, dag_id):
        raise HTTPException(403, f"Forbidden: this is for those who may see the DAG {dag_id}.")
    place = await asyncio.to_thread(place_of, key_of_run(dag_id, run_id))
    if place is None:
        return await _no_deployment(request, user, dag_id, run_id, "No task of this run has worked on an environment yet.")
    overview = await reader.look(place, "overview")
    claims: Mapping[str, int] = (overview.document or {}).get("claims", {})
    mine = [generation for claimed_by, generation in claims.items() if runs.claim_of(claimed_by) == (dag_id, run_id)]
    if not mine:
        links = ((f"{root_of(request)}env/{place.key}/deployments/newest", f"Newest deployment of {place.title}"),)
        text = "This run has claimed no generation: it had nothing to do, failed before, or is not that far."
        return await _no_deployment(request, user, dag_id, run_id, text, links=links, place=place, look=overview)
    return await _deployment(request, user, place, await reader.look(place, "deployment", generation=max(mine)))


async def _no_deployment(request: Request, user: BaseUser, dag_id: str, run_id: str, text: str, **more: Any) -> Response:
    """Say that a run has no deployment. A user who may see the runs of its DAG also sees how it stands and what it told."""
    told = await asyncio.to_thread(run_told, dag_id, run_id) if may_see_runs(user, dag_id) else None
    look: Look | None = more.get("look")
    etag = f"none {look.etag if look else ''} {told.mark if told else ''}"
    values = {"heading": "No deployment", "text": text, "run": told, "links": (), **more}
    return await page(request, "message.html", title="schemamig", view="", etag=etag, **values)


async def _deployment(request: Request, user: BaseUser, place: Place, look: Look) -> Response:
    document = look.document
    waiting = None
    if document is not None:
        waiting = await _offer_answers(document)
    title = f"{place.title}: deployment"
    made_by = runs.claim_of(document["deployment"]["claimed_by"]) if document is not None else None
    made_in = {"dag_id": made_by[0], "run_id": made_by[1], "address": runs.address_of(*made_by)} if made_by else None
    drifted = ((await reader.look(place, "overview")).document or {}).get("drifted", 0)
    lately = await _asked_here(user, place)
    more = {"document": document, "waiting": waiting, "run": made_in, "drifted": drifted, "lately": lately}
    etag = f"{look.etag}{'-waits' if waiting else ''}-{drifted}{_marks(lately)}"
    return await page(request, "deployment.html", title=title, view="Deployment", etag=etag, place=place, look=look, **more)


async def _offer_answers(document: dict[str, Any]) -> runs.WaitingApproval | None:
    """Return the approval of Airflow's that waits; put into ``can`` whether it, or the ledger, takes an answer."""
    about, can = document["deployment"], document["can"]
    if "cancel" not in can or about["state"] != "claimed":
        return None
    waiting = await asyncio.to_thread(runs.waiting_approval, about["claimed_by"], about["plan_digest"])
    is_open = waiting is not None or not (about["approved_by"] or about["rejected"])
    document["can"] = [*(["approve", "reject"] if is_open else []), *(verb for verb in can if verb != "approve")]
    return waiting


async def _asked_here(user: BaseUser, place: Place, *verbs: str) -> tuple[AskedRun, ...]:
    """Return what the page's buttons asked for lately of an environment; with ``verbs`` only those."""
    found = of_place(await asyncio.to_thread(asked_lately, user), place)
    return tuple(run for run in found if not verbs or run.verb in verbs)


def _marks(lately: tuple[AskedRun, ...]) -> str:
    return "".join(f"|{run.mark}" for run in lately)


@pages.get("/env/{key}/deployments/{generation}/report.html", response_class=HTMLResponse)
async def report(place: Known, generation: str) -> Response:
    """Return the deployment as one file that needs nothing else, for mails and tickets."""
    look = await _patiently(place, "deployment", generation=_generation(generation))
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    name = f"schemamig-{look.document['deployment']['generation']}.html"
    headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return HTMLResponse(await asyncio.to_thread(report_html, look.document), headers=headers)


@pages.get("/env/{key}/tables", response_class=HTMLResponse)
async def tables(request: Request, place: Known) -> Response:
    """List an environment's collections."""
    return await _of_document(request, place, "tables", "tables", "Tables")


@pages.get("/env/{key}/tables/{collection}", response_class=HTMLResponse)
async def table(request: Request, place: Known, collection: Annotated[str, Path(max_length=255)]) -> Response:
    """Show one collection: releases and columns, history, files by schema."""
    return await _of_document(request, place, "table", collection, "Tables", collection=collection)


@pages.get("/env/{key}/drift", response_class=HTMLResponse)
async def drift(request: Request, user: Viewer, place: Known) -> Response:
    """Show the drift of an environment, since when and by whom, and the ways on."""
    lately = await _asked_here(user, place, "revert", "unmanage")
    return await _of_document(request, place, "drift", "drift", "Drift", lately)


@pages.get("/env/{key}/streams", response_class=HTMLResponse)
async def streams(request: Request, user: Viewer, place: Known) -> Response:
    """Show the streams into an environment, and the environments that have each schema."""
    lately, names = await _asked_here(user, place, "restore"), await _names_by_id()
    return await _of_document(request, place, "streams", "streams", "Streams", lately, names=names)


async def _names_by_id() -> dict[str, str]:
    """Return what the page calls environments, by their ids, as far as they have been read."""
    known = await asyncio.to_thread(places)
    looks = await asyncio.gather(*(reader.look(place, "overview") for place in known))
    return {look.document["env_id"]: place.title for place, look in zip(known, looks, strict=True) if look.document is not None}


async def _of_document(
    request: Request,
    place: Place,
    name: str,
    title: str,
    view: str,
    lately: tuple[AskedRun, ...] = (),
    names: Mapping[str, str] = {},
    **arguments: str,
) -> Response:
    """Return the view of one document: the template has its name. ``names``: of other environments, by their ids."""
    look = await reader.look(place, name, **arguments)
    about: dict[str, Any] = {"title": f"{place.title}: {title}", "view": view, "place": place, "look": look}
    etag = f"{look.etag}{_marks(lately)}{sorted(names.items()) or ''}"
    return await page(request, f"{name}.html", **about, etag=etag, document=look.document, lately=lately, names=names)


@pages.get("/runbook", response_class=HTMLResponse)
async def runbook(request: Request) -> Response:
    """Show the runbook of the version that is installed."""
    html = await asyncio.to_thread(runbook_html)
    return await page(request, "runbook.html", title="schemamig: runbook", view="", etag=__version__, html=html)


FILTERS = ("who", "what", "collection", "generation", "since", "until")


@pages.get("/env/{key}/history", response_class=HTMLResponse)
async def history(request: Request, place: Known, first: Annotated[int, Query(ge=1, le=2**53)] = 1) -> Response:
    """Show the entries of the history, filtered, the newest first."""
    asked = _asked(request)
    look = await reader.look(place, "history")
    found = [] if look.document is None else matching(look.document["entries"], asked)
    shown = found[first - 1 : first - 1 + PAGE_SIZE]
    older = first + PAGE_SIZE if len(found) >= first + PAGE_SIZE else None
    query = urlencode({name: value for name, value in asked.items() if value})
    more: dict[str, Any] = {"document": look.document, "entries": shown, "total": len(found), "first": first, "older": older}
    more |= {"asked": asked, "query": query}
    title = f"{place.title}: history"
    return await page(request, "history.html", title=title, view="History", etag=look.etag, place=place, look=look, **more)


@pages.get("/env/{key}/history.csv")
async def history_csv(request: Request, place: Known) -> Response:
    """Return the filtered history as CSV. What a spreadsheet would calculate is made text."""
    found = matching((await _patiently(place, "history")).document["entries"], _asked(request))
    out = io.StringIO()
    names = ("started_at", "seconds", "who", "what", "collection", "generation", "outcome", "detail")
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([_cell(entry[name]) for name in names] for entry in found)
    return Response(out.getvalue(), media_type="text/csv; charset=utf-8")


@pages.get("/env/{key}/history.json")
async def history_json(request: Request, place: Known) -> Response:
    """Return the filtered history as JSON."""
    found = matching((await _patiently(place, "history")).document["entries"], _asked(request))
    return Response(json.dumps({"entries": found}), media_type="application/json")


def _asked(request: Request) -> dict[str, str]:
    return {name: request.query_params.get(name, "").strip() for name in FILTERS}


def matching(entries: list[dict[str, Any]], asked: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the entries that match: text as a part of the field, ``generation`` as a whole, ``since`` and ``until`` as days."""

    def matches(entry: Mapping[str, Any]) -> bool:
        texts = all(asked[name].lower() in str(entry[name] or "").lower() for name in ("who", "what", "collection") if asked[name])
        number = not asked["generation"] or str(entry["generation"]) == asked["generation"]
        day = str(entry["started_at"])[:10]
        return texts and number and (not asked["since"] or day >= asked["since"]) and (not asked["until"] or day <= asked["until"])

    return [entry for entry in entries if matches(entry)]


#: What a spreadsheet takes for the beginning of a formula, the wide forms of them too; and the picture of a tab.
_CALCULATED = tuple("=+-@\uff1d\uff0b\uff0d\uff20\u2409")


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    text = visible(text.replace("\r", " ").replace("\n", " "))
    return f"'{text}" if text.lstrip()[:1] in _CALCULATED else text


@pages.get("/env/{key}/rollback_preview")
async def rollback_preview(place: Known) -> Response:
    """Return what a rollback would do, in lines."""
    return _json(await _patiently(place, "rollback_preview"))


# --- the documents -------------------------------------------------------------------------------------------------------------------


@pages.get("/api/environments")
async def api_environments() -> Response:
    """Return every environment with its overview."""
    known = await asyncio.to_thread(places)
    looks = await asyncio.gather(*(reader.look(place, "overview") for place in known))
    found = [
        {"key": place.key, "uri": place.uri, "as_of": look.as_of, "stale": look.is_old, "error": look.error, "overview": look.document}
        for place, look in zip(known, looks, strict=True)
    ]
    return Response(json.dumps({"environments": found}), media_type="application/json")


@pages.get("/api/env/{key}/{name}")
async def api_document(place: Known, name: str, generation: Number = None, collection: GivenId | None = None) -> Response:
    """Return a document: overview, status, tables, deployment, table, drift, streams, history."""
    if name not in ("overview", "status", "tables", "deployment", "table", "drift", "streams", "history"):
        raise HTTPException(404, "No such document.")
    if name == "table" and collection is None:
        raise HTTPException(422, "Which collection? Give ?collection=NAME.")
    arguments: dict[str, Any] = (
        {"generation": generation} if name == "deployment" else {"collection": collection} if name == "table" else {}
    )
    return _json(await _patiently(place, name, **arguments))


async def _patiently(place: Place, name: str, **arguments: Any) -> Look:
    """Return a document, waiting for it as long as an environment may take. With the error where there is none: 502 if it could not be
    read, 409 if what is there refuses."""
    look = await reader.newest(place, name, **arguments)
    if look.error is not None:
        raise HTTPException(502 if look.error["retryable"] or look.error["code"] == "failed" else 409, look.error)
    if look.document is None or look.is_stale:
        raise HTTPException(504, UNREACHABLE)
    return look


def _json(look: Look) -> Response:
    return Response(look.text, media_type="application/json")


def _generation(text: str) -> int | None:
    if text == "newest":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise HTTPException(404, "A generation is a number, or `newest`.")
    return int(text)


@files.get("/static/{name}", include_in_schema=False)
def static_file(name: str) -> Response:
    """Return a style sheet or a script; they hold no data."""
    if name not in STATIC:
        raise HTTPException(404, "No such file.")
    return Response(static(name), media_type=STATIC[name], headers={"Cache-Control": "max-age=3600"})
