"""A release that asks for a table as Delta lets nobody make one: every refusal at the plan, nothing on a table, nothing in the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.bytes import tree
from tests.support.lake import no_spark
from tests.support.tables.adopting import Site, field
from tests.support.upgrades import deployed, refused, releases, two_releases

FEED = " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
MANIFEST = "'delta.compatibility.symlinkFormatManifest.enabled' = 'true'"
RENAME = "evolution('t', rename={'x': '_change_type'})"
RELEASES = {
    "the feed over its columns": ("(id BIGINT, _change_type STRING)", f"(id BIGINT, _change_type STRING){FEED}", "evolution('t')"),
    "its columns under the feed": (f"(id BIGINT){FEED}", f"(id BIGINT, _commit_version BIGINT){FEED}", "evolution('t')"),
    "a rename to one": (
        f"(id BIGINT, x STRING){FEED}",
        f"(id BIGINT, _change_type STRING){FEED}",
        RENAME,
    ),
    "deletion vectors and a manifest": (
        f"(id BIGINT) TBLPROPERTIES ({MANIFEST})",
        f"(id BIGINT) TBLPROPERTIES ({MANIFEST}, 'delta.enableDeletionVectors' = 'true')",
        "evolution('t')",
    ),
    "a manifest and column mapping": (
        f"(id BIGINT, x INT) TBLPROPERTIES ({MANIFEST})",
        f"(id BIGINT, y INT) TBLPROPERTIES ({MANIFEST})",
        "evolution('t', rename={'x': 'y'})",
    ),
    "a replacement": ("(id BIGINT)", f"(id STRING, _change_type STRING){FEED}", "replacement('t')"),
    "a rewrite": (
        "(id BIGINT)",
        f"(id STRING, _change_type STRING){FEED}",
        "rewrite('t', up='SELECT CAST(id AS STRING) AS id, CAST(NULL AS STRING) AS _change_type FROM {t}')",
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    first, second, steps = RELEASES[name]
    lake = two_releases(tmp_path, f"CREATE TABLE t {first};", f"CREATE TABLE t {second};", steps.replace("'", '"'))
    before = tree(tmp_path / "lake")
    for verb in (commands.preflight, commands.upgrade):
        with refused("refused_by_delta", "t"):
            verb(lake.env, lake.second, jobs=no_spark)
    assert tree(tmp_path / "lake") == before


def test_a_new_table_is_refused(tmp_path: Path) -> None:
    schema = f"CREATE TABLE t (id BIGINT, _change_type STRING){FEED};"
    first, second = releases(tmp_path, ("CREATE TABLE a (id BIGINT);", ""), (f"CREATE TABLE a (id BIGINT);\n{schema}", ""))
    lake = deployed(tmp_path, first, second)
    with refused("refused_by_delta", "t"):
        lake.upgrade(second)


def test_a_property_that_could_not_be_set_back_is_refused(tmp_path: Path) -> None:
    """A rollback sets it as it was."""
    files = "'delta.deletedFileRetentionDuration' = '50 days'"
    lake = two_releases(
        tmp_path,
        f"CREATE TABLE t (id BIGINT) TBLPROPERTIES ('delta.logRetentionDuration' = '60 days', {files});",
        f"CREATE TABLE t (id BIGINT) TBLPROPERTIES ({files});",
        'evolution("t")',
    )
    with refused("unsupported_property", "t") as found:
        lake.upgrade(lake.second)
    assert "kept for longer than the log" in found[0].message


@pytest.mark.parametrize(
    ("column", "properties", "reason"),
    [
        ("_change_type", {"delta__enableChangeDataFeed": "true"}, "the change data feed is on"),
        (
            "x",
            {"delta__enableDeletionVectors": "true", "delta__compatibility__symlinkFormatManifest__enabled": "true"},
            "deleted rows",
        ),
    ],
    ids=["feed", "manifest"],
)
def test_a_table_in_which_rows_are_lost_is_not_adopted(tmp_path: Path, column: str, properties: dict[str, str], reason: str) -> None:
    site = Site(tmp_path)
    with refused("refused_by_delta", "t") as errors:
        site.adopt(t=site.by_hand("t", [field("id", "long"), field(column, "string")], None, **properties))
    assert reason in errors[0].message
    assert not site.release.exists()
