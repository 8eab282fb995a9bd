"""The FastAPI app that the plugin hands to Airflow's api-server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from airflow.api_fastapi.app import get_auth_manager
from fastapi import FastAPI, Request, Response, status
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import HTMLResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.core.html.render import render
from airflow_provider_schemamig.web.actions import actions
from airflow_provider_schemamig.web.pages import HEADERS, files, pages, reader, root_of

TITLE = "schemamig"

log = logging.getLogger(__name__)


def make_app() -> FastAPI:
    """Return the app. Nothing is read, and no process is started, before somebody looks."""
    app = FastAPI(title=TITLE, version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)
    app.add_middleware(Guarded)
    app.add_exception_handler(HTTPException, told)
    app.include_router(pages)
    app.include_router(actions)
    app.include_router(files)
    return app


async def told(request: Request, error: Exception) -> Response:
    """Return a refusal as a page to a person who opened an address, with a way on; as JSON to everybody else."""
    assert isinstance(error, HTTPException)
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return await http_exception_handler(request, error)
    links = [(root_of(request), "Environments")]
    if error.status_code == status.HTTP_401_UNAUTHORIZED:
        links = [(get_auth_manager().get_url_login(), "Log in to Airflow")]
    heading = {401: "Nobody is logged in", 403: "Not allowed", 404: "Not there"}.get(error.status_code, "It cannot be shown")
    values = {"root": root_of(request), "title": TITLE, "view": "", "etag": "", "place": None, "look": None}
    html = await asyncio.to_thread(lambda: render("message.html", **values, heading=heading, text=str(error.detail), links=links, run=None))
    return HTMLResponse(html, status_code=error.status_code, headers=error.headers)


class Guarded:
    """Puts on every answer, refusals and errors too, what a browser may do with it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except Exception:
            log.exception("the page failed at %s", scope.get("path"))  # Airflow says 500 and nothing else
            raise


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    reader.close()
