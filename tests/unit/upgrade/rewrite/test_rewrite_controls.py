"""What people tell running work: pause, resume, throttle; and the copy that hears it."""

from __future__ import annotations

import functools
import getpass
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.transfer import throttle
from airflow_provider_schemamig.core.upgrade.context import controls
from tests.support.rows.rewritten import Rewritten, claimed, jobs, make_rewritten, upgrade
from tests.support.upgrades import refused


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    found = make_rewritten(tmp_path_factory.mktemp("deployed"))
    controls.throttle(found.env, None)
    return found


@pytest.fixture
def found(deployed: Rewritten, tmp_path: Path) -> Rewritten:
    return deployed.copy(tmp_path)


def test_pause_and_resume_leave_limits_alone(found: Rewritten) -> None:
    controls.throttle(found.env, "keyed", max_files=3, window=(22, 6))
    paused = controls.pause(found.env, "keyed", by="ann", reason="too  many\n\x1b[31mlocks ")
    assert paused.paused_at is not None
    said: dict[str, Any] = {"paused": True, "paused_by": "ann", "paused_at": paused.paused_at, "reason": "too many [31mlocks"}
    assert paused == Control("keyed", max_files=3, window=(22, 6), **said)
    assert controls.throttle(found.env, "keyed", rows_per_second=9) == Control("keyed", rows_per_second=9, **said)
    again = controls.pause(found.env, "keyed")
    assert (again.paused_by, again.paused_at, again.reason) == ("ann", paused.paused_at, paused.reason), (
        "who says nothing takes nothing back"
    )
    other = controls.pause(found.env, "keyed", reason="locks")
    assert (other.paused_by, other.paused_at, other.reason) == (getpass.getuser(), paused.paused_at, "locks")
    assert controls.resume(found.env, "keyed") == Control("keyed", rows_per_second=9)
    assert controls.throttle(found.env, "keyed") == Control("keyed")
    assert not found.state.controls, "what says nothing is no row"
    told = [(entry.what, entry.collection, entry.who, entry.detail) for entry in read_history(found.env)][-7:-1]
    assert told[1] == ("pause", "keyed", "ann", "too many [31mlocks")
    assert [what for what, *_ in told] == ["throttle", "pause", "throttle", "pause", "pause", "resume"]


def test_rewrite_controls_of_all(found: Rewritten) -> None:
    controls.pause(found.env, None)
    assert set(found.state.controls) == {"*"}
    controls.resume(found.env, None)
    assert not found.state.controls


@pytest.mark.parametrize(
    "limits",
    [
        {"rows_per_second": 0},
        {"max_files": -1},
        {"commits_per_minute": 0},
        {"window": (5, 5)},
        {"window": (-1, 5)},
        {"window": (5, 25)},
        {"window": (24, 24)},
        {"window": (24, 0)},
    ],
)
def test_limits_that_no_work_could_keep(found: Rewritten, limits: dict[str, Any]) -> None:
    with refused("bad_throttle", "keyed"):
        controls.throttle(found.env, "keyed", **limits)
    assert not found.state.controls


def test_rewrite_controls_unknown_collection(found: Rewritten) -> None:
    for act in (controls.pause, controls.resume, controls.throttle):
        with refused("unknown_collection", "nothing"):
            act(found.env, "nothing")
    assert not found.state.controls


def test_max_files_makes_batches(found: Rewritten) -> None:
    runner = jobs()
    claimed(found, runner)
    assert len(runner.jobs("fill")) == 2, "one batch each: there are few files"
    controls.throttle(found.env, "keyed", max_files=1)
    slow = jobs()
    upgrade(found, found.env, slow, claim_id="slow")
    assert len(slow.jobs("fill")) == 3
    found.check("1.1.0")


def test_limits_may_change_between_the_batches_of_one_copy(found: Rewritten) -> None:
    """Batches are found again by where they begin, so it does not matter how long they are."""
    for number in range(5, 11):
        found.insert("keyed", [{"id": number, "v": None}])
    limits = iter([2, 1, 3, 1, 2, 5])
    runner = jobs()

    def before(job: str, request: Mapping[str, Any]) -> None:
        if job == "fill":
            controls.throttle(found.env, None, max_files=next(limits, 4))

    runner.before = before
    upgrade(found, found.env, runner)
    found.check("1.1.0")


def test_a_paused_copy_ends_when_it_is_cancelled(found: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel(seconds: float) -> None:
        commands.cancel(found.env, Generation(2))

    monkeypatch.setattr(throttle.Pace, "__init__", functools.partialmethod(throttle.Pace.__init__, sleep=cancel))
    controls.pause(found.env, "keyed")
    with refused("wrong_state", "keyed"):
        claimed(found)
    controls.resume(found.env, "keyed")
    found.check("1.0.0")
    found.check_clean()
    upgrade(found, found.env, jobs())
    found.check("1.1.0")


def test_a_paused_copy_waits(found: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another process' words on, until it is told to go on."""
    monkeypatch.setattr(throttle, "_LOOK_SECONDS", 0.01)
    controls.pause(found.env, "keyed")
    runner, heard = jobs(), threading.Event()

    def listen(event: Any) -> None:
        if event.note.startswith(f"paused by {getpass.getuser()} since 2"):
            heard.set()

    def preflight() -> None:
        commands.preflight(found.env, found.lake.second, jobs=runner, listen=listen)

    thread = threading.Thread(target=preflight)
    thread.start()
    assert heard.wait(20)
    assert not [request for request in runner.jobs("fill") if request["collection"] == "keyed"]
    controls.resume(found.env, "keyed")
    thread.join(20)
    assert not thread.is_alive()
    upgrade(found, found.env, jobs())
    found.check("1.1.0")


def test_the_tail_of_a_rejected_plan_ends(found: Rewritten) -> None:
    generation = claimed(found)
    found.write_all(1)
    plan = found.state.deployments[generation].plan_digest
    assert commands.followed(found.env, generation, ["keyed", "plain"]) == ("keyed", "plain")
    commands.reject(found.env, generation, plan, "carl", "not tonight")
    commands.tail(found.env, generation, jobs=jobs())
    assert (commands.followed(found.env, generation, ["keyed"]), commands.behind(found.env, generation, ["keyed"])) == ((), ())


def test_the_ledger_says_how_far_the_tail_is_and_not_at_every_round(found: Rewritten) -> None:
    generation = claimed(found)
    told = []
    for number in (1, 2):
        found.write_all(number)
        commands.tail(found.env, generation, jobs=jobs(), once=True)
        told.append({key[0]: row for key, row in found.state.progress.items() if key[1] == "tail"})
    assert set(told[0]) == {"keyed", "plain"}
    for row in told[0].values():
        assert row.done == row.total > 0
        assert (row.unit, row.rows > 0) == ("versions", True)
    assert told[1] == told[0], "within half a minute"
