"""A table has the fields of a struct in another order than the rows that come to it: they go by their names, whoever brings them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.replication.replicate import replicate_once
from airflow_provider_schemamig.core.spark.errors import QueryRefused
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from tests.support.product import Product

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = (
    "CREATE TABLE t (id BIGINT NOT NULL, v {}, s STRUCT<{}>, l ARRAY<STRUCT<{}>>{}) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true');"
)
AB, BA = "a: INT, b: INT", "b: INT, a: INT"
KEYS = pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"], ids=["without a key", "by key"])


def table(type_of_v: str, order: str, key: str = "") -> str:
    return TABLE.format(type_of_v, order, order, key)


def write(env: Environment, spark: SparkSession, *numbers: int) -> None:
    pair = "named_struct('a', int(id), 'b', int(10 * id))"
    for number in numbers:
        env.writer("t", spark=spark).append(spark.sql(f"SELECT id, {pair} AS s, array({pair}) AS l FROM range({number}, {number + 1})"))


def pairs(env: Environment) -> list[list[Any]]:
    """Of each row its number, and all that its structs have; in each the number is ``a``, and ``b`` ten times that."""
    rows = env.reader("t").arrow(["id", "s", "l"]).to_pylist()
    return sorted([row["id"], row["s"]["a"], row["s"]["b"], row["l"][0]["a"], row["l"][0]["b"]] for row in rows)


def wanted(*numbers: int) -> list[list[int]]:
    return [[number, number, 10 * number, number, 10 * number] for number in numbers]


@pytest.mark.some(1, of="rows by Spark")
@KEYS
def test_a_rewrite_and_its_way_back_take_fields_by_name(spark: SparkSession, tmp_path: Path, key: str) -> None:
    product, env = Product(tmp_path / "product"), Environment.open(str(tmp_path / "lake"))
    query = "SELECT id, CAST(v AS {}) AS v, s, l FROM {{t}}"
    step = f'rewrite("t", up="{query.format("INT")}", down="{query.format("STRING")}")'
    releases = product.release("1.0.0", table("STRING", AB, key)), product.release("1.1.0", table("INT", BA, key), step)
    commands.upgrade(env, releases[0], jobs=EmbeddedRunner, create=True)
    write(env, spark, 1)
    generation = commands.preflight(env, releases[1], jobs=EmbeddedRunner).generation
    assert generation is not None
    write(env, spark, 2)  # comes by the tail
    assert sorted(env.reader("t", "1.1.0", spark).df().select("id", "s.a", "s.b").collect()) == [(1, 1, 10), (2, 2, 20)], "the preview"
    commands.upgrade(env, releases[1], jobs=EmbeddedRunner, claim_id=None)
    assert pairs(env) == wanted(1, 2)
    write(env, spark, 3)
    commands.rollback(env, jobs=EmbeddedRunner)
    assert pairs(env) == wanted(1, 2, 3)


@pytest.mark.some(1, of="flows of Spark")
@KEYS
def test_a_stream_takes_fields_by_name(spark: SparkSession, tmp_path: Path, key: str) -> None:
    product = Product(tmp_path / "product")
    releases = product.release("1.0.0", table("INT", AB, key)), product.release("1.1.0", table("INT", BA, key))
    origin, target = Environment.open(str(tmp_path / "a")), Environment.open(str(tmp_path / "b"))
    for env, release in ((origin, releases[0]), (origin, releases[1]), (target, releases[1])):
        commands.upgrade(env, release, jobs=EmbeddedRunner, create=True)
    for number in (1, 2):  # all rows at once, then an event
        write(origin, spark, number)
        [state] = replicate_once(origin, target, None, jobs=EmbeddedRunner).states
        assert (state.error, state.pause) == (None, None)
    assert pairs(target) == pairs(origin) == wanted(1, 2)


def test_a_rewrite_whose_fields_could_be_either_is_refused_before_it_is_promoted(spark: SparkSession, tmp_path: Path) -> None:
    product, env = Product(tmp_path / "product"), Environment.open(str(tmp_path / "lake"))
    step = 'rewrite("t", up="SELECT id, CAST(v AS INT) AS v, s, l FROM {t}")'
    commands.upgrade(env, product.release("1.0.0", table("STRING", AB)), jobs=EmbeddedRunner, create=True)
    write(env, spark, 1)
    with pytest.raises(QueryRefused, match="s has the fields a, b in the query and b, c in the table, so b could be either of two"):
        commands.upgrade(env, product.release("1.1.0", table("INT", "b: INT, c: INT"), step), jobs=EmbeddedRunner)
    assert pairs(env) == wanted(1)
