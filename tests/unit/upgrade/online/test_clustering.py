"""CLUSTER BY on live tables: what is committed, what is left to whom, conflicts, and somebody else's CLUSTER BY."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.metadata.clustering import clustering_domain
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster
from airflow_provider_schemamig.core.ledger.rows import Control, TransitionIntent
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from airflow_provider_schemamig.core.upgrade.tables import batches
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, no_spark, rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import alter as alter_table
from tests.support.rows.tables import change, folder_of, insert, put, snapshot
from tests.support.tables import foreign
from tests.support.upgrades import refused, two_releases, whole

A = CollectionName("a")
PLAIN = "CREATE TABLE a (id BIGINT, u INT);"
BY_U = "CREATE TABLE a (id BIGINT, u INT) CLUSTER BY (u);"
BY_ID = "CREATE TABLE a (id BIGINT, u INT) CLUSTER BY (id);"


def lake_of(folder: Path, before: str = PLAIN, after: str = BY_U) -> Lake:
    """Two files, each out of order."""
    lake = two_releases(folder, before, after, 'evolution("a")')
    for n in (0, 1):
        insert(lake.path("a"), [{"id": 10 * n + k, "u": 7 * k % 4} for k in range(4)])
    return lake


def expanded(lake: Lake, jobs: OnlineJobs) -> Generation:
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    return generation


def on_cluster(work: Callable[[], object]) -> Callable[[str, Mapping[str, Any]], None]:
    """Do ``work`` once, when Spark lays out a batch."""
    done: list[object] = []

    def hook(job: str, request: Mapping[str, Any]) -> None:
        if job == "cluster" and not done:
            done.append(work())

    return hook


def clustered_by(lake: Lake) -> tuple[str, ...]:
    return read_head(lake.env.table_store(str(lake.path("a")))).declaration(A).clustered_by


def cluster_by_hand(path: Path, *columns: str) -> None:
    """ALTER TABLE ... CLUSTER BY by somebody else, on a table that has the features."""
    now = snapshot(path)
    domain = clustering_domain([[column] for column in columns])
    put(path, now.version, [{"commitInfo": {"operation": "CLUSTER BY"}}, {"domainMetadata": domain}])


def test_older_files_are_laid_out_and_newer_ones_left_alone(tmp_path: Path) -> None:
    lake, jobs = lake_of(tmp_path), OnlineJobs()
    before, wanted = snapshot(lake.path("a")), rows(lake.path("a"))
    generation = expanded(lake, jobs)
    jobs.before = on_cluster(lambda: insert(lake.path("a"), [{"id": 99, "u": 0}]))

    outcome = commands.change(lake.env, generation, jobs=jobs)

    assert [stage.kind for stage in outcome.stages] == ["change", "cluster"]
    store = lake.env.table_store(str(lake.path("a")))
    made = list(commits(store, before.version))
    assert [commit.info["operation"] for commit in made] == ["SCHEMAMIG CHANGE", "WRITE", "SCHEMAMIG CLUSTER"]
    entered, _, moved = made
    assert (entered.metadata, entered.clustering is None, entered.protocol is None) == (None, False, False)
    assert {remove["path"] for remove in moved.removes} == set(before.files)
    assert not any(action["dataChange"] for action in (*moved.removes, *moved.adds))
    assert [add["clusteringProvider"] for add in moved.adds] == ["liquid"]
    (file,) = moved.adds
    laid_out = [row["u"] for row in snapshot(lake.path("a")).rows_of(file["path"])]
    assert laid_out == sorted(laid_out)
    assert rows(lake.path("a")) == sorted([*wanted, {"id": 99, "u": 0}], key=repr)

    (element,) = lake.state.elements.values()
    assert (element.name, element.state, element.columns) == ("clustering", ElementState.PUBLIC, ("u",))
    assert (element.table_version, element.checked_version) == (entered.version, moved.version)
    commands.cutover(lake.env, generation)
    assert not list(lake.path("a").glob("schemamig-cluster-*/_delta_log"))
    whole(lake)


def test_batches_as_large_as_was_said(tmp_path: Path) -> None:
    lake, jobs = lake_of(tmp_path), OnlineJobs()
    LedgerWriter(lake.env).transact(lambda state: [Put(Control("a", max_files=1))])
    outcome = commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert [stage.kind for stage in outcome.stages].count("cluster") == 2
    assert len(jobs.jobs("cluster")) == 2


def test_a_writer_wins_and_the_rest_is_done_in_smaller_batches(tmp_path: Path) -> None:
    """Its file is new from then on."""
    lake, jobs = lake_of(tmp_path), OnlineJobs()
    jobs.after = on_cluster(lambda: change(lake.path("a"), lambda row: None if row["id"] == 0 else row))
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert len(jobs.jobs("cluster")) == 2
    assert [row["id"] for row in rows(lake.path("a"))] == sorted([1, 2, 3, 10, 11, 12, 13], key=str)
    assert len(snapshot(lake.path("a")).files) == 2
    assert not list(lake.path("a").glob(f"{Path(jobs.jobs('cluster')[0]['table_uri']).name}/*")), "what lost the race is gone"
    whole(lake)


def test_a_writer_that_always_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task fails as one that can be tried again, and goes on then."""
    monkeypatch.setattr(batches, "_TRIES", 1)
    lake, jobs = lake_of(tmp_path), OnlineJobs()
    generation = expanded(lake, jobs)
    jobs.after = on_cluster(lambda: change(lake.path("a"), lambda row: None if row["id"] == 0 else row))
    with refused("files_moved", "a") as found:
        commands.change(lake.env, generation, jobs=jobs)
    assert found[0].retryable
    assert {element.state for element in lake.state.elements.values()} == {ElementState.REORG}
    commands.change(lake.env, generation, jobs=jobs)
    commands.cutover(lake.env, generation)
    whole(lake)


