"""Old files in today's schema: the same rows for everybody, whatever happens to the table meanwhile, and then nothing is left to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.spark.storage_access import session_settings
from airflow_provider_schemamig.core.upgrade.compact import Compacted, Limits
from airflow_provider_schemamig.core.upgrade.compare_and_evolve import Ok, compare_and_evolve_schema
from spark_jobs.digest import rows_digest
from tests.support.lake import Crash, no_spark
from tests.support.product import Product
from tests.support.spark.lake import InFlight, SparkLake
from tests.support.spark.lake import table as table_sql
from tests.support.tables.meddling import Meddling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]

COLUMNS = "id BIGINT NOT NULL, n INT, s STRUCT<a: INT, b: STRING>, tags ARRAY<STRUCT<x: INT>>, p STRING"


def declared(name: str, columns: str, layout: str = "") -> Any:
    (found,) = parse_schema(f"CREATE TABLE {name} ({columns}) {layout};", "test.sql")
    return found


@dataclass
class Table:
    """One collection of a lake, evolved by hand."""

    lake: SparkLake
    name: str
    layout: str

    @property
    def folder(self) -> Path:
        return self.lake.folder(self.name)

    def evolve(self, columns: str) -> int:
        known = self.lake.state.objects[CollectionName(self.name)].schema_id
        found = compare_and_evolve_schema(self.lake.env, CollectionName(self.name), known, declared(self.name, columns, self.layout))
        assert isinstance(found, Ok), found
        return found.schema_id

    def add(self, first: int, count: int, columns: str = "id, n, s, tags, p") -> None:
        self.lake.sql(f"""INSERT INTO {{{self.name}}} ({columns}) SELECT /*+ REPARTITION(2) */ id, CAST(id % 7 AS INT),
            IF(id % 5 = 0, NULL, named_struct('a', CAST(id AS INT), 'b', concat('b', id))),
            array(named_struct('x', CAST(id AS INT)), NULL), IF(id % 2 = 0, NULL, 'p/1 ä') FROM range({first}, {first + count})""")

    def digest(self) -> Any:
        return rows_digest(self.lake.spark.read.format("delta").load(str(self.folder)))

    def compact(self, env: Environment | None = None, jobs: Callable[[], Any] = EmbeddedRunner, **limits: int) -> Compacted:
        found = commands.compact(env or self.lake.env, [self.name], limits=Limits(**limits), jobs=jobs)
        (item,) = found.collections
        return item

    def owes(self) -> dict[int, int]:
        """Files by schema id."""
        (debt,) = commands.schema_age(self.lake.env, [self.name])
        return {share.schema_id: share.files for share in debt.shares}

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for path in sorted((self.folder / "_delta_log").glob("*.json")) for line in path.read_text().splitlines()]


#: VACUUM lists folders in so many tasks; the default is 10,000.
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
LAYOUTS = {"plain": "", "partitioned": "PARTITIONED BY (p)", "clustered": "CLUSTER BY (id)"}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkLake:
    root = tmp_path_factory.mktemp("compaction")
    names = ["plain", "partitioned", "clustered", "busy", "killed", "reader"]
    schema = "\n".join(f"CREATE TABLE {name} ({COLUMNS}) {LAYOUTS.get(name, '')};" for name in names)
    release = Product(root / "product").release("1.0.0", schema)
    lake = SparkLake(spark, Environment.open(str(root / "lake")))
    lake.upgrade(release)
    return lake


def table(lake: SparkLake, name: str) -> Table:
    return Table(lake, name, LAYOUTS.get(name, ""))


# --- the same rows -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_the_rows_stay_and_the_debt_goes(lake: SparkLake, name: str) -> None:
    """Column mapping, widening, deletion vectors, nested drops; and a second run finds nothing to do."""
    found = table(lake, name)
    lake.sql(f"ALTER TABLE {{{name}}} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    found.add(0, 40)
    lake.sql(f"DELETE FROM {{{name}}} WHERE id % 10 = 1")
    assert set(found.owes()) == {1}
    wide = COLUMNS.replace("n INT", "n BIGINT").replace("s STRUCT<a: INT, b: STRING>", "s STRUCT<a: INT, c: DATE>") + ", late STRING"
    assert found.evolve(wide) == 2
    lake.sql(f"INSERT INTO {{{name}}} (id, n, late) VALUES (1000, 5000000000, 'x')")
    before, owed = found.digest(), found.owes()
    assert set(owed) == {1, 2}

    done = found.compact(max_files=(owed[1] + 1) // 2)
    assert found.digest() == before
    assert sum(batch.files for batch in done.batches) == owed[1]
    assert len(done.batches) == 2
    assert set(found.owes()) == {2}
    commits = [action["commitInfo"] for action in found.log() if action.get("commitInfo", {}).get("operation") == "SCHEMAMIG COMPACT"]
    assert len(commits) == len(done.batches)
    assert not any(commit["isBlindAppend"] for commit in commits)
    assert list(lake.state.intents) == []
    assert not list(found.folder.glob("schemamig-compact-*/_delta_log"))

    assert found.compact(jobs=no_spark).batches == ()
    lake.sql(f"UPDATE {{{name}}} SET n = n + 1 WHERE id < 5")
    lake.sql(f"MERGE INTO {{{name}}} t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    lake.sql(f"OPTIMIZE {{{name}}}")
    assert lake.sql(f"SELECT count(*) AS n FROM {{{name}}}")[0]["n"] == before.rows - 1


def test_deltalake_reads_the_same(lake: SparkLake) -> None:
    """Without column mapping and widening: what delta-rs can read."""
    found = table(lake, "reader")
    found.add(0, 20)
    found.evolve(COLUMNS.replace(" NOT NULL", "") + ", late STRING")

    def rows() -> Any:
        return (
            deltalake.QueryBuilder()
            .register("t", deltalake.DeltaTable(str(found.folder)))
            .execute("SELECT * FROM t ORDER BY id")
            .read_all()
        )

    before = rows()
    assert len(found.compact().batches) == 1
    assert rows() == before
    (share,) = commands.schema_age(lake.env, ["reader"])[0].shares
    assert (share.schema_id, share.rows) == (2, 20)


# --- others at work ------------------------------------------------------------------------------------------------------------------


def test_everything_may_happen_while_files_are_rewritten(lake: SparkLake) -> None:
    """A schema that moved on is never taken back, a row that was changed never comes again, a foreign OPTIMIZE wins."""
    found = table(lake, "busy")
    found.add(0, 12)
    found.evolve(f"{COLUMNS}, c1 INT")
    expected = {row["id"]: (row["n"], row["s"], row["tags"]) for row in lake.sql("SELECT * FROM {busy}")}

    found.compact(jobs=Meddling(lambda: found.evolve(f"{COLUMNS.replace(', p STRING', '')}, c1 INT")))
    assert lake.columns("busy") == ["id", "n", "s", "tags", "c1"]
    found.evolve(f"{COLUMNS.replace(', p STRING', '')}, c1 INT, c2 INT")
    lake.sql("ALTER TABLE {busy} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")

    def write() -> None:
        lake.sql("DELETE FROM {busy} WHERE id = 4")
        lake.sql("OPTIMIZE {busy}")
        lake.sql("INSERT INTO {busy} (id, n) VALUES (500, 1)")

    found.compact(jobs=Meddling(write))
    expected = {id_: row for id_, row in expected.items() if id_ != 4} | {500: (1, None, None)}
    assert {row["id"]: (row["n"], row["s"], row["tags"]) for row in lake.sql("SELECT * FROM {busy}")} == expected
    assert len(found.owes()) == 1
    lake.check("1.0.0")


def test_a_statement_in_flight_over_rewritten_files_aborts_and_no_row_is_lost(lake: SparkLake, tmp_path: Path) -> None:
    """Delta's own rule for whoever read files that are gone: the writer tries again, as after an OPTIMIZE."""
    found = table(lake, "busy")
    found.evolve(f"{COLUMNS.replace(', p STRING', '')}, c1 INT, c2 INT, c3 INT")
    rows = found.digest().rows
    slow = "USING (SELECT * FROM VALUES (6L) AS v (id) WHERE held(id)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.n = -1"
    update = InFlight(lake.spark, tmp_path, f"MERGE INTO {table_sql(found.folder)} t {slow}")
    found.compact()
    outcome = update.outcome()
    assert "DELTA_CONCURRENT_" in str(getattr(outcome, "java_exception", outcome)), outcome
    assert found.digest().rows == rows
    assert lake.sql("SELECT n FROM {busy} WHERE id = 6")[0]["n"] == 6


# --- killed --------------------------------------------------------------------------------------------------------------------------


def test_killed_between_writing_and_committing(lake: SparkLake) -> None:
    """(Every moment to die at: tests/unit/upgrade/rewrite/test_compaction.py.) What is left behind is nobody's, and VACUUM's."""
    found = table(lake, "killed")
    found.add(0, 20)
    found.evolve(f"{COLUMNS}, late INT")
    before = found.digest()

    def dies(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "put_if_absent"):
            raise Crash

    with pytest.raises(Crash):
        found.compact(env=replace(lake.env, on_write=dies))
    orphans = list(found.folder.glob("schemamig-compact-*/*.parquet"))
    assert orphans
    assert found.digest() == before
    found.compact()
    assert found.digest() == before
    assert set(found.owes()) == {2}
    lake.check("1.0.0")
    settings = {"spark.databricks.delta.retentionDurationCheck.enabled": "false", _LISTING: "2"}
    with session_settings(lake.spark, settings):
        lake.sql("VACUUM {killed} RETAIN 0 HOURS")
    assert found.digest() == before, "what a compaction wrote is the table's own"
    assert not any(path.exists() for path in orphans)
