"""A table that was dropped and made anew in place, and one that goes by another id: the first is another table, the second is drift."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.runners import Job
from airflow_provider_schemamig.core.upgrade.adopt.adopt import adopt
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
from airflow_provider_schemamig.core.upgrade.tables.pins import pin, unpin
from airflow_provider_schemamig.core.upgrade.verify.verify import verify_environment
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.bytes import tree, unwritten
from tests.support.lake import Lake, append, no_spark
from tests.support.online import OnlineJobs
from tests.support.rows.tables import snapshot
from tests.support.tables import foreign
from tests.support.upgrades import expanded, make_holds_due, promoted, refused, seen, two_releases, whole
from tests.unit.ledger.samples import elsewhere
from tests.unit.upgrade.plan.test_cleaned_logs import clean

T = CollectionName("t")
ONE = "CREATE TABLE t (id BIGINT, a STRING, b INT NOT NULL); CREATE TABLE u (id BIGINT);"
TWO = "CREATE TABLE t (id BIGINT, a2 STRING, g STRING); CREATE TABLE u (id BIGINT);"
STEP = 'evolution("t", rename={"a": "a2"}, drop=["b"])'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, ONE, TWO, STEP)
    append(found.path("t"), [{"id": 1, "a": "x", "b": 1}])
    return found


def anew(lake: Lake) -> None:
    """With as many commits as were there, or more: the length of the log tells nothing."""
    foreign.make_anew(lake.path("t"), commits=9)


def ways(lake: Lake) -> list[tuple[str, bool]]:
    return [(way["way"], not way["why_not"]) for way in seen(lake, "t")["ways_on"]]


# --- another table -------------------------------------------------------------------------------------------------------------------


def test_another_table_is_drift_that_nobody_can_take_over_or_undo(lake: Lake) -> None:
    known = foreign.metadata(lake.path("t"))["id"]
    anew(lake)
    with unwritten(lake.env):
        (text,) = seen(lake, "t")["drift"]
        assert "table: " in text and known in text and "made in its place" in text and "ANOTHER" in text
        assert ways(lake) == [("unmanage", True)]
        with refused("drift", "t") as found:
            lake.upgrade(lake.second)
        assert "`schemamig unmanage --collection t`" in found[0].next_action
        assert "accept" not in found[0].next_action and "revert" not in found[0].next_action
        for undo in (lambda: accept(lake.env, lake.second, ["t"]), lambda: revert(lake.env, "t", allow_lossy=True)):
            with refused("another_table", "t"):
                undo()


def test_another_table_under_a_hold_is_told_to_be_restored_or_to_wait(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, ONE, ONE.replace("u (id BIGINT", "u (id BIGINT, n INT"), 'evolution("u")')
    lake.upgrade(lake.second)
    anew(lake)
    with unwritten(lake.env), refused("drift", "t") as found:
        lake.upgrade(lake.second)
    told = found[0].next_action
    assert "Restore the folder" in told and "does not go now: generation 2 can be rolled back until" in told
    assert "accept" not in told and "revert" not in told
    make_holds_due(lake)
    commands.contract(lake.env)
    unmanage(lake.env, "t")


def test_handles_stop_at_another_table(lake: Lake) -> None:
    anew(lake)
    row = pa.table({"id": pa.array([2], pa.int64()), "a": ["y"], "b": pa.array([2], pa.int32())})
    for use in (lake.env.reader("t").arrow, lambda: lake.env.writer("t").append(row)):
        with unwritten(lake.env), refused("another_table", "t"):
            use()
    assert lake.env.reader("u").arrow().num_rows == 0


def test_the_new_table_is_taken_by_giving_the_old_one_back(lake: Lake) -> None:
    anew(lake)
    path = lake.path("t")
    unmanage(lake.env, "t")
    adopt(lake.env, lake.first, [("t", str(path))], create=True)
    whole(lake)
    assert lake.state.shard_of(T).table_id == "ANOTHER"
    lake.upgrade(lake.second)
    whole(lake)


def test_other_tables_it_is_not_taken_for_managed_already(lake: Lake) -> None:
    anew(lake)
    with unwritten(lake.env), refused("another_table", "t"):
        adopt(lake.env, lake.first, [("t", str(lake.path("t")))])


def test_verify_says_so_and_asks_the_others(lake: Lake) -> None:
    anew(lake)
    found = {item["collection"]: item["reason"] for item in verify_environment(lake.env, jobs=no_spark).to_json()["unasked"]}
    assert "another one than the ledger knows" in found["t"]


def test_a_pin_goes_with_its_table(lake: Lake) -> None:
    pin(lake.env, "t", "ann", 2000)
    anew(lake)
    before = tree(lake.path("t"))
    unpin(lake.env, "t", "ann")
    assert tree(lake.path("t")) == before and not lake.state.pins


@pytest.mark.parametrize("begin", [promoted, expanded])
def test_during_an_upgrade_nothing_of_it_is_done_to_another_table(lake: Lake, begin: Callable[..., Any]) -> None:
    generation = begin(lake, lake.second)
    anew(lake)
    before = tree(lake.path("t"))
    for task in (commands.expand, commands.cutover):
        with pytest.raises(SchemamigError) as caught:
            task(lake.env, generation, jobs=no_spark)
        assert caught.value.code in ("another_table", "not_expanded", "wrong_state") and not caught.value.retryable
    outcome = commands.rollback(lake.env, jobs=no_spark)
    assert tree(lake.path("t")) == before
    assert lake.version == "1.0.0" and not list(lake.state.intents)
    assert begin is promoted or any("another table" in note for note in outcome.notes)
    assert ways(lake) == [("unmanage", True)]


#: A second release each, and the verb that makes a commit to t.
COMMITS = {
    "expand": (TWO, STEP, "upgrade"),
    "rename": (ONE.replace("a STRING", "a2 STRING"), 'evolution("t", rename={"a": "a2"})', "upgrade"),
    "contract": (ONE.replace(", b INT NOT NULL", ""), 'evolution("t", drop=["b"])', "contract"),
    "rollback": (ONE.replace("t (id", "t (n INT, id"), 'evolution("t")', "rollback"),
    "removal": ("CREATE TABLE u (id BIGINT);", 'removal("t")', "upgrade"),
    "unseal": ("CREATE TABLE u (id BIGINT);", 'removal("t")', "rollback"),
}


VERBS: Mapping[str, Callable[[Any, Path], Any]] = {
    "upgrade": lambda env, release: commands.upgrade(env, release, jobs=no_spark),
    "contract": lambda env, _: commands.contract(env, at_once=True),
    "rollback": lambda env, _: commands.rollback(env, jobs=no_spark),
}


@pytest.mark.parametrize("schema, step, verb", COMMITS.values(), ids=COMMITS)
def test_a_table_that_was_made_anew_after_the_look_at_it_gets_no_commit(tmp_path: Path, schema: str, step: str, verb: str) -> None:
    lake = two_releases(tmp_path, ONE, schema, step)
    path, made = lake.path("t"), list[dict[str, bytes]]()
    if verb != "upgrade":
        lake.upgrade(lake.second)

    def make_anew(moment: str, what: str, key: str) -> None:
        if moment == "before" and what == "put_if_absent" and key.startswith("_delta_log/") and not made:
            foreign.make_anew(path, commits=9)
            made.append(log_of(path))

    with pytest.raises(SchemamigError) as found:
        VERBS[verb](replace(elsewhere(lake.env), on_write=make_anew), lake.second)
    assert found.value.code in ("another_table", "metadata_moved")
    assert log_of(path) == made[0]


def log_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.joinpath("_delta_log").iterdir()}


def test_a_table_that_is_restored_from_a_backup_is_the_known_one(lake: Lake, tmp_path: Path) -> None:
    import shutil

    kept = tmp_path / "kept"
    shutil.copytree(lake.path("t"), kept)
    anew(lake)
    shutil.rmtree(lake.path("t"))
    shutil.copytree(kept, lake.path("t"))
    lake.upgrade(lake.second)
    whole(lake)


def test_the_end_of_a_hold_leaves_another_table_alone(lake: Lake) -> None:
    lake.upgrade(lake.second)
    anew(lake)
    make_holds_due(lake)
    before = tree(lake.path("t"))
    outcome = commands.contract(lake.env)
    assert tree(lake.path("t")) == before
    assert [hold.state.value for hold in lake.state.holds.values()] == ["closed"]
    assert any("another table" in note for note in outcome.notes)
    unmanage(lake.env, "t")
    whole(lake)


def test_a_retired_table_that_was_made_anew_is_not_deleted(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE t (id BIGINT)", "CREATE TABLE t (id STRING)", 'replacement("t")')
    old = lake.path("t")
    lake.upgrade(lake.second)
    foreign.make_anew(old)
    make_holds_due(lake)
    before = tree(old)
    outcome = commands.contract(lake.env)
    assert tree(old) == before and any("another table" in note for note in outcome.notes)


# --- another id ----------------------------------------------------------------------------------------------------------------------


def test_another_id_in_the_same_log_is_drift_with_a_text_of_its_own(lake: Lake) -> None:
    known = foreign.metadata(lake.path("t"))["id"]
    foreign.give_id(lake.path("t"), "NEW")
    (text,) = seen(lake, "t")["drift"]
    assert text.startswith(f"table id: expected {known}, found NEW") and "CREATE OR REPLACE" in text
    assert ways(lake) == [("accept", True), ("revert", True), ("unmanage", True)]
    with refused("drift", "t"):
        lake.upgrade(lake.second)
    # No version has another meaning: who reads and writes goes on.
    assert lake.env.reader("t").arrow().num_rows == 1


def test_accept_takes_another_id_over_without_a_release(lake: Lake) -> None:
    foreign.give_id(lake.path("t"), "NEW")
    folder, table = tree(lake.first), tree(lake.path("t"))
    for _ in range(2):
        done = accept(lake.env, lake.first)
    assert tree(lake.first) == folder and tree(lake.path("t")) == table
    assert done.version is None and lake.state.shard_of(T).table_id == "NEW" and not lake.state.unreleased
    whole(lake)
    lake.upgrade(lake.second)
    whole(lake)
    commands.rollback(lake.env, jobs=no_spark)
    whole(lake)


def test_revert_gives_the_id_back(lake: Lake) -> None:
    known = foreign.metadata(lake.path("t"))["id"]
    foreign.give_id(lake.path("t"), "NEW")
    done = revert(lake.env, "t")
    assert (done.changes, done.losses) == ((), ()) and any(known in note for note in done.notes)
    assert foreign.metadata(lake.path("t"))["id"] == known
    assert revert(lake.env, "t").table_version is None
    whole(lake)


def test_another_id_and_other_columns_are_one_drift(lake: Lake) -> None:
    foreign.give_id(lake.path("t"), "NEW")
    foreign.add_column(lake.path("t"), "c")
    assert [text.partition(":")[0] for text in seen(lake, "t")["drift"]] == ["table id", "c"]
    assert accept(lake.env, lake.first).version is not None
    whole(lake)


@pytest.mark.parametrize(
    ("schema", "step"), [("CREATE TABLE k (id BIGINT)", 'removal("t")'), (None, 'replacement("t")'), (None, 'evolution("t")')]
)
def test_nothing_goes_back_to_a_table_that_was_deleted(tmp_path: Path, schema: str | None, step: str) -> None:
    """The release's own table would be given up for nothing, with the rows in it."""
    both = "CREATE TABLE k (id BIGINT); CREATE TABLE t (id BIGINT{})"
    lake = two_releases(tmp_path, both.format(""), schema or both.format(", n INT"), step)
    before = lake.path("t")
    lake.upgrade(lake.second)
    shutil.rmtree(before)
    with unwritten(lake.env), refused("old_table_missing", "t") as errors:
        commands.rollback(lake.env, allow_lossy=True, jobs=no_spark)
    assert str(before) in errors[0].message
    assert lake.version == "1.1.0"


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize(
    ("schema", "step"),
    [
        ("CREATE TABLE k (id BIGINT)", 'removal("t")'),
        (None, 'replacement("t")'),
        (None, 'rewrite("t", up="SELECT id, 5 AS n FROM {t}", down="SELECT id FROM {t}")'),
    ],
)
def test_a_rollback_leads_to_no_copy_of_before_the_seal(tmp_path: Path, schema: str | None, step: str, is_written: bool) -> None:
    """It lacks the rows that came before the seal, be it written on since; a copy of after it is as good as the table."""
    both = "CREATE TABLE k (id BIGINT); CREATE TABLE t (id BIGINT{})"
    lake = two_releases(tmp_path, both.format(""), schema or both.format(", n INT"), step)
    before = lake.path("t")
    append(before, [{"id": 1}])
    shutil.copytree(before, tmp_path / "early")
    append(before, [{"id": 2}])
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    shutil.copytree(before, tmp_path / "late")

    def brought_back(copy: str) -> None:
        shutil.rmtree(before)
        shutil.copytree(tmp_path / copy, before)

    brought_back("early")
    for number in range(6 * is_written):
        append(before, [{"id": number}])
    with unwritten(lake.env), refused("old_table_missing", "t") as errors:
        commands.rollback(lake.env, allow_lossy=True, jobs=OnlineJobs())
    assert "is a copy of before the release" in errors[0].message
    brought_back("late")
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert sorted(row["id"] for row in snapshot(lake.path("t")).rows) == [1, 2]
    whole(lake)


