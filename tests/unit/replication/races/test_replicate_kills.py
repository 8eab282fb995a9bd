"""Processes of one stream that die anywhere, live on, or run twice: every change is brought once, in order (docs/replicas.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake import Crash
from tests.support.replicas import EAGER, Replicas, make_replicas
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs

COLLECTIONS = ("lines", "trips")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Replicas:
    """Restored, and three commits behind, in both collections."""
    two = make_replicas(tmp_path_factory.mktemp("begun"))
    for collection, rows in (("trips", [{"id": n, "v": "x"} for n in range(4)]), ("lines", [{"line": "l", "n": 1}] * 3)):
        two.insert("a", *rows, collection=collection)
    two.bring("a", "b", *COLLECTIONS)
    write(two, 10)
    return two


def write(two: Replicas, number: int) -> None:
    two.insert("a", {"id": number, "v": "new"})
    two.change("a", lambda row: {**row, "v": str(number)} if row["id"] == 1 else None if row["id"] == 2 else row)
    two.insert("a", {"line": "l", "n": 1}, {"line": None, "n": number}, {"line": None, "n": 0}, collection="lines")
    two.change("a", lambda row: None if row["n"] == 0 else row, collection="lines")


def hooked(two: Replicas, hook: Callable[[str, str, str], None]) -> dict[str, Any]:
    return {"env": two.hooked("b", hook), "jobs": RowJobs({}, hook)}


def equal(two: Replicas) -> None:
    for collection in COLLECTIONS:
        assert two.rows("b", collection) == two.rows("a", collection), collection
        assert two.checkpoint("a", "b", collection) == tables.newest(two.path("a", collection))


def left(two: Replicas) -> list[Path]:
    """Of what was agreed on, and of scratch tables."""
    streams = (two.env("b").location.local_path or Path()) / "_schemamig" / "replicas" / "streams"
    return [path for path in streams.rglob("*") if path.is_file() and path.parent.parent != streams]


def moments(begun: Replicas, folder: Path) -> list[str]:
    seen: list[str] = []
    two = begun.copy(folder)
    two.bring("a", "b", *COLLECTIONS, **hooked(two, lambda moment, what, key: seen.append(f"{moment} {what} {key}")))
    equal(two)
    return seen


def dying_at(number: int) -> Callable[[str, str, str], None]:
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count > number:
            raise Crash(f"{moment} {what} {key}")

    return hook


def chosen(total: int, tries: int) -> list[int]:
    return [total * number // tries for number in range(tries)]


@pytest.mark.parametrize("tries", [0, pytest.param(20, marks=pytest.mark.soak)])
def test_killed_anywhere_and_run_again(begun: Replicas, tmp_path: Path, tries: int) -> None:
    """With more commits at the origin in between, so that the next process would have made another batch."""
    seen = moments(begun, tmp_path / "moments")
    spark = [number for number, text in enumerate(seen) if " spark " in text]
    claims = [number for number, text in enumerate(seen) if "put_if_absent" in text and "/streams/" in text]
    assert len(spark) == 4
    assert len(claims) == 4
    for number in sorted({*spark[:2], *claims[2:], *chosen(len(seen), tries)}):
        two = begun.copy(tmp_path / str(number))
        with pytest.raises(Crash):
            two.bring("a", "b", *COLLECTIONS, **hooked(two, dying_at(number)))
        write(two, 20)
        two.bring("a", "b", *COLLECTIONS)
        equal(two)
        assert left(two) == [], f"killed at {seen[number]}"


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.soak), "after"])
def test_a_driver_that_lives_on(begun: Replicas, tmp_path: Path, when: str) -> None:
    """Its process died; it commits before the next one does, or after it."""
    two = begun.copy(tmp_path / "lakes")
    jobs = RowJobs({}, leave_at=1)
    with pytest.raises(Crash):
        two.bring("a", "b", "lines", jobs=jobs)
    (zombie,) = jobs.zombies
    write(two, 20)
    if when == "before":
        zombie()
        two.bring("a", "b", *COLLECTIONS)
    else:
        two.bring("a", "b", *COLLECTIONS)
        with pytest.raises(Exception, match="concurrent"):
            zombie()
    equal(two)


@pytest.mark.parametrize("moment", [10, *(pytest.param(number, marks=pytest.mark.soak) for number in range(1, 40, 3) if number != 10)])
def test_replicate_kills_twins(begun: Replicas, tmp_path: Path, moment: int) -> None:
    """Another process does all of it, and more, at any moment of the first one's."""
    two = begun.copy(tmp_path / "lakes")
    count = 0

    def hook(when: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count == moment + 1:
            two.bring("a", "b", *COLLECTIONS)
            write(two, 20)
            two.bring("a", "b", *COLLECTIONS)

    found = two.bring("a", "b", *COLLECTIONS, **hooked(two, hook))
    assert not found.paused, found.paused
    assert not found.stopped
    two.bring("a", "b", *COLLECTIONS)
    equal(two)


def test_the_end_of_a_batch_is_agreed_on(begun: Replicas, tmp_path: Path) -> None:
    """A process stops between the claim and its statement while the origin goes on: a twin brings just what was agreed on, then more."""
    two = begun.copy(tmp_path / "lakes")

    def stop(job: str, request: Any) -> None:
        write(two, 20)
        two.bring("a", "b", "lines", settings=EAGER)

    before = tables.newest(two.path("a", "lines"))
    jobs = RowJobs({}, before=stop)
    two.bring("a", "b", "lines", jobs=jobs)
    assert [request["txn_version"] for request in two.runner.jobs("apply")][:1] == [before], "the twin's first batch is the agreed one"
    two.bring("a", "b", *COLLECTIONS)
    equal(two)
