"""The apply job on a rewrite's way back: what went has to be of the very row of the target which the source's row was made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.queries.with_column import with_column
from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.transfer.row_transfer import MADE_OF
from tests.support.rows.rewrites import NAMES as NAMED
from tests.support.rows.rewrites import Rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def rewrite(spark: SparkSession, tmp_path: Path) -> Rewrite:
    return Rewrite(spark, tmp_path / "50 ö")


#: What happens to the source, of whose keys the target has the last two digits: of 4 and 104 one row, of 3 none, and its own 5 and 9 beside
#: 105 and 109. Its row 7 is both 107 and 109 there.
GONE = (
    "UPDATE {s} SET v = 'new' WHERE id = 107",
    "DELETE FROM {s} WHERE id IN (107, 109)",
    "UPDATE {s} SET v = 'new' WHERE id = 3",
    "DELETE FROM {s} WHERE id = 3",
    "UPDATE {s} SET v = 'new' WHERE id = 104",
    "UPDATE {s} SET v = 'new' WHERE id = 105",
    "DELETE FROM {s} WHERE id IN (4, 104)",
)


@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        pytest.param("cdf", GONE[1:2], marks=pytest.mark.some(1, of="rows by Spark")),
        *(pytest.param(kind, GONE, marks=pytest.mark.soak) for kind in ("cdf", "files")),
    ],
)
def test_by_key_what_went_has_to_be_of_the_very_row_of_the_target(rewrite: Rewrite, kind: str, cases: Sequence[str]) -> None:
    rewrite.make_source("TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    others = "VALUES (104), (105), (107), (109) AS r(id)"
    rewrite.sql(f"INSERT INTO {{s}} SELECT CAST(r.id AS INT), v, p, tags, o, m, d FROM {{s}} AS f CROSS JOIN {others} WHERE f.id = 4")
    rewrite.query = "SELECT CAST(id % 100 AS BIGINT) AS id, v, p, tags, o, m, d FROM s"
    rewrite.make_target("b")
    target = f"delta.`{rewrite.uri('b')}`"
    values = "(2, 'old'), (4, 'old'), (5, 'kept'), (6, 'kept'), (7, 'old'), (9, 'kept')"
    rewrite.spark.sql(f"INSERT INTO {target} SELECT id, v, NULL, NULL, NULL, NULL, NULL FROM VALUES {values} AS t(id, v)")
    made = "explode(IF(id = 7, array(id, id + 2), array(id))) x AS made"
    up = f"SELECT made AS id, v, p, tags, o, m, d FROM {{s}} LATERAL VIEW {made} WHERE v <> 'kept'"
    forward: dict[str, Any] = {
        "query": up.format(s="s"),
        "source_view": "s",
        "projection": "*",
        "inputs": {},
        "columns": list(NAMED),
        "made_at": None,
    }
    for name, query in (("there", up), ("back", "SELECT CAST(id % 100 AS BIGINT) AS id, v, p, tags, o, m, d FROM {s}")):
        keeping, column = with_column(query, CollectionName("s"), MADE_OF)
        forward[name] = {"query": keeping.format(s="s"), "column": column}
    asks: dict[str, Any] = {"match": ["id"], "must_match": True, "forward": forward}
    before = rewrite.rows("b")
    for statement in cases:
        lo = rewrite.version()
        rewrite.sql(statement)
        hi = rewrite.version()
        with pytest.raises(errors.TargetDiverged, match="lacks 2 row" if "IN (107" in statement else "lacks 1 row"):
            rewrite.apply("b", rewrite.changes(kind, lo, hi), lo, hi, **asks)
        if "= 3" in statement:  # the statement says so by itself, too
            with pytest.raises(errors.TargetDiverged, match="lacks 1 row"):
                rewrite.apply("b", rewrite.changes(kind, lo, hi), lo, hi, **{**asks, "forward": None})
        assert rewrite.rows("b") == before, statement

    lo = rewrite.version()
    rewrite.sql("INSERT INTO {s} SELECT id, 'came', NULL, NULL, NULL, NULL, NULL FROM VALUES (6), (8) AS t(id)")
    if len(cases) > 1:
        with pytest.raises(errors.DuplicateKeys, match="1 rows"):
            rewrite.apply("b", rewrite.changes(kind, lo, lo + 1), lo, lo + 1, **asks)
        assert rewrite.rows("b") == before
    rewrite.sql("DELETE FROM {s} WHERE id = 6")
    rewrite.sql("UPDATE {s} SET v = 'new' WHERE id = 2")
    hi = rewrite.version()
    changed = rewrite.apply("b", rewrite.changes(kind, lo, hi), lo, hi, **asks)
    assert (changed["inserted"], changed["deleted"]) == (2, 1)
    if len(cases) == 1:
        return
    # A later link finds what that one brought, and updated; what was made of the table before it is asked as it was then.
    lo, made_at = hi, rewrite.version("b") - 1
    rewrite.sql("DELETE FROM {s} WHERE id = 8")
    rewrite.sql("UPDATE {s} SET v = 'newer' WHERE id = 2")
    hi = rewrite.version()
    rewrite.apply("b", rewrite.changes(kind, lo, hi), lo, hi, **{**asks, "forward": {**forward, "made_at": made_at}})
    rows = rewrite.spark.sql(f"SELECT id, v FROM {target} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(2, "newer"), (4, "old"), (5, "kept"), (6, "kept"), (7, "old"), (9, "kept")]
