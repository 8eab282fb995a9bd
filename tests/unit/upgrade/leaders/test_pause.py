"""A pause holds an upgrade: nothing is promoted, sealed, changed or committed after it; writers never wait for it, nor does a way back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import Control, Deployment, EnvironmentRelease, HoldState, Intent, IntentKind, Leader
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.spark.runners import Job
from airflow_provider_schemamig.core.transfer import throttle
from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.upgrade.context import controls
from tests.support.lake import Crash, Lake
from tests.support.online import OnlineJobs
from tests.support.rows import rewritten
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import SECOND, Rewritten, acted_at, cutover, die, expanded, jobs, make_rewritten, moments
from tests.support.rows.tables import insert, snapshot
from tests.support.upgrades import deployed, refused, releases, two_releases, whole

TRIES = 5


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "_LOOK_SECONDS", 0.0)


@pytest.fixture(scope="module", name="rewriting")
def _rewriting(tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    return make_rewritten(tmp_path_factory.mktemp("deployed"))


@pytest.fixture
def found(rewriting: Rewritten, tmp_path: Path) -> Rewritten:
    return rewriting.copy(tmp_path)


def elsewhere(env: Environment) -> Environment:
    """For those who wait by themselves, as Airflow's tasks do."""
    return replace(env, waits=False)


# --- what happens after a pause ------------------------------------------------------------------------------------------------------

#: Rows that no append may bring after a pause.
HELD: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    EnvironmentRelease.COLLECTION: lambda row: "fingerprint" in row,
    Leader.COLLECTION: lambda row: True,
    Deployment.COLLECTION: lambda row: row["state"] != "claimed",
    Intent.COLLECTION: lambda row: row.get("done_version") is None and not (row["kind"] == "seal" and row.get("is_given_up")),
}


@dataclass(frozen=True)
class Said:
    """The ledger since the pause. ``was_cut_over``: the cut-over's own commits had been announced before it."""

    after: tuple[str, ...]
    was_cut_over: bool


def since_pause(env: Environment) -> Said:
    rows = [(row.ts, row.collection, json.loads(row.value)) for row in LedgerReader(env).rows() if row.diff > 0]
    paused = max(ts for ts, collection, row in rows if collection == Control.COLLECTION and row.get("paused"))
    held = [f"{collection} {row}" for ts, collection, row in rows if ts > paused and collection in HELD and HELD[collection](row)]
    cut_over = any(ts < paused and row.get("kind") == IntentKind.CUTOVER.value for ts, collection, row in rows)
    return Said(tuple(held), cut_over)


def open_to_writers(found: Rewritten) -> None:
    found.check_seals()


def run(found: Rewritten) -> rewritten.Work:
    return lambda env, runner: rewritten.upgrade(found, elsewhere(env), runner, claim_id="one")


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize(("scope", "tries"), [(None, 6), pytest.param("keyed", None, marks=pytest.mark.soak)])
def test_paused_at_any_moment_nothing_goes_on(rewriting: Rewritten, tmp_path: Path, scope: str | None, tries: int | None) -> None:
    """But for what was being committed; resumed, it goes on to the end with every row."""
    count = len(moments(rewriting.copy(tmp_path / "count"), run(rewriting)))
    seen = set()
    for at in rewritten.chosen(count, tries):
        found = rewriting.copy(tmp_path / str(at))
        error = acted_at(found, at, run(found), lambda found=found: controls.pause(found.env, scope))  # type: ignore[misc]
        said = since_pause(found.env)
        assert not said.after or said.was_cut_over, (at, said.after)
        assert isinstance(error, Paused) or found.version == "1.1.0", (at, error)
        seen.add(type(error).__name__)
        open_to_writers(found)
        found.write_all(1)
        controls.resume(found.env, scope)
        run(found)(found.env, jobs())
        found.check("1.1.0")
    assert "Paused" in seen


def renaming(tmp_path: Path) -> Lake:
    return two_releases(
        tmp_path,
        "CREATE TABLE a (id BIGINT, v STRING);\nCREATE TABLE b (id BIGINT);",
        "CREATE TABLE a (id BIGINT, w STRING);\nCREATE TABLE b (id BIGINT, more INT);",
        'evolution("a", rename={"v": "w"}), evolution("b")',
    )


