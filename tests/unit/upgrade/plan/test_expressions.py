"""CHECKs and DEFAULTs of a release on their way to the tables: each arrives as its author wrote it, or does not go at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.upgrade.alter import alter as alter_table
from airflow_provider_schemamig.core.upgrade.compare_and_evolve import Incompatible, compare_and_evolve_schema
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.bytes import tree, unwritten
from tests.support.lake import Lake, no_spark
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables.adopting import Site, alter, field
from tests.support.upgrades import deployed, releases, two_releases, whole

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
    assert commands.status(site.env).drifted == ("t",)


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
    from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot

    (site.release / "schema.sql").write_text(schema)
    toml = site.release / "release.toml"
    toml.write_text(toml.read_text().replace('version = "1.0.0"', 'version = "1.1.0"', 1))
    step = f'evolution("t", rename={renames})' if renames else 'evolution("t")'
    steps = f'"""Names.\n\nWhy: a test."""\n\nfrom airflow_provider_schemamig import evolution\n\nSTEPS = [{step}]\n'
    (site.release / "migrations").mkdir(exist_ok=True)
    (site.release / "migrations" / "v1_1_0.py").write_text(steps)
    snapshot(site.release)


# --- what nobody can evaluate --------------------------------------------------------------------------------------------------------

BAD = "CREATE TABLE t (id BIGINT, y INT DEFAULT 'abc', CONSTRAINT c CHECK (id > rand()), CONSTRAINT d CHECK (nosuchfunction(id) > 0))"


def faults(error: SchemamigError) -> list[str]:
    every = error.refusals if isinstance(error, Refused) else [error]
    return sorted(str(getattr(item, "used_by", item)) for item in every if item.code == "unusable_expression")


@pytest.mark.parametrize(
    ("first", "steps"),
    [
        ("CREATE TABLE t (id BIGINT)", 'evolution("t")'),
        ("CREATE TABLE t (id BIGINT, y INT)", 'evolution("t")'),
        ("CREATE TABLE t (id BIGINT, y STRING)", 'replacement("t")'),
        ("CREATE TABLE t (id BIGINT, y STRING)", 'rewrite("t", up="SELECT id, CAST(y AS INT) AS y FROM {t}")'),
        ("CREATE TABLE u (id BIGINT)", 'removal("u")'),
    ],
)
def test_every_expression_that_nobody_can_evaluate_is_refused_before_anything_is_written(tmp_path: Path, first: str, steps: str) -> None:
    lake = two_releases(tmp_path, first, BAD, steps)
    before = tree(tmp_path / "lake")
    with pytest.raises(SchemamigError) as caught:
        lake.upgrade(lake.second)
    assert faults(caught.value) == ["the CHECK c", "the CHECK d", "the DEFAULT of y"]
    assert tree(tmp_path / "lake") == before


def test_a_new_environment_is_refused_too(tmp_path: Path) -> None:
    (only,) = releases(tmp_path, (BAD, ""))
    with pytest.raises(SchemamigError) as caught:
        deployed(tmp_path, only, only)
    assert faults(caught.value) == ["the CHECK c", "the CHECK d", "the DEFAULT of y"]
    assert not (tmp_path / "lake" / "t").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD COLUMN z INT DEFAULT 'abc'",
        "ALTER TABLE t ALTER COLUMN y SET DEFAULT 99999999999",
        "ALTER TABLE t ADD CONSTRAINT e CHECK (y > sum(y))",
        "CREATE TABLE u (id BIGINT DEFAULT uuid())",
    ],
)
def test_alter_refuses_it_as_well(tmp_path: Path, statement: str) -> None:
    one = "CREATE TABLE t (id BIGINT, y INT)"
    lake = two_releases(tmp_path, one, one.replace("INT)", "INT, x INT)"), 'evolution("t")')
    before = tree(tmp_path / "lake")
    with pytest.raises(SchemamigError) as caught:
        alter_table(lake.env, statement, jobs=no_spark)
    assert len(faults(caught.value)) == 1
    assert tree(tmp_path / "lake") == before


def test_a_schema_evolved_by_hand_does_not_bring_it_in(tmp_path: Path) -> None:
    one = "CREATE TABLE t (id BIGINT, y INT)"
    lake = two_releases(tmp_path, one, one.replace("INT)", "INT, x INT)"), 'evolution("t")')
    name = CollectionName("t")
    (new,) = parse_schema(one.replace("y INT", "y INT DEFAULT 'abc'"), "new.sql")
    answer = compare_and_evolve_schema(lake.env, name, lake.state.entry(name).schema_id, new)
    assert isinstance(answer, Incompatible) and [reason.change for reason in answer.reasons] == ["unusable_expression"]


def test_expressions_what_an_adopted_table_has_had_stays_and_comes_back(tmp_path: Path) -> None:
    """A CHECK by somebody's own function: it is theirs, dropped by them it is reverted, and dropped by a release it is rolled back."""
    site = Site(tmp_path)
    fields, check = [field("id", "long")], {"delta__constraints__c": "mine(id) > 0"}
    table = site.by_hand("t", fields, {"minReaderVersion": 1, "minWriterVersion": 3}, **check)
    site.adopt(t=table)
    alter(table, fields, delta__constraints__c=None)
    revert(site.env, "t")
    site.check("1.0.0")
    text = (site.release / "schema.sql").read_text()
    next_release(site, text.replace(",\n    CONSTRAINT c CHECK (MINE(id) > 0)", ""), "")
    site.upgrade()
    site.check("1.1.0")
    commands.rollback(site.env)
    site.check("1.0.0")
    assert read_head(site.env.table_store(site.uri("t"))).properties["delta.constraints.c"] == "MINE(id) > 0"


