"""Handles on whole environments, without a JVM: which table, which release, which error; Arrow in and out."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, DayTimeIntervalType, IntegerType, LongType, MapType, StringType, StructField, StructType

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access import reader as readers
from airflow_provider_schemamig.core.access import resolved_table
from airflow_provider_schemamig.core.access.errors import (
    InvalidArgument,
    NeedsSpark,
    NotForArrow,
    NotInRelease,
    ReaderFenced,
    UnknownColumn,
    UnknownRelease,
    UnusableColumns,
    WriterFenced,
)
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import head_or_none
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.errors import NoEnvironment
from airflow_provider_schemamig.core.ledger.objects.nodes import live_nodes
from airflow_provider_schemamig.core.names import CollectionName, InvalidName, SchemaId
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.spark.errors import ConstraintViolated
from airflow_provider_schemamig.core.upgrade.errors import HoldInUse
from tests.support.lake import Lake, no_spark
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, make_holds_due, releases, two_releases
from tests.unit.access.support import batch, rows

T = "CREATE TABLE t (id BIGINT, x INT);"


# --- which release -------------------------------------------------------------------------------------------------------------------


def test_no_environment_no_reader(tmp_path: Path) -> None:
    with pytest.raises(NoEnvironment):
        Environment.open(str(tmp_path)).reader("t").arrow()


def test_a_release_that_was_never_here_is_refused(tmp_path: Path) -> None:
    first, _, third = releases(tmp_path, (T, ""), ("CREATE TABLE t (id BIGINT);", 'evolution("t", drop=["x"])'), (T, 'evolution("t")'))
    lake = deployed(tmp_path, first, third)
    for release in ("0.9.0", "1.1.0", "1.2.0"):
        with pytest.raises(UnknownRelease) as refused:
            rows(lake, release)
        assert (str(refused.value.release), str(refused.value.current)) == (release, "1.0.0")
    with pytest.raises(InvalidName):
        lake.env.reader("t", "latest")
    with pytest.raises(NotInRelease):
        rows(lake, collection="nope")
    with pytest.raises(UnknownColumn, match="'nope'"):
        rows(lake, columns=["nope"])


def test_a_dropped_column_is_not_the_later_one_of_its_name(tmp_path: Path) -> None:
    found = releases(tmp_path, (T, ""), ("CREATE TABLE t (id BIGINT);", 'evolution("t", drop=["x"])'), (T, 'evolution("t")'))
    lake = deployed(tmp_path, found[0], found[1])
    foreign.write(lake.path("t"), [{"id": 1, "x": 1}])
    for release in found[1:]:
        lake.upgrade(release)
        make_holds_due(lake)
        commands.contract(lake.env)
    foreign.write(lake.path("t"), [{"id": 2, "x": 2}])
    assert rows(lake) == rows(lake, "1.2.0") == [{"id": 1, "x": None}, {"id": 2, "x": 2}]
    assert rows(lake, "1.1.0") == rows(lake, "1.0.0", ["id"]) == [{"id": 1}, {"id": 2}]
    with pytest.raises(ReaderFenced) as fenced:
        rows(lake, "1.0.0")
    assert (fenced.value.collection, fenced.value.column) == ("t", "x")
    assert str(fenced.value).endswith("Move this reader to release 1.2.0, or leave x out of its columns.")


def test_collections_that_are_renamed_removed_replaced_or_new(tmp_path: Path) -> None:
    old = f"{T}\nCREATE TABLE gone (id BIGINT);\nCREATE TABLE stats (id BIGINT, n INT);"
    new = "CREATE TABLE u (id BIGINT, x INT);\nCREATE TABLE stats (id BIGINT, n STRING);\nCREATE TABLE fresh (id BIGINT);"
    lake = two_releases(tmp_path, old, new, 'evolution("u", renamed_from="t"), removal("gone"), replacement("stats")')
    foreign.write(lake.path("t"), [{"id": 1, "x": 1}])
    claimed(lake, lake.second)
    assert rows(lake, "1.1.0", collection="u") == [{"id": 1, "x": 1}]
    for name, why in (("stats", "gets its table at the cut-over"), ("fresh", "gets its table at the cut-over")):
        with pytest.raises(ReaderFenced, match=why):
            rows(lake, "1.1.0", collection=name)
    for name in ("t", "gone"):
        with pytest.raises(NotInRelease):
            rows(lake, "1.1.0", collection=name)
    lake.upgrade(lake.second)
    assert rows(lake, "1.0.0") == rows(lake, collection="u") == [{"id": 1, "x": 1}]
    with pytest.raises(NotInRelease):
        rows(lake)
    with pytest.raises(ReaderFenced, match="the collection was removed"):
        rows(lake, "1.0.0", collection="gone")
    with pytest.raises(ReaderFenced, match="column id was created when the collection was rewritten, replaced or adopted anew"):
        rows(lake, "1.0.0", ["id"], "stats")
    lake.env.writer("t", "1.0.0").append(batch(id=[2]))
    assert len(rows(lake, collection="u")) == 2


def test_a_preview_is_refused_to_arrow_without_a_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = 'rewrite("t", up="SELECT id, CAST(x AS STRING) AS x FROM {t}")'
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id BIGINT, x STRING);", step)
    foreign.write(lake.path("t"), [{"id": 1, "x": 1}])
    monkeypatch.setattr(FakeJobs, "_fill", lambda self, request: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception, match="killed"):
        commands.preflight(lake.env, lake.second, jobs=FakeJobs())
    monkeypatch.setattr(readers, "own_session", lambda env: pytest.fail("it started a JVM"))
    with pytest.raises(NeedsSpark, match="the preview of a rewrite is a query"):
        lake.env.reader("t", "1.1.0").arrow()


def test_a_new_column_is_not_the_one_that_gives_its_name_away(tmp_path: Path) -> None:
    """Also where a program of the release in preparation leaves the renamed column out."""
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id BIGINT, y INT, x INT);", 'evolution("t", rename={"x": "y"})')
    foreign.write(lake.path("t"), [{"id": 1, "x": 5}])
    claimed(lake, lake.second)
    assert rows(lake, "1.1.0") == [{"id": 1, "y": 5, "x": None}]
    assert (rows(lake, "1.1.0", ["x"]), rows(lake, "1.1.0", ["y"])) == ([{"x": None}], [{"y": 5}])
    with pytest.raises(WriterFenced, match="column x is not in the table yet"):
        lake.env.writer("t", "1.1.0").append(batch(id=[2], x=[7]))
    lake.env.writer("t", "1.1.0").append(batch(id=[2], y=[7]))
    assert rows(lake) == [{"id": 1, "x": 5}, {"id": 2, "x": 7}]


def test_the_way_back_and_who_is_ahead_of_it(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id BIGINT, y INT, note STRING);", 'evolution("t", rename={"x": "y"})')
    lake.upgrade(lake.second)
    later = lake.env.reader("t", "1.1.0")
    commands.rollback(lake.env)
    foreign.write(lake.path("t"), [{"id": 1, "x": 1}])
    assert later.arrow().to_pylist() == [{"id": 1, "y": 1, "note": None}], "nobody had written a note, so the column is gone again"
    with pytest.raises(WriterFenced, match=r"column note is not in the table yet\. Wait until the environment is at 1\.1\.0"):
        lake.env.writer("t", "1.1.0").append(batch(id=[1], y=[1], note=["n"]))
    lake.upgrade(lake.second)
    foreign.write(lake.path("t"), [{"id": 2, "y": 2, "note": "n"}])
    commands.rollback(lake.env)
    assert sorted(later.arrow()["note"].to_pylist(), key=repr) == ["n", None], "what was written stays, hidden"
    assert rows(lake) == [{"id": 1, "x": 1}, {"id": 2, "x": 2}]


def test_while_the_upgrade_is_on_its_way(tmp_path: Path) -> None:
    """Between the table's own commit and the ledger's append the two say different things."""
    before, after = "CREATE TABLE t (id BIGINT NOT NULL, x INT NOT NULL);", "CREATE TABLE t (id BIGINT, y INT NOT NULL);"
    lake = two_releases(tmp_path, before, after, 'evolution("t", rename={"x": "y"})')
    foreign.write(lake.path("t"), [{"id": 1, "x": 1}])
    old, new = lake.env.reader("t", "1.0.0"), lake.env.reader("t", "1.1.0")
    seen = []

    def hook(moment: str, what: str, key: str) -> None:
        is_known = len(lake.state.deployments) > 1
        seen.append((old.arrow().to_pylist(), new.arrow().to_pylist() if is_known else None))

    commands.upgrade(replace(lake.env, on_write=hook), lake.second, jobs=no_spark)
    assert {str(before) for before, _ in seen} == {str([{"id": 1, "x": 1}])}
    assert {str(after) for _, after in seen if after is not None} == {str([{"id": 1, "y": 1}])}
    foreign.write(lake.path("t"), [{"id": None, "y": 2}])
    with pytest.raises(ReaderFenced, match="column id is NOT NULL for it"):
        old.arrow()
    assert sorted(old.arrow(["x"])["x"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("hold", [0, 24], ids=["files gone", "sealed"])
def test_a_table_that_is_replaced_while_it_is_looked_at_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: int) -> None:
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id BIGINT, x STRING);", 'replacement("t")')
    foreign.write(lake.path("t"), [{"id": 1}])
    heads = []

    def late(store: Any) -> Any:
        heads.append(store.location.uri)
        if len(heads) == 1:
            lake.upgrade(lake.second, hold=timedelta(hours=hold))
            foreign.write(lake.path("t"), [{"id": 2, "x": "new"}])
        return head_or_none(store)

    monkeypatch.setattr(resolved_table, "look_or_none", late)
    assert rows(lake) == [{"id": 2, "x": "new"}]
    assert len(set(heads)) == 2


# --- nodes ---------------------------------------------------------------------------------------------------------------------------


def test_a_node_keeps_the_hold_of_its_release_open(tmp_path: Path) -> None:
    found = releases(tmp_path, (T, ""), ("CREATE TABLE t (id BIGINT);", 'evolution("t", drop=["x"])'), (T, 'evolution("t")'))
    lake = deployed(tmp_path, found[0], found[1])
    with lake.env.reader("t", "1.0.0", node="dashboard") as reader:
        lake.upgrade(found[1])
        assert [(node.node_id, str(node.release)) for node in live_nodes(lake.env, pendulum.now("UTC"))] == [("dashboard", "1.0.0")]
        with lake.env.writer("t", "1.0.0", node="dashboard"):
            pass  # it does not sign the reader off
        with pytest.raises(HoldInUse, match="dashboard"):
            lake.upgrade(found[2], end_hold=True)
        assert reader.arrow().column_names == ["id", "x"]
    assert live_nodes(lake.env, pendulum.now("UTC")) == ()
    with pytest.raises(InvalidName):
        lake.env.writer("t", node="../x")


# --- writing Arrow -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(
        tmp_path,
        "CREATE TABLE t (id BIGINT NOT NULL, x INT, CONSTRAINT small CHECK (x IS NULL OR x < 100));",
        "CREATE TABLE t (id BIGINT NOT NULL, x INT, note STRING, CONSTRAINT small CHECK (x IS NULL OR x < 100));",
        'evolution("t")',
    )


def test_handles_what_is_appended_is_read_and_signed(lake: Lake) -> None:
    writer = lake.env.writer("t", "1.0.0", node="loader")
    written = writer.append(batch(x=[1, None], id=[1, 2]))
    lake.upgrade(lake.second)
    again = writer.append(batch(id=[3]).append_column("x", pa.nulls(1)))
    assert rows(lake, "1.0.0") == [{"id": 1, "x": 1}, {"id": 2, "x": None}, {"id": 3, "x": None}]
    assert rows(lake, "1.1.0", ["note", "id"])[0] == {"note": None, "id": 1}
    assert (written.version, again.version) == (1, 3)
    [commit] = commits(lake.env.table_store(lake.state.shard_of(CollectionName("t")).uri), 0, 1)
    said = json.loads(commit.info["userMetadata"])
    assert said.pop("attempt")
    assert said == {
        "node": "loader",
        "origin": lake.state.config.env_id,
        "release": "1.0.0",
        "schema_hash": fingerprint(lake.state.schemas[CollectionName("t"), SchemaId(1)].declared),
        "source": None,
    }


def test_rows_that_break_a_rule_are_refused(lake: Lake) -> None:
    writer = lake.env.writer("t")
    for broken, told in ((batch(id=[None], x=[1]), r"1 row\(s\) have NULL in id \(NOT NULL\)"), (batch(id=[1], x=[100]), "delta-rs")):
        with pytest.raises(ConstraintViolated, match=told):
            writer.append(broken)
    with pytest.raises(
        WriterFenced, match=r"column id is NOT NULL, and not among the columns of the rows\. Write rows that fit release 1\.0\.0"
    ):
        writer.append(batch(x=[1]))
    with pytest.raises(NotForArrow, match="merge"):
        writer.merge(batch(id=[1]), on=["id"])
    assert rows(lake) == []


def test_a_writer_is_sent_to_the_newer_release_only_where_that_takes_its_rows(lake: Lake) -> None:
    """A type that is wrong in both is wrong there, too; a column of the newer one is not."""
    lake.upgrade(lake.second)
    writer = lake.env.writer("t", "1.0.0")
    for rows_, told in (
        (pa.table({"id": ["text"]}), "Write rows that fit release 1.0.0."),
        (pa.table({"id": [1], "unknown": [1]}), "Write rows that fit release 1.0.0."),
        (pa.table({"id": [1], "note": ["x"]}), "Move this writer to release 1.1.0, or write rows that fit."),
    ):
        with pytest.raises(WriterFenced) as fenced:
            writer.append(rows_)
        assert fenced.value.next_action == told
    assert rows(lake) == []


def test_rows_without_columns_are_refused(lake: Lake) -> None:
    writer = lake.env.writer("t")
    for nothing in (pa.table({}), pa.table({"x": pa.nulls(3)})):
        with pytest.raises(UnusableColumns, match="append was called with rows that have no column of a type; nothing was written"):
            writer.append(nothing)
    for names, told in ((["id", "id"], "id"), (["id", "ID"], "id and ID"), (["\u0130", "i\u0307"], "\u0130 and i\u0307")):
        with pytest.raises(UnusableColumns, match=f"append was called with two columns {told}; nothing was written"):
            writer.append(pa.table([pa.array([1]), pa.array([2])], names=names))
    assert rows(lake) == []


def test_handles_refuse_in_words_a_frame_of_a_type_that_no_table_has_and_a_merge_on_a_map(tmp_path: Path) -> None:
    """Asked of the rows' schema alone: no Spark is there."""
    (release,) = releases(tmp_path, ("CREATE TABLE t (id BIGINT, x STRING, m MAP<STRING, INT>);", ""))
    writer = deployed(tmp_path, release, release).env.writer("t")

    def frame(**types: DataType) -> Any:
        return SimpleNamespace(schema=StructType([StructField(name, found) for name, found in types.items()]))

    with pytest.raises(UnusableColumns, match="a column x of type interval day, which no table has"):
        writer.append(frame(id=LongType(), x=DayTimeIntervalType(0, 0)))
    with pytest.raises(InvalidArgument, match=r"on cannot be m\. Give columns without a MAP"):
        writer.merge(frame(id=LongType(), m=MapType(StringType(), IntegerType())), on=["id", "m"])


