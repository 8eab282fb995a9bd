"""Which CHECKs are left to delta-rs, and that its engine says of all of these what Spark says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.access.arrow.checks import unlike_part
from airflow_provider_schemamig.core.access.arrow.read import arrow_schema
from airflow_provider_schemamig.core.access.errors import NeedsSpark
from airflow_provider_schemamig.core.spark.errors import ConstraintViolated
from tests.support.examples import examples
from tests.support.spark import check_cases
from tests.support.tables import foreign
from tests.support.upgrades import deployed, releases
from tests.unit.access.test_fit import shape


def violations(folder: Path, columns: str, check: str, rows: list[dict[str, object]]) -> int:
    """How many of the rows delta-rs finds to break a CHECK; it writes them if none does."""
    schema = arrow_schema(shape(columns).fields)
    DeltaTable.create(str(folder), schema=schema, mode="overwrite")
    log = max((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = {"delta.constraints.c": check}
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["timestampNtz"],
                "writerFeatures": ["timestampNtz", "checkConstraints", "appendOnly", "invariants"],
            }
    log.write_text("\n".join(map(json.dumps, actions)) + "\n")
    try:
        write_deltalake(str(folder), pa.Table.from_pylist(rows, schema=schema), mode="append")
    except DeltaError as error:
        found = re.search(r"Invalid data found: ((\d+) rows? failed|validation check failed)", str(error))
        if found is None:
            raise
        return int(found[2] or len(rows))  # no number where the CHECK is the same of every row
    return 0


@pytest.mark.parametrize("case", check_cases.CASES, ids=lambda case: f"{case.check} of {case.row}")
def test_arrow_checks_what_is_left_to_delta_rs(case: check_cases.Case, tmp_path: Path) -> None:
    columns = shape(case.columns)
    part = unlike_part((("it", case.check),), columns.fields)
    assert (part is None) is case.alike, part
    if case.alike:
        assert violations(tmp_path, case.columns, case.check, [case.row]) == (0 if case.holds else 1)


@settings(max_examples=examples(35), suppress_health_check=[HealthCheck.too_slow])
@given(check=check_cases.CHECKS, rows=check_cases.ROWS)
def test_delta_rs_says_what_spark_means(
    tmp_path_factory: pytest.TempPathFactory, check: check_cases.Part, rows: list[dict[str, object]]
) -> None:
    assert unlike_part((("it", check.sql),), shape(check_cases.COLUMNS).fields) is None
    good = [row for row in rows if check.value(row) is True]
    bad = [row for row in rows if check.value(row) is not True]
    folder = tmp_path_factory.mktemp("checks")
    for found, count in ((good, 0), (bad, len(bad))):
        if found:
            assert violations(folder, check_cases.COLUMNS, check.sql, found) == count, found


@settings(max_examples=examples(100))
@given(st.text("nsN0123 '`\"\\()<>=!,.-+*/%ANDORNOTISLIKEBETWEEN", max_size=20))
def test_whatever_the_text_is_there_is_an_answer(text: str) -> None:
    unlike_part((("it", text),), shape("n INT, s STRING").fields)


def test_an_append_without_a_jvm_names_the_check_that_is_left_to_spark(tmp_path: Path) -> None:
    text = "CREATE TABLE t (n INT, CONSTRAINT even CHECK (n / 2 = 1), CONSTRAINT small CHECK (n < 10));"
    [release] = releases(tmp_path, (text, ""))
    lake = deployed(tmp_path, release, release)
    with pytest.raises(NeedsSpark, match=r"its engine may take / in the CHECK even for something else than Spark does"):
        lake.env.writer("t").append(pa.table({"n": pa.array([3], pa.int32())}))
    assert lake.env.reader("t").arrow().num_rows == 0


def test_two_checks_of_which_delta_rs_makes_another_one_are_left_to_spark(tmp_path: Path) -> None:
    """It joins them by AND, and then two lists for one value to one."""
    text = "CREATE TABLE t (z STRING, s STRING, CONSTRAINT one CHECK (z IN (s)), CONSTRAINT two CHECK (z NOT IN ('a')));"
    [release] = releases(tmp_path, (text, ""))
    lake = deployed(tmp_path, release, release)
    with pytest.raises(NeedsSpark, match=r"its engine may take z IN \('a'\) in the CHECK two"):
        lake.env.writer("t").append(pa.table({"z": ["a"], "s": ["a"]}))
    assert lake.env.reader("t").arrow().num_rows == 0


def test_a_check_that_both_read_alike_is_asked_of_every_row(tmp_path: Path) -> None:
    [release] = releases(tmp_path, ("CREATE TABLE t (n INT, CONSTRAINT small CHECK (n BETWEEN 0 AND 9 OR n IS NULL));", ""))
    lake = deployed(tmp_path, release, release)
    writer = lake.env.writer("t")
    with pytest.raises(ConstraintViolated):
        writer.append(pa.table({"n": pa.array([3, 10], pa.int32())}))
    writer.append(pa.table({"n": pa.array([3, None], pa.int32())}))
    assert lake.env.reader("t").arrow().num_rows == 2


def test_an_invariant_of_a_column_is_left_to_spark(tmp_path: Path) -> None:
    """Delta's form of a CHECK before there were any; somebody else's table may have one."""
    [release] = releases(tmp_path, ("CREATE TABLE t (n INT);", ""))
    lake = deployed(tmp_path, release, release)
    invariant = {"delta.invariants": json.dumps({"expression": {"expression": "n / 2 = 1"}})}
    log = lake.path("t") / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    [metadata] = [action["metaData"] for action in actions if "metaData" in action]
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"] |= invariant
    foreign.commit(lake.path("t"), {"metaData": {**metadata, "schemaString": json.dumps(schema)}})
    with pytest.raises(NeedsSpark, match="n has an invariant of its own"):
        lake.env.writer("t").append(pa.table({"n": pa.array([3], pa.int32())}))
