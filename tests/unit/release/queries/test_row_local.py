"""What ``up`` and ``down`` may be: row-local, deterministic, reading their own collection once."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.queries.errors import PlacedRefusal
from airflow_provider_schemamig.core.release.queries.query import QueryRefusal, parse_query
from airflow_provider_schemamig.core.release.queries.row_local import RewriteQuery, check_lookups, check_rewrite_query
from airflow_provider_schemamig.core.schema.expressions.spark.row_functions import NON_DETERMINISTIC, OVER_ROWS, WITHOUT_PARENTHESES
from airflow_provider_schemamig.core.schema.model import Array, Primitive
from tests.unit.release.support import struct, table, typed

A, B, C = CollectionName("a"), CollectionName("b"), CollectionName("c")
KNOWN = {
    A: table("a", "x int", "y string", struct("s", "t int"), typed("tags", Array(Primitive("string"))), "user string"),
    B: table("b", "x int", "name string"),
    C: table("c", "x int"),
}


def refusals(query: str, gives: str = "r int") -> list[QueryRefusal]:
    new = table("a", *gives.split(", "))
    asked = RewriteQuery(text=query, own=A, lookups=[B], known=KNOWN, gives=new, file="migrations/v1_1_0.py", line=7, argument="up")
    return list(check_rewrite_query(asked))


ROW_LOCAL = [
    "SELECT x AS r FROM {a}",
    "SELECT {a}.x AS R FROM {a} WHERE {a}.y > 'a';",
    "(SELECT x AS r FROM {a})",
    "FROM {a} SELECT x AS r",
    "SELECT * FROM {a}",
    "SELECT *, x + 1 AS q FROM {a}",
    "SELECT a.* FROM {a} AS a",
    "SELECT s.t AS r FROM {a}",
    "SELECT {a}.s.t AS r FROM {a}",
    "SELECT p.s.t AS r FROM {a} p",
    "SELECT r FROM (SELECT x AS r, y FROM {a} WHERE y IS NOT NULL) q WHERE q.y <> 'NA'",
    "SELECT int(e) AS r FROM {a} LATERAL VIEW OUTER explode(tags) t AS e",
    "SELECT int(t.e) AS r FROM {a}, LATERAL explode(tags) AS t(e)",
    "SELECT explode(tags) AS r FROM {a}",
    "SELECT inline(array(s)) FROM {a}",
    "SELECT b.x AS r FROM {a} LEFT JOIN {b} b ON b.name = {a}.y",
    "SELECT {b}.x AS r FROM {b} JOIN {a} ON {b}.name = {a}.y",
    "SELECT /*+ BROADCAST(b) */ x AS r FROM {a} LEFT ANTI JOIN {b} AS b USING (x)",
    "SELECT m.v AS r FROM {a} JOIN (VALUES ('a', 1)) AS m(k, v) ON m.k = y",
    "SELECT size(transform(tags, (t, i) -> concat(t, i, y))) AS r FROM {a}",
    "SELECT if(y LIKE ANY ('a%', 'b%'), 1, 0) AS r FROM {a}",
    "SELECT x + 1 AS q, q + 1 AS r FROM (SELECT x FROM {a})",
    "SELECT aggregate(tags, 0, (n, t) -> n + length(t)) AS r FROM {a}",
    "SELECT length(user) AS r FROM {a}",
    "SELECT current_user AS r FROM (SELECT x AS current_user FROM {a})",
    "SELECT time_diff(HOUR, y, y) AS r FROM {a}",
    "SELECT extract(YEAR FROM y) AS r FROM {a}",
    "SELECT unix_timestamp(y) AS r FROM {a}",
    "SELECT 'count(now())' AS r /* max(x) */ FROM {a} -- rand()",
    "SELECT sum AS r FROM (SELECT x AS sum FROM {a})",
    "SELECT sha2(y, 256) AS r FROM {a}",
    "SELECT r FROM {a} AS t(r, y, s, tags)",
    "SELECT r FROM ((SELECT x, {a}.y FROM {a})) AS t(r, u) JOIN {b} ON u = name",
    "SELECT r FROM (SELECT q.* FROM (SELECT x AS r, y IS DISTINCT FROM 'a' AS d FROM {a}) q) WHERE d",
    "SELECT ALL x AS r FROM {a}",
    "SELECT ALL all AS r FROM (SELECT s.*, x AS all FROM {a})",
    "SELECT `all`.x AS r FROM {a} AS all",
    "SELECT a.* EXCEPT (y), x * 2 AS r FROM {a} AS a",
]


@pytest.mark.parametrize("query", [*ROW_LOCAL, "SELECT x FROM"])  # the syntax is check_query's business
def test_row_local_queries_pass(query: str) -> None:
    names = "q int, r int" if " AS q, " in query else "r int"
    assert [str(refusal) for refusal in refusals(query, names)] == []


ROWS, STAR = "not_row_local", "star_in_expression"


@pytest.mark.parametrize(
    "query, code, line, column, says",
    [
        ("SELECT x AS r,\n  count(*) AS n FROM {a}", ROWS, 2, 3, "count"),
        ("SELECT x AS r FROM {a} GROUP BY\n x", ROWS, 2, 2, "GROUP BY"),
        ("SELECT x AS r FROM {a} HAVING x > 1", ROWS, 1, 31, "HAVING"),
        ("SELECT DISTINCT x AS r FROM {a}", ROWS, 1, 17, "DISTINCT"),
        ("SELECT x AS r FROM {a} ORDER BY y", ROWS, 1, 33, "ORDER BY"),
        ("SELECT x AS r FROM {a} SORT BY y", ROWS, 1, 32, "SORT BY"),
        ("SELECT x AS r FROM {a} CLUSTER BY y", ROWS, 1, 35, "CLUSTER BY"),
        ("SELECT x AS r FROM {a} DISTRIBUTE BY y", ROWS, 1, 38, "DISTRIBUTE BY"),
        ("SELECT x AS r FROM {a} LIMIT 10", ROWS, 1, 30, "LIMIT"),
        ("SELECT x AS r FROM {a} OFFSET 10", ROWS, 1, 31, "OFFSET"),
        ("SELECT r FROM (SELECT x AS r FROM {a} LIMIT 10)", ROWS, 1, 45, "LIMIT"),
        ("SELECT x AS r FROM {a} TABLESAMPLE (10 PERCENT)", ROWS, 1, 37, "TABLESAMPLE"),
        ("SELECT x AS r FROM {a} VERSION AS OF 3", ROWS, 1, 38, "VERSION AS OF"),
        ("SELECT r FROM {a} PIVOT (max(x) FOR y IN ('a' AS r))", ROWS, 1, 26, "PIVOT"),
        ("WITH q AS (SELECT x AS r FROM {a}) SELECT r FROM q", ROWS, 1, 6, "WITH"),
        ("SELECT x AS r FROM {a} UNION ALL SELECT 1", ROWS, 1, 8, "UNION"),
        ("SELECT r FROM (SELECT x AS r FROM {a} EXCEPT SELECT 1) q", ROWS, 1, 23, "EXCEPT"),
        ("SELECT row_number() OVER (PARTITION BY x) AS r FROM {a}", ROWS, 1, 8, "row_number"),
        ("SELECT `lag`(x) OVER w AS r FROM {a} WINDOW w AS (ORDER BY x)", ROWS, 1, 8, "lag"),
        ("SELECT my_sum(x) OVER (ORDER BY x) AS r FROM {a}", ROWS, 1, 8, "OVER"),
        ("SELECT TRANSFORM(x) USING 'cat' AS (r) FROM {a}", ROWS, 1, 18, "USING"),
        ("SELECT (SELECT name FROM {b}) AS r FROM {a}", ROWS, 1, 16, "a subquery"),
        ("SELECT x AS r FROM {a} WHERE x IN (SELECT x FROM {b})", ROWS, 1, 43, "a subquery"),
        ("SELECT x AS r FROM {a} WHERE EXISTS (SELECT 1 AS one FROM {b})", ROWS, 1, 45, "a subquery"),
        ("SELECT x AS r FROM {a}, LATERAL (SELECT name FROM {b})", ROWS, 1, 41, "a subquery"),
        ("SELECT r FROM (SELECT * FROM {a}) AS t(r, y, s, tags)", ROWS, 1, 23, "a list of names for the columns of SELECT *"),
        ("SELECT x AS r FROM ({a} JOIN {b})", ROWS, 1, 21, "parentheses"),
        ("SELECT concat_ws('|', *) AS r FROM {a}", STAR, 1, 23, "Name the columns"),
        ("SELECT x AS r FROM {a} p WHERE y IN (p.*)", STAR, 1, 40, "`*`"),
        ("SELECT struct(s.*) AS r FROM {a}", STAR, 1, 17, "`*`"),
        ("SELECT 1 + * AS r FROM {a}", STAR, 1, 12, "`*`"),
        ("SELECT * || 'a' AS r FROM {a}", STAR, 1, 8, "`*`"),
        ("SELECT CASE WHEN * THEN 1 END AS r FROM {a}", STAR, 1, 18, "`*`"),
        ("SELECT x AS r FROM {a} WHERE NOT *", STAR, 1, 34, "`*`"),
        ("SELECT e AS r FROM (SELECT x, to_json(array(*)) AS e FROM {a})", STAR, 1, 45, "`*`"),
        ("SELECT rand() AS r FROM {a}", "not_deterministic", 1, 8, "rand()"),
        ("SELECT x AS r FROM {a} WHERE y < current_date", "not_deterministic", 1, 34, "current_date"),
        ("SELECT x AS r FROM {a} WHERE y < now ()", "not_deterministic", 1, 34, "now()"),
        ("SELECT unix_timestamp( ) AS r FROM {a}", "not_deterministic", 1, 8, "unix_timestamp()"),
        ("SELECT session_user AS r FROM {a}", "not_deterministic", 1, 8, "session_user"),
        ("SELECT 1 AS r", "not_read_once", 1, 1, "0 times"),
        ("SELECT b.x AS r FROM {b} b", "not_read_once", 1, 1, "0 times"),
        ("SELECT p.x AS r FROM {a} p JOIN {a} q ON p.x = q.x", "not_read_once", 1, 33, "2 times"),
        ("SELECT {a}.x AS r FROM {a} JOIN {c} ON {a}.x = {c}.x", "lookup_not_named", 1, 33, "later changes of it do not come in"),
        ("SELECT {a}.x AS r FROM {a} RIGHT JOIN {b} USING (x)", "unsafe_join", 1, 39, "RIGHT JOIN"),
        ("SELECT {a}.x AS r FROM {a} FULL OUTER JOIN {b} USING (x)", "unsafe_join", 1, 44, "FULL OUTER JOIN"),
        ("SELECT {a}.x AS r FROM {b} LEFT JOIN (SELECT x FROM {a}) USING (x)", "unsafe_join", 1, 46, "LEFT JOIN"),
        ("SELECT x FROM {a}", "wrong_columns", 1, 8, "missing r; unexpected x"),
        ("SELECT x AS r,\n int(y) FROM {a}", "wrong_columns", 2, 2, "unexpected CAST(y AS INT)"),
        ("SELECT x AS r, 1 AS R FROM {a}", "wrong_columns", 1, 8, "unexpected r"),
        ("SELECT posexplode(tags) AS (p, e) FROM {a}", "wrong_columns", 1, 8, "missing r"),
        ("SELECT x AS r FROM {a} WHERE\n nope > 1", "unknown_query_column", 2, 2, "a column nope"),
        ("SELECT a.x AS r FROM {a}", "unknown_query_column", 1, 8, "a column a.x"),
        ("SELECT {a}.z AS r FROM {a}", "unknown_query_column", 1, 8, "a column {a}.z"),
        ("SELECT {a}.overlaps * 2 AS r FROM {a}", "unknown_query_column", 1, 8, "a column {a}.overlaps"),
        ("SELECT y AS r FROM (SELECT x FROM {a})", "unknown_query_column", 1, 8, "a column y"),
    ],
)
def test_queries_that_are_not_row_local_are_refused(query: str, code: str, line: int, column: int, says: str) -> None:
    found = refusals(query)
    assert [refusal.code for refusal in found][:1] == [code]
    refusal = found[0]
    assert isinstance(refusal, PlacedRefusal)
    assert (refusal.query_line, refusal.column) == (line, column)
    assert says in f"{refusal.message} {refusal.next_action}"
    assert f"migrations/v1_1_0.py:7: up, line {line}, column {column} of the query" in refusal.message


@pytest.mark.parametrize("function", sorted(OVER_ROWS | NON_DETERMINISTIC))
def test_every_listed_function_is_found_whatever_the_parser_makes_of_it(function: str) -> None:
    calls = [f"SELECT {function.upper()}({arguments}) AS r FROM {{a}}" for arguments in ("", "x", "x, 1", "x, 1, 2")]
    parsed = [call for call in calls if not isinstance(parse_query(call), tuple)]  # the parser counts the arguments of some
    assert parsed
    for call in parsed:
        [refusal] = refusals(call)
        assert refusal.code in ("not_row_local", "not_deterministic")
        assert function in refusal.message


@pytest.mark.parametrize("function", sorted(WITHOUT_PARENTHESES - {"user"}))
def test_functions_without_parentheses(function: str) -> None:
    assert [refusal.code for refusal in refusals(f"SELECT {function} AS r FROM {{a}}")] == ["not_deterministic"]


def test_all_that_is_wrong_is_said_in_the_order_of_the_text() -> None:
    found = refusals("SELECT DISTINCT rand() AS r FROM {a} JOIN {c} LIMIT 3")
    assert [refusal.code for refusal in found] == ["not_row_local", "not_deterministic", "lookup_not_named", "not_row_local"]


def test_lookups_that_nobody_reads() -> None:
    queries = ["SELECT '{c}' AS r FROM {a}", "SELECT 1 AS r FROM {a} JOIN {b}"]
    [refusal] = check_lookups([B, C], queries, collection=A, file="f", line=3)
    assert (refusal.code, getattr(refusal, "name", None)) == ("lookup_not_read", "c")
    assert list(check_lookups([C], ["SELECT ("], collection=A, file="f", line=3)) == []
