"""A rewrite merged over several releases gives the rows that one release after the other gives, up and down, on Spark itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig import evolution, rewrite
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, RewriteStep, merge, validate_chain
from airflow_provider_schemamig.core.release.merge.fills import fill_inputs
from airflow_provider_schemamig.core.release.queries.casts import casts_over_source
from airflow_provider_schemamig.core.release.queries.projection import project
from airflow_provider_schemamig.core.release.queries.query import bind_tables
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.release.steps import Step
from tests.unit.release.support import down_inputs, release_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: Queries over literals only: what the collections hold.
World = Mapping[str, str]


def released(*versions: tuple[str, Sequence[Step]]) -> Release:
    """(schema.sql, steps) of 1.0.0, 1.1.0, ..."""
    parsed = [(f"1.{n}.0", list(parse_schema(sql, "schema.sql")), steps) for n, (sql, steps) in enumerate(versions)]
    release = release_of(*parsed)
    assert validate_chain(release) == ()
    return release


def up(release: Release, world: World) -> dict[str, str]:
    """What the collections hold after the merged chain from the release's first version."""
    chain = merge(release, release.min_version)
    after = dict(world)
    for step in chain.steps:
        if isinstance(step, Evolve):
            after.pop(step.renamed_from or step.collection)
            shown = project(step.old, step.new, step.renames)
            after[step.collection] = f"SELECT {shown} FROM ({world[step.old.name]})"
        elif isinstance(step, RewriteStep):
            inputs = fill_inputs(release, chain.source, step)
            after[step.collection] = _over(step.up, dict(inputs), world)
        else:
            assert not isinstance(step, Create)
    return after


def down(release: Release, world: World) -> dict[str, str]:
    """The rewritten collections as the release's first version had them, from what the head has."""
    found: dict[str, str] = {}
    for step in merge(release, release.min_version).steps:
        if isinstance(step, RewriteStep):
            assert step.down is not None
            own, lookups = down_inputs(release, step)
            found[step.old.name] = _over(step.down, {step.collection: own, **dict(lookups)}, world)
    return found


def _over(query: str, inputs: Mapping[CollectionName, str], world: World) -> str:
    return bind_tables(query, {name: f"SELECT {columns} FROM ({world[name]})" for name, columns in inputs.items()})


def pairs(release: Release) -> list[Release]:
    """Each release with the one before it, as folders of their own."""
    return [
        dataclasses.replace(
            release,
            min_version=before,
            version=version,
            snapshots={v: release.snapshots[v] for v in (before, version)},
            modules={version: release.modules[version]},
        )
        for before, version in pairwise(release.versions)
    ]


def rows(spark: SparkSession, query: str, columns: Sequence[str]) -> list[str]:
    return sorted(str(row) for row in spark.sql(query).select(*columns).collect())


def check(spark: SparkSession, release: Release, world: World, name: str, *, exact_back: bool = True) -> None:
    merged = up(release, world)
    steps: dict[str, str] = dict(world)
    for release_pair in pairs(release):
        steps = up(release_pair, steps)
    head = [f.name for f in release.declarations(release.version)[CollectionName(name)].fields]
    expected = rows(spark, steps[name], head)
    assert expected
    assert rows(spark, merged[name], head) == expected
    [(old_name, back)] = down(release, merged).items()
    columns = [f.name for f in release.declarations(release.min_version)[CollectionName(old_name)].fields]
    if exact_back:
        assert rows(spark, back, columns) == rows(spark, world[old_name], columns)
    one_by_one: dict[str, str] = dict(merged)
    for release_pair in reversed(pairs(release)):
        if any(isinstance(step, RewriteStep) for step in merge(release_pair, release_pair.min_version).steps):
            one_by_one |= down(release_pair, one_by_one)
        else:
            one_by_one |= undone(release_pair, one_by_one)
    assert rows(spark, one_by_one[old_name], columns) == rows(spark, back, columns)


def undone(release: Release, world: World) -> dict[str, str]:
    """Evolutions backwards, by the renames the other way round (of top-level columns)."""
    found = {}
    for step in merge(release, release.min_version).steps:
        assert isinstance(step, Evolve)
        names = {new: old for old, new in step.renames.items()}
        shown = ", ".join(
            next(
                (f"`{f.name}` AS `{old}`" for f in step.new.fields if names.get(f.name, f.name) == old), f"CAST(NULL AS STRING) AS `{old}`"
            )
            for old in [f.name for f in step.old.fields]
        )
        found[str(step.old.name)] = f"SELECT {shown} FROM ({world[step.collection]})"
    return found


def test_two_rewrites_with_evolutions_around_them(spark: SparkSession) -> None:
    release = released(
        ("CREATE TABLE t (id INT, dep STRING, carrier STRING)", []),
        ("CREATE TABLE t (id INT, dep STRING, airline STRING, note STRING)", [evolution("t", rename={"carrier": "airline"})]),
        (
            "CREATE TABLE t (id INT, hour INT, minute INT, airline STRING)",
            [
                rewrite(
                    "t",
                    up="SELECT id, CAST(substr(dep, 1, 2) AS INT) AS hour, int(substr(dep, 4)) AS minute, airline FROM {t}; -- split",
                    down="SELECT id, concat(lpad(hour, 2, '0'), ':', lpad(minute, 2, '0')) AS dep, airline, string(NULL) AS note FROM {t}",
                )
            ],
        ),
        ("CREATE TABLE t (airline STRING, id INT, h INT, minute INT)", [evolution("t", rename={"hour": "h"})]),
        (
            "CREATE TABLE t (key STRING, minutes INT)",
            [
                rewrite(
                    "t",
                    up="SELECT concat(e, '-', id) AS key, h * 60 + minute AS minutes FROM {t} "
                    "LATERAL VIEW explode(array({t}.airline)) q AS e",
                    down="SELECT k[0] AS airline, int(k[1]) AS id, minutes DIV 60 AS h, minutes % 60 AS minute "
                    "FROM (SELECT split(key, '-') AS k, minutes FROM {t})",
                )
            ],
        ),
        ("CREATE TABLE t (key STRING, total INT)", [evolution("t", rename={"minutes": "total"})]),
    )
    world = {"t": "SELECT * FROM VALUES (1, '05:17', 'UA'), (2, '23:59', 'AA'), (2, '23:59', 'AA') AS v(id, dep, carrier)"}
    check(spark, release, world, "t")


