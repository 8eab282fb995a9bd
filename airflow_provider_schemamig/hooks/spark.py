"""Spark jobs through Airflow's own Spark connection: the submit runner with ``SparkSubmitHook`` in the place of its command line.

The connection decides master, deploy mode, queue, namespace and Kerberos, as it does for every other Spark task of the installation.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_schemamig.core.spark.driver.client import DriverProcess
from airflow_provider_schemamig.core.spark.driver.exchange import FileExchange
from airflow_provider_schemamig.core.spark.driver.submit import SubmitRunner, application, arguments, zip_packages
from airflow_provider_schemamig.core.spark.launch import spark_submit_command
from airflow_provider_schemamig.core.spark.translate import last_lines

#: What Airflow's hook needs to submit to Kubernetes.
KUBERNETES = "apache-airflow-providers-cncf-kubernetes"
#: For what was killed to be gone.
_GRACE_SECONDS = 20.0


class JobSubmitHook(SparkSubmitHook):
    """``SparkSubmitHook`` that tells its master, and keeps the cluster's spark-defaults next to our settings.

    The one place that reaches into that class: it has no public way to either.
    """

    def __init__(self, **kwargs: Any) -> None:
        try:
            super().__init__(**kwargs)
        except NameError as error:  # what it says on Kubernetes where the client of that is not installed
            raise ModuleNotFoundError(name=KUBERNETES) from error

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
    """Runs the jobs of a task in one driver, submitted with an Airflow connection of type ``spark``.

    ``shared_uri``: a folder that every machine of the cluster can write; requests and results pass through it in deploy mode cluster.
    """

    def __init__(self, conn_id: str, shared_uri: str, conf: Mapping[str, str] = MappingProxyType({})) -> None:
        target = JobSubmitHook(conn_id=conn_id)
        super().__init__(target.master, conf, exchange_uri=shared_uri if target.runs_elsewhere else None)
        self.conn_id = conn_id

    def _submit(self, properties: Path, exchange: FileExchange) -> DriverProcess:
        hook = JobSubmitHook(
            conn_id=self.conn_id,
            name="schemamig",
            properties_file=str(properties),
            py_files=str(zip_packages(properties.with_name("schemamig.zip"))),
            application_args=arguments(exchange),
        )
        return _HookProcess(hook)


class _HookProcess:
    """A submit by Airflow's hook, in a thread of its own. The hook waits for the driver, wherever that runs."""

    def __init__(self, hook: JobSubmitHook) -> None:
        self._hook = hook
        self._ended_with: BaseException | None = None
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._submit,), name="schemamig-submit", daemon=True)
        self._thread.start()

    @property
    def tail(self) -> str:
        self._thread.join(_GRACE_SECONDS)
        return last_lines(str(self._ended_with)) if self._ended_with is not None else ""

    def exit_code(self) -> int | None:
        if self._thread.is_alive():
            return None
        return 0 if self._ended_with is None else 1

    def kill(self) -> None:
        """Kill spark-submit, and also the driver if the connection's cluster lets that be done."""
        if self._thread.is_alive():
            self._hook.on_kill()
            self._thread.join(_GRACE_SECONDS)

    def _submit(self) -> None:
        try:
            self._hook.submit(str(application()), env=_environment())
        except BaseException as error:  # noqa: BLE001 - whatever ended it is what the task is told
            self._ended_with = error


def _environment() -> dict[str, Any]:
    """Return this process's environment with the spark-submit of pyspark first on PATH; a Spark of one's own is in SPARK_HOME."""
    command, environment = spark_submit_command()
    environment["PATH"] = os.pathsep.join([str(Path(command[0]).parent), environment.get("PATH", os.defpath)])
    return environment
