"""A fit as Spark SQL, for classic sessions and Spark Connect alike."""

from __future__ import annotations

from airflow_provider_schemamig.core.handles.fit import Fit
from airflow_provider_schemamig.core.release.projection import project
from airflow_provider_schemamig.core.schema.sql import quote, type_sql
from airflow_provider_schemamig.core.storage import spark_uri


def version_sql(uri: str, version: int) -> str:
    """A table at one version, for FROM."""
    return f"delta.{quote(spark_uri(uri))} VERSION AS OF {version}"


def select(fit: Fit, rows: str) -> str:
    """The query that shows ``rows`` (anything that may stand after FROM) as the fit says."""
    query = f"SELECT {project(fit.source, fit.shown, fit.renames)} FROM {rows}"
    narrowed = {name: fit.target.field(name) for name in fit.narrows}
    if not narrowed:
        return query
    columns = []
    for field in fit.shown.fields:
        target = narrowed.get(field.name)
        name = quote(field.name)
        columns.append(name if target is None else f"CAST({name} AS {type_sql(target.type)}) AS {name}")
    return f"SELECT {', '.join(columns)} FROM ({query})"
