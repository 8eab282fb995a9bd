"""A collection gets another name with a release that changes its columns, too: what came right before it is brought all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.cluster.registry import lineages
from airflow_provider_schemamig.core.replication.stream.lineage import lineage_of
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from tests.support.replicas import Replicas, make_replicas
from tests.unit.replication.test_rows_taken_away import with_jobs

TABLE = "CREATE TABLE {} (id BIGINT NOT NULL, {} PRIMARY KEY (id));\n"
#: The columns afterwards, and the rest of the step.
CHANGES = {
    "a column renamed": ("q STRING, w STRING,", ', rename={"v": "q"}'),
    "a column dropped": ("w STRING,", ', drop=["v"]'),
    "a column made NOT NULL": ("v STRING NOT NULL, w STRING,", ""),
}


def scene(folder: Path, change: str) -> Replicas:
    columns, step = CHANGES[change]
    second = (TABLE.format("trips", columns), f'evolution("trips", renamed_from="rides"{step})')
    return with_jobs(make_replicas(folder, (TABLE.format("rides", "v STRING, w STRING,"), ""), second))


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("change", CHANGES)
def test_events_from_before_a_collection_got_its_name_are_brought(tmp_path: Path, change: str, order: str) -> None:
    envs = scene(tmp_path, change)
    envs.insert("a", {"id": 1, "v": "x", "w": "y"}, collection="rides")
    assert envs.state("a", "b", "rides").pause is None
    envs.insert("a", {"id": 2, "v": "before the release", "w": "z"}, collection="rides")
    for name in order:
        envs.upgrade(name, to=2)
    assert envs.state("a", "b").pause is None
    assert envs.declared_rows("b") == envs.declared_rows("a")
    envs.rollback("b")
    assert envs.state("a", "b").pause is not None, "the target has no such collection any more"
    envs.upgrade("b", to=2)
    assert envs.state("a", "b").pause is None


SWAPPED = 'evolution("trips", rename={"v": "w", "w": "v"})'
REWRITTEN = 'rewrite("trips", up="SELECT id, concat(\'E\', v) AS v, w FROM {trips}", down="SELECT id, substr(v, 2) AS v, w FROM {trips}")'
MORE = "CREATE TABLE others (a INT);\n"


def jumps(folder: Path, step: str, ahead: str, columns: str = "v STRING, w STRING,") -> Replicas:
    """1.1.0 gives the collection its name, 1.2.0 is ``step``; ``ahead`` goes there at once, the other one stays at 1.1.0."""
    first, second = (TABLE.format(name, "v STRING, w STRING,") for name in ("rides", "trips"))
    third = TABLE.format("trips", columns)
    named = 'evolution("trips", renamed_from="rides")'
    envs = with_jobs(make_replicas(folder, (first, ""), (second, named), (third + MORE, step)))
    envs.insert("a", {"id": 1, "v": "v1", "w": "w1"}, collection="rides")
    assert envs.state("a", "b", "rides").pause is None
    for name in "ab":
        envs.upgrade(name, to=3 if name == ahead else 2)
    envs.insert("a", {"id": 2, "v": "v2", "w": "w2"})
    return envs


def test_columns_that_the_target_exchanged_since_the_new_name_are_known(tmp_path: Path) -> None:
    envs = jumps(tmp_path, SWAPPED, "b")
    assert envs.state("a", "b").pause is None
    envs.upgrade("a", to=3)
    assert envs.state("a", "b").pause is None
    assert envs.declared_rows("b") == envs.declared_rows("a")


def test_columns_that_the_origin_exchanged_since_the_new_name_wait_for_the_target(tmp_path: Path) -> None:
    envs = jumps(tmp_path, SWAPPED, "a")
    pause = envs.state("a", "b").pause
    assert pause is not None and "v is another column in the target; w is another column in the target" in pause.detail
    envs.upgrade("b", to=3)
    assert envs.state("a", "b").pause is None
    assert envs.declared_rows("b") == envs.declared_rows("a")


def test_rows_of_before_a_rewrite_wait_though_the_collection_was_called_otherwise(tmp_path: Path) -> None:
    envs = jumps(tmp_path, REWRITTEN, "b", "v STRING NOT NULL, w STRING,")
    pause = envs.state("a", "b").pause
    assert pause is not None and "may be another column in the target" in pause.detail
    assert len(envs.rows("b")) == 1


#: What the release after a rewrite makes of its table: another name for it, or another column.
LATER = {
    "another name": ("rides", "", 'evolution("rides", renamed_from="trips")'),
    "another column": ("trips", " n INT,", 'evolution("trips")'),
}


@pytest.mark.parametrize("jumps", "ab")
@pytest.mark.parametrize("name, column, step", LATER.values(), ids=LATER)
def test_a_rewrite_and_the_release_after_it_are_followed_also_where_one_end_makes_both_at_once(
    tmp_path: Path, name: str, column: str, step: str, jumps: str
) -> None:
    required = "v STRING NOT NULL, w STRING,"
    rewritten = 'rewrite("trips", up="SELECT id, v, w FROM {trips}", down="SELECT id, v, w FROM {trips}")'
    second, third = (TABLE.format("trips", required), rewritten), (TABLE.format(name, required + column), step)
    envs = with_jobs(make_replicas(tmp_path, (TABLE.format("trips", "v STRING, w STRING,"), ""), second, third))
    envs.insert("a", {"id": 1, "v": "v1", "w": "w1"})
    assert envs.state("a", "b").pause is None
    for env in "ab":
        for release in (3,) if env == jumps else (2, 3):
            envs.upgrade(env, to=release, end_hold=False)
            collection = name if env == "a" and release == 3 else "trips"
            if env == "a":
                envs.insert("a", {"id": release, "v": "v", "w": "w"}, collection=collection)
            envs.state("a", "b", collection)
    assert envs.state("a", "b", name).pause is None
    assert envs.declared_rows("b", name) == envs.declared_rows("a", name)


def test_a_collection_of_the_old_name_is_another_one(tmp_path: Path) -> None:
    """Its columns are none of those that the name had before."""
    first = (TABLE.format("rides", "v STRING, w STRING,"), "")
    second = (TABLE.format("trips", "v STRING, w STRING,"), 'evolution("trips", renamed_from="rides")')
    third = (second[0] + TABLE.format("rides", "v STRING, w STRING,"), "")
    envs = with_jobs(make_replicas(tmp_path, first, second, third))
    for name in "ab":
        envs.upgrade(name, to=2)
        envs.upgrade(name, to=3)
    envs.insert("a", {"id": 1, "v": "v1", "w": "w1"}, collection="rides")
    envs.insert("a", {"id": 2, "v": "v2", "w": "w2"}, collection="trips")
    for collection in ("rides", "trips"):
        assert envs.state("a", "b", collection).pause is None
        assert envs.declared_rows("b", collection) == envs.declared_rows("a", collection)
    state = LedgerReader(envs.env("a")).state()
    assert [entry.key for entry in lineage_of(state, CollectionName("trips")).entries] == ["rides/1", "trips/1"]
    assert len(lineage_of(state, CollectionName("rides")).entries) == 2


def test_a_collection_of_the_old_name_stays_one_when_the_renamed_one_goes(tmp_path: Path) -> None:
    """One end makes all releases, the other leaps over the one that made it."""
    columns = "v STRING, w STRING,"
    first, second = (TABLE.format("rides", columns), ""), (TABLE.format("trips", columns), 'evolution("trips", renamed_from="rides")')
    third = (TABLE.format("trips", columns + " x INT,") + TABLE.format("rides", columns), 'evolution("trips")')
    envs = with_jobs(make_replicas(tmp_path, first, second, third, (TABLE.format("rides", columns), 'removal("trips")')))
    for number in (2, 3, 4):
        envs.upgrade("a", to=number)
    for number in (2, 4):
        envs.upgrade("b", to=number)
    envs.insert("a", {"id": 1, "v": "v1", "w": "w1"}, collection="rides")
    assert envs.state("a", "b", "rides").pause is None
    assert envs.declared_rows("b", "rides") == envs.declared_rows("a", "rides")


def test_the_schema_under_the_new_name_is_the_newest_though_its_table_got_no_commit(tmp_path: Path) -> None:
    """Its drop comes with the end of the hold; the exchange before it was the table's last commit."""
    both, one = "v STRING, w STRING,", "v STRING,"
    exchanged = (TABLE.format("rides", both), 'evolution("rides", rename={"v": "w", "w": "v"})')
    named = (TABLE.format("trips", one), 'evolution("trips", renamed_from="rides", drop=["w"])')
    envs = with_jobs(make_replicas(tmp_path, (TABLE.format("rides", both), ""), exchanged, named, (named[0] + MORE, "")))
    envs.insert("a", {"id": 1, "v": "v1", "w": "w1"}, collection="rides")
    assert envs.state("a", "b", "rides").pause is None
    for number in (2, 3, 4):
        envs.upgrade("a", "b", to=number, end_hold=number == 4)
    state = LedgerReader(envs.env("a")).state()
    assert [entry.key for entry in state.schemas_of(state.objects[CollectionName("trips")].shard)] == ["rides/1", "rides/2", "trips/1"]
    envs.insert("a", {"id": 2, "v": "v2"})
    assert envs.state("a", "b").pause is None
    assert envs.declared_rows("b") == envs.declared_rows("a")


def test_a_collection_tells_others_the_schemas_that_it_had_under_its_old_name(tmp_path: Path) -> None:
    envs = scene(tmp_path, "a column renamed")
    before = fingerprint(LedgerReader(envs.env("a")).state().entry(CollectionName("rides")).declared)
    envs.upgrade("a", to=2)
    assert list(lineages(LedgerReader(envs.env("a")).state())[CollectionName("trips")])[1:] == [before]
