"""Queries of steps: placeholders, their syntax with line and column, and tables that are no collections."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.queries.query import QueryRefusal, QuerySyntax, bind, check_query, placeholders

A, B = CollectionName("a"), CollectionName("b")


def refusals(query: str) -> list[QueryRefusal]:
    found = check_query(query, known={A, B}, version=Version(1, 0, 0), collection=A, file="migrations/v1_1_0.py", line=7, argument="fill")
    return list(found)


def test_placeholders_are_found_once_in_order_and_bound() -> None:
    query = "SELECT {b}.x FROM {a} JOIN {b} ON {a}.x = {b}.x"
    assert placeholders(query) == ("b", "a")
    assert bind(query, {A: "`v1`", B: "`v2`"}) == "SELECT `v2`.x FROM `v1` JOIN `v2` ON `v1`.x = `v2`.x"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS n",
        "SELECT * FROM {a};",
        "SELECT * FROM {a}; -- done",
        "-- why\nSELECT x, count(*) AS n FROM {a} GROUP BY 1",
        "WITH q AS (SELECT * FROM {a}) SELECT q.x FROM q JOIN {b} USING (x)",
        "SELECT * FROM {a} UNION ALL SELECT * FROM {b}",
        "SELECT e FROM {a} LATERAL VIEW explode(tags) t AS e",
        "SELECT * FROM range(10)",
        "SELECT transform(xs, x -> x + 1) AS xs FROM {a} AS a WHERE a.y RLIKE '^b'",
        "SELECT * FROM (SELECT * FROM {a}) s",
        "FROM {a} SELECT x",
        "SELECT /*+ BROADCAST(r), COALESCE(3) */ r.x FROM {a} JOIN {b} AS r USING (x)",
    ],
)
def test_query_good(query: str) -> None:
    assert refusals(query) == []


@pytest.mark.parametrize(
    "query, code",
    [
        ("SELECT * FROM {c}", "unknown_placeholder"),
        ("SELECT * FROM a", "table_not_placeholder"),
        ("SELECT * FROM {a} JOIN a", "table_not_placeholder"),
        ("SELECT * FROM {a} JOIN `a`", "table_not_placeholder"),
        ("SELECT * FROM delta.`/tmp/x`", "table_not_placeholder"),
        ("WITH q AS (SELECT 1 AS x) SELECT * FROM other.q", "table_not_placeholder"),
        ("SELECT * FROM {a} WHERE x IN (SELECT x FROM other)", "table_not_placeholder"),
        ("SELECT", "query_syntax"),
        ("VALUES (1), (2)", "query_syntax"),
        ("SELECT 'a", "query_syntax"),
        ("SELECT 1; SELECT 2", "query_syntax"),
        ("DROP TABLE {a}", "query_syntax"),
        ("INSERT INTO {a} SELECT 1", "query_syntax"),
        ("-- nothing", "query_syntax"),
        ("SELECT * FROM {a b}", "query_syntax"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "query_syntax"),
    ],
)
def test_query_bad(query: str, code: str) -> None:
    found = refusals(query)
    assert [refusal.code for refusal in found] == [code]
    assert "migrations/v1_1_0.py:7: fill" in found[0].message


def test_line_and_column_are_those_of_the_query() -> None:
    [refusal] = refusals("SELECT x\nFROM {a}\nWHERE x = = 3")
    assert isinstance(refusal, QuerySyntax)
    assert (refusal.query_line, refusal.column) == (3, 11)


def test_the_parser_s_own_words_are_kept_from_the_reader() -> None:
    [refusal] = refusals("SELECT * FROM {a} WHERE x >")
    assert "a part of GT is missing" in refusal.message
    assert "sqlglot" not in refusal.message
