"""Casts that may fail on rows, as questions to those rows."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.queries.casts import CastQuestion, casts_over_source

Q = CastQuestion
WHERE = "x <> 'NA' AND TRY_CAST(y AS INT) > 1"


@pytest.mark.parametrize(
    "query, expected",
    [
        ("SELECT CAST(x AS INT) AS x FROM {a}", {Q("x", "INT")}),
        ("SELECT x::bigint, int(y), double(z) FROM {a}", {Q("x", "BIGINT"), Q("y", "INT"), Q("z", "DOUBLE")}),
        ("SELECT CAST(x AS INT) AS b, 1 + CAST(x AS INT) AS c FROM {a}", {Q("x", "INT")}),
        ("SELECT try_cast(x AS INT), CAST(x AS STRING), string(y), x FROM {a}", set()),
        ("SELECT CAST(trim(x) AS DECIMAL(10,2)) FROM {a}", {Q("TRIM(x)", "DECIMAL(10, 2)")}),
        ("SELECT CAST({a}.`x y` AS DATE), CAST({a}.s.t AS DATE) FROM {a}", {Q("`x y`", "DATE"), Q("s.t", "DATE")}),
        ("SELECT CAST(p.s.t AS INT), CAST(m['k'].v AS INT) FROM {a} p", {Q("s.t", "INT"), Q("m['k'].v", "INT")}),
        (
            "SELECT CAST(CAST(p.x AS INT) + 1 AS TINYINT) FROM {a} p WHERE p.x <> 'NA' AND CAST(p.y AS INT) > 1",
            {Q("x", "INT", WHERE), Q("TRY_CAST(x AS INT) + 1", "TINYINT", WHERE)},
        ),
        ("SELECT x FROM {a} WHERE CAST(y AS INT) > 1", {Q("y", "INT")}),
        ("SELECT CASE WHEN x > 'a' THEN CAST(x AS INT) END, coalesce(x, int(y)), if(x, int(y), 2) FROM {a}", set()),
        ("SELECT transform(xs, x -> CAST(x AS INT)) FROM {a}", set()),
        ("SELECT x AS y, CAST(y AS INT) AS z FROM {a}", set()),  # y may be the new one
        ("SELECT b FROM (SELECT CAST(x AS INT) AS b FROM {a})", {Q("x", "INT")}),
        ("SELECT b FROM (SELECT CAST(x AS INT) AS b FROM {a}) WHERE b > 1", set()),
        ("SELECT b FROM (SELECT b FROM (SELECT CAST(x AS INT) AS b FROM {a})) WHERE b > 1", set()),
        ("SELECT CAST({a}.x AS INT), CAST({b}.x AS INT), int(y) FROM {a} LEFT JOIN {b} USING (k)", {Q("x", "INT")}),
        ("SELECT CAST({a}.x AS INT) FROM {a} JOIN {b} USING (k)", set()),
        ("SELECT CAST(p.x AS INT), CAST(e AS INT) FROM {a} p LATERAL VIEW OUTER explode(xs) t AS e", {Q("x", "INT")}),
        ("SELECT CAST(p.x AS INT) FROM {a} p LATERAL VIEW explode(xs) t AS e", set()),
        ("SELECT CAST(q AS INT) FROM {a} AS t(q)", set()),
        ("SELECT CAST(x AS INT) FROM {b}", set()),
        ("SELECT (", set()),
    ],
)
def test_casts_questions(query: str, expected: set[CastQuestion]) -> None:
    found = casts_over_source(query, CollectionName("a"))
    assert set(found) == expected
    assert len(found) == len(expected)
