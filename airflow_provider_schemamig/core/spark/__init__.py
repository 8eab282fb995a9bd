"""The one place that makes Spark sessions and runs jobs on them: embedded, by spark-submit, or on Spark Connect."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.spark.runners import JobRunner


def runner_for(url: str, conf: Mapping[str, str] = MappingProxyType({})) -> JobRunner:
    """Make the runner for where Spark is: ``local[...]`` in this process, ``sc://host:port`` by Connect, any other master by
    spark-submit.

    ``conf``: Spark settings of the user's own, JARs among them. For Connect it raises SparkSettingUnusable for any, as the server
    has its own, and SparkAddressUnusable.
    """
    from airflow_provider_schemamig.core.spark.errors import SparkSettingUnusable
    from airflow_provider_schemamig.core.spark.runners import ConnectRunner, EmbeddedRunner, SubmitRunner
    from airflow_provider_schemamig.core.spark.session import is_local

    if url.startswith("sc://"):
        if conf:
            raise SparkSettingUnusable(setting=next(iter(conf)), reason="a Connect server has the settings that it was started with")
        return ConnectRunner(url)
    if is_local(url):
        return EmbeddedRunner(url, conf)
    return SubmitRunner(url, conf)
