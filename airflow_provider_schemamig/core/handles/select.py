"""A fit as Spark SQL, for classic sessions and Spark Connect alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_schemamig.core.handles.fit import Fit
from airflow_provider_schemamig.core.handles.fit_write import WriteFit
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.projection import project
from airflow_provider_schemamig.core.schema.model import DataType, Struct
from airflow_provider_schemamig.core.schema.paths import join
from airflow_provider_schemamig.core.schema.sql import quote, string_sql, type_sql
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


def updates(fit: WriteFit, new: str, old: str) -> Mapping[str, str]:
    """Column -> what a row of the table (alias ``old``) gets there when it is updated by one of ``fit.into`` (alias ``new``).

    Fields that the release does not have stay as they are in the row, in structs: an array or a map is one value, and replaced whole. A
    struct that is NULL in the new row is NULL afterwards, with all that it held.
    """
    return {
        field.name: _updated(field.type, f"{new}.{quote(field.name)}", f"{old}.{quote(field.name)}", join("", field.name), fit.left_out)
        for field in fit.into.target.fields
    }


def _updated(data_type: DataType, new: str, old: str, path: ColumnPath, left_out: Collection[ColumnPath]) -> str:
    """``new`` itself if nothing inside of it is left out."""
    if not isinstance(data_type, Struct):
        return new
    given = {field.name: f"{new}.{quote(field.name)}" for field in data_type.fields}
    found = {}
    for field in data_type.fields:
        here, before = join(path, field.name), f"{old}.{quote(field.name)}"
        found[field.name] = before if here in left_out else _updated(field.type, given[field.name], before, here, left_out)
    if found == given:
        return new
    return f"IF({new} IS NULL, NULL, NAMED_STRUCT({', '.join(f'{string_sql(name)}, {value}' for name, value in found.items())}))"
