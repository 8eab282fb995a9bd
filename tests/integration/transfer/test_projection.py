"""The SELECT lists of ``release.projection`` on Spark itself: names, types, order, values, NULLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.queries.projection import project
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.sql import type_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE = """
CREATE TABLE legs (
    id INT, code VARCHAR(3), gone STRING,
    `order` STRING,
    origin STRUCT<faa: STRING, at: STRUCT<lat: FLOAT, lon: FLOAT>, gate: SMALLINT>,
    tags ARRAY<STRUCT<k: STRING, v: INT>>,
    grid ARRAY<ARRAY<SMALLINT>>,
    seats MAP<SMALLINT, STRUCT<row: INT, col: STRING>>
);
"""
AFTER = """
CREATE TABLE legs (
    seats MAP<INT, STRUCT<line: BIGINT, note: STRING>>,
    id BIGINT, iata STRING,
    `order` STRING,
    departure STRUCT<gate: INT, at: STRUCT<latitude: DOUBLE, lon: FLOAT, alt: INT>, faa: STRING>,
    tags ARRAY<STRUCT<v: BIGINT, key: STRING>>,
    grid ARRAY<ARRAY<INT>>,
    extra STRUCT<a: ARRAY<INT>, b: STRING>, short VARCHAR(5), price DECIMAL(10,2)
);
"""
RENAMES = {
    "code": "iata",
    "origin": "departure",
    "origin.at.lat": "latitude",
    "tags.element.k": "key",
    "seats.value.row": "line",
}
ROWS = """
SELECT 1 AS id, 'JFK' AS code, 'x' AS gone, 'o' AS `order`,
       named_struct('faa', 'JFK', 'at', named_struct('lat', float(40.5), 'lon', float(-73.5)), 'gate', smallint(7)) AS origin,
       array(named_struct('k', 'a', 'v', 1), NULL) AS tags,
       array(array(smallint(1), NULL), NULL) AS grid,
       map(smallint(1), named_struct('row', 10, 'col', 'A'), smallint(2), NULL) AS seats
UNION ALL
SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL
SELECT 3, 'LGA', 'y', 'p', named_struct('faa', NULL, 'at', NULL, 'gate', NULL), array(), array(), map()
"""


@pytest.mark.spark
def test_a_projection_gives_the_later_shape_and_the_same_values(spark: SparkSession) -> None:
    [before], [after] = parse_schema(BEFORE, "before.sql"), parse_schema(AFTER, "after.sql")
    spark.sql(ROWS).createOrReplaceTempView("schemamig_projection")
    projection = project(before, after, {ColumnPath(path): name for path, name in RENAMES.items()})
    found = spark.sql(f"SELECT {projection} FROM schemamig_projection ORDER BY id")
    # Field by field; a varchar is stored as a string.
    expected = [
        (f.name, type_sql(f.type).lower().replace("`", "").replace(": ", ":").replace(", ", ",").replace("varchar(5)", "string"))
        for f in after.fields
    ]
    assert found.dtypes == expected
    first, second, third = (row.asDict(recursive=True) for row in found.collect())
    assert first == {
        "seats": {1: {"line": 10, "note": None}, 2: None},
        "id": 1,
        "iata": "JFK",
        "order": "o",
        "departure": {"gate": 7, "at": {"latitude": 40.5, "lon": -73.5, "alt": None}, "faa": "JFK"},
        "tags": [{"v": 1, "key": "a"}, None],
        "grid": [[1, None], None],
        "extra": None,
        "short": None,
        "price": None,
    }
    assert second == dict.fromkeys(first) | {"id": 2}
    assert third["departure"] == {"gate": None, "at": None, "faa": None}
    assert (third["tags"], third["grid"], third["seats"]) == ([], [], {})
