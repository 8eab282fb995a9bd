"""The Airflow plugin (entry point ``airflow.plugins``). Every Airflow process imports it, so it stays cheap."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any
from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk import conf

from airflow_provider_schemamig import run_notes

PREFIX = "/schemamig"
#: What the page's process needs to read an environment.
_NEEDED = ("deltalake", "obstore", "pyarrow", "sqlglot")


def serves_pages() -> bool:
    """Return whether this process is the api-server, and has what the page needs: without it Airflow starts all the same."""
    started = sys.argv[1:2]
    return started in (["api-server"], ["standalone"]) and all(importlib.util.find_spec(name) is not None for name in _NEEDED)


def _apps() -> list[dict[str, Any]]:
    if not serves_pages():
        return []
    from airflow_provider_schemamig.web.app import TITLE, make_app

    return [{"app": make_app(), "url_prefix": PREFIX, "name": TITLE}]


def _views() -> list[dict[str, Any]]:
    """Return the page in the navigation, and a tab on each DAG run; the addresses go below the path of ``[api] base_url``."""
    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    run = f"{base}{PREFIX}/run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}"
    return [
        {"name": "Schema upgrades", "href": f"{base}{PREFIX}/", "destination": "nav", "category": "browse", "url_route": "schemamig"},
        {"name": "Schema upgrade", "href": run, "destination": "dag_run", "url_route": "schemamig_run"},
    ]


class SchemamigPlugin(AirflowPlugin):
    """The page, its tab on DAG runs, and notes on runs by a listener."""

    name = "schemamig"
    listeners: list[Any] = [run_notes]  # noqa: RUF012 - Airflow declares it so
    fastapi_apps: list[Any] = _apps()
    external_views: list[Any] = _views()
