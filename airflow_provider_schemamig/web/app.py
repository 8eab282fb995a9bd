"""The FastAPI app that the plugin hands to Airflow's api-server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.web.actions import actions
from airflow_provider_schemamig.web.pages import HEADERS, files, pages, reader

TITLE = "schemamig"

log = logging.getLogger(__name__)


def make_app() -> FastAPI:
    """Return the app. Nothing is read, and no process is started, before somebody looks."""
    app = FastAPI(title=TITLE, version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)
    app.add_middleware(Guarded)
    app.include_router(pages)
    app.include_router(actions)
    app.include_router(files)
    return app


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
