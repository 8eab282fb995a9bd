"""Which columns a rewrite leaves as they were."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.access.rewritten import handed_through


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT a, b AS c, CAST(d AS INT) AS d, upper(e) AS e FROM {t}", {"a": "a", "c": "b"}),
        ("SELECT {t}.a, t.b FROM {t}", {"a": "a", "b": "b"}),
        ("SELECT p.a, s.x FROM {t} AS p", {"a": "a"}),
        ("SELECT a FROM {t} WHERE a > 1", {}),
        ("SELECT a FROM {t} LATERAL VIEW explode(b) e AS c", {}),
        ("SELECT a FROM {t} JOIN {u} ON {t}.k = {u}.k", {}),
        ("SELECT a FROM (SELECT b AS a FROM {t})", {}),
        ("WITH w AS (SELECT b AS a FROM {t}) SELECT a FROM w", {}),
        ("SELECT DISTINCT a FROM {t}", {}),
        ("SELECT a FROM {t} LIMIT 5", {}),
        ("SELECT a FROM {t} UNION ALL SELECT b FROM {t}", {}),
    ],
)
def test_rewritten_what_a_plain_select_of_every_row_shows_as_it_is(query: str, kept: dict[str, str]) -> None:
    assert handed_through(query) == kept