@pytest.mark.parametrize("versions", [0, 1, 4, 12])
def test_a_batch_is_not_committed_into_a_table_that_was_made_while_spark_worked(tmp_path: Path, versions: int) -> None:
    """On top of what it had looked at it would be a gap in the new table's log, or bring it rows of the old one."""
    lake = two_releases(tmp_path, "CREATE TABLE t (id BIGINT)", "CREATE TABLE t (id BIGINT, c INT DEFAULT 5)", 'evolution("t")')
    path = lake.path("t")
    for number in range(3):
        append(path, [{"id": number}])
    left: list[dict[str, bytes]] = []

    class Jobs(OnlineJobs):
        def run(self, job: Job, request: Mapping[str, Any]) -> Any:
            result = super().run(job, request)
            if job == "fill" and not left:
                for entry in path.iterdir():
                    if not entry.name.startswith("schemamig"):
                        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                for number in range(versions):
                    write_deltalake(str(path), pa.table({"id": pa.array([1000 + number], pa.int64())}), mode="append")
                left.append(log(path))
            return result

    with pytest.raises(SchemamigError) as caught:
        commands.upgrade(lake.env, lake.second, jobs=Jobs)
    refusals = caught.value.refusals if isinstance(caught.value, Refused) else (caught.value,)
    assert {refusal.code for refusal in refusals} <= {"another_table", "table_missing", "shard_missing"}
    assert [log(path)] == left