def retyping(folder: Path) -> Lake:
    lake = two_releases(folder, "CREATE TABLE a (id BIGINT, v STRING);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    insert(lake.path("a"), [{"id": 1, "v": "7"}])
    return lake


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("tries", [4, pytest.param(None, marks=pytest.mark.soak)])
def test_paused_at_any_moment_no_columns_are_left_swapped(tmp_path: Path, tries: int | None) -> None:
    """The table is as its release says, for handles and for others, or the upgrade went on to its commit."""

    def upgrade(lake: Lake, hook: Callable[[str, str, str], None]) -> None:
        commands.upgrade(elsewhere(replace(lake.env, on_write=hook)), lake.second, claim_id="one", jobs=OnlineJobs())

    seen: list[str] = []
    upgrade(retyping(tmp_path / "count"), lambda moment, what, key: seen.append(key))
    paused = 0
    for at in rewritten.chosen(len(seen), tries):
        lake, count = retyping(tmp_path / str(at)), [0]

        def hook(moment: str, what: str, key: str, lake: Lake = lake, count: list[int] = count, at: int = at) -> None:
            count[0] += 1
            if count[0] == at + 1:
                controls.pause(lake.env, "a")

        try:
            upgrade(lake, hook)
        except Paused:
            paused += 1
            assert lake.version == "1.0.0"
            assert [row["v"] for row in snapshot(lake.path("a")).rows] == ["7"], at
        controls.resume(lake.env, "a")
        upgrade(lake, lambda moment, what, key: None)
        assert [row["v"] for row in snapshot(lake.path("a")).rows] == [7], at
        whole(lake)
    assert paused


def claimed(lake: Lake) -> Generation:
    generation = commands.preflight(lake.env, lake.second, jobs=OnlineJobs()).generation
    assert generation is not None
    return generation


def test_a_rename_that_was_announced_goes_on_to_the_commit(tmp_path: Path) -> None:
    """Neither release's foreign readers are left with a table between the two."""
    lake = renaming(tmp_path)
    paused: list[str] = []

    def hook(moment: str, what: str, key: str) -> None:
        intents = LedgerReader(lake.env).state().intents.values() if moment == "after" and not paused else ()
        if any(intent.kind is IntentKind.CUTOVER for intent in intents):
            paused.append(key)
            controls.pause(lake.env, None)

    commands.upgrade(elsewhere(replace(lake.env, on_write=hook)), lake.second, jobs=OnlineJobs())
    assert paused
    assert lake.version == "1.1.0"
    whole(lake)


def test_pause_what_the_plan_is_not_about_does_not_hold_it(tmp_path: Path) -> None:
    lake = two_releases(
        tmp_path,
        "CREATE TABLE a (id BIGINT);\nCREATE TABLE b (id BIGINT);",
        "CREATE TABLE a (id BIGINT, v INT);\nCREATE TABLE b (id BIGINT);",
        'evolution("a")',
    )
    controls.pause(lake.env, "b")
    controls.throttle(lake.env, None, max_files=1, window=(5, 5 + 1))
    commands.upgrade(elsewhere(lake.env), lake.second, jobs=OnlineJobs())
    assert lake.version == "1.1.0"


TASKS: dict[str, Callable[..., object]] = {
    "promote": commands.promote,
    "expand": commands.expand,
    "cutover": commands.cutover,
}


@pytest.mark.parametrize("scope", ["a", None])
def test_each_task_says_that_it_waits_and_goes_on_when_it_is_resumed(tmp_path: Path, scope: str | None) -> None:
    lake = renaming(tmp_path)
    generation = claimed(lake)
    for name, task in TASKS.items():
        controls.pause(lake.env, scope, by="ann", reason="the disk is full")
        before = LedgerReader(lake.env).state().version
        with refused("paused") as caught:
            task(elsewhere(lake.env), generation)
        assert caught[0].retryable
        assert re.search(rf"{name} waits: paused by ann since 20\d\d-\d\d-\d\d \d\d:\d\d UTC: the disk is full\.", str(caught[0]))
        assert LedgerReader(lake.env).state().version == before, f"{name} wrote"
        assert not any(entry.outcome == "failed" for entry in read_history(lake.env))
        heard: list[Event] = []

        def resume(event: Event, heard: list[Event] = heard) -> None:
            if event.note.startswith("paused"):
                heard.append(event)
                controls.resume(lake.env, scope)

        getattr(commands, name)(lake.env, generation, listen=resume)
        assert len(heard) == 1
    assert lake.version == "1.1.0"


def test_a_paused_task_ends_when_its_generation_does(tmp_path: Path) -> None:
    lake = renaming(tmp_path)
    generation = claimed(lake)
    controls.pause(lake.env, None)

    def when_it_waits(act: Callable[[], object]) -> Callable[[Event], None]:
        def listen(event: Event) -> None:
            if event.note.startswith("paused"):
                act()

        return listen

    with refused("wrong_state"):
        commands.promote(lake.env, generation, listen=when_it_waits(lambda: commands.cancel(lake.env, generation)))
    controls.resume(lake.env, None)
    generation = claimed(lake)
    commands.promote(lake.env, generation)
    controls.pause(lake.env, None)
    with refused("wrong_state"):
        commands.expand(lake.env, generation, listen=when_it_waits(lambda: commands.rollback(lake.env)))
    whole(lake)


@pytest.mark.parametrize("scope", ["a", None])
def test_a_pause_keeps_the_way_back_open(tmp_path: Path, scope: str | None) -> None:
    """Neither contract nor the next upgrade takes away what is hidden."""
    first, second, third = releases(
        tmp_path,
        ("CREATE TABLE a (id BIGINT, v STRING);", ""),
        ("CREATE TABLE a (id BIGINT);", 'evolution("a", drop=["v"])'),
        ("CREATE TABLE a (id BIGINT, n INT);", 'evolution("a")'),
    )
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    controls.pause(lake.env, scope)
    with refused("paused"):
        commands.contract(elsewhere(lake.env), at_once=True)
    assert [hold.state for hold in lake.state.holds.values()] == [HoldState.OPEN]
    commands.rollback(elsewhere(lake.env))
    controls.resume(lake.env, scope)
    lake.upgrade(second)
    controls.pause(lake.env, scope)
    with refused("paused"):
        commands.contract(elsewhere(lake.env), at_once=True)
    assert "v" in {field["name"] for field in snapshot(lake.path("a")).fields}
    controls.resume(lake.env, scope)
    commands.contract(lake.env, at_once=True)
    assert "v" not in {field["name"] for field in snapshot(lake.path("a")).fields}
    lake.upgrade(third)
    whole(lake)


# --- seals ---------------------------------------------------------------------------------------------------------------------------


def test_pause_what_a_killed_run_had_sealed_is_open_while_its_rerun_is_paused(rewriting: Rewritten, tmp_path: Path) -> None:
    held = 0
    count = len(moments(_expanded(rewriting, tmp_path / "count"), cutover))
    for at in rewritten.chosen(count, TRIES):
        found = _expanded(rewriting, tmp_path / str(at))
        assert die(found, at, cutover)
        controls.pause(found.env, None)
        try:
            commands.cutover(elsewhere(found.env), SECOND, jobs=jobs())
        except Paused:
            held += 1
        open_to_writers(found)
        controls.resume(found.env, None)
        commands.cutover(found.env, SECOND, jobs=jobs())
        found.check("1.1.0")
    assert held


def _expanded(rewriting: Rewritten, folder: Path) -> Rewritten:
    found = rewriting.copy(folder)
    assert expanded(found) == SECOND
    return found


# --- the way back --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [False, True])
def test_a_pause_never_holds_a_rollback(tmp_path: Path, committed: bool) -> None:
    """Not even of a change of type, whose values go back batch by batch."""
    lake = retyping(tmp_path)
    generation = claimed(lake)
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=OnlineJobs())
    if committed:
        commands.cutover(lake.env, generation)
        insert(lake.path("a"), [{"id": 2, "v": 8}])
    controls.pause(lake.env, None)
    controls.throttle(lake.env, "a", window=(0, 1) if throttle.is_open((12, 24), pendulum.now("UTC")) else (12, 13))
    commands.rollback(elsewhere(lake.env), jobs=OnlineJobs())
    assert [row["v"] for row in snapshot(lake.path("a")).rows] == (["7", "8"] if committed else ["7"])
    whole(lake)


