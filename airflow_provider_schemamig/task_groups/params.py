"""The run parameters that the shipped DAGs share."""

from __future__ import annotations

from airflow.sdk import Param

from airflow_provider_schemamig import config


def environment_param(default: str = "", title: str = "Environment") -> Param:
    """Make the parameter of an environment; without ``default`` it is ``[schemamig] default_environment``."""
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


def optional_text(title: str, description: str, section: str | None = None) -> Param:
    """Make a field that may stay empty. Its default is no empty text, which Airflow's form takes for a required field that is missing."""
    return Param(None, type=["null", "string"], title=title, description=description, section=section)


def optional_number(title: str, description: str, section: str | None = None) -> Param:
    """Make a field for a whole number, 1 or more, that may stay empty."""
    return Param(None, type=["null", "integer"], minimum=1, title=title, description=description, section=section)