@pytest.mark.parametrize(
    "rows", [[{"id": 1}], None, pa.RecordBatch.from_pylist([{"id": 1}]), {"id": [1]}], ids=["list", "None", "batch", "dict"]
)
def test_handles_refuse_in_words_what_is_no_table_of_rows(lake: Lake, rows: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        lake.env.writer("t").append(rows)
    assert "Arrow table" in refused.value.next_action


@pytest.mark.parametrize("argument", [{"collection": 3}, {"release": 1.0}, {"node": 3}], ids=str)
def test_handles_refuse_in_words_an_argument_of_another_kind(lake: Lake, argument: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{next(iter(argument))} cannot be a "):
        lake.env.writer(**{"collection": "t", **argument})


@pytest.mark.parametrize("txn", ["j", ("j",), ("j", "7"), (7, "j"), 7])
def test_handles_refuse_in_words_what_is_no_number_of_a_write(lake: Lake, txn: Any) -> None:
    with pytest.raises(InvalidArgument, match="txn"):
        lake.env.writer("t").append(batch(id=[1]), txn=txn)


@pytest.mark.parametrize("columns", ["id", [], [1], ["id", "ID"]])
def test_handles_refuse_in_words_what_is_no_list_of_columns(lake: Lake, columns: Any) -> None:
    with pytest.raises(InvalidArgument, match="columns"):
        lake.env.reader("t").arrow(columns=columns)
    with pytest.raises(InvalidArgument, match="spark"):
        lake.env.reader("t", spark=columns)


def test_a_number_is_written_once(lake: Lake) -> None:
    writer = lake.env.writer("t")
    done = [writer.append(batch(id=[number]), txn=("job", number)).skipped for number in (0, 0, 1, 1, 3, 2, 0)]
    assert done == [False, True, False, True, False, True, True]
    assert writer.append(batch(id=[9]), txn=("other job", 1)).version == 4
    assert [row["id"] for row in rows(lake)] == [0, 1, 3, 9]
    for name in ("", "\ud800", "schemamig:mine"):
        with pytest.raises(InvalidName):
            writer.append(batch(id=[1]), txn=(name, 1))
    for number in (-1, 2**63, True):
        with pytest.raises(InvalidName, match="from 0 up"):
            writer.append(batch(id=[1]), txn=("job", number))


@pytest.mark.parametrize("number", [0, 7])
def test_a_number_that_was_written_before_the_table_was_replaced_is_not_written_again(tmp_path: Path, number: int) -> None:
    """Not in the hold, and not when the old table is gone."""
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id BIGINT, x STRING);", 'replacement("t")')
    lake.env.writer("t").append(batch(id=[1]), txn=("job", number))
    old = lake.path("t")
    lake.upgrade(lake.second)
    writer = lake.env.writer("t")
    assert [writer.append(batch(id=[2]), txn=("job", again)).skipped for again in (number, number + 1)] == [True, False]
    with pytest.raises(WriterFenced, match="column id was created when the collection was rewritten, replaced or adopted anew"):
        lake.env.writer("t", "1.0.0").append(batch(id=[1]))
    commands.contract(lake.env, at_once=True)
    assert not old.exists()
    assert [writer.append(batch(id=[3]), txn=("job", again)).skipped for again in (number, number + 1, number + 2)] == [True, True, False]
    assert [row["id"] for row in rows(lake)] == [2, 3]


def test_a_number_of_rows_that_a_rollback_left_behind_is_written_again(tmp_path: Path) -> None:
    """Only what is in the table counts as written."""
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id BIGINT, x STRING);", 'replacement("t")')
    lake.env.writer("t").append(batch(id=[1]), txn=("job", 0))
    lake.upgrade(lake.second)
    lake.env.writer("t").append(batch(id=[2]), txn=("job", 1))
    commands.rollback(lake.env, jobs=no_spark, allow_lossy=True)
    writer = lake.env.writer("t")
    assert [writer.append(batch(id=[2]), txn=("job", number)).skipped for number in (0, 1)] == [True, False]
    assert [row["id"] for row in rows(lake)] == [1, 2]


