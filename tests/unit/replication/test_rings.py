"""Three environments that replicate to each other, and one whose table is restored from another's: rows of the third are there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.restore.restore import restore
from tests.support.replicas import make_replicas

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
        for origin, target in (("b", "a"), ("c", "a"), ("c", "b"), ("b", "c")):
            self.restore(origin, target, allow_lossy=True)
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