def test_lookups_in_the_shapes_their_queries_were_written_for(spark: SparkSession) -> None:
    back = "SELECT {codes}.code AS origin, n FROM {t} LEFT JOIN {codes} ON {codes}.id = {t}.origin_id"
    release = released(
        ("CREATE TABLE t (origin STRING, n INT); CREATE TABLE codes (id INT, code STRING)", []),
        (
            "CREATE TABLE t (origin_id INT, n INT); CREATE TABLE codes (id INT, code STRING)",
            [
                rewrite(
                    "t", up="SELECT c.id AS origin_id, n FROM {t} LEFT JOIN {codes} c ON c.code = {t}.origin", down=back, lookups=["codes"]
                )
            ],
        ),
        (
            "CREATE TABLE t (origin_id INT, n INT); CREATE TABLE airports (id INT, faa STRING, city STRING)",
            [evolution("airports", renamed_from="codes", rename={"code": "faa"})],
        ),
        (
            "CREATE TABLE t (faa STRING, n BIGINT, id INT); CREATE TABLE airports (id INT, faa STRING, city STRING)",
            [
                rewrite(
                    "t",
                    up="SELECT {airports}.faa, n * 10L AS n, origin_id AS id FROM {t} LEFT JOIN {airports} ON id = origin_id",
                    down="SELECT id AS origin_id, CAST(n / 10 AS INT) AS n FROM {t}",
                    lookups=["airports"],
                )
            ],
        ),
    )
    world = {
        "t": "SELECT * FROM VALUES ('JFK', 1), ('EWR', 2), ('JFK', 1) AS v(origin, n)",
        "codes": "SELECT * FROM VALUES (1, 'JFK'), (2, 'EWR'), (3, 'LGA') AS v(id, code)",
    }
    check(spark, release, world, "t")


def test_rows_that_become_several_and_a_renamed_collection(spark: SparkSession) -> None:
    release = released(
        ("CREATE TABLE t (id INT, tags ARRAY<STRUCT<k: STRING, w: INT>>, s STRUCT<x: INT, y: STRING>)", []),
        (
            "CREATE TABLE u (id INT, tags ARRAY<STRUCT<key: STRING, w: INT>>, s STRUCT<x: INT>)",
            [evolution("u", renamed_from="t", rename={"tags.element.k": "key"}, drop=["s.y"])],
        ),
        (
            "CREATE TABLE u (id INT, key STRING, w INT, x INT)",
            [
                rewrite(
                    "u",
                    up="SELECT id, t.key, t.w, s.x FROM {u} LATERAL VIEW explode(tags) e AS t WHERE id > 0",
                    down="SELECT id, array(struct(key, w)) AS tags, struct(x) AS s FROM {u}",
                    cardinality="any",
                )
            ],
        ),
        ("CREATE TABLE u (id INT, key STRING, x INT)", [evolution("u", drop=["w"])]),
    )
    tag = "named_struct('k', '{}', 'w', {})".format
    world = {
        "t": f"SELECT 1 AS id, array({tag('a', 1)}, {tag('b', 2)}) AS tags, named_struct('x', 5, 'y', 'z') AS s UNION ALL "
        f"SELECT 2, array({tag('c', 3)}), NULL UNION ALL SELECT 3, array(), NULL UNION ALL SELECT 0, array({tag('d', 4)}), NULL"
    }
    step = next(step for step in merge(release, release.min_version).steps if isinstance(step, RewriteStep))
    assert (step.cardinality, step.lost_on_way_back) == ("any", ("w", "s.y"))
    merged = up(release, world)
    assert rows(spark, merged["u"], ["id", "key", "x"]) == [
        "Row(id=1, key='a', x=5)",
        "Row(id=1, key='b', x=5)",
        "Row(id=2, key='c', x=None)",
    ]
    back = down(release, merged)["t"]
    assert "Row(id=2, tags=[Row(k='c', w=None)], s=Row(x=None, y=None))" in rows(spark, back, ["id", "tags", "s"])


def test_questions_about_casts_find_the_rows_that_fail(spark: SparkSession) -> None:
    query = (
        "SELECT CAST(trim({t}.s.y) AS DECIMAL(3,1)) AS y, CAST(CAST(x AS INT) AS TINYINT) AS x, double(z) AS z "
        "FROM {t} WHERE CAST(z AS INT) > 0"
    )
    values = "(struct(' 1.5' AS y), '7', '1'), (struct('NA' AS y), '300', '2'), (NULL, 'x', '3'), (NULL, 'x', '0')"
    source = f"SELECT * FROM VALUES {values} AS v(s, x, z)"
    found = {}
    for question in casts_over_source(query, CollectionName("t")):
        failing = f"({question.operand}) IS NOT NULL AND TRY_CAST({question.operand} AS {question.type}) IS NULL"
        condition = f"({failing}) AND ({question.where})" if question.where else failing
        found[question.operand] = spark.sql(f"SELECT * FROM ({source}) WHERE {condition}").count()
    assert found == {"TRIM(s.y)": 1, "TRY_CAST(x AS INT)": 1, "x": 1, "z": 0}
