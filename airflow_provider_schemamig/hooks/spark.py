"""Spark jobs through Airflow's own Spark connection: the submit runner with ``SparkSubmitHook`` in the place of its command line.

The connection decides master, deploy mode, queue, namespace and Kerberos, as it does for every other Spark task of the installation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException

from airflow_provider_schemamig.core.spark.launch import spark_submit_command
from airflow_provider_schemamig.core.spark.session import settings_for
from airflow_provider_schemamig.core.spark.storage_access import hadoop_settings
from airflow_provider_schemamig.core.spark.submit import FileExchange, SubmitRunner, job_file, write_properties, zip_packages
from airflow_provider_schemamig.core.spark.translate import last_lines


class JobSubmitHook(SparkSubmitHook):
    """``SparkSubmitHook`` that tells where it submits to, and keeps the cluster's spark-defaults next to our settings.

    The one place that reaches into that class: it has no public way to either.
    """

    @property
    def master(self) -> str:
        return str(self._connection["master"])

    @property
    def runs_elsewhere(self) -> bool:
        """Return whether the driver may run on another machine, which does not see this one's files."""
        return bool(self._connection["deploy_mode"] == "cluster")

    def _build_spark_common_args(self) -> list[str]:
        # A properties file of one's own hides spark-defaults.conf unless this is said.
        arguments: list[str] = super()._build_spark_common_args()
        return [*arguments, "--load-spark-defaults"]


class HookSubmitRunner(SubmitRunner):
    """Runs each job as a driver of its own, submitted with an Airflow connection of type ``spark``.

    ``shared_uri``: a folder that every machine of the cluster can write; requests and results pass through it in deploy mode cluster.
    """

    def __init__(self, conn_id: str, shared_uri: str) -> None:
        target = JobSubmitHook(conn_id=conn_id)
        super().__init__(target.master, exchange_uri=shared_uri if target.runs_elsewhere else None)
        self.conn_id = conn_id
        self._hook: JobSubmitHook | None = None

    def cancel(self) -> None:
        """Kill spark-submit, and the driver where the connection's cluster lets that be done."""
        if self._hook is not None:
            self._hook.on_kill()

    def _submit(self, job: str, scratch: Path, exchange: FileExchange, options: Mapping[str, str]) -> tuple[int, str]:
        properties = scratch / "spark.properties"
        settings = settings_for(self.master, self.conf) | {f"spark.hadoop.{k}": v for k, v in hadoop_settings(options).items()}
        write_properties(properties, settings)
        hook = self._hook = JobSubmitHook(
            conn_id=self.conn_id,
            name=f"schemamig-{job}",
            properties_file=str(properties),
            py_files=str(zip_packages(scratch / "schemamig.zip")),
            application_args=exchange.arguments,
        )
        try:
            hook.submit(str(job_file(job)), env=_environment())
        except AirflowException as error:
            return 1, last_lines(str(error))
        finally:
            hook.on_kill()  # nothing if the driver ended by itself; else this call was interrupted, and the driver dies with it
            self._hook = None
        return 0, ""


def _environment() -> dict[str, Any]:
    """Return this process's environment with the spark-submit of pyspark first on PATH; a Spark of one's own is in SPARK_HOME."""
    command, environment = spark_submit_command()
    environment["PATH"] = os.pathsep.join([str(Path(command[0]).parent), environment.get("PATH", os.defpath)])
    return environment