def test_a_pause_never_holds_the_rollback_of_a_rewrite(found: Rewritten) -> None:
    rewritten.upgrade(found, found.env, jobs())
    found.write_all(1)
    controls.pause(found.env, None)
    commands.rollback(elsewhere(found.env), jobs=jobs())
    found.check("1.0.0")


# --- fills ---------------------------------------------------------------------------------------------------------------------------


def test_a_fill_waits_too(tmp_path: Path) -> None:
    lake = two_releases(
        tmp_path,
        "CREATE TABLE a (id BIGINT);",
        "CREATE TABLE a (id STRING);",
        'replacement("a", fill="SELECT CAST(id AS STRING) AS id FROM {a}")',
    )
    controls.pause(lake.env, "a")
    asked: list[str] = []

    class Asked(RowJobs):
        def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
            asked.append(job)
            return super().run(job, request)

    with refused("paused", "a"):
        commands.preflight(elsewhere(lake.env), lake.second, jobs=Asked({}))
    assert "fill" not in asked
    with pytest.raises(Crash):
        commands.preflight(lake.env, lake.second, jobs=Asked({}), listen=_dies_paused)


def _dies_paused(event: Event) -> None:
    if event.stage == "fill" and event.note.startswith("paused"):
        raise Crash


def test_a_pause_of_a_name_that_a_rollback_took_is_taken_back(tmp_path: Path) -> None:
    """It would hold the next upgrade to that name for ever."""
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE b (id BIGINT);", 'evolution("b", renamed_from="a")')
    lake.upgrade(lake.second)
    controls.pause(lake.env, "b", by="somebody")
    commands.rollback(lake.env)
    with refused("paused"):
        commands.upgrade(replace(lake.env, waits=False), lake.second, jobs=OnlineJobs())
    controls.resume(lake.env, "b")
    lake.upgrade(lake.second)
    assert (lake.version, lake.state.controls) == ("1.1.0", {})
    whole(lake)
