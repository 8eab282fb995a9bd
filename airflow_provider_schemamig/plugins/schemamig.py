"""The Airflow plugin (entry point ``airflow.plugins``). Every Airflow process imports it, so it stays cheap."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_schemamig import run_notes


class SchemamigPlugin(AirflowPlugin):
    """Notes on runs, by a listener; it has no web pages yet."""

    name = "schemamig"
    listeners: list[Any] = [run_notes]  # noqa: RUF012 - Airflow declares it so
