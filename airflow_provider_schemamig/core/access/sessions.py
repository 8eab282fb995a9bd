"""The Spark session of a handle that was not given one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def own_session(env: EnvironmentRoot) -> SparkSession:
    """A session of this process' embedded Spark that can reach the environment's storage, as long as it lives: reads are lazy.

    Raises JavaMissing, SparkJarsMissing, SparkUnavailable.
    """
    from airflow_provider_schemamig.core.spark.session import embedded_session, with_meaning
    from airflow_provider_schemamig.core.spark.storage_access import hadoop_settings

    session = with_meaning(embedded_session().newSession())
    for name, value in hadoop_settings(env.options).items():
        session.conf.set(name, value)
    return session
