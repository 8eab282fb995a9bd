"""The jobs on a real Spark Connect server, beside this process's classic session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.spark.runners import ConnectRunner
from airflow_provider_schemamig.core.spark.watched import WatchedRunner
from tests.support.rows.fills import EPOCH, Lake, fill_request, put_fence
from tests.support.rows.rewrites import Rewrite
from tests.support.spark.connect import connect_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with connect_server(tmp_path, {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}) as url:
        yield url


def _files(lake: Lake) -> list[str]:
    return [uri.rpartition("/")[2] for uri in DeltaTable(lake.target_uri).file_uris()]


@pytest.mark.soak
def test_a_job_on_connect_tells_how_far_it_is(spark: SparkSession, server: str, tmp_path: Path) -> None:
    """Every second, by the server's own word: what a terminal's bar, and its time that is left, are made of."""
    lake, told = Lake.make(spark, tmp_path / "lake"), list[Event]()
    slow = "SELECT count(*) FROM range(0, 1500000000, 1, 16) WHERE pmod(hash(id), 7) = 3"
    WatchedRunner(ConnectRunner(server), told.append).run("fill", fill_request(lake, query=f"SELECT id, ({slow}) AS n FROM s"))
    on_the_way = [event for event in told if 0 < event.done < event.total]
    assert {event.stage for event in told} == {"write rows"}
    assert len({event.done for event in on_the_way}) > 2 and max(event.total for event in on_the_way) >= 16, told
    assert any(event.note.endswith(" s left") for event in on_the_way)
    assert (told[-1].done, told[-1].total) == (1, 1)


@pytest.mark.soak
def test_jobs_on_connect_are_as_they_are_here(spark: SparkSession, server: str, tmp_path: Path) -> None:
    lake = Lake.make(spark, tmp_path / "lake")
    runner = ConnectRunner(server)

    # A cast that only ANSI refuses, and a time zone that only a changed setting makes UTC: the server's own settings do not decide.
    with pytest.raises(errors.BadValue):
        runner.run("fill", fill_request(lake, query="SELECT id, CAST(v AS BIGINT) AS n FROM s"))
    at_noon = "SELECT id, unix_seconds(TIMESTAMP '1970-01-01 12:00:00') AS n FROM s"
    done = runner.run("fill", fill_request(lake, query=at_noon))
    assert (done["rows"], done["table_version"], done["inputs"], done["skipped"]) == (3, 1, {"s": 1}, False)
    assert {row[1] for row in lake.target()} == {12 * 3600}
    assert runner.run("fill", fill_request(lake))["skipped"] is True

    put_fence(lake, EPOCH + 1)
    with pytest.raises(errors.FillSuperseded):
        runner.run("fill", fill_request(lake, number=2))

    found = runner.run(
        "preflight",
        {
            "checks": [
                {"collection": "source", "uri": lake.source_uri, "kind": "cast", "column": "v", "type": "INT"},
                {"collection": "target", "uri": lake.target_uri, "kind": "duplicate_key", "columns": ["n"]},
                {"collection": "target", "uri": lake.target_uri, "kind": "duplicate_key", "columns": ["n"], "new_files": _files(lake)},
                {"collection": "target", "uri": lake.target_uri, "kind": "duplicate_key", "columns": ["n"], "new_files": ["none"]},
            ],
            "estimates": [{"collection": "target", "uri": lake.target_uri}],
        },
    )
    assert [(v["rule"], v["count"]) for v in found["violations"]] == [("CAST(v AS INT)", 3), ("UNIQUE (n)", 3), ("UNIQUE (n)", 3)]
    assert found["violations"][1]["sample"] == [{"n": "43200", "rows": 3}]
    assert found["estimates"][0]["rows"] == 3

    # Views that stand for something else the second time, cached ones and a MERGE: the parts of a tail that a client could get wrong.
    rewrite = Rewrite(spark, tmp_path / "rewrite", runner=runner)
    rewrite.make_source("TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rewrite.make_target("b")
    lo = rewrite.version()
    rewrite.copy("b", lo, max_files=10)
    rewrite.sql("UPDATE {s} SET v = 'x' WHERE id = 1 OR id IS NULL")
    tailed = rewrite.apply("b", rewrite.changes("cdf", lo, lo + 1), lo, lo + 1)
    assert (tailed["inserted"], tailed["deleted"]) == (5, 5)
    up, there = rewrite.digests("b", lo + 1)
    assert up == there
    assert rewrite.rows("b") == rewrite.expected(lo + 1)
    assert spark.sql("SELECT 1 AS one").collect()[0]["one"] == 1, "the classic session of this process works on"


@pytest.mark.soak
def test_a_connect_server_that_knows_no_delta_is_told_from_a_wrong_query(tmp_path: Path) -> None:
    with connect_server(tmp_path, {"spark.sql.extensions": "org.example.Other"}) as url:
        with pytest.raises(errors.SparkWithoutDelta, match=r"without Delta: it needs spark\.sql\.extensions=io\.delta") as caught:
            ConnectRunner(url).run("preflight", {"checks": []})
        assert caught.value.where == url
