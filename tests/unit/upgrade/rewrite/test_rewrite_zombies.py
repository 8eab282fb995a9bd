"""Drivers whose process died live on, and commit, or begin their statement, at any later moment.

The copy, the tail and the way back each take one transaction id a step, so whatever lands late finds it taken: in flight it is turned away,
begun late it is skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Crash
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import (
    COLLECTIONS,
    Rewritten,
    Work,
    acted_at,
    back,
    chosen,
    claimed,
    cutover,
    follow,
    jobs,
    moments,
    upgrade,
)


@pytest.fixture(params=["in flight", pytest.param("begun late", marks=pytest.mark.soak)])
def late(request: pytest.FixtureRequest) -> bool:
    """Whether the driver that lives on has yet to begin its statement."""
    return bool(request.param == "begun late")


#: What goes on while the driver lives.
Then = Callable[[Rewritten], Work]


def left_behind(found: Rewritten, work: Work, number: int, late: bool = False) -> Callable[[], None] | None:
    """Run ``work`` in a process that dies at its ``number``-th statement of Spark's that writes; None: it has fewer.

    What comes back lets the driver go on: with its commit, or (``late``) with the whole statement.
    """
    runner, queued = jobs(), list[Callable[[], object]]()
    statements = iter(range(1, 1000))

    def before(job: Any, request: Mapping[str, Any]) -> None:
        if job in ("fill", "apply") and next(statements) == number:
            queued.append(lambda: jobs().run(job, request))
            raise Crash("the process died, its driver has yet to begin")

    def hook(moment: str, what: str, key: str) -> None:
        if queued or runner.zombies:  # a dead process does not tidy up
            raise Crash(f"{moment} {what} {key}")

    if late:
        runner.before = before
    else:
        runner.leave_at = number
    try:
        work(replace(found.env, on_write=hook), runner)
    except Crash:
        (zombie,) = queued or runner.zombies

        def lands() -> None:
            with contextlib.suppress(SchemamigError):
                zombie()

        return lands
    return None


def zombies(
    start: Rewritten, folder: Path, first: Work, then: Callable[[Rewritten], Work], tries: int | None, number: int, late: bool
) -> int:
    """A driver left behind by ``first`` lands at the moments of ``then``, or after it."""
    counted = start.copy(folder / "count")
    if left_behind(counted, first, number, late) is None:
        return 0
    counted.write_all(6)
    count = len(moments(counted, then(counted)))
    for moment in [*chosen(count, tries), count]:
        found = start.copy(folder / str(moment))
        lands = left_behind(found, first, number, late)
        assert lands is not None
        found.write_all(6)
        error = acted_at(found, moment, then(found), lands)
        if error is not None:
            assert getattr(error, "retryable", False), (moment, error)
            then(found)(found.env, jobs())
        lands()
        try:
            found.check("1.1.0" if then is goes_on else "1.0.0")
            if then is goes_on:
                found.write_all(7)
                back(found.env, jobs())
            lands()
            found.check("1.0.0")
        except Exception as failure:
            raise AssertionError(f"landed at moment {moment} of {count}, ours: {error!r}") from failure
    return count


def goes_on(found: Rewritten) -> Work:
    return lambda env, runner: upgrade(found, env, runner)


def goes_back(found: Rewritten) -> Work:
    return back


@pytest.mark.parametrize("number", [2, *(pytest.param(number, marks=pytest.mark.soak) for number in (1, 4))])
def test_a_copy_lands_late(deployed: Rewritten, tmp_path: Path, tries: int | None, number: int, late: bool) -> None:
    def preflight(env: Environment, runner: RowJobs) -> object:
        return commands.preflight(env, deployed.lake.second, jobs=runner)

    assert zombies(deployed, tmp_path, preflight, goes_on, tries, number, late)


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_tail_lands_late(deployed: Rewritten, tmp_path: Path, tries: int | None, number: int, late: bool) -> None:
    start = deployed.copy(tmp_path / "start")
    claimed(start)
    start.write_all(1)
    assert zombies(start, tmp_path, follow, goes_on, tries, number, late)


def test_a_catch_up_lands_late(ready: Rewritten, tmp_path: Path, tries: int | None, late: bool) -> None:
    assert zombies(ready, tmp_path, cutover, goes_on, tries, 1, late)


@pytest.mark.some(8, of="histories at each moment")
def test_a_way_back_lands_late(upgraded: Rewritten, tmp_path: Path, tries: int | None, late: bool) -> None:
    assert zombies(upgraded, tmp_path, back, goes_back, tries, 1, late)
    assert zombies(upgraded, tmp_path / "second", back, goes_back, tries, 2, late)


def undone(found: Rewritten, collection: str, number: int) -> None:
    """What was inserted into a table goes again: seen over both, nothing changed."""
    if collection == "keyed":
        found.change("keyed", lambda row: None if row["id"] == 900 + number else row)
    else:
        found.change("plain", lambda row: None if row["line"] == f"x{number}" else row)


def done(found: Rewritten, collection: str, number: int) -> None:
    new = found.version == "1.1.0"
    if collection == "keyed":
        found.insert("keyed", [{"id": 900 + number, "v": None}])
    else:
        found.insert("plain", [{"line": f"x{number}", "n": None, **({"day": f"x{number}"} if new else {})}])


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_tail_of_what_was_undone_since_lands_after_the_commit(deployed: Rewritten, tmp_path: Path, collection: str) -> None:
    """Seen from where it began nothing is to be tailed any more, so nobody takes its transaction id by the way."""
    found = deployed.copy(tmp_path)
    claimed(found)
    done(found, collection, 1)
    lands = left_behind(found, follow, 1)
    assert lands is not None
    undone(found, collection, 1)
    upgrade(found, found.env, jobs())
    lands()
    found.check("1.1.0")
    found.check("1.1.0")
    found.write_all(4)
    back(found.env, jobs())
    found.check("1.0.0")


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_way_back_of_what_was_undone_since_lands_after_the_rollback(ready: Rewritten, tmp_path: Path, collection: str) -> None:
    found = ready.copy(tmp_path)
    cutover(found.env, jobs())
    done(found, collection, 1)
    lands = left_behind(found, back, 1)
    assert lands is not None
    upgrade(found, found.env, jobs())  # settles: the release stands, the old shard is sealed again
    undone(found, collection, 1)
    back(found.env, jobs())
    lands()
    found.check("1.0.0")
