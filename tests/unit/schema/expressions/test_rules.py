"""What a CHECK and a DEFAULT may be, told without Spark: nothing that Spark refuses, and a known list more."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.schema.expressions.canonical import canonical_text
from airflow_provider_schemamig.core.schema.expressions.constant_fit import default_fault
from airflow_provider_schemamig.core.schema.expressions.rules import check_fault
from airflow_provider_schemamig.core.schema.expressions.spark.functions import spark_functions
from airflow_provider_schemamig.core.schema.expressions.spark.row_functions import BUILT_IN, GENERATORS, NON_DETERMINISTIC, OVER_ROWS
from airflow_provider_schemamig.core.schema.unusable import newly_unusable, unusable_in
from tests.support.spark.check_verdicts import CHECKS, COLUMNS, TOLD_BY_SPARK_ALONE
from tests.support.spark.default_verdicts import DEFAULTS, REFUSED_BEYOND_SPARK
from tests.unit.schema.tables import table


def fault_of(column_type: str, default: str) -> str | None:
    return default_fault(canonical_text(default), table(f"c {column_type}").fields[0].type)


@pytest.mark.parametrize(("column_type", "default", "taken"), DEFAULTS)
def test_a_default_is_taken_where_spark_takes_it(column_type: str, default: str, taken: bool) -> None:
    assert (fault_of(column_type, default) is None) == (taken and (column_type, default) not in REFUSED_BEYOND_SPARK)


@pytest.mark.parametrize(
    ("column_type", "default", "fault"),
    [
        ("INT", "'abc'", "'abc' is no INT"),
        ("INT", "99999999999", "99999999999 is no INT"),
        ("DATE", "array(1)", "a value of type ARRAY<INT> does not fit DATE"),
        (
            "STRUCT<a: INT, b: INT>",  # Spark would give each the other's value
            "named_struct('b', 1, 'a', 2)",
            "a value of type STRUCT<`b`: INT, `a`: INT> does not fit STRUCT<`a`: INT, `b`: INT>",
        ),
        ("STRING", "nosuchfunction()", "Spark has no function nosuchfunction"),
        ("STRING", "uuid()", "UUID gives another value each time"),
        ("STRING", "coalesce(NULL, 'a')", "what COALESCE(...) gives cannot be known without Spark"),
        ("MAP<STRING,INT>", "map('a', 1, 'a', 2)", "a key of a map is NULL, is there twice, or is only known later"),
        ("DATE", "DATE'2020-02-30'", "'2020-02-30' is no DATE"),
        ("TIMESTAMP", "'2020-01-01 25:00:00'", "'2020-01-01 25:00:00' is no TIMESTAMP"),
        ("TIMESTAMP", "'2020-01-01 10:00:00 No/Where'", "'2020-01-01 10:00:00 No/Where' is no TIMESTAMP"),
        ("INT", "2147483647 + 1", "2147483648 is no INT"),
        ("DOUBLE", "1e400", "'1e400' is no DOUBLE"),
        ("INT", "1 +", "its value cannot be known without Spark"),
        ("BINARY", "X'0'", "its value cannot be known without Spark"),
    ],
)
def test_why_a_default_cannot_be(column_type: str, default: str, fault: str) -> None:
    assert fault_of(column_type, default) == fault


@pytest.mark.parametrize(
    ("column_type", "default"),
    [
        ("DATE", "date_sub(current_date(), 1)"),
        ("INT", "year(current_timestamp())"),
        ("STRING", "date_format(current_timestamp(), 'yyyy-MM-dd')"),
        ("TIMESTAMP", "date_trunc('DAY', now())"),
        ("BIGINT", "60 * 60 * 24"),
        ("DECIMAL(38,0)", "-99999999999999999999999999999999999999"),
        ("STRING", "'a' || upper(current_user())"),
        ("MAP<STRING, ARRAY<INT>>", "map('a', array(1, NULL))"),
        ("STRUCT<a: INT, b: STRING>", "named_struct('a', 1, 'b', NULL)"),
        ("TIMESTAMP", "TIMESTAMP'2020-01-01 00:00:00.5+01:00'"),
        ("SMALLINT", "5S"),
        ("FLOAT", ".5"),
        ("BOOLEAN", "CAST('true' AS BOOLEAN)"),
    ],
)
def test_expression_rules_what_a_default_may_be(column_type: str, default: str) -> None:
    assert fault_of(column_type, default) is None


@pytest.mark.parametrize(("check", "works"), CHECKS)
def test_a_check_is_taken_where_rows_can_be_written(check: str, works: bool) -> None:
    fault = check_fault(canonical_text(check), table(COLUMNS).fields)
    assert (fault is None) == (works or check in TOLD_BY_SPARK_ALONE), fault


@pytest.mark.parametrize(("check", "operator"), [("1 OR true", "OR"), ("1 AND true", "AND"), ("-'a' > 0 OR -true", "-")])
def test_a_fault_names_the_operator_as_it_is_written(check: str, operator: str) -> None:
    fault = check_fault(canonical_text(check), table(COLUMNS).fields)
    assert fault is not None and fault.startswith(f"Spark has no {operator} of ")


@pytest.mark.parametrize(
    "check",
    [
        *("ts > TIMESTAMP'2020-01-01 00:00:00'", "b IS TRUE", "CAST(x AS INT) > 5", "ts BETWEEN '2020-01-01' AND '2021-01-01 10:00:00'"),
        *("COALESCE(b, TRUE)", "EXISTS(arr, e -> e > 0)", "x IN ('a', 'b')", "CASE WHEN y > 0 THEN b END", "d + 1 > d", "x <=> NULL"),
        *("INTERVAL '1' DAY > INTERVAL '2' HOUR", "ts + INTERVAL 1 DAY > d", "TRY_CAST(x AS DATE) IS NOT NULL", "bin = X'00'"),
        *("d > '2020'", "d > DATE'2020-01'", "ts > TIMESTAMP'2020-01-01 10:00:00 Europe/Berlin'", "ts > '2020-01-01T10:00Z'"),
        *("x RLIKE '^a' AND LENGTH(x) < 5", "TRIM(BOTH 'a' FROM x) = ''", "EXTRACT(YEAR FROM ts) > 2000", "current_timestamp() > ts"),
    ],
)
def test_expression_rules_what_a_check_may_be(check: str) -> None:
    assert check_fault(canonical_text(check), table(COLUMNS).fields) is None


def test_expression_rules_only_what_is_new_is_told() -> None:
    old = table("a INT DEFAULT 'x', b INT, CONSTRAINT c CHECK (a + 1)")
    new = table("a INT DEFAULT 'x', b INT DEFAULT 'y', CONSTRAINT c CHECK (a + 1), CONSTRAINT e CHECK (rand() > b)")
    assert [found.used_by for found in unusable_in(new)] == ["the DEFAULT of a", "the DEFAULT of b", "the CHECK c", "the CHECK e"]
    assert [found.used_by for found in newly_unusable(old, new)] == ["the DEFAULT of b", "the CHECK e"]


def test_the_lists_for_queries_say_of_functions_what_spark_says() -> None:
    """``functions`` is by hand: it counts the current time among what changes, and knows other versions of Spark."""
    operators = {"and", "between", "div", "ilike", "in", "like", "not", "or", "regexp", "rlike", "when"}
    tables = {"collations", "python_worker_logs", "range", "sql_keywords"}  # nothing but FROM can hold them
    lists = {
        "aggregate": OVER_ROWS,
        "window": OVER_ROWS,
        "random": NON_DETERMINISTIC,
        "rows": GENERATORS | tables,
        "table": tables | BUILT_IN,
        "row": BUILT_IN | NON_DETERMINISTIC | OVER_ROWS | GENERATORS | operators,
    }
    named = {name: function for name, function in spark_functions().items() if name.isidentifier()}
    assert {name: function.kind for name, function in named.items() if name not in lists[function.kind]} == {}