def test_a_batch_is_not_committed_below_a_checkpoint(tmp_path: Path) -> None:
    """Others wrote and the log was cleaned while Spark worked: there is a free place for it that nobody reads."""
    lake = two_releases(tmp_path, "CREATE TABLE t (id BIGINT)", "CREATE TABLE t (id BIGINT, c INT DEFAULT 5)", 'evolution("t")')
    path = lake.path("t")
    append(path, [{"id": 1}])
    left: list[dict[str, bytes]] = []

    class Jobs(OnlineJobs):
        def run(self, job: Job, request: Mapping[str, Any]) -> Any:
            result = super().run(job, request)
            if job == "fill" and not left:
                for number in (2, 3, 4):
                    foreign.write(path, [{"id": number}])
                clean(path)
                left.append(log(path))
            return result

    with pytest.raises(SchemamigError):
        commands.upgrade(lake.env, lake.second, jobs=Jobs)
    assert min(log(path)) == min(left[0]), "nothing is below the checkpoint"
    commands.rollback(lake.env, jobs=OnlineJobs)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs)
    whole(lake)
    assert {row["id"]: row["c"] for row in lake.env.reader("t").arrow().to_pylist()} == dict.fromkeys((1, 2, 3, 4), 5)


def log(path: Path) -> dict[str, bytes]:
    return {found.name: found.read_bytes() for found in sorted((path / "_delta_log").glob("*"))}
