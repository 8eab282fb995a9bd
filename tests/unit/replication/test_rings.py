"""Three environments that replicate to each other, and one whose table is restored from another's: rows of the third are there once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.restore.restore import restore
from tests.support.replicas import make_replicas
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import newest

pytestmark = pytest.mark.some(5, of="rings")

PAIRS = [(origin, target) for origin in "abc" for target in "abc" if origin != target]
TRIPS, LINES = CollectionName("trips"), CollectionName("lines")
ROW = {
    TRIPS: lambda number: {"id": number, "v": f"{number}"},
    LINES: lambda number: {"line": f"{number}", "n": number},
}


class Ring:
    """``collection``: with a key, or without one."""

    def __init__(self, folder: Path, collection: CollectionName) -> None:
        self.three, self.collection = make_replicas(folder, names="abc"), collection
        self.insert("a", 1)
        for origin, target in (("a", "b"), ("a", "c")):
            self.bring(origin, target)
        for origin, target in (("b", "a"), ("b", "c"), ("c", "b"), ("c", "a")):
            self.restore(origin, target)
        for number, name in enumerate("abc", 2):
            self.insert(name, number)
        self.settle()

    def insert(self, name: str, number: int) -> None:
        self.three.insert(name, ROW[self.collection](number), collection=self.collection)

    def bring(self, origin: str, target: str) -> None:
        assert self.three.state(origin, target, self.collection).error is None

    def restore(self, origin: str, target: str, *, allow_lossy: bool = False) -> None:
        ends = self.three.env(origin), self.three.env(target)
        restore(*ends, self.collection, allow_lossy=allow_lossy, jobs=lambda: self.three.runner)

    def settle(self) -> None:
        """Let all streams run until each has brought what the others have."""
        for origin, target in PAIRS * 3:
            self.bring(origin, target)

    def rows(self, name: str) -> list[int]:
        key = "id" if self.collection == TRIPS else "n"
        return sorted(row[key] for row in self.three.rows(name, self.collection))


@pytest.fixture(params=[TRIPS, LINES])
def ring(request: pytest.FixtureRequest, tmp_path: Path) -> Ring:
    return Ring(tmp_path, request.param)


@pytest.mark.parametrize("is_known_to_origin", [False, True])
def test_ring_rows_of_the_third_that_only_the_target_has_are_not_taken_away(ring: Ring, is_known_to_origin: bool) -> None:
    """Own commits of the target, which the origin has, come after them."""
    ring.insert("c", 100)
    ring.bring("c", "b")
    if is_known_to_origin:
        ring.insert("b", 200)
        ring.bring("b", "a")
    ring.insert("a", 5)
    with pytest.raises(RestoreWouldLose, match="rows of the environment"):
        ring.restore("a", "b")
    assert 100 in ring.rows("b")
    ring.bring("c", "a")  # as it says
    ring.restore("a", "b")
    ring.settle()
    assert ring.rows("a") == ring.rows("b") == ring.rows("c") == sorted([1, 2, 3, 4, 5, 100, *[200] * is_known_to_origin])


def test_ring_rows_of_the_third_that_are_taken_away_come_again(ring: Ring) -> None:
    for number in (100, 101):
        ring.insert("c", number)
        ring.bring("c", "b")
    ring.insert("a", 5)
    ring.restore("a", "b", allow_lossy=True)
    assert 100 not in ring.rows("b")
    ring.settle()
    assert ring.rows("a") == ring.rows("b") == ring.rows("c") == [1, 2, 3, 4, 5, 100, 101]


def test_ring_rows_of_the_third_that_come_along_do_not_come_twice(ring: Ring) -> None:
    ring.insert("c", 100)
    ring.bring("c", "a")
    ring.insert("a", 5)
    ring.restore("a", "b")
    ring.settle()
    assert ring.rows("a") == ring.rows("b") == ring.rows("c") == [1, 2, 3, 4, 5, 100]
    ring.insert("c", 101)
    ring.settle()
    assert ring.rows("b") == [1, 2, 3, 4, 5, 100, 101]


def test_ring_rows_of_the_third_that_the_origin_does_not_follow_are_not_taken_away(tmp_path: Path) -> None:
    three = make_replicas(tmp_path, names="abc")
    three.insert("c", {"id": 1, "v": "c"})
    three.bring("c", "b")
    three.insert("a", {"id": 2, "v": "a"})
    with pytest.raises(RestoreWouldLose, match="by a stream from there"):
        restore(three.env("a"), three.env("b"), TRIPS, jobs=lambda: three.runner)
    restore(three.env("a"), three.env("b"), TRIPS, allow_lossy=True, jobs=lambda: three.runner)
    assert [row["id"] for row in three.rows("b")] == [2]


def test_ring_a_third_whose_table_comes_back_from_a_copy_is_not_followed_after_a_restore(tmp_path: Path) -> None:
    """Its position came along with the copied rows, and so did the hash of the commit."""
    ring = Ring(tmp_path / "ring", TRIPS)
    table, kept = ring.three.path("c"), tmp_path / "kept"
    shutil.copytree(table, kept)
    ring.insert("c", 100)
    ring.bring("c", "a")
    ring.insert("a", 5)
    ring.restore("a", "b")
    shutil.rmtree(table)
    shutil.copytree(kept, table)
    ring.insert("c", 101)
    ring.insert("c", 102)
    for target in "ab":
        assert ring.three.state("c", target).error == "origin_replaced"
    assert 102 not in ring.rows("b")


def test_ring_commits_of_the_third_that_bring_nothing_refuse_no_restore(ring: Ring) -> None:
    """The target was restored from the third, so it stands at its newest commit; the origin has only looked at that."""
    ring.restore("a", "c", allow_lossy=True)
    ring.insert("b", 100)
    ring.bring("b", "c")
    ring.settle()
    ring.insert("b", 101)
    ring.bring("b", "c")
    ring.restore("c", "b", allow_lossy=True)
    ring.settle()
    ring.restore("a", "b")
    ring.settle()
    assert ring.rows("a") == ring.rows("b") == ring.rows("c")


def test_ring_a_restore_over_rows_of_the_third_that_were_given_up_once_is_not_refused_again(tmp_path: Path) -> None:
    three = make_replicas(tmp_path, names="abc")
    three.insert("c", {"id": 1, "v": "c"})
    three.bring("c", "b")
    for number in (2, 3):
        three.insert("a", {"id": number, "v": "a"})
        restore(three.env("a"), three.env("b"), TRIPS, allow_lossy=number == 2, jobs=lambda: three.runner)
    assert [row["id"] for row in three.rows("b")] == [2, 3]


@pytest.mark.parametrize("collection", [TRIPS, LINES])
@pytest.mark.parametrize("is_late", [False, True])
def test_pair_rows_of_the_target_that_the_copied_version_lacks_are_not_taken_away(
    tmp_path: Path, collection: CollectionName, is_late: bool
) -> None:
    """The origin got them after that version, be it while Spark copied: its later commits bring them nowhere else."""
    pair = Ring(tmp_path, collection)
    pair.insert("a", 5)
    version = newest(pair.three.path("a", collection))

    def more(job: str, _: Mapping[str, Any]) -> None:
        if job == "fill":
            pair.insert("b", 200)
            pair.bring("b", "a")

    jobs = pair.three.runner
    if is_late:
        jobs = replace(jobs, before=more)
    else:
        more("fill", {})
    ends = pair.three.env("a"), pair.three.env("b")
    with pytest.raises(RestoreWouldLose):
        restore(*ends, collection, version=None if is_late else version, jobs=lambda: jobs)
    assert 200 in pair.rows("b")


def test_ring_what_was_given_up_is_not_taken_for_there_by_a_third_environment(tmp_path: Path) -> None:
    """The stream whose rows a restore took away stops, and hands its position on to nobody."""
    four = make_replicas(tmp_path, names="abcd")
    four.insert("c", {"id": 1, "v": "c"})
    four.bring("c", "a")
    four.insert("b", {"id": 50, "v": "b"})
    restore(four.env("b"), four.env("a"), TRIPS, allow_lossy=True, jobs=lambda: four.runner)
    assert four.state("c", "a").error == "never_restored"
    four.bring("a", "d")
    four.insert("c", {"id": 3, "v": "c"})
    assert four.state("c", "d").error == "never_restored"


def test_ring_a_restore_comes_through_while_the_third_writes(tmp_path: Path) -> None:
    """What its stream brings while Spark copies is taken away, and comes again."""
    ring = Ring(tmp_path, TRIPS)
    numbers = iter(range(100, 110))

    def writes(job: str, _: Mapping[str, Any]) -> None:
        if job == "fill":
            ring.insert("c", next(numbers))
            ring.bring("c", "b")

    ring.insert("a", 5)
    ends = ring.three.env("a"), ring.three.env("b")
    restore(*ends, TRIPS, jobs=lambda: replace(ring.three.runner, before=writes))
    ring.settle()
    assert ring.rows("a") == ring.rows("b") == ring.rows("c")
    assert next(numbers) > 100


@pytest.mark.parametrize("is_level", [False, True])
def test_ring_a_table_that_the_third_has_left_counts_only_where_the_origin_is_behind(tmp_path: Path, is_level: bool) -> None:
    """The origin came later, and has never followed the table of before the rewrite."""
    up = "SELECT id, v, v AS w FROM {trips}"
    columns = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING%s, PRIMARY KEY (id));"
    releases = (columns % "", ""), (columns % ", w STRING", f'rewrite("trips", up="{up}", down="SELECT id, v FROM {{trips}}")')
    three = make_replicas(tmp_path, *releases, names="abc")
    three.runner = RowJobs({up: lambda row: [{**row, "w": row["v"]}]})
    three.insert("c", {"id": 1, "v": "c"})
    three.bring("c", "b")
    for name in "cba":
        three.upgrade(name, to=2)
    three.insert("c", {"id": 2, "v": "c"})
    three.bring("c", "b")
    three.bring("c", "a")
    if not is_level:
        three.insert("c", {"id": 3, "v": "c"})
        three.bring("c", "b")
    three.insert("a", {"id": 9, "v": "a"})
    ends = three.env("a"), three.env("b")
    if not is_level:
        with pytest.raises(RestoreWouldLose):
            restore(*ends, TRIPS, jobs=lambda: three.runner)
        three.bring("c", "a")
    restore(*ends, TRIPS, jobs=lambda: three.runner)
    assert three.state("c", "b").error is None
    assert three.rows("a") == three.rows("b")
