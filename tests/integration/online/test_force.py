"""``force`` on Spark: the fill behind the seal is Spark's work as any other, and Spark's own writers wait and then go on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.context import controls
from tests.support.product import Product
from tests.support.rows.tables import commit_at, newest
from tests.support.spark.lake import SparkLake, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]

STATEMENT = "ALTER TABLE t ALTER COLUMN v TYPE INT"
LONG = timedelta(hours=1)


@dataclass
class Busy:
    """A Spark writer that gets a row in right after every fill, before anything can be made of it. ``refused``: by a seal."""

    lake: SparkLake
    written: list[int] = field(default_factory=lambda: [1])
    refused: list[str] = field(default_factory=list)

    @property
    def env(self) -> Environment:
        return replace(self.lake.env, on_write=self)

    def __call__(self, moment: str, what: str, key: str) -> None:
        table = self.lake.folder("t")
        if moment != "before" or not key.startswith("_delta_log") or "backfill" not in json.dumps(commit_at(table, newest(table))):
            return
        number = len(self.written) + 1
        try:
            run(self.lake.spark, f"INSERT INTO {self.lake.table('t')} (id, v) VALUES ({number}, '{number}')")
        except Exception as error:  # noqa: BLE001  (looked at by the test)
            self.refused.append(str(error))
        else:
            self.written.append(number)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> SparkLake:
    found = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    found.upgrade(Product(tmp_path / "product").release("1.0.0", "CREATE TABLE t (id BIGINT, v STRING);\n"))
    found.sql("INSERT INTO {t} VALUES (1, '1')")
    return found


def values(lake: SparkLake) -> dict[int, object]:
    return {row["id"]: row["v"] for row in lake.sql("SELECT id, v FROM {t}")}


@pytest.mark.parametrize("force", [False, True])
def test_a_writer_wins_twice_with_force_once_then_waits_and_goes_on(lake: SparkLake, force: bool) -> None:
    busy = Busy(lake)
    if force:
        controls.force(lake.env, "t")
    alter(busy.env, STATEMENT, hold=LONG, jobs=EmbeddedRunner)

    (refused,) = busy.refused
    assert "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES" in refused
    assert len(busy.written) == (2 if force else 3)
    assert values(lake) == {number: number for number in busy.written}
    lake.check("1.0.0")
    lake.sql("INSERT INTO {t} (id, v) VALUES (100, 100)")
    lake.sql("UPDATE {t} SET v = -1 WHERE id = 100")

    commands.rollback(lake.env, jobs=EmbeddedRunner)
    assert values(lake) == {number: str(number) for number in busy.written} | {100: "-1"}
    lake.check("1.0.0")
