"""The fill and preflight jobs on the embedded session: results, exactly once, the fence, and every refusal typed."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.exceptions import SchemamigError
from spark_jobs.digest import rows_digest
from tests.support.processes import wait_until
from tests.support.rows.fills import APP_ID, EPOCH, SLOW, Lake, fill_request, put_fence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """``source`` with three rows at version 1, and an empty ``target`` (id BIGINT, n BIGINT NOT NULL)."""
    return Lake.make(spark, tmp_path / "a lake")


def run(request: dict[str, Any]) -> dict[str, Any]:
    return EmbeddedRunner().run("fill", request)


# --- fill ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.some(1, of="jobs of Spark")
def test_fill_writes_the_query_by_name_once_and_adopts_what_it_finds(lake: Lake) -> None:
    lake.spark.sql(f"INSERT INTO {lake.source_sql} VALUES (9, 'late')")
    request = fill_request(lake, query="WITH q AS (SELECT id, length(v) AS n FROM s) SELECT n, id FROM q", version=1)

    first = run(request)
    request["inputs"]["s"]["version"] = 2
    again = run(request)

    assert first | {"seconds": 0} == {"rows": 3, "table_version": 1, "inputs": {"s": 1}, "seconds": 0, "skipped": False}
    # What was read is what the commit noted, not what the repeated request asked for.
    assert again | {"seconds": 0} == {"rows": 3, "table_version": 1, "inputs": {"s": 1}, "seconds": 0, "skipped": True}
    assert lake.target() == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.soak
def test_overwrite_replaces_the_rows_and_reads_the_newest_version(lake: Lake) -> None:
    run(fill_request(lake))
    lake.spark.sql(f"INSERT INTO {lake.source_sql} VALUES (4, 'four')")
    request = fill_request(lake, number=2, mode="overwrite", version=None)
    request["inputs"]["s"]["shard"] = "source_shard"

    result = run(request)

    assert (result["rows"], result["inputs"], result["skipped"]) == (4, {"source_shard": 2}, False)
    assert [row[0] for row in lake.target()] == [1, 2, 3, 4]


@pytest.mark.some(1, of="jobs of Spark")
def test_a_fill_of_no_rows_is_a_commit_and_is_adopted(lake: Lake) -> None:
    request = fill_request(lake, query="SELECT id, 1L AS n FROM s WHERE false")
    assert [(run(request)["rows"], run(request)["skipped"])] == [(0, True)]
    assert lake.version() == 1


@pytest.mark.some(1, of="jobs of Spark")
def test_nothing_of_a_job_stays_on_the_session(lake: Lake) -> None:
    before, views = dict(lake.spark.conf.getAll), lake.spark.sql("SHOW VIEWS").collect()
    runner = EmbeddedRunner()
    runner.run("fill", fill_request(lake, storage_options={"fs.x.secret": "s"}))
    with pytest.raises(errors.QueryRefused):
        runner.run("fill", fill_request(lake, number=2, query="SELECT nope"))
    assert dict(lake.spark.conf.getAll) == before
    assert lake.spark.sql("SHOW VIEWS").collect() == views


@pytest.mark.soak
def test_a_job_run_directly_on_a_session_cleans_up_after_itself(lake: Lake) -> None:
    """Connect and submit hand the job a session; what it sets there goes with it, also when it fails."""
    from spark_jobs import fill

    session = lake.spark.newSession()
    fill.run(session, fill_request(lake, storage_options={"fs.x.secret": "s"}))
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        fill.run(session, fill_request(lake, number=2, query="SELECT id, CAST(v AS BIGINT) AS n FROM s"))
    left = [name for name in session.conf.getAll if "txn" in name or "userMetadata" in name or name.startswith("fs.")]
    assert left == []
    assert session.sql("SHOW VIEWS").collect() == []


# --- the fence: a driver that outlives its task ----------------------------------------------------------------------


@pytest.mark.soak
def test_a_fill_in_flight_fails_when_the_fence_lands_and_a_late_one_is_no_success(lake: Lake) -> None:
    caught: list[SchemamigError] = []

    def zombie() -> None:
        try:
            run(fill_request(lake, query=SLOW.format(milliseconds=3000)))
        except SchemamigError as error:
            caught.append(error)

    thread = threading.Thread(target=zombie)
    thread.start()
    wait_until(lambda: lake.files("target"), 60)
    fence = put_fence(lake, EPOCH + 1)
    assert thread.is_alive()
    thread.join()

    assert [type(error) for error in caught] == [errors.ConcurrentTransaction]
    assert caught[0].retryable
    with pytest.raises(errors.FillSuperseded):
        run(fill_request(lake))
    assert (lake.version(), lake.target()) == (fence, [])
    assert run(fill_request(lake, epoch=EPOCH + 1))["skipped"] is False


@pytest.mark.soak
def test_a_fence_after_the_fill_does_not_hide_that_it_was_done(lake: Lake) -> None:
    done = run(fill_request(lake))
    put_fence(lake, EPOCH + 1)
    again = run(fill_request(lake))
    assert (again["skipped"], again["table_version"], again["rows"]) == (True, done["table_version"], 3)
    with pytest.raises(errors.FillSuperseded):
        run(fill_request(lake, number=2))


@pytest.mark.soak
def test_a_twin_with_the_same_txn_loses_to_the_first(lake: Lake) -> None:
    outcomes: list[object] = []

    def twin() -> None:
        try:
            outcomes.append(run(fill_request(lake, query=SLOW.format(milliseconds=1500)))["skipped"])
        except SchemamigError as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=twin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(lake.target()) == 3
    assert outcomes.count(False) == 1
    assert set(outcomes) - {False} <= {True, errors.ConcurrentTransaction}


# --- errors --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "change, kind, says",
    [
        ({"query": "SELECT id, nope AS n FROM s"}, errors.QueryRefused, "nope"),
        ({"query": "SELECT id FROM s"}, errors.QueryRefused, "`n` cannot be resolved"),
        ({"query": "SELEC id, 1L AS n FROM s"}, errors.QueryRefused, "Syntax error"),
        ({"query": "SELECT id, CAST(v AS BIGINT) AS n FROM s"}, errors.BadValue, "'a'"),
        ({"query": "SELECT id, (id + 1) * 9223372036854775807 AS n FROM s"}, errors.BadValue, "overflow"),
        ({"query": "SELECT id, CAST(NULL AS BIGINT) AS n FROM s"}, errors.ConstraintViolated, "n"),
        ({"query": "SELECT id, 1000L AS n FROM s"}, errors.ConstraintViolated, "small"),
        ({"version": 99}, errors.InputMissing, "99"),
        ({"shard_uri": "file:///nowhere/at/all"}, errors.InputMissing, "nowhere"),
    ],
)
def test_what_spark_refuses_is_a_typed_refusal_and_writes_nothing(
    lake: Lake, change: dict[str, Any], kind: type[SchemamigError], says: str
) -> None:
    lake.spark.sql(f"ALTER TABLE {lake.target_sql} ADD CONSTRAINT small CHECK (n < 100)")
    with pytest.raises(kind) as caught:
        run(fill_request(lake, **change))
    assert caught.value.collection == "target"
    assert not caught.value.retryable
    assert says in caught.value.message
    assert lake.target() == []


@pytest.mark.some(1, of="jobs of Spark")
def test_input_files_that_vacuum_took_are_named_as_such(lake: Lake) -> None:
    for file in lake.files("source"):
        file.unlink()
    with pytest.raises(errors.InputMissing, match="VACUUM"):
        run(fill_request(lake))


# --- preflight -----------------------------------------------------------------------------------------------------------------------

COLUMNS = "id INT, v STRING, o STRUCT<code: STRING, tags: ARRAY<STRUCT<t: INT>>>, m MAP<STRING, INT>, b BINARY"
ROWS = """
    (1,    '10', named_struct('code', 'JFK', 'tags', array(named_struct('t', 1))),         map('k', 1),    X'00FF'),
    (2,    'x',  named_struct('code', NULL,  'tags', array(named_struct('t', NULL))),      map('k', NULL), NULL),
    (2,    NULL, NULL,                                                                     NULL,           NULL),
    (NULL, '99999999999', named_struct('code', 'LGA', 'tags', NULL),                       map(),          NULL),
    (NULL, '7',  named_struct('code', 'LGA', 'tags', array()),                             map('k', 2),    NULL)
