"""The run parameters that the shipped DAGs share."""

from __future__ import annotations

from airflow.sdk import Param

from airflow_provider_schemamig import config


def environment_param(default: str = "", title: str = "Environment") -> Param:
    """``default``: if not ``[schemamig] default_environment``."""
    return Param(
        default or config.default_environment(),
        type="string",
        minLength=1,
        title=title,
        description="Connection id of type schemamig, or the environment's URI or absolute path.",
    )


def release_param() -> Param:
    return Param(
        config.default_release(),
        type="string",
        minLength=1,
        title="Release folder",
        description="A relative path is looked for in the folder of the DAG file.",
    )