class LazyJobs(OnlineJobs):
    """Spark finds nothing to do."""

    def _cluster(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"rows": len(snapshot(folder_of(request["table_uri"])).rows), "seconds": 0.0}


def test_files_that_spark_left_as_they_are(tmp_path: Path) -> None:
    """They are listed by absolute paths in the batch's table: none of them may be taken for a new one."""
    lake, jobs = lake_of(tmp_path), LazyJobs()
    wanted, generation = rows(lake.path("a")), expanded(lake, jobs)
    with refused("files_differ", "a"):
        commands.change(lake.env, generation, jobs=jobs)
    assert (rows(lake.path("a")), clustered_by(lake)) == (wanted, ())
    assert not list(lake.path("a").glob("schemamig-cluster-*"))


@pytest.mark.parametrize("way", ["on", "back", "another"])
def test_dies_between_announcing_the_way_back_and_going_it(tmp_path: Path, way: str) -> None:
    """The schema is the same before and after that commit: by its clustering alone the table tells where it is."""
    lake = lake_of(tmp_path)
    generation = expanded(lake, OnlineJobs())
    version = snapshot(lake.path("a")).version

    def die(moment: str, what: str, key: str) -> None:
        if moment == "before" and key.endswith(f"_delta_log/{version + 2:020}.json"):
            raise Crash(key)

    with pytest.raises(Crash):
        commands.change(replace(lake.env, on_write=die), generation, jobs=LazyJobs())
    assert clustered_by(lake) == ("u",)
    (intent,) = lake.state.intents.values()
    assert isinstance(intent, TransitionIntent)
    assert (intent.after, intent.reached) == (intent.before, replace(intent.after, clustered_by=("u",)))

    if way == "on":
        commands.change(lake.env, generation, jobs=OnlineJobs())
        commands.cutover(lake.env, generation)
        assert clustered_by(lake) == ("u",)
    elif way == "back":
        commands.rollback(lake.env, jobs=OnlineJobs())
        assert clustered_by(lake) == ()
    else:
        commands.preflight(lake.env, lake.second, claim_id="another", jobs=OnlineJobs())
        commands.promote(lake.env, Generation(generation + 1))
        commands.expand(lake.env, Generation(generation + 1))
        assert clustered_by(lake) == ()
        commands.rollback(lake.env, jobs=OnlineJobs())
    whole(lake)


# --- somebody else's clustering ------------------------------------------------------------------------------------------------------


def test_somebody_changes_it_meanwhile(tmp_path: Path) -> None:
    """Ours ends, and theirs stays."""
    lake, jobs = lake_of(tmp_path), OnlineJobs()
    generation = expanded(lake, jobs)
    jobs.after = on_cluster(lambda: cluster_by_hand(lake.path("a"), "id"))
    with pytest.raises(CannotCluster, match="somebody changed the clustering"):  # and nothing else: the way back leaves it alone
        commands.change(lake.env, generation, jobs=jobs)
    assert {element.state for element in lake.state.elements.values()} == {ElementState.ABSENT}
    assert clustered_by(lake) == ("id",)
    commands.rollback(lake.env, jobs=jobs)
    assert clustered_by(lake) == ("id",)
    whole(lake)


@pytest.mark.parametrize("after", [BY_ID, PLAIN], ids=["by others", "by none"])
def test_a_table_that_is_clustered_otherwise_than_we_know(tmp_path: Path, after: str) -> None:
    lake = lake_of(tmp_path, BY_U, after)
    cluster_by_hand(lake.path("a"), "u", "id")
    assert commands.status(lake.env).drifted == ()
    with unwritten(lake.env), refused("not_applicable", "a") as found:
        commands.preflight(lake.env, lake.second, jobs=no_spark)
    assert "clustered by u, id" in found[0].message


def test_clustering_is_no_drift_and_no_reason_to_stop(tmp_path: Path) -> None:
    """Also where the release changes something else, and goes back."""
    lake = two_releases(tmp_path, BY_U, BY_U.replace("u INT)", "u INT, x INT)"), 'evolution("a")')
    cluster_by_hand(lake.path("a"), "id")
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    assert clustered_by(lake) == ("id",)
    whole(lake)


