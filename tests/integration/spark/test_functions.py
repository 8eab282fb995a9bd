"""What is known of Spark without Spark, asked of Spark again: its functions, and its answers to DEFAULTs and CHECKs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_schemamig.core.schema.expressions.spark import operators as spark_operators
from airflow_provider_schemamig.core.schema.expressions.spark.functions import FILE, spark_functions
from spark_jobs import preflight
from tests.support.spark.check_verdicts import CHECKS, COLUMNS, TOLD_BY_SPARK_ALONE
from tests.support.spark.default_verdicts import DEFAULTS
from tests.support.spark.functions import lines, names_and_kinds
from tests.support.spark.operators import lines as operators_of

pytestmark = pytest.mark.spark


def test_the_functions_are_those_of_spark(spark: SparkSession) -> None:
    kinds = {name: "row" if function.kind == "random" else function.kind for name, function in spark_functions().items()}
    assert names_and_kinds(spark) == kinds, "another Spark: python -m tests.support.spark.functions"


@pytest.mark.soak
def test_the_list_of_functions_is_what_spark_gives(spark: SparkSession) -> None:
    assert FILE.read_text(encoding="utf-8").splitlines() == list(lines(spark)), "another Spark: python -m tests.support.spark.functions"


def test_preflight_asks_spark_what_only_it_can_judge(spark: SparkSession) -> None:
    columns = COLUMNS.replace("q: INT", "`q`: INT")
    bad = [{"collection": "t", "used_by": "c", "expression": check, "columns": columns} for check in sorted(TOLD_BY_SPARK_ALONE)]
    bad += [{"collection": "t", "used_by": "d", "expression": "to_date('abc')", "type": "DATE"}]
    good = [{"collection": "t", "used_by": "c", "expression": "length(x) > 0 AND s.q > 0", "columns": columns}]
    good += [{"collection": "t", "used_by": "d", "expression": "'1'", "type": "INT"}]
    found = preflight.run(spark, {"checks": [], "estimates": [], "expressions": [*bad, *good]})
    assert [item["expression"] for item in found["unusable"]] == [item["expression"] for item in bad]
    assert all(item["reason"] and "\n" not in item["reason"] for item in found["unusable"])


def test_preflight_asks_spark_whether_down_gives_the_old_columns(spark: SparkSession) -> None:
    about = {
        "collection": "t",
        "used_by": "the way back",
        "views": {"v": "`s` STRUCT<n: INT>, `day` DATE"},
        "columns": "`n` STRING, `day` DATE",
    }
    good = ["SELECT CAST(s.n AS STRING) AS n, day FROM v", "SELECT s.n, day FROM v", "SELECT day, 'x' AS n FROM v"]
    bad = ["SELECT s.m AS n, day FROM v", "SELECT s AS n, day + 'x' AS day FROM v", "SELECT s.n FROM v", "SELECT s.n, n AS day FROM v"]
    asked = [{**about, "expression": query} for query in (*good, *bad)]
    found = preflight.run(spark, {"checks": [], "estimates": [], "expressions": asked})
    assert [item["expression"] for item in found["unusable"]] == bad
    assert all(item["reason"] and "\n" not in item["reason"] for item in found["unusable"])


@pytest.mark.soak
def test_the_table_of_operators_is_what_spark_takes_and_gives(spark: SparkSession) -> None:
    again = "another Spark: python -m tests.support.spark.operators"
    assert spark_operators.FILE.read_text(encoding="utf-8").splitlines() == list(operators_of(spark)), again


@pytest.mark.soak
def test_spark_takes_the_defaults_it_is_said_to_take(spark: SparkSession, tmp_path: Path) -> None:
    wrong = []
    for number, (column_type, default, taken) in enumerate(DEFAULTS):
        table = f"delta.`{tmp_path}/t{number}`"
        feature = "TBLPROPERTIES('delta.feature.allowColumnDefaults'='supported')"
        try:
            spark.sql(f"CREATE TABLE {table} (id INT, c {column_type} DEFAULT {default}) USING delta {feature}")
            spark.sql(f"INSERT INTO {table} (id) VALUES (1)")
            takes = True
        except Exception:  # noqa: BLE001 - any refusal of Spark's
            takes = False
        if takes != taken:
            wrong.append((column_type, default, takes))
    assert wrong == []


@pytest.mark.soak
def test_spark_evaluates_the_checks_it_is_said_to_evaluate(spark: SparkSession) -> None:
    """Over no row: what fails is the analysis; values that fail in every row are not seen here."""
    empty, wrong = spark.createDataFrame([], COLUMNS), []
    for check, works in CHECKS:
        try:
            takes = empty.filter(check).count() == 0
        except Exception:  # noqa: BLE001 - any refusal of Spark's
            takes = False
        if works and not takes:
            wrong.append(check)
    assert wrong == []
