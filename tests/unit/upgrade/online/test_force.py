"""The swap of a change of type on a table whose writers never pause: made because somebody said so, while they wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.online.errors import BackfillStarved
from airflow_provider_schemamig.core.spark.errors import ConstraintViolated
from airflow_provider_schemamig.core.storage.errors import StorageUnreachable
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.context import controls
from tests.support.lake import Crash, Lake, rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import change, commit_at, insert, newest, set_property, snapshot
from tests.support.upgrades import refused, two_releases, whole

WIDE = ("CREATE TABLE a (id BIGINT, v STRING, n BIGINT);", "CREATE TABLE a (id BIGINT, v INT, n BIGINT);")
SWAP = ("CREATE TABLE a (id BIGINT, v STRING);", "CREATE TABLE a (id BIGINT, v INT);")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, *SWAP, 'evolution("a")')
    insert(found.path("a"), [{"id": 1, "v": "1"}])
    return found


@dataclass
class Busy:
    """A writer that gets a row in right after every fill, before anything can be made of it. ``waited``: it was refused by a seal."""

    lake: Lake
    written: list[int] = field(default_factory=lambda: [1])
    waited: int = 0
    #: At so many moments after the table was sealed the process dies, or the store does not answer once.
    fails_after: int | None = None
    dies: bool = True

    @property
    def env(self) -> Environment:
        return replace(self.lake.env, on_write=self)

    def __call__(self, moment: str, what: str, key: str) -> None:
        path = self.lake.path("a")
        if self.fails_after is not None and snapshot(path).sealed:
            if self.fails_after == 0:
                if self.dies:
                    raise Crash
                self.fails_after = None
                raise StorageUnreachable(uri=key, reason="no answer")
            self.fails_after -= 1
        if moment == "before" and key.startswith("_delta_log") and "backfill" in json.dumps(commit_at(path, newest(path))):
            self._write(path)

    def _write(self, path: Path) -> None:
        number = len(self.written) + 1
        used = "v" if snapshot(path).fields[1]["type"] == "string" else "schemamig_old_v"
        try:
            insert(path, [{"id": number, used: str(number)}])
        except ConstraintViolated:
            self.waited += 1
        else:
            self.written.append(number)


def values(lake: Lake) -> dict[int, object]:
    return {row["id"]: row["v"] for row in rows(lake.path("a"), "id", "v")}


def open_and_whole(lake: Lake) -> None:
    assert not snapshot(lake.path("a")).sealed
    assert snapshot(lake.path("a")).metadata["configuration"].get("delta.appendOnly") is None
    insert(lake.path("a"), [])  # a writer of others gets in
    whole(lake)


@pytest.mark.parametrize("force", [False, True])
def test_a_writer_waits_after_it_has_won_twice_with_force_after_once(lake: Lake, force: bool) -> None:
    busy = Busy(lake)
    if force:
        assert controls.force(lake.env, "a") == Control("a", last_step=True)
    commands.upgrade(busy.env, lake.second, jobs=OnlineJobs())
    assert (len(busy.written), busy.waited) == (2 if force else 3, 1), "a short seal, after the tries without"
    assert (lake.version, values(lake)) == ("1.1.0", {number: number for number in busy.written})
    assert not lake.state.controls, "it was said of one change"
    open_and_whole(lake)


def test_force_by_hand(lake: Lake) -> None:
    busy = Busy(lake)
    controls.force(lake.env, "a")
    alter(busy.env, "ALTER TABLE a ALTER COLUMN v TYPE INT", jobs=OnlineJobs())
    assert (busy.waited, values(lake), dict(lake.state.controls)) == (1, {1: 1, 2: 2}, {})
    open_and_whole(lake)


def finished(lake: Lake) -> None:
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert lake.version == "1.1.0"


def given_up(lake: Lake) -> None:
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert lake.version == "1.0.0"


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("then", [finished, given_up])
def test_killed_behind_the_seal(tmp_path: Path, then: Callable[[Lake], None], stride: int) -> None:
    """At every moment: before and after each write, of the table and of the ledger; in make test at some of them."""
    moment = 0
    while _fails(tmp_path / str(moment), moment, then, dies=True):
        moment += stride
    assert moment > 12, "a fill, the swap, the ledger, the lift"


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("then", [finished, given_up])
def test_a_store_that_does_not_answer_once_behind_the_seal(tmp_path: Path, then: Callable[[Lake], None], stride: int) -> None:
    moment = 0
    while _fails(tmp_path / str(moment), moment, then, dies=False):
        moment += stride
    assert moment > 12, "the write that lifts the seal is one of them"


def _fails(folder: Path, moment: int, then: Callable[[Lake], None], *, dies: bool) -> bool:
    lake = two_releases(folder, *SWAP, 'evolution("a")')
    insert(lake.path("a"), [{"id": 1, "v": "1"}])
    controls.force(lake.env, "a")
    busy = Busy(lake, fails_after=moment, dies=dies)
    try:
        commands.upgrade(busy.env, lake.second, jobs=OnlineJobs())
    except (Crash, StorageUnreachable):
        then(lake)
        failed = True
    else:
        failed = busy.fails_after is None
    wanted: dict[int, object] = {number: number if lake.version == "1.1.0" else str(number) for number in busy.written}
    assert values(lake) == wanted
    assert not snapshot(lake.path("a")).sealed
    assert not lake.state.controls, "what was said of one change is forgotten with it"
    open_and_whole(lake)
    return failed


@pytest.mark.parametrize("act", ["pin", "property"])
def test_a_seal_is_lifted_while_somebody_changes_the_table(lake: Lake, act: str) -> None:
    busy, acted = Busy(lake), list[str]()

    def hook(moment: str, what: str, key: str) -> None:
        busy(moment, what, key)
        path = lake.path("a")
        if moment == "before" and not acted and snapshot(path).sealed and snapshot(path).fields[1]["type"] == "integer":  # it is swapped
            acted.append(key)
            if act == "pin":
                commands.pin(lake.env, "a", "night", 1000)
            else:
                set_property(path, "delta.checkpointInterval", "20")

    commands.upgrade(replace(lake.env, on_write=hook), lake.second, jobs=OnlineJobs())
    assert acted and lake.version == "1.1.0"
    open_and_whole(lake)


def test_force_who_lifts_the_seal_of_a_twin_does_no_harm(lake: Lake) -> None:
    busy = Busy(lake)
    controls.force(lake.env, "a")
    twin = iter([True])

    def hook(moment: str, what: str, key: str) -> None:
        if moment == "before" and key.startswith("_delta_log") and snapshot(lake.path("a")).sealed and next(twin, False):
            generation = lake.state.leader
            assert generation is not None
            commands.change(lake.env, generation.generation, jobs=OnlineJobs())
        busy(moment, what, key)

    commands.upgrade(replace(lake.env, on_write=hook), lake.second, jobs=OnlineJobs())
    assert next(twin, None) is None, "the twin was there"
    assert (lake.version, values(lake)) == ("1.1.0", {number: number for number in busy.written})
    open_and_whole(lake)


@contextmanager
def known(lake: Lake) -> Iterator[None]:
    before = dict(lake.state.controls)
    yield
    assert dict(lake.state.controls) == before


def test_force_what_is_said(lake: Lake) -> None:
    with known(lake), refused("unknown_collection", "nothing"):
        controls.force(lake.env, "nothing")
    controls.postpone(lake.env, "a")
    controls.force(lake.env, "a")
    assert dict(lake.state.controls) == {"last_step/a": Control("a", last_step=True)}
    controls.resume(lake.env, "a")
    assert not lake.state.controls


@dataclass
class Restless:
    """A writer that changes every row as soon as it is filled. ``waited``: times it was refused by a seal."""

    lake: Lake
    changes: int = 0
    waited: int = 0
    #: The process dies when it has filled behind the seal.
    dies: bool = False
    _dead: bool = False

    def __call__(self, moment: str, what: str, key: str) -> None:
        if self._dead:
            raise Crash
        path = self.lake.path("a")
        if moment != "after" or not key.startswith("_delta_log") or "backfill" not in json.dumps(commit_at(path, newest(path))):
            return
        if self.dies and snapshot(path).sealed:
            self._dead = True
            raise Crash
        try:
            change(path, lambda row: {**row, "n": self.changes + 1})
        except ConstraintViolated:
            self.waited += 1
        else:
            self.changes += 1


@pytest.fixture
def restless(tmp_path: Path) -> Restless:
    lake = two_releases(tmp_path, *WIDE, 'evolution("a")')
    insert(lake.path("a"), [{"id": 1, "v": "1", "n": 0}])
    return Restless(lake)


def test_a_writer_that_makes_rows_due_as_fast_as_they_are_filled_waits_for_the_fill(restless: Restless) -> None:
    lake = restless.lake
    env = replace(lake.env, on_write=restless)
    with pytest.raises(BackfillStarved, match="schemamig force --collection a"):
        commands.upgrade(env, lake.second, jobs=OnlineJobs())
    assert (restless.changes, restless.waited) == (4, 0)
    controls.force(lake.env, "a")
    commands.upgrade(env, lake.second, jobs=OnlineJobs())
    assert (restless.changes, restless.waited) == (8, 1), "starved once more, and then one fill behind a seal"
    assert rows(lake.path("a"), "id", "v", "n") == [{"id": 1, "v": 1, "n": 8}]
    assert lake.version == "1.1.0"
    open_and_whole(lake)


@pytest.mark.parametrize("then", [finished, given_up])
def test_killed_behind_the_seal_of_a_fill(restless: Restless, then: Callable[[Lake], None]) -> None:
    lake = restless.lake
    controls.force(lake.env, "a")
    restless.dies = True
    with pytest.raises(Crash):
        commands.upgrade(replace(lake.env, on_write=restless), lake.second, jobs=OnlineJobs())
    assert snapshot(lake.path("a")).sealed
    then(lake)
    assert [row["n"] for row in rows(lake.path("a"), "n")] == [4]
    controls.resume(lake.env, "a")
    open_and_whole(lake)
