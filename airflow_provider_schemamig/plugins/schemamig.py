"""The Airflow plugin (entry point ``airflow.plugins``). Every Airflow process imports it, so it stays cheap."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class SchemamigPlugin(AirflowPlugin):
    """The place of schemamig's web pages; it has none yet."""

    name = "schemamig"
