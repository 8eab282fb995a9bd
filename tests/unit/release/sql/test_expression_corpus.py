"""Broken CHECKs and DEFAULTs are found by ``check``, as Spark's parser would find them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.unusable import unusable_in
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.spark.expression_corpus import BROKEN, BROKEN_DEFAULTS, COLUMNS, REFUSED_BY_CHECK_ALONE, RIGHT, RIGHT_DEFAULTS


def _check(text: str) -> str:
    """Return a table with the CHECK; a comment in it ends with its line."""
    return f"CREATE TABLE t ({COLUMNS}, CONSTRAINT k CHECK ({text}\n)) USING delta"


def _default(text: str) -> str:
    return f"CREATE TABLE t (a INT, x STRING DEFAULT {text}\n) USING delta"


def _is_read(statement: str) -> bool:
    try:
        (declared,) = parse_schema(statement, "schema.sql")
    except SchemamigError:
        return False
    return not list(unusable_in(declared))


@pytest.mark.parametrize("text", RIGHT)
def test_a_right_check_is_read(text: str) -> None:
    assert _is_read(_check(text))


@pytest.mark.parametrize("text", [*BROKEN, *REFUSED_BY_CHECK_ALONE])
def test_a_broken_check_is_refused(text: str) -> None:
    assert not _is_read(_check(text))


@pytest.mark.parametrize("text", RIGHT_DEFAULTS)
def test_a_right_default_is_read(text: str) -> None:
    parse_schema(_default(text), "schema.sql")


@pytest.mark.parametrize("text", BROKEN_DEFAULTS)
def test_a_broken_default_is_refused(text: str) -> None:
    assert not _is_read(_default(text))


def test_a_broken_check_is_placed() -> None:
    with pytest.raises(SchemamigError) as refused:
        parse_schema("CREATE TABLE t (a INT,\n  CHECK (a IS NOT NULL AND\n    a IN (1,))\n) USING delta", "schema.sql")
    assert str(refused.value).startswith("[sql_syntax] schema.sql:3:13: no valid expression: nothing stands before ')'")


@pytest.mark.soak
@pytest.mark.spark
def test_spark_parses_checks_and_defaults_alike(spark: SparkSession) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()

    def is_check(text: str) -> bool:
        return _is_parsed(lambda: parser.parseExpression(text))  # as Delta does with a CHECK

    def is_default(text: str) -> bool:
        return _is_parsed(lambda: parser.parsePlan(_default(text)))

    assert [text for text in BROKEN if is_check(text)] == []
    assert [text for text in (*RIGHT, *REFUSED_BY_CHECK_ALONE) if not is_check(text)] == []
    assert [text for text in BROKEN_DEFAULTS if is_default(text)] == []
    assert [text for text in RIGHT_DEFAULTS if not is_default(text)] == []


def _is_parsed(parse: Callable[[], object]) -> bool:
    try:
        parse()
    except PySparkException:
        return False
    return True
