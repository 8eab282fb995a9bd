"""The one place that makes Spark sessions and runs jobs on them: embedded, by spark-submit, or on Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.spark.runners import JobRunner


def runner_for(url: str) -> JobRunner:
    """Make the runner for where Spark is: ``local[...]`` in this process, ``sc://host:port`` by Connect, any other master by
    spark-submit."""
    from airflow_provider_schemamig.core.spark.runners import ConnectRunner, EmbeddedRunner, SubmitRunner
    from airflow_provider_schemamig.core.spark.session import is_local

    if url.startswith("sc://"):
        return ConnectRunner(url)
    if is_local(url):
        return EmbeddedRunner(url)
    return SubmitRunner(url)
