"""Which columns the columns of a query come from; nothing is said where it is not certain."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.release.queries.origins import column_origins

COPY, COMPUTED = True, False


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT a, b AS c FROM {t}", {"a": [("t", "a", COPY)], "c": [("t", "b", COPY)]}),
        ("SELECT CAST(a AS INT) AS a FROM {t}", {"a": [("t", "a", COMPUTED)]}),
        ("SELECT x.a + x.b AS s FROM {t} x", {"s": [("t", "a", COMPUTED), ("t", "b", COMPUTED)]}),
        ("SELECT {t}.a, o.b FROM {t} LEFT JOIN {other} o ON o.k = {t}.k", {"a": [("t", "a", COPY)], "b": [("other", "b", COPY)]}),
        ("SELECT a FROM {t} JOIN {other} o ON TRUE", {}),
        ("SELECT t.s.f AS f FROM {t} AS t", {"f": [("t", "s", COMPUTED)]}),
        ("SELECT s.f AS f FROM {t}", {"f": [("t", "s", COMPUTED)]}),
        ("SELECT 1 AS one, a FROM {t}", {"a": [("t", "a", COPY)]}),
        ("SELECT * FROM {t}", {}),
        ("SELECT a FROM (SELECT b AS a FROM {t})", {}),
        ("SELECT a FROM {t} UNION ALL SELECT a FROM {t}", {}),
        ("SELECT a, count(*) AS n FROM {t} GROUP BY 1", {"a": [("t", "a", COPY)]}),
        ("SELECT a, b FROM {t} AS x(b, a)", {}),
        ("FROM {t} x(b, a) SELECT x.a, x.b", {}),
        ("SELECT t.a FROM {other} AS t JOIN {t} ON TRUE", {"a": [("other", "a", COPY)]}),
        ("SELECT {t}.a FROM {other} AS t JOIN {t} ON TRUE", {"a": [("t", "a", COPY)]}),
        ("SELECT {t}.a FROM {t} AS t", {}),
        ("no query", {}),
    ],
)
def test_the_origins_of_a_query(query: str, wanted: dict[str, list[tuple[str, str, bool]]]) -> None:
    found = column_origins(query)
    assert {name: [(o.collection, o.column, o.is_copy) for o in listed] for name, listed in found.items()} == wanted
