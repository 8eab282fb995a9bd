"""A row-local query that keeps a value of each of its own rows: which row a row is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider_schemamig.core.release.queries.with_column import with_column
from tests.unit.release.queries.test_row_local import ROW_LOCAL, A


@pytest.mark.parametrize(
    ("query", "keeping"),
    [
        ("SELECT x AS r FROM {a}", "SELECT m AS m_1, x AS r FROM {a}"),
        ("SELECT ALL all AS r FROM {a}", "SELECT ALL m AS m_1, all AS r FROM {a}"),
        ("FROM {a} SELECT /*+ COALESCE(1) */ ALL x", "FROM {a} SELECT /*+ COALESCE(1) */ ALL m AS m_1, x"),
        (
            "SELECT extract(YEAR FROM y) AS r FROM {b} JOIN (SELECT q.* FROM {a} AS q) USING (x)",
            "SELECT m_1 AS m_2, extract(YEAR FROM y) AS r FROM {b} JOIN (SELECT m AS m_1, q.* FROM {a} AS q) USING (x)",
        ),
        (
            "SELECT r FROM ((SELECT x, y FROM {a} AS q(`x`, y))) t(r, s)",
            "SELECT m_1 AS m_2, r FROM ((SELECT m AS m_1, x, y FROM {a} AS q(m, `x`, y))) t(m_1, r, s)",
        ),
    ],
)
def test_a_column_is_kept_through_each_select_on_its_way(query: str, keeping: str) -> None:
    found, name = with_column(query, A, "m")
    assert found == keeping and f" AS {name}," in found


@pytest.mark.soak
@pytest.mark.spark
def test_spark_makes_the_same_rows_and_says_of_which_one_each_is_made(spark: SparkSession) -> None:
    shown = "SELECT id AS {}, id AS x, y, named_struct('t', id) AS s, split(y, ',') AS tags, y AS user FROM VALUES {} AS v(id, y)"
    rows = {1: "(1, 'a,b')", 2: "(2, 'b')", 3: "(3, 'NA')"}
    spark.sql("SELECT * FROM VALUES (1, 'a,b'), (1, 'b'), (2, 'b') AS v(x, name)").createOrReplaceTempView("b")

    def made(query: str, numbers: Sequence[int], column: str = "") -> Counter[Any]:
        spark.sql(shown.format(column or "unused", ", ".join(rows[number] for number in numbers))).createOrReplaceTempView("a")
        if not column:
            spark.sql("SELECT * EXCEPT (unused) FROM a").createOrReplaceTempView("a")
        return Counter(tuple(map(str, row)) for row in spark.sql(bound(query)).collect())

    def bound(query: str) -> str:
        return query.replace("{", "").replace("}", "").rstrip(";")

    asked = 0
    for query in ROW_LOCAL:
        try:
            alone = {number: made(query, [number]) for number in rows}
        except PySparkException:
            continue  # right by its form alone
        asked += 1
        keeping, name = with_column(query, A, "schemamig__made_of")
        columns = ", ".join(f"`{column}`" for column in spark.sql(bound(query)).columns)
        found = made(f"SELECT {name}, {columns} FROM (\n{bound(keeping)}\n)", [*rows], "schemamig__made_of")
        for number in rows:
            of_it = Counter({row[1:]: n for row, n in found.items() if row[0] == str(number)})
            assert of_it == alone[number], query
    assert asked > 25
