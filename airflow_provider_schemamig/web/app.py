"""The FastAPI app that the plugin hands to Airflow's api-server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.web.actions import actions
from airflow_provider_schemamig.web.pages import files, pages, reader

TITLE = "schemamig"


def make_app() -> FastAPI:
    """Return the app. Nothing is read, and no process is started, before somebody looks."""
    app = FastAPI(title=TITLE, version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)
    app.include_router(pages)
    app.include_router(actions)
    app.include_router(files)
    return app


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    reader.close()
