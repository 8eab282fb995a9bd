"""Online changes of real tables, while Spark and delta-rs write to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from tests.support.product import Product
from tests.support.spark.lake import SparkLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OLD = "CREATE TABLE t (id BIGINT, name STRING, v INT);\n"
NEW = """CREATE TABLE t (id BIGINT NOT NULL, name STRING, v INT, kind STRING NOT NULL DEFAULT 'plain', at DATE DEFAULT DATE '2013-01-01',
    CONSTRAINT some CHECK (v >= 0));\n"""


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(tmp_path / "product")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, product: Product) -> SparkLake:
    found = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    found.upgrade(product.release("1.0.0", OLD))
    found.sql("INSERT INTO {t} SELECT id, concat('n', id), CAST(id AS INT) FROM range(0, 100)")
    found.sql("INSERT INTO {t} SELECT id, concat('n', id), CAST(id AS INT) FROM range(100, 200)")
    return found


@pytest.fixture
def promoted(lake: SparkLake, product: Product) -> Generation:
    second = product.release("1.1.0", NEW, 'evolution("t")')
    generation = commands.preflight(lake.env, second, jobs=EmbeddedRunner).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    return generation


def meanwhile(kind: str, work: Callable[[], object]) -> Callable[[Event], None]:
    """Do ``work`` when the first event of this kind is told."""
    done: list[str] = []

    def listen(event: Event) -> None:
        if event.stage == kind and not done:
            done.append(kind)
            work()

    return listen


@pytest.mark.soak
def test_foreign_writers_go_on_in_every_state(lake: SparkLake, promoted: Generation) -> None:
    """Rows of before get the default, an explicit NULL of a writer that knows the column stays, copies of older rows are found."""

    def write() -> None:
        lake.sql("UPDATE {t} SET name = 'changed' WHERE id = 5")
        lake.sql("DELETE FROM {t} WHERE id = 6")
        lake.sql("INSERT INTO {t} (id, name, v) VALUES (1000, 'left out', 1)")
        lake.sql("INSERT INTO {t} (id, name, v, kind, at) VALUES (1001, 'said', 1, 'odd', NULL)")

    outcome = commands.change(lake.env, promoted, jobs=EmbeddedRunner, listen=meanwhile("change", write))
    commands.cutover(lake.env, promoted)

    lake.check("1.1.0")
    assert {stage.kind for stage in outcome.stages} == {"change", "validate", "backfill"}
    found = {row["id"]: row for row in lake.sql("SELECT * FROM {t}")}
    assert sorted(found) == [*(n for n in range(200) if n != 6), 1000, 1001]
    assert {(row["kind"], str(row["at"])) for n, row in found.items() if n < 1001} == {("plain", "2013-01-01")}
    assert (found[1001]["kind"], found[1001]["at"], found[5]["name"]) == ("odd", None, "changed")
    for statement in ("(id, name, v) VALUES (NULL, 'x', 1)", "(id, name, v) VALUES (3, 'x', -1)", "(id, v, kind) VALUES (3, 1, NULL)"):
        with pytest.raises(Exception, match=r"DELTA_(VIOLATE_CONSTRAINT|NOT_NULL)"):
            lake.sql(f"INSERT INTO {{t}} {statement}")


@pytest.mark.soak
def test_a_row_that_breaks_the_rule_comes_before_it_is_enforced(lake: SparkLake, promoted: Generation) -> None:
    deltalake.write_deltalake(
        str(lake.folder("t")),
        pa.table({"id": pa.array([7], pa.int64()), "name": ["bad"], "v": pa.array([-5], pa.int32())}),
        mode="append",
    )
    with pytest.raises(DataViolation) as caught:
        commands.change(lake.env, promoted, jobs=EmbeddedRunner)
    assert (caught.value.rule, caught.value.count) == ("some", 1)
    assert "bad" in str(caught.value.sample)
    lake.sql("INSERT INTO {t} (id, name, v) VALUES (8, 'free again', -6)")  # nobody is held to a rule that is not coming

    lake.sql("DELETE FROM {t} WHERE v < 0")
    commands.change(lake.env, promoted, jobs=EmbeddedRunner)
    commands.cutover(lake.env, promoted)
    lake.check("1.1.0")


@pytest.mark.soak
def test_alter_by_hand(lake: SparkLake) -> None:
    alter(lake.env, "ALTER TABLE t ADD COLUMN grade INT DEFAULT 3", jobs=EmbeddedRunner)
    alter(lake.env, "ALTER TABLE t ADD CONSTRAINT good CHECK (grade < 4)", jobs=EmbeddedRunner)
    lake.check("1.0.0")
    assert [tuple(row) for row in lake.sql("SELECT grade, count(*) FROM {t} GROUP BY grade")] == [(3, 200)]
    with pytest.raises(Exception, match="good"):
        lake.sql("INSERT INTO {t} VALUES (1, 'x', 1, 9)")