"""


@pytest.fixture(scope="module")
def dirty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = f"file://{tmp_path_factory.mktemp('dirty')}/t"
    spark.sql(f"CREATE TABLE delta.`{uri}` ({COLUMNS}) USING delta")
    spark.sql(f"INSERT INTO delta.`{uri}` VALUES {ROWS}")
    return uri


def preflight(*checks: dict[str, Any], estimates: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return EmbeddedRunner().run("preflight", {"checks": list(checks), "estimates": list(estimates)})


#: What each check must find in ROWS: how many rows, and under which name.
CHECKS: list[tuple[dict[str, Any], int, str]] = [
    ({"kind": "not_null", "column": "id"}, 2, "id NOT NULL"),
    ({"kind": "not_null", "column": "o"}, 1, "o NOT NULL"),
    ({"kind": "not_null", "column": "o.code"}, 1, "o.code NOT NULL"),
    ({"kind": "not_null", "column": "o.tags.element.t"}, 1, "o.tags.element.t NOT NULL"),
    ({"kind": "not_null", "column": "m.value"}, 1, "m.value NOT NULL"),
    ({"kind": "not_null", "column": "m.key"}, 0, "m.key NOT NULL"),
    ({"kind": "check", "expression": "id > 1"}, 3, "id > 1"),
    ({"kind": "check", "expression": "id > 1 OR id IS NULL", "rule": "big"}, 1, "big"),
    ({"kind": "cast", "column": "v", "type": "INT"}, 2, "CAST(v AS INT)"),
    ({"kind": "cast", "column": "v", "type": "BIGINT"}, 1, "CAST(v AS BIGINT)"),
    ({"kind": "cast", "column": "o.tags.element.t", "type": "STRING"}, 0, "CAST(o.tags.element.t AS STRING)"),
    ({"kind": "duplicate_key", "columns": ["id"]}, 2, "UNIQUE (id)"),
    ({"kind": "duplicate_key", "columns": ["id", "v"]}, 0, "UNIQUE (id, v)"),
    ({"kind": "not_null", "column": "number", "projection": "id AS number"}, 2, "number NOT NULL"),
    ({"kind": "not_null", "column": "o", "version": 0, "rule": "before any row"}, 0, "before any row"),
]


@pytest.mark.soak
def test_preflight_counts_rows_that_break_a_rule(dirty: str) -> None:
    found = preflight(*({"collection": "t", "uri": dirty, **check} for check, _, _ in CHECKS))["violations"]
    counted = {(violation["kind"], violation["rule"]): violation["count"] for violation in found}
    assert counted == {(check["kind"], rule): count for check, count, rule in CHECKS if count}
    for violation in found:
        assert (violation["collection"], violation["version"]) == ("t", 1)
        assert 0 < len(violation["sample"]) <= violation["count"]
        assert all(file.startswith("file:/") and file.endswith(".parquet") for file in violation["files"])
        assert violation["files"]


@pytest.mark.some(1, of="jobs of Spark")
def test_delta_itself_refuses_exactly_the_rows_that_preflight_counts(spark: SparkSession, dirty: str, tmp_path: Path) -> None:
    """The check's meaning is Delta's, NULL included: each of the five rows goes in if and only if preflight finds nothing in it."""
    target = f"delta.`file://{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {target} (id INT) USING delta")
    spark.sql(f"ALTER TABLE {target} ADD CONSTRAINT c CHECK (id > 1)")
    accepted = 0
    for value in ("1", "2", "2", "NULL", "NULL"):
        with contextlib.suppress(Py4JJavaError, PySparkException):
            spark.sql(f"INSERT INTO {target} VALUES ({value})")
            accepted += 1
    (found,) = preflight({"collection": "t", "uri": dirty, "kind": "check", "expression": "id > 1"})["violations"]
    assert 5 - accepted == found["count"] == 3


@pytest.mark.soak
def test_samples_are_text_of_bounded_length_and_at_most_five(spark: SparkSession, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/wide"
    spark.sql(f"CREATE TABLE delta.`{uri}` (id INT, v STRING) USING delta")
    for part in range(6):
        spark.sql(f"INSERT INTO delta.`{uri}` SELECT NULL, repeat('{part}', 1000) FROM range(2)")
    (found,) = preflight({"collection": "wide", "uri": uri, "kind": "not_null", "column": "id"})["violations"]
    assert (found["count"], len(found["sample"]), len(found["files"])) == (12, 5, 5)
    assert {len(row["v"]) for row in found["sample"]} == {200}


@pytest.mark.some(1, of="jobs of Spark")
def test_samples_show_every_kind_of_value(dirty: str) -> None:
    (found,) = preflight({"collection": "t", "uri": dirty, "kind": "check", "expression": "id <> 1 OR id IS NULL"})["violations"]
    assert found["sample"] == [{"id": "1", "v": "10", "o": '{"code":"JFK","tags":[{"t":1}]}', "m": '{"k":1}', "b": "00FF"}]


@pytest.mark.some(1, of="jobs of Spark")
def test_duplicate_keys_are_shown_with_their_number(dirty: str) -> None:
    (found,) = preflight({"collection": "t", "uri": dirty, "kind": "duplicate_key", "columns": ["id"]})["violations"]
    assert found["sample"] == [{"id": "2", "rows": 2}]


@pytest.mark.some(1, of="jobs of Spark")
def test_all_row_checks_of_a_table_share_one_scan(spark: SparkSession, dirty: str) -> None:
    """Ten checks that find nothing start as many jobs as one does."""

    def jobs(checks: list[dict[str, Any]]) -> int:
        spark.sparkContext.setJobGroup(f"count-{len(checks)}", "")
        preflight(*checks)
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"count-{len(checks)}"))

    checks = [{"collection": "t", "uri": dirty, "kind": "check", "expression": f"coalesce(id, 0) < {n}"} for n in range(100, 110)]
    preflight(checks[0])
    assert jobs(checks) == jobs(checks[:1]) > 0


@pytest.mark.soak
def test_estimates_come_from_the_log(lake: Lake) -> None:
    files = lake.files("source")
    size = sum(file.stat().st_size for file in files)
    for file in files:
        file.unlink()
    result = preflight(estimates=({"collection": "source", "uri": lake.source_uri},))
    assert result["estimates"] == [{"collection": "source", "rows": 3, "bytes": size, "files": len(files)}]


@pytest.mark.some(1, of="jobs of Spark")
def test_errors_of_preflight_name_their_collection(dirty: str) -> None:
    missing = {"collection": "gone", "uri": "file:///nowhere/at/all", "kind": "not_null", "column": "id"}
    with pytest.raises(errors.InputMissing) as caught:
        preflight({"collection": "t", "uri": dirty, "kind": "not_null", "column": "m.key"}, missing)
    assert caught.value.collection == "gone"
    for column in ("nope", "o.nope", "id.x", "o.tags.t"):
        with pytest.raises(errors.QueryRefused, match="t: the table has no column"):
            preflight({"collection": "t", "uri": dirty, "kind": "not_null", "column": column})


# --- digest --------------------------------------------------------------------------------------------------------------------------


def test_the_digest_is_of_rows_not_of_order_files_or_names(spark: SparkSession) -> None:
    rows = "(1, 'a', map('x', 1, 'y', 2)), (2, NULL, NULL), (2, NULL, NULL)"
    frame = spark.sql(f"SELECT * FROM VALUES {rows} AS t(a, b, m)")
    digest = rows_digest(frame)
    assert digest.rows == 3
    assert rows_digest(frame.orderBy("a", ascending=False).repartition(3)) == digest
    assert rows_digest(frame.withColumnRenamed("b", "c")) == digest
    other_order = rows.replace("'x', 1, 'y', 2", "'y', 2, 'x', 1")
    assert rows_digest(spark.sql(f"SELECT * FROM VALUES {other_order} AS t(a, b, m)")) == digest
    assert rows_digest(frame, ["b", "a", "m"]) != digest


@pytest.mark.parametrize(
    "one, other",
    [
        ("(1, 2), (1, 2)", "(3, 4), (3, 4)"),  # equal rows cancel out in the xor
        ("(1, NULL)", "(NULL, 1)"),  # a hash leaves NULLs out
        ("(1, 2)", "(2, 1)"),
        ("(1, 2)", "(1, 2), (1, 2), (1, 2)"),
    ],
)
def test_the_digest_tells_rows_apart(spark: SparkSession, one: str, other: str) -> None:
    digests = [rows_digest(spark.sql(f"SELECT CAST(a AS INT) a, CAST(b AS INT) b FROM VALUES {rows} AS t(a, b)")) for rows in (one, other)]
    assert digests[0] != digests[1]


def test_the_digest_of_no_rows(spark: SparkSession) -> None:
    digest = rows_digest(spark.sql("SELECT 1 AS a WHERE false"))
    assert (digest.rows, digest.xor, digest.sum) == (0, 0, 0)


@pytest.mark.some(1, of="jobs of Spark")
def test_time_and_metadata_stay_as_the_request_says(lake: Lake) -> None:
    started = time.monotonic()
    result = run(fill_request(lake))
    assert 0 < result["seconds"] <= time.monotonic() - started
    commit = [json.loads(line) for line in (lake.root / "target/_delta_log/00000000000000000001.json").read_text().splitlines()]
    (info,) = [action["commitInfo"] for action in commit if "commitInfo" in action]
    (txn,) = [action["txn"] for action in commit if "txn" in action]
    noted = json.loads(info["userMetadata"])
    assert noted.pop("attempt")
    assert noted == {"schemamig": {"epoch": EPOCH, "number": 1}, "inputs": {"s": 1}}
    assert (txn["appId"], txn["version"]) == (APP_ID, EPOCH * 2**32 + 1)
