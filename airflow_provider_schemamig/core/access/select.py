"""A fit as Spark SQL, for classic sessions and Spark Connect alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_provider_schemamig.core.access.read_mapping import Fit
from airflow_provider_schemamig.core.access.write_mapping import BEYOND_FLOAT, WriteFit
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.queries.projection import project
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.paths import join
from airflow_provider_schemamig.core.schema.sql import exact_type_sql, quote, string_sql, type_sql
from airflow_provider_schemamig.core.storage import spark_uri


def version_sql(uri: str, version: int) -> str:
    """Return the SQL of a table at one version, for FROM."""
    return f"delta.{quote(spark_uri(uri))} VERSION AS OF {version}"


def apart(rows: str, fields: Sequence[Field], columns: Collection[str]) -> str:
    """Return ``rows``, for FROM, with ``columns`` as values that Spark does not know for the table's: no filter on one leaves files out."""
    shown = ((field.name, quote(field.name)) for field in fields)
    items = (f"element_at(array({name}), 1) AS {name}" if column in columns else name for column, name in shown)
    return f"(SELECT {', '.join(items)} FROM {rows})"


def select(fit: Fit, rows: str) -> str:
    """Return a query for ``rows`` as the fit shows them. ``rows``: anything that may stand after FROM."""
    query = f"SELECT {project(fit.source, fit.shown, fit.renames)} FROM {rows}"
    narrowed = {name: fit.target.field(name) for name in fit.narrows}
    if not narrowed:
        return query
    columns = []
    for field in fit.shown.fields:
        target = narrowed.get(field.name)
        name = quote(field.name)
        columns.append(name if target is None else f"{_cast(name, field, target)} AS {name}")
    return f"SELECT {', '.join(columns)} FROM ({query})"


def _cast(value: str, old: Field, new: Field) -> str:
    """Return the cast to a narrower type. It fails if a value does not fit; by itself, a cast to FLOAT does not."""
    cast, beyond = f"CAST({value} AS {exact_type_sql(new.type)})", _beyond_float(value, old.type, new.type)
    if beyond is None:
        return cast
    message = string_sql(f"column {new.name} is {type_sql(new.type)}: {BEYOND_FLOAT}")
    return f"IF({beyond}, raise_error({message}), {cast})"


def _beyond_float(value: str, old: DataType, new: DataType, depth: int = 0) -> str | None:
    """Return the condition that a finite number would become infinite; None if nothing becomes a FLOAT."""
    item, found = f"x{depth}", list[str | None]()
    match old, new:
        case Primitive("double"), Primitive("float"):
            return f"(abs(CAST({value} AS FLOAT)) = FLOAT('Infinity') AND abs({value}) < DOUBLE('Infinity'))"
        case Struct(), Struct():
            pairs = zip(old.fields, new.fields, strict=True)
            found = [_beyond_float(f"{value}.{quote(before.name)}", before.type, after.type, depth) for before, after in pairs]
        case Array(), Array():
            found = [_exists(value, item, _beyond_float(item, old.element, new.element, depth + 1))]
        case Map(), Map():
            keys, values = _beyond_float(item, old.key, new.key, depth + 1), _beyond_float(item, old.value, new.value, depth + 1)
            found = [_exists(f"map_keys({value})", item, keys), _exists(f"map_values({value})", item, values)]
    conditions = [condition for condition in found if condition is not None]
    return f"({' OR '.join(conditions)})" if conditions else None


def _exists(values: str, item: str, condition: str | None) -> str | None:
    return None if condition is None else f"exists({values}, {item} -> {condition})"


def updates(fit: WriteFit, new: str, old: str) -> Mapping[str, str]:
    """Map each column to what a row of the table (alias ``old``) gets there when one of ``fit.into`` (alias ``new``) updates it.

    In structs, fields that the release does not have keep the row's values; an array or a map is one value, and replaced by the new one. A
    struct that is NULL in the new row is NULL afterwards, with all that it held.
    """
    return {
        field.name: _updated(field.type, f"{new}.{quote(field.name)}", f"{old}.{quote(field.name)}", join("", field.name), fit.left_out)
        for field in fit.into.target.fields
    }


def _updated(data_type: DataType, new: str, old: str, path: ColumnPath, left_out: Collection[ColumnPath]) -> str:
    """Return ``new`` itself if no field inside of it is left out, else the struct put together of new and old fields."""
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
