"""Broken SQL is found by ``check``: sqlglot reads many dialects, and took for one of them what Spark does not parse."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider_schemamig.core.release.queries.query import masked, parse_query
from tests.support.spark.query_corpus import BROKEN, REFUSED_BY_CHECK_ALONE, RIGHT


@pytest.mark.parametrize("query", RIGHT)
def test_a_right_query_is_read(query: str) -> None:
    assert not isinstance(parse_query(query), tuple)


@pytest.mark.parametrize("query", [*BROKEN, *REFUSED_BY_CHECK_ALONE])
def test_a_broken_query_is_refused(query: str) -> None:
    found = parse_query(query)
    assert isinstance(found, tuple), "it was read"
    line, column, reason = found
    assert line >= 1 and column >= 1 and reason


def test_a_missing_parenthesis_is_placed() -> None:
    assert parse_query("SELECT a,\n  CAST(b AS DECIMAL(5,2) AS b FROM {t}") == (2, 7, "'(' is not closed")


@pytest.mark.soak
@pytest.mark.spark
def test_spark_judges_alike(spark: SparkSession) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()

    def is_parsed(query: str) -> bool:
        try:
            parser.parsePlan(masked(query))
        except PySparkException:
            return False
        return True

    assert [query for query in BROKEN if is_parsed(query)] == []
    assert [query for query in (*RIGHT, *REFUSED_BY_CHECK_ALONE) if not is_parsed(query)] == []
