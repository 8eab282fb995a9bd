"""Another type on a live table, there and back, with Spark's own casts, files and readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.errors import BadValue
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from airflow_provider_schemamig.core.upgrade.rollback.errors import LossyRollback
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.online import die_after_the_swap
from tests.support.product import Product
from tests.support.spark.lake import SparkLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OLD = "CREATE TABLE t (id BIGINT, s STRING, d DECIMAL(9,2) NOT NULL DEFAULT 1, p STRING) PARTITIONED BY (p);\n"
NEW = "CREATE TABLE t (id BIGINT, s INT, d STRING NOT NULL DEFAULT 1, p STRING) PARTITIONED BY (p);\n"


@pytest.mark.soak
def test_online_types_there_and_back(spark: SparkSession, tmp_path: Path) -> None:
    product, lake = Product(tmp_path / "product"), SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    first, second = product.release("1.0.0", OLD), product.release("1.1.0", NEW, 'evolution("t")')
    lake.upgrade(first)
    lake.sql("INSERT INTO {t} VALUES (1, '007', 1.5, 'x'), (2, NULL, 2, 'y')")

    lake.upgrade(second)
    assert lake.columns("t") == ["id", "s", "d", "p", "schemamig_old_d", "schemamig_old_s"]
    found = lake.sql("SELECT id, s, d FROM {t} ORDER BY id")
    assert [tuple(row) for row in found] == [(1, 7, "1.50"), (2, None, "2.00")]
    lake.check("1.1.0")

    lake.sql("INSERT INTO {t} (id, s, p) VALUES (3, 33, 'x')")
    lake.sql("UPDATE {t} SET d = 'two' WHERE id = 2")
    with pytest.raises(LossyRollback):
        commands.rollback(lake.env, jobs=EmbeddedRunner)
    lake.sql("UPDATE {t} SET d = '22' WHERE id = 2")
    lake.sql("OPTIMIZE {t}")
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    found = lake.sql("SELECT id, s, CAST(d AS STRING) FROM {t} ORDER BY id")
    assert [tuple(row) for row in found] == [(1, "007", "1.50"), (2, None, "22.00"), (3, "33", "1.00")]
    lake.check("1.0.0")
    assert lake.columns("t")[:4] == ["id", "s", "d", "p"]
    lake.sql("INSERT INTO {t} (id, s, p) VALUES (4, '4', 'y')")


OLD_CHECKED = """CREATE TABLE c (id BIGINT, s STRING, a STRUCT<b: STRING NOT NULL COMMENT 'it', l: ARRAY<STRUCT<x: STRING>>> NOT NULL,
  m MAP<STRING, STRING>, CONSTRAINT few CHECK (s < 99 OR s IS NULL), CONSTRAINT up CHECK (a.b > s OR s IS NULL)) PARTITIONED BY (id);
"""
NEW_CHECKED = OLD_CHECKED.replace("s STRING", "s INT").replace(": STRING", ": INT").replace(", STRING>", ", INT>")
EVERYTHING = "SELECT id, s, a.b, to_json(a.l), m['k'] FROM {c} ORDER BY id"


@pytest.mark.soak
def test_a_check_and_types_inside_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Start, undo, start, finish, roll back, with Delta's own CHECKs and NOT NULLs, and rows of others in every state."""
    product, lake = Product(tmp_path / "product"), SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    first, second = product.release("1.0.0", OLD_CHECKED), product.release("1.1.0", NEW_CHECKED, 'evolution("c")')
    lake.upgrade(first)
    item = "named_struct('b', '{}', 'l', array(named_struct('x', '{}'), null))"
    lake.sql(f"INSERT INTO {{c}} VALUES (1, '007', {item.format('08', '01')}, map('k', '02')), (2, NULL, {item.format('1', '1')}, NULL)")

    def rows() -> list[tuple[object, ...]]:
        return [tuple(row) for row in lake.sql(EVERYTHING)]

    before = rows()
    generation = commands.preflight(lake.env, second, jobs=EmbeddedRunner).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=EmbeddedRunner)
    die_after_the_swap(lake.env, lake.folder("c"), generation, EmbeddedRunner)
    lake.sql("INSERT INTO {c} (id, s, a, m) VALUES (3, 3, named_struct('b', 4, 'l', array()), map('k', 5))")
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    assert rows() == [*before, (3, "3", "4", "[]", "5")]
    lake.check("1.0.0")

    lake.sql(f"INSERT INTO {{c}} (id, s, a) VALUES (4, NULL, {item.format('four', '4')})")
    with pytest.raises(DataViolation, match=r"a\.b as INT"):
        lake.upgrade(second)
    lake.sql("DELETE FROM {c} WHERE id = 4")
    with pytest.raises(Exception, match="few"):
        lake.sql(f"INSERT INTO {{c}} (id, s, a) VALUES (5, '100', {item.format('101', '4')})")

    turned = f"INSERT INTO {{c}} (id, s, a) VALUES (4, '10', {item.format('9', '4')})"  # as text 9 comes after 10
    lake.sql(turned)
    with pytest.raises(SchemamigError, match=r"1 row\(s\) violate CHECK up with s as INT"):
        lake.upgrade(second)
    lake.sql("DELETE FROM {c} WHERE id = 4")
    generation = commands.preflight(lake.env, second, jobs=EmbeddedRunner).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    lake.sql(turned)
    with pytest.raises(BadValue, match="the CHECK up does not hold"):
        commands.change(lake.env, generation, jobs=EmbeddedRunner)
    lake.sql("DELETE FROM {c} WHERE id = 4")
    lake.upgrade(second)
    made = [(1, 7, 8, '[{"x":1},null]', 2), (2, None, 1, '[{"x":1},null]', None), (3, 3, 4, "[]", 5)]
    assert rows() == made
    lake.check("1.1.0")
    entry = lake.state.entry(CollectionName("c"))
    assert entry.physical.checks == entry.declared.checks
    assert entry.physical.field("a") == entry.declared.field("a")
    for column, text in (("few", "(6, 100, named_struct('b', 101, 'l', NULL))"), ("b", "(6, 1, named_struct('b', NULL, 'l', NULL))")):
        with pytest.raises(Exception, match=column):
            lake.sql(f"INSERT INTO {{c}} (id, s, a) VALUES {text}")

    lake.sql("UPDATE {c} SET m = map('k', 22) WHERE id = 1")
    lake.sql("UPDATE {c} SET s = 0 WHERE id = 2")
    lake.sql("OPTIMIZE {c}")
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    expected = [(*before[0][:4], "22"), (2, "0", *before[1][2:]), (3, "3", "4", "[]", "5")]
    assert rows() == expected
    lake.check("1.0.0")
    with pytest.raises(Exception, match="few"):
        lake.sql(f"INSERT INTO {{c}} (id, s, a) VALUES (5, '100', {item.format('101', '4')})")
