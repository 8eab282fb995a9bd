"""Handles of an adopted table whose rows Delta numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import WriterFenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from tests.support.product import Product

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT NOT NULL, code STRING, n INT"


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
@pytest.mark.some(1, of="flows of Spark")
def test_rows_without_the_identity_column_get_numbers_and_its_key_is_kept(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table, product = tmp_path / "t", Product(tmp_path / "product")
    spark.sql(f"CREATE TABLE delta.`{table}` ({COLUMNS.replace('NULL,', f'NULL GENERATED {kind} AS IDENTITY,')}) USING delta")
    first = product.release("1.0.0", f"CREATE TABLE t ({COLUMNS});")
    second = product.release("1.1.0", f"CREATE TABLE t ({COLUMNS}, CONSTRAINT k PRIMARY KEY (id));", 'evolution("t")')
    env = Environment.open(str(tmp_path / "lake"))
    commands.adopt(env, first, [("t", str(table))], create=True)
    writer = env.writer("t", spark=spark)
    writer.append(spark.sql("SELECT /*+ COALESCE(1) */ * FROM VALUES ('a', 1), ('b', 2) AS v(code, n)"))
    writer.merge(spark.sql("SELECT /*+ COALESCE(1) */ * FROM VALUES ('b', 20), ('c', 3) AS v(code, n)"), on=["code"])
    rows = {row.code: row for row in env.reader("t", spark=spark).df().collect()}
    assert {code: row.n for code, row in rows.items()} == {"a": 1, "b": 20, "c": 3}
    assert len({row.id for row in rows.values()} - {None}) == 3

    commands.upgrade(env, second, jobs=EmbeddedRunner)
    writer, more = env.writer("t", spark=spark), spark.sql("SELECT 'd' AS code, 4 AS n")
    if kind == "ALWAYS":
        writer.append(more)
    else:
        with pytest.raises(WriterFenced, match="left to Delta's counter"):
            writer.append(more)
        writer.append(spark.sql("SELECT 1000L AS id, 'd' AS code, 4 AS n"))
    assert {row.code for row in env.reader("t", spark=spark).df().collect()} == {"a", "b", "c", "d"}