def test_a_table_that_delta_rs_would_get_wrong_is_left_to_spark(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id BIGINT, y BIGINT);", 'evolution("t", rename={"x": "y"})')
    lake.upgrade(lake.second)
    with pytest.raises(NeedsSpark, match="the table has the features columnMapping, typeWidening"):
        lake.env.writer("t").append(batch(id=[1]))
    with pytest.raises(NeedsSpark, match="the table has the features typeWidening"):
        lake.env.reader("t").arrow()
    other = deployed(tmp_path / "other", *releases(tmp_path / "other", ("CREATE TABLE t (id BIGINT, x VARCHAR(3));", "")) * 2)
    with pytest.raises(NeedsSpark, match="nothing would check the length of x"):
        other.env.writer("t").append(batch(id=[1]))
    assert rows(other) == []


@pytest.mark.parametrize("is_due", [False, True], ids=["hold open", "hold over"])
def test_a_new_column_is_not_the_dropped_one_of_its_name_that_a_hold_keeps(tmp_path: Path, is_due: bool) -> None:
    """To be ended by the upgrade: until then the release has NULL there, and nobody writes to it."""
    folders = releases(tmp_path, (T, ""), ("CREATE TABLE t (id BIGINT);", 'evolution("t", drop=["x"])'), (T, 'evolution("t")'))
    lake = deployed(tmp_path, folders[0], folders[1])
    lake.env.writer("t", "1.0.0").append(batch(id=[1], x=[7]))
    lake.upgrade(folders[1])
    if is_due:
        make_holds_due(lake)
    claimed(lake, folders[2], end_hold=True)
    assert rows(lake, "1.2.0") == [{"id": 1, "x": None}]
    with pytest.raises(WriterFenced):
        lake.env.writer("t", "1.2.0").append(batch(id=[2], x=[8]))
    lake.upgrade(folders[2], end_hold=True)
    foreign.write(lake.path("t"), [{"id": 2, "x": 8}])
    assert rows(lake, "1.2.0") == [{"id": 1, "x": None}, {"id": 2, "x": 8}]