def test_spark_is_asked_where_it_runs_anyway(tmp_path: Path) -> None:
    """What types a function takes only Spark knows: a preflight that has rows to ask, asks of the expressions as well."""
    second = "CREATE TABLE t (id BIGINT, y INT DEFAULT 1, arr ARRAY<INT>, CONSTRAINT c CHECK (length(arr) > 0 AND y > 0))"
    lake = two_releases(tmp_path, "CREATE TABLE t (id BIGINT, y INT, arr ARRAY<INT>)", second, 'evolution("t")')
    jobs = Judge()
    before = tree(tmp_path / "lake")
    with pytest.raises(SchemamigError) as caught:
        commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert faults(caught.value) == ["the CHECK c"] and "Spark says no" in str(caught.value)
    asked = {item["used_by"]: item for job, request in jobs.asked for item in request["expressions"] if job == "preflight"}
    assert asked["the CHECK c"]["columns"] == "`id` BIGINT, `y` INT, `arr` ARRAY<INT>"
    assert asked["the DEFAULT of y"]["type"] == "INT"
    assert tree(tmp_path / "lake") == before


def test_spark_is_asked_whether_it_takes_the_way_back_before_anything_is_copied(tmp_path: Path) -> None:
    first = "CREATE TABLE t (id BIGINT, v STRING); CREATE TABLE k (n BIGINT);"
    second = "CREATE TABLE t (id BIGINT, s STRUCT<n: STRING>); CREATE TABLE k (n BIGINT, x INT);"
    down = "SELECT id, LENGTH({t}.s.n) AS v FROM {t} LEFT JOIN {k} ON n = id"
    step = f'rewrite("t", up="SELECT id, named_struct(\'n\', v) AS s FROM {{t}}", down="{down}", lookups=["k"])'
    lake, jobs = two_releases(tmp_path, first, second, f'evolution("k"), {step}'), Judge()
    with unwritten(lake.env), pytest.raises(SchemamigError) as caught:
        commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert [(error.code, error.collection) for error in getattr(caught.value, "refusals", [caught.value])] == [("unusable_down", "t")]
    (asked,) = [item for job, request in jobs.asked for item in request["expressions"] if job == "preflight" and "views" in item]
    own = "schemamig__made_of INT, `id` BIGINT, `s` STRUCT<`n`: STRING>"
    assert asked["views"] == {"schemamig_t": own, "schemamig_k": "`n` BIGINT, `x` INT"}
    assert asked["columns"] == "`id` BIGINT, `v` STRING"


class Judge(FakeJobs):
    """A Spark that cannot evaluate LENGTH."""

    def _preflight(self, request: Mapping[str, Any]) -> dict[str, Any]:
        wrong = [{**item, "reason": "no"} for item in request["expressions"] if "LENGTH" in item["expression"]]
        return {**super()._preflight(request), "unusable": wrong}