# --- both ways -----------------------------------------------------------------------------------------------------------------------


def test_a_rule_that_a_row_breaks_takes_clustering_back_with_it(tmp_path: Path) -> None:
    """UNIQUE is validated before anything is laid out, so nothing was."""
    lake = lake_of(tmp_path, after="CREATE TABLE a (id BIGINT, u INT, UNIQUE (id)) CLUSTER BY (u);")
    jobs = OnlineJobs()
    generation = expanded(lake, jobs)
    insert(lake.path("a"), [{"id": 1, "u": 0}])
    with pytest.raises(DataViolation):
        commands.change(lake.env, generation, jobs=jobs)
    assert (clustered_by(lake), jobs.jobs("cluster")) == ((), [])
    assert {element.state for element in lake.state.elements.values()} == {ElementState.ABSENT}
    change(lake.path("a"), lambda row: None if row == {"id": 1, "u": 0} else row)
    commands.change(lake.env, generation, jobs=jobs)
    commands.cutover(lake.env, generation)
    assert clustered_by(lake) == ("u",)
    whole(lake)


def test_taken_away_without_spark_and_put_back(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, BY_U, PLAIN)
    outcome = lake.upgrade(lake.second)
    assert [stage.kind for stage in outcome.stages] == ["expand", "commit"]
    assert clustered_by(lake) == ()
    commands.rollback(lake.env)
    assert clustered_by(lake) == ("u",)
    whole(lake)


def test_clustering_by_hand(tmp_path: Path) -> None:
    lake, jobs = lake_of(tmp_path), OnlineJobs()
    alter(lake.env, "ALTER TABLE a CLUSTER BY (u, id)", jobs=jobs)
    assert (clustered_by(lake), len(jobs.jobs("cluster"))) == (("u", "id"), 1)
    unreleased = lake.state.unreleased_of(A)
    assert unreleased is not None
    assert unreleased.declared.clustered_by == ("u", "id")
    alter(lake.env, "ALTER TABLE a CLUSTER BY NONE", jobs=no_spark)
    assert clustered_by(lake) == ()
    whole(lake)


def test_a_renamed_clustering_column(tmp_path: Path) -> None:
    """It is the same column, so nothing is laid out anew."""
    lake = two_releases(tmp_path, BY_U, BY_U.replace("u", "v"), 'evolution("a", rename={"u": "v"})')
    lake.upgrade(lake.second)
    assert clustered_by(lake) == ("v",)
    commands.rollback(lake.env)
    assert clustered_by(lake) == ("u",)
    whole(lake)


@pytest.mark.parametrize("after", ["(id BIGINT)", "(id BIGINT) CLUSTER BY (id)"])
def test_a_column_that_goes_with_its_clustering(tmp_path: Path, after: str) -> None:
    lake = two_releases(tmp_path, BY_U, f"CREATE TABLE a {after};", 'evolution("a", drop=["u"])')
    insert(lake.path("a"), [{"id": 1, "u": 2}])
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    commands.rollback(lake.env)
    assert clustered_by(lake) == ("u",)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs(), hold=timedelta(0))
    assert clustered_by(lake) == (("id",) if "CLUSTER" in after else ())
    assert rows(lake.path("a")) == [{"id": 1}]
    whole(lake)


# --- what the plan says --------------------------------------------------------------------------------------------------------------


def test_a_table_whose_rows_have_ids(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    now = snapshot(lake.path("a"))
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata", "invariants", "rowTracking"]}
    put(lake.path("a"), now.version, [{"commitInfo": {"operation": "ALTER"}}, {"protocol": protocol}])
    with unwritten(lake.env), refused("cannot_cluster", "a") as found:
        commands.preflight(lake.env, lake.second, jobs=no_spark)
    assert "rowTracking" in found[0].message


def test_columns_without_statistics(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    alter_table(lake.path("a"), configuration={"delta.dataSkippingNumIndexedCols": "1"})
    with unwritten(lake.env), refused("cannot_cluster", "a") as found:
        commands.preflight(lake.env, lake.second, jobs=no_spark)
    assert "by u: Delta keeps no minimum and maximum" in found[0].message


def test_whom_it_breaks(tmp_path: Path) -> None:
    lake, jobs = lake_of(tmp_path), OnlineJobs()
    found = {item.kind: item for item in commands.plan(lake.env, lake.second).explained}["change"]
    assert [text for text in found.breaks if "delta-rs" in text and "PARTITIONED BY" in text]
    assert not [text for text in found.breaks if "abort" in text], "no Spark writer is"
    assert [text for text in found.irreversible if "clustering is switched on" in text]
    assert "clustering ABSENT > DELETE > WRITE > REORG > PUBLIC" in found.lines[0]
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    foreign.write(lake.path("a"), [{"id": 7, "u": 7}])
    commands.rollback(lake.env)
    again = {item.kind: item for item in commands.plan(lake.env, lake.second).explained}["change"]
    assert (again.breaks, again.irreversible) == ((), ()), "it has the features"
