"""CHECKs and DEFAULTs of a release on their way to the tables: each arrives as its author wrote it, or does not go at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.deltalog.head import read_head
from airflow_provider_schemamig.core.upgrade import verbs
from tests.support.adopting import Site, alter, field
from tests.support.lake import Lake
from tests.support.upgrades import two_releases, whole

JSON = """'{"a": 1, "b": "it''s"}'"""


def head_of(lake: Lake, collection: str = "t") -> Any:
    found = next(shard for shard in lake.state.shards.values() if shard.collection == collection)
    return read_head(lake.env.table_store(found.uri))


@pytest.mark.parametrize(
    "expression", [f"x <> {JSON}", """x IN ('a","b')""", """x LIKE '%"type"%'""", 'x <> "it\'s"', """x RLIKE r'^"\\d+"$'"""]
)
def test_a_check_arrives_as_it_is_written(tmp_path: Path, expression: str) -> None:
    column, check = "CREATE TABLE t (id BIGINT, x STRING", f"CONSTRAINT c CHECK ({expression}))"
    lake = two_releases(tmp_path, f"{column}, {check}", f"{column}, y INT, {check}", 'evolution("t")')
    lake.upgrade(lake.second)
    assert head_of(lake).properties["delta.constraints.c"] == expression
    whole(lake)


def test_a_default_arrives_as_it_is_written(tmp_path: Path) -> None:
    first = "CREATE TABLE t (id BIGINT, p STRING)"
    lake = two_releases(tmp_path, first, f"CREATE TABLE t (id BIGINT, p STRING DEFAULT {JSON})", 'evolution("t")')
    lake.upgrade(lake.second)
    assert head_of(lake).schema["fields"][1]["metadata"]["CURRENT_DEFAULT"] == JSON
    whole(lake)


def test_text_in_double_quotes_on_a_table_is_adopted_and_seen_as_drift(tmp_path: Path) -> None:
    site = Site(tmp_path)
    default, check = field("p", CURRENT_DEFAULT=JSON), {"delta__constraints__c": """p LIKE '%"type"%'"""}
    features = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["allowColumnDefaults", "checkConstraints"]}
    table = site.by_hand("t", [field("id", "long"), default], features, **check)
    site.adopt(t=table)
    site.check("1.0.0")
    alter(table, [field("id", "long"), default], delta__constraints__c="""p LIKE '%"types"%'""")
    assert verbs.status(site.env).drifted == ("t",)


def test_a_rename_keeps_an_adopted_table_writable(tmp_path: Path) -> None:
    """Statistics and CHECKs name the column as Spark reads names: in backticks, in brackets."""
    site = Site(tmp_path)
    struct = {"type": "struct", "fields": [field("a-b", "long"), field("c", "long")]}
    named = {"delta__dataSkippingStatsColumns": "`dep-delay`,id,s.`a-b`", "delta__constraints__c": "s['c'] > 0"}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 3}
    table = site.by_hand("t", [field("id", "long"), field("dep-delay", "long"), field("s", struct)], protocol, **named)
    site.adopt(t=table)
    text = (site.release / "schema.sql").read_text()
    renamed = text.replace("`dep-delay`", "`departure-delay`").replace("`a-b`", "`a-c`").replace("c: BIGINT", "d: BIGINT")
    next_release(site, renamed.replace("s['c']", "s['d']"), '{"dep-delay": "departure-delay", "s.a-b": "a-c", "s.c": "d"}')
    site.upgrade()
    head = read_head(site.env.table_store(site.uri("t")))
    assert head.properties["delta.dataSkippingStatsColumns"] == "`departure-delay`,id,s.`a-c`"
    assert head.properties["delta.constraints.c"] == "s['d'] > 0"
    site.check("1.1.0")


def next_release(site: Site, schema: str, renames: str) -> None:
    """Release 1.1.0 of ``schema``, with one evolution of t."""
    from airflow_provider_schemamig.core.release.scaffold import snapshot

    (site.release / "schema.sql").write_text(schema)
    toml = site.release / "release.toml"
    toml.write_text(toml.read_text().replace('version = "1.0.0"', 'version = "1.1.0"', 1))
    steps = (
        f'"""Names.\n\nWhy: a test."""\n\nfrom airflow_provider_schemamig import evolution\n\nSTEPS = [evolution("t", rename={renames})]\n'
    )
    (site.release / "migrations").mkdir(exist_ok=True)
    (site.release / "migrations" / "v1_1_0.py").write_text(steps)
    snapshot(site.release)
