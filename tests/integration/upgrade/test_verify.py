"""``verify`` with Spark's answers: rules that rows break, named with rows, files and commits; NULLs that no query over the table shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.verify.verify import verify_environment
from tests.support.bytes import tree
from tests.support.product import Product
from tests.support.spark.lake import SparkLake
from tests.support.tables import foreign

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = """CREATE TABLE planes (tail STRING PRIMARY KEY);
CREATE TABLE flights (id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL, b: INT>, plane STRING, n INT UNIQUE,
    CONSTRAINT pos CHECK (n > 0), FOREIGN KEY (plane) REFERENCES planes);"""


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> SparkLake:
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(Product(tmp_path / "product").release("1.0.0", SCHEMA))
    lake.sql("INSERT INTO {planes} VALUES ('N1')")
    lake.sql("INSERT INTO {flights} VALUES (1, named_struct('a', 1, 'b', 2), 'N1', 1), (2, named_struct('a', 2, 'b', NULL), NULL, 2)")
    return lake


@pytest.mark.some(1, of="flows of Spark")
def test_verify_what_rows_break(lake: SparkLake, tmp_path: Path) -> None:
    """By a writer that looks at nothing, and writes no statistics."""
    path = lake.folder("flights")
    good = {"id": 7, "s": {"a": 7, "b": None}, "plane": "N1", "n": 7}
    foreign.write(path, [good | {"n": -1}, good | {"n": 1}, good | {"plane": "N9", "n": 9}])
    foreign.write(
        path, [good | {"id": None, "n": 20}, good | {"s": {"a": None, "b": 1}, "n": 21}, good | {"s": None, "n": 22}], statistics=False
    )
    assert lake.sql("SELECT count(*) AS n FROM {flights} WHERE id IS NULL")[0]["n"] == 0, "Delta takes the schema's word for it"
    before = tree(tmp_path / "lake")
    found = verify_environment(lake.env, EmbeddedRunner)
    assert tree(tmp_path / "lake") == before
    told = {item.element: (int(item.condition), item.rows, sorted(commit.version for commit in item.commits)) for item in found.findings}
    assert told == {
        "not_null:id": (4, 1, [3]),
        "not_null:s.a": (4, 2, [3]),
        "check:pos": (6, 1, [2]),
        "unique:n": (6, 2, [1, 2]),
        "foreign_key:plane": (6, 1, [2]),
    }
    assert found.unasked == ()
    assert {item.element for item in found.kept} == {"not_null:tail", "primary_key:tail"}
    (orphan,) = (item for item in found.findings if item.element == "foreign_key:plane")
    assert "plane = N9" in orphan.sample[0]
