"""Copy by batches of files and tail by changes, on Spark: the target is what the query makes of the source, whatever either looks like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from tests.support.rows.rewrites import HISTORY, Rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ALL = "everything"
LAYOUTS = {
    "plain": "",
    "partitioned": "PARTITIONED BY (p)",
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    ALL: "PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')",
}


@pytest.fixture
def rewrite(spark: SparkSession, tmp_path: Path) -> Rewrite:
    return Rewrite(spark, tmp_path / "50 ö")


@pytest.mark.soak
@pytest.mark.parametrize("layout", LAYOUTS)
def test_copy_and_tail_give_what_the_query_gives(rewrite: Rewrite, layout: str) -> None:
    rewrite.make_source(LAYOUTS[layout])
    rewrite.sql("ALTER TABLE {s} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rewrite.sql("DELETE FROM {s} WHERE id = 4")
    lo = rewrite.version()
    for target in ("by files", "by feed"):
        rewrite.make_target(target)
    assert rewrite.copy("by files", lo) > 1
    rewrite.fill("by feed", {"uri": rewrite.uri("the source"), "version": lo}, "copy")
    assert rewrite.rows("by files") == rewrite.rows("by feed") == rewrite.expected(lo)

    for statement in HISTORY:
        rewrite.sql(statement)
    hi = rewrite.version()
    feed = rewrite.apply("by feed", rewrite.changes("cdf", lo, hi), lo, hi)
    files = rewrite.apply("by files", rewrite.changes("files", lo, hi), lo, hi)
    assert rewrite.rows("by feed") == rewrite.rows("by files") == rewrite.expected(hi)
    assert feed["delta"] == files["delta"]


@pytest.mark.soak
def test_a_repeat_is_skipped_and_digests_add_up(rewrite: Rewrite) -> None:
    rewrite.make_source(LAYOUTS[ALL])
    rewrite.make_target("b", "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lo = rewrite.version()
    rewrite.copy("b", lo, max_files=10)
    for statement in HISTORY:
        rewrite.sql(statement)
    hi = rewrite.version()
    changes = rewrite.changes("files", lo, hi)
    first = rewrite.apply("b", changes, lo, hi)
    again = rewrite.apply("b", changes, lo, hi)
    assert (first["skipped"], again["skipped"]) == (False, True)
    assert again | {"skipped": False, "seconds": 0} == first | {"seconds": 0}

    up, found = rewrite.digests("b", hi)
    assert up == found
    # What the tail says it brought in is what the target's files differ in.
    version = first["table_version"]
    assert rewrite.file_digest("b", version - 1, version) == RowsDigest.from_json(first["delta"])

    rewrite.sql("OPTIMIZE {s}")
    assert rewrite.version() > hi
    assert rewrite.difference(hi, rewrite.version()).changed is False
