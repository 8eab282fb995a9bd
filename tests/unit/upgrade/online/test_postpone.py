"""The last step of an online change, postponed until somebody says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.transfer import throttle
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.context import controls
from tests.support.lake import Crash, Lake, rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert, snapshot
from tests.support.upgrades import refused, two_releases, whole

SWAP = ("CREATE TABLE a (id BIGINT, v STRING);", "CREATE TABLE a (id BIGINT, v INT);")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "_LOOK_SECONDS", 0.0)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, *SWAP, 'evolution("a")')
    insert(found.path("a"), [{"id": 1, "v": "7"}])
    return found


def expanded(lake: Lake) -> Generation:
    generation = commands.preflight(lake.env, lake.second, jobs=OnlineJobs()).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    return generation


def when_it_waits(act: Callable[[], object]) -> Callable[[Event], None]:
    """A listener that acts when the work says that it was postponed."""

    def listen(event: Event) -> None:
        if event.note.startswith("postponed"):
            act()

    return listen


def never() -> None:
    raise AssertionError("there is nothing to wait for")


def columns(lake: Lake) -> list[str]:
    return [field["name"] for field in snapshot(lake.path("a")).fields]


@pytest.mark.parametrize("scope", ["a", None])
def test_the_swap_waits_until_it_is_told(lake: Lake, scope: str | None) -> None:
    generation = expanded(lake)
    said = controls.postpone(lake.env, scope, by="ann", reason="after the run")
    assert (said.scope, said.last_step, said.paused, said.paused_by, said.reason) == (scope or "*", True, True, "ann", "after the run")

    def go_on() -> None:
        assert columns(lake) == ["id", "v", "schemamig_new_v"]
        (element,) = commands.status(lake.env).document["elements"]
        assert (element["state"], element["phase"]) == ("reorg", "last step")
        assert re.fullmatch(r"postponed by ann since .* until `schemamig resume`: after the run", element["waits"])
        insert(lake.path("a"), [{"id": 2, "v": "8", "schemamig_new_v": None}])
        controls.resume(lake.env, scope)

    commands.change(lake.env, generation, jobs=OnlineJobs(), listen=when_it_waits(never))
    commands.cutover(lake.env, generation, jobs=OnlineJobs(), listen=when_it_waits(go_on))
    assert not lake.state.controls
    assert rows(lake.path("a"), "id", "v") == [{"id": 1, "v": 7}, {"id": 2, "v": 8}]
    whole(lake)


def _die() -> None:
    raise Crash


def test_killed_while_it_waits_it_waits_again_and_can_go_back(lake: Lake) -> None:
    generation = expanded(lake)
    controls.postpone(lake.env, "a")
    commands.change(lake.env, generation, jobs=OnlineJobs())
    for _ in range(2):
        with pytest.raises(Crash):
            commands.cutover(lake.env, generation, jobs=OnlineJobs(), listen=when_it_waits(_die))
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert rows(lake.path("a"), "id", "v") == [{"id": 1, "v": "7"}]
    whole(lake)


def test_a_rollback_ends_the_waiting(lake: Lake) -> None:
    generation = expanded(lake)
    controls.postpone(lake.env, "a")
    commands.change(lake.env, generation, jobs=OnlineJobs())
    with pytest.raises(Fenced):
        commands.cutover(
            lake.env, generation, jobs=OnlineJobs(), listen=when_it_waits(lambda: commands.rollback(lake.env, jobs=OnlineJobs()))
        )
    whole(lake)


def test_postpone_what_was_swapped_is_swapped_back_before_it_waits(lake: Lake) -> None:
    """Killed between the swap and the ledger, and postponed since."""
    generation = expanded(lake)

    def dies_at_the_next_write(moment: str, what: str, key: str) -> None:
        if "schemamig_old_v" in columns(lake):
            raise Crash

    def go_on() -> None:
        assert columns(lake) == ["id", "v", "schemamig_new_v"]
        controls.resume(lake.env, None)

    commands.change(lake.env, generation, jobs=OnlineJobs())
    with pytest.raises(Crash):
        commands.cutover(replace(lake.env, on_write=dies_at_the_next_write), generation, jobs=OnlineJobs())
    assert {element.state.value for element in lake.state.elements.values()} == {"reorg"}
    assert columns(lake) == ["id", "v", "schemamig_old_v"]
    controls.postpone(lake.env, None)
    commands.cutover(lake.env, generation, jobs=OnlineJobs(), listen=when_it_waits(go_on))
    assert rows(lake.path("a"), "id", "v") == [{"id": 1, "v": 7}]


#: statement, how often it waits for its last step
STATEMENTS = [
    ("ALTER TABLE a ALTER COLUMN id SET NOT NULL", 1),
    ("ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7", 1),
    ("ALTER TABLE a ADD COLUMN n INT DEFAULT 7", 0),
    ("ALTER TABLE a ADD CONSTRAINT pos CHECK (id > 0)", 0),
    ("ALTER TABLE a ADD UNIQUE (id)", 0),
]


@pytest.mark.parametrize(("statement", "waits"), STATEMENTS)
def test_which_changes_have_a_last_step(lake: Lake, statement: str, waits: int) -> None:
    waited: list[None] = []

    def go_on() -> None:
        waited.append(None)
        controls.resume(lake.env, "a")

    controls.postpone(lake.env, "a")
    alter(lake.env, statement, jobs=OnlineJobs(), listen=when_it_waits(go_on))
    assert len(waited) == waits
    whole(lake)


def test_one_word_takes_it_all_back(lake: Lake) -> None:
    controls.throttle(lake.env, "a", max_files=3)
    controls.pause(lake.env, "a")
    controls.postpone(lake.env, "a")
    assert lake.state.controls["a"].paused, "a pause is somebody's brake: it stays"
    assert set(lake.state.controls) == {"a", "last_step/a"}
    controls.resume(lake.env, "a")
    assert dict(lake.state.controls) == {"a": Control("a", max_files=3)}
    with refused("unknown_collection", "nothing"):
        controls.postpone(lake.env, "nothing")


def test_postpone_is_of_one_collection(lake: Lake) -> None:
    controls.postpone(lake.env, "a")
    shown = commands.status(lake.env).document["controls"]
    assert [(item["collection"], item["last_step"], item["paused"]) for item in shown] == [("a", True, True)]
