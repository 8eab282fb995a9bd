"""What Spark tells rows apart by, next to an encoder in plain Python, over random nested types; and where rows are brought by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.replication.replicate import replicate_once
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from spark_jobs.row_values import row_hash, same_by, same_row
from tests.support.rows import any_rows
from tests.support.spark.lake import SparkLake
from tests.support.upgrades import releases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

#: An example is a statement or two over many values. What is found is not made smaller: that takes as many statements again.
_few = settings(
    max_examples=4,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
_many = settings(_few, max_examples=60)


def check_values(spark: SparkSession, data: st.DataObject) -> None:
    """Every value of every column with every other one: same hash, by either seed, and the same to ``<=>`` and GROUP BY, or neither."""
    from pyspark.sql.types import LongType, StructField, StructType

    schema = data.draw(any_rows.schemas(5))
    rows = data.draw(any_rows.rows(schema, 40))
    fields = schema.fields
    numbered = StructType([*fields, StructField("i", LongType())])
    spark.createDataFrame([(*row, number) for number, row in enumerate(rows)], numbered).coalesce(1).createOrReplaceTempView("any_values")
    hashes = [f"{row_hash([field], seed)} AS {field.name}_{seed}" for field in fields for seed in (None, 1)]
    groups = [f"dense_rank() OVER (ORDER BY {', '.join(same_by(field.name, field.dataType))}) AS {field.name}" for field in fields]
    looked = ", ".join([*hashes, *groups, f"{row_hash(fields)} AS whole"])
    found = spark.sql(f"SELECT i, {looked} FROM any_values ORDER BY i").collect()
    pairs = ", ".join(f"{same_row([field], 'a', 'b')} AS {field.name}" for field in fields)
    same = {(row["a"], row["b"]): row for row in spark.sql(f"SELECT a.i AS a, b.i AS b, {pairs} FROM any_values a, any_values b").collect()}
    for one in range(len(rows)):
        for other in range(one + 1):
            for position, field in enumerate(fields):
                values = rows[one][position], rows[other][position]
                wanted = any_rows.told_apart(values[0], field.dataType) == any_rows.told_apart(values[1], field.dataType)
                for name in (f"{field.name}_None", f"{field.name}_1", field.name):
                    assert (found[one][name] == found[other][name]) is wanted, (name, field.dataType, *values)
                assert same[one, other][field.name] is wanted, (field.dataType, *values)
            wanted = any_rows.whole_row(rows[one], schema) == any_rows.whole_row(rows[other], schema)
            assert (found[one]["whole"] == found[other]["whole"]) is wanted, (schema, rows[one], rows[other])


@_few
@given(st.data())
@pytest.mark.some(1, of="flows of Spark")
def test_values_are_told_apart(spark: SparkSession, data: st.DataObject) -> None:
    check_values(spark, data)


@pytest.mark.soak
@_many
@given(st.data())
def test_many_values_are_told_apart(spark: SparkSession, data: st.DataObject) -> None:
    check_values(spark, data)


# --- from end to end -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Values:
    """Columns beside an ``id``, and two values of each for the rows 0, 1, ...: what a writer makes of the first is the second."""

    schema: StructType
    before: Sequence[tuple[Any, ...]]
    after: Sequence[tuple[Any, ...]]

    @classmethod
    def drawn(cls, data: st.DataObject) -> Values:
        schema = data.draw(any_rows.schemas(6))
        before, after = (data.draw(any_rows.rows(schema, 30)) for _ in range(2))
        return cls(schema, before, after)

    @classmethod
    def neighbours(cls, spark: SparkSession) -> Values:
        """Row n differs in column n alone."""
        sides = [", ".join(f"CAST({case[side]} AS {case[0]}) AS f{n}" for n, case in enumerate(any_rows.NEIGHBOURS)) for side in (1, 2)]
        frame = spark.sql(f"SELECT {sides[0]} UNION ALL SELECT {sides[1]}")
        one, other = map(tuple, frame.collect())
        rows = [tuple(other[at] if at == changed else value for at, value in enumerate(one)) for changed in range(len(one))]
        return cls(frame.schema, [one] * len(rows), rows)

    @property
    def columns(self) -> str:
        return ", ".join(self.schema.names)

    def declared(self, key: str, more: str = "") -> str:
        """A table with a key and a change data feed, and one with neither."""
        columns = [f"{field.name} {field.dataType.simpleString()}" for field in self.schema.fields]
        inner = ", ".join([*columns, *([more] if more else [])])
        feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        keyed = f"CREATE TABLE keyed (id {key} NOT NULL, {inner}, PRIMARY KEY (id)) {feed};\n"
        return f"{keyed}CREATE TABLE plain (id {key}, {inner});\n"

    def write(self, lake: SparkLake, rows: Sequence[tuple[Any, ...]]) -> None:
        """As others do it: the rows are inserted, or all of their values change."""
        from pyspark.sql.types import LongType, StructField, StructType

        schema = StructType([StructField("id", LongType()), *self.schema.fields])
        lake.spark.createDataFrame(list(enumerate_rows(rows)), schema).coalesce(1).createOrReplaceTempView("written")
        for name in TABLES:
            assignments = ", ".join(f"t.{column} = s.{column}" for column in self.schema.names)
            lake.sql(
                f"MERGE INTO {{{name}}} t USING written s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {assignments} "
                f"WHEN NOT MATCHED THEN INSERT (id, {self.columns}) VALUES (s.id, {', '.join(f's.{c}' for c in self.schema.names)})"
            )

    def check(self, lake: SparkLake, rows: Sequence[tuple[Any, ...]]) -> None:
        for name in TABLES:
            found = {row[0]: tuple(row)[1:] for row in lake.sql(f"SELECT id, {self.columns} FROM {{{name}}}")}
            assert sorted(found) == list(range(len(rows)))
            for number, row in enumerate(rows):
                wanted = any_rows.whole_row(row, self.schema)
                assert any_rows.whole_row(found[number], self.schema) == wanted, (name, self.schema, row, found[number])


TABLES = ("keyed", "plain")


def enumerate_rows(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    return ((number, *row) for number, row in enumerate(rows))


def replicated(spark: SparkSession, folder: Path, values: Values) -> None:
    (release,) = releases(folder, (values.declared("BIGINT"), ""))
    origin, target = (SparkLake(spark, Environment.open(str(folder / name))) for name in "ab")
    for lake in (origin, target):
        lake.upgrade(release)
    for rows in (values.before, values.after):
        values.write(origin, rows)
        found = replicate_once(origin.env, target.env, None, jobs=EmbeddedRunner)
        assert [state.error for state in found.states] == [None, None]
        values.check(target, rows)


def rewritten(spark: SparkSession, folder: Path, values: Values) -> None:
    """There and back: each time rows are changed after they were copied."""
    up, down = (
        f"SELECT {cast} AS id, {values.columns}{more} FROM " for cast, more in (("CAST(id AS BIGINT)", ", 1 AS x"), ("CAST(id AS INT)", ""))
    )
    steps = ", ".join(f'rewrite("{name}", up="{up}{{{name}}}", down="{down}{{{name}}}")' for name in TABLES)
    first, second = releases(folder, (values.declared("INT"), ""), (values.declared("BIGINT", "x INT"), steps))
    lake = SparkLake(spark, Environment.open(str(folder / "lake")))
    lake.upgrade(first)
    values.write(lake, values.before)
    generation = commands.preflight(lake.env, second, jobs=EmbeddedRunner).generation
    assert generation is not None
    values.write(lake, values.after)
    commands.tail(lake.env, generation, jobs=EmbeddedRunner, once=True)  # a busy machine would lock writers out for too long
    for verb in (commands.promote, commands.expand):
        verb(lake.env, generation)
    commands.cutover(lake.env, generation, jobs=EmbeddedRunner)
    values.check(lake, values.after)
    values.write(lake, values.before)
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    values.check(lake, values.before)


@pytest.mark.soak
def test_a_replica_gets_what_differs_by_a_null_a_border_or_a_sign(spark: SparkSession, tmp_path: Path) -> None:
    replicated(spark, tmp_path, Values.neighbours(spark))


@pytest.mark.soak
def test_a_rewrite_carries_what_differs_by_a_null_a_border_or_a_sign(spark: SparkSession, tmp_path: Path) -> None:
    rewritten(spark, tmp_path, Values.neighbours(spark))


@pytest.mark.soak
@pytest.mark.parametrize("way", [replicated, rewritten])
@settings(_few, max_examples=6)
@given(data=st.data())
def test_rows_of_any_types_are_brought(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, way: Callable[[SparkSession, Path, Values], None], data: st.DataObject
) -> None:
    way(spark, tmp_path_factory.mktemp("any"), Values.drawn(data))
