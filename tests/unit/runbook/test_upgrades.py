"""The runbook's entries of releases and upgrades that stopped: each is provoked, and its own words are followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from tests.support.lake import Crash, rows
from tests.support.product import Product
from tests.support.upgrades import heartbeat, make_holds_due
from tests.unit.runbook.book import follow, sees
from tests.unit.runbook.scenes import ONE, STEPS, TWO, Scene


def killed(scene: Scene, reached: str) -> int:
    """Claim 1.1.0 and go on with it in a process that dies right after it has promoted, or cut over a table; the generation."""
    generation, _ = scene.claim(scene.releases.two)
    count = [0]

    def hook(moment: str, what: str, key: str) -> None:
        if moment == "after" and what == reached:
            count[0] += 1
            raise Crash

    env = scene.lake.env
    hooked = type(env).open(scene.env)
    object.__setattr__(hooked, "on_write", hook)
    with pytest.raises(Crash):
        commands.upgrade(hooked, scene.releases.two, jobs=lambda: pytest.fail("no Spark"))
    assert count == [1]
    return generation


# --- the release ---------------------------------------------------------------------------------------------------------------------


def test_a_deployed_release_was_changed(second: Scene, tmp_path: Path) -> None:
    product = Product(tmp_path / "other")
    product.release("1.0.0", ONE)
    other = product.release("1.1.0", TWO.replace("b STRING", "b STRING, more INT"), STEPS)
    second.refused("release_changed", "The release was changed", "upgrade", "--env", second.env, "--release", other)
    words = {"ENV": second.env, "RELEASE": second.releases.two}
    checked, planned = follow(second.run, "The release was changed", "with the folder that was released", **words)
    assert (checked.exit_code, planned.exit_code) == (0, 0)
    second.is_right("1.1.0")


def test_a_release_is_refused(first: Scene, tmp_path: Path) -> None:
    product = Product(tmp_path / "other")
    product.release("1.0.0", ONE)
    bad = product.release("1.1.0", TWO, 'evolution("t", drop=["gone"])')
    first.refused("unnamed_drop", "The release is refused", "upgrade", "--env", first.env, "--release", bad)
    (planned,) = follow(first.run, "The release is refused", "for the ticket", ENV=first.env, RELEASE=bad)
    assert planned.exit_code == 1
    first.is_right("1.0.0")


def test_a_release_that_takes_two_steps(first: Scene) -> None:
    upgrade = ("upgrade", "--env", first.env, "--release", first.releases.three)
    found = first.refused("stop_in_between", "The release is refused", *upgrade)
    assert "Upgrade to 1.1.0 first" in found["next"]
    follow(first.run, "The release is refused", "`stop_in_between`", ENV=first.env, RELEASE=first.releases.two)
    first.is_right("1.1.0")


def test_a_release_that_is_older_than_the_environment(second: Scene) -> None:
    title = "The wrong environment or release"
    second.refused("downgrade_refused", title, "upgrade", "--env", second.env, "--release", second.releases.one)
    words = {"ENV": second.env, "RELEASE": second.releases.two}
    shown, planned = follow(second.run, "The wrong environment or release", "see which release", **words)
    assert "1.1.0" in shown.stdout
    assert planned.exit_code == 0
    second.is_right("1.1.0")


def test_a_release_of_another_product(first: Scene, tmp_path: Path) -> None:
    other = Product(tmp_path / "other", name="another").release("1.0.0", ONE)
    first.refused("wrong_release", "The wrong environment or release", "upgrade", "--env", first.env, "--release", other)
    first.is_right("1.0.0")


# --- plan, lead, hold ----------------------------------------------------------------------------------------------------------------


def test_the_plan_is_another_one(first: Scene) -> None:
    """1.2.0 was claimed from 1.0.0; somebody deploys 1.1.0 before it is promoted."""
    slow, _ = first.claim(first.releases.two)
    late, _ = first.claim(first.releases.wider)
    for task in ("promote", "expand", "change", "cutover"):
        assert first.run(task, "--env", first.env, "--generation", slow).exit_code == 0
    title = "The plan is another one"
    first.refused("plan_changed", title, "promote", "--env", first.env, "--generation", late)
    follow(first.run, "The plan is another one", "make a new plan", ENV=first.env, RELEASE=first.releases.wider)
    first.is_right("1.2.0")


def test_another_one_leads(first: Scene) -> None:
    slow, _ = first.claim(first.releases.two)
    first.upgrade(first.releases.two, "--claim-id", "another")
    first.refused("fenced", "Another one leads", "promote", "--env", first.env, "--generation", slow)
    (shown,) = follow(first.run, "Another one leads", "see who leads", ENV=first.env)
    assert "1.1.0" in shown.stdout
    first.is_right("1.1.0")


def test_another_one_led_to_where_nobody_wanted(first: Scene) -> None:
    slow, _ = first.claim(first.releases.wider)
    first.upgrade(first.releases.two, "--claim-id", "another")
    first.refused("fenced", "Another one leads", "promote", "--env", first.env, "--generation", slow)
    follow(first.run, "Another one leads", "the other one has ended", ENV=first.env, RELEASE=first.releases.wider)
    first.is_right("1.2.0")


def held(scene: Scene) -> None:
    upgrade = ("upgrade", "--env", scene.env, "--release", scene.releases.three)
    scene.refused("hold_open", "An older hold is in the way", *upgrade)


def test_a_way_back_whose_time_is_over(second: Scene) -> None:
    held(second)
    make_holds_due(second.lake)
    follow(second.run, "An older hold is in the way", "its time is over", ENV=second.env, RELEASE=second.releases.three)
    second.is_right("1.2.0")


def test_a_way_back_that_is_given_up(second: Scene) -> None:
    held(second)
    follow(second.run, "An older hold is in the way", "its owner does without", ENV=second.env, RELEASE=second.releases.three)
    second.is_right("1.2.0")


def test_a_way_back_that_live_nodes_need(second: Scene) -> None:
    heartbeat(second.lake.env, "1.0.0", name="old-dashboard")
    upgrade = ("upgrade", "--env", second.env, "--release", second.releases.three, "--end-hold")
    found = second.refused("hold_in_use", "An older hold is in the way", *upgrade)
    assert "old-dashboard" in found["message"]
    follow(second.run, "An older hold is in the way", "and also the nodes", ENV=second.env, RELEASE=second.releases.three)
    second.is_right("1.2.0")


# --- killed, left, waiting -----------------------------------------------------------------------------------------------------------


def test_somebody_was_first(first: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that answers each append with a conflict, until it does not."""
    from airflow_provider_schemamig.core.ledger.errors import LedgerConflict
    from airflow_provider_schemamig.core.ledger.store import LedgerWriter

    def busy(self: object, *arguments: object, **more: object) -> None:
        raise LedgerConflict(expected=7, tries=9)

    with monkeypatch.context() as patch:
        patch.setattr(LedgerWriter, "transact", busy)
        upgrade = ("upgrade", "--env", first.env, "--release", first.releases.two)
        found = first.refused("ledger_conflict", "Somebody was first", *upgrade, exit_code=75)
    assert found["retryable"]
    follow(first.run, "Somebody was first", "see who is at work", ENV=first.env, RELEASE=first.releases.two)
    first.is_right("1.1.0")


@pytest.mark.parametrize("way", ["forward", "back"])
def test_an_upgrade_was_left_half_way(first: Scene, way: str) -> None:
    generation = killed(first, "put_if_absent")
    title = "An upgrade was left half-way"
    first.refused("deployment_open", title, "compact", "--env", first.env, exit_code=75)
    if way == "forward":
        follow(first.run, "An upgrade was left half-way", "forward", ENV=first.env, RELEASE=first.releases.two)
    else:
        follow(first.run, "An upgrade was left half-way", "back", ENV=first.env, GENERATION=generation)
    first.is_right("1.1.0" if way == "forward" else "1.0.0")


def test_a_worker_was_lost(first: Scene) -> None:
    generation = killed(first, "put_if_absent")
    follow(first.run, "A worker was lost", "no Airflow at hand", ENV=first.env, RELEASE=first.releases.two)
    first.is_right("1.1.0")
    leader = LedgerReader(first.lake.env).state().leader
    assert leader is not None
    assert leader.generation == generation, "the same one"
    assert rows(first.lake.path("t"), "id", "b") == [{"id": 1, "b": "x"}]


def test_a_run_waits_behind_another_one(first: Scene) -> None:
    generation, _ = first.claim(first.releases.two)
    assert commands.open_claims(first.lake.env)
    follow(first.run, "A run waits behind another one", "give the other one up", ENV=first.env, GENERATION=generation)
    assert not commands.open_claims(first.lake.env), "nobody waits for it any more"
    first.upgrade(first.releases.two)
    first.is_right("1.1.0")


def test_the_gate_timed_out(first: Scene) -> None:
    generation, plan = first.claim(first.releases.two)
    words = {"ENV": first.env, "GENERATION": generation, "PLAN": plan}
    follow(first.run, "The gate timed out", "approve it in the ledger", **words)
    first.is_right("1.1.0")


def test_the_gate_timed_out_and_nobody_wants_it(first: Scene) -> None:
    generation, _ = first.claim(first.releases.two)
    follow(first.run, "The gate timed out", "nobody wants it", ENV=first.env, GENERATION=generation)
    first.is_right("1.0.0")
    first.refused("wrong_state", "The plan is another one", "promote", "--env", first.env, "--generation", generation)


@pytest.mark.parametrize("collection", [None, "t"])
def test_paused_and_nobody_knows_why(first: Scene, collection: str | None) -> None:
    generation, _ = first.claim(first.releases.two)
    which = () if collection is None else ("--collection", collection)
    assert first.run("pause", "--env", first.env, "--reason", "the loaders are late", *which).exit_code == 0
    waits = next(iter(commands.status(first.lake.env).document["controls"]))
    assert (waits["paused"], waits["reason"]) == (True, "the loaders are late")
    sees("paused", "Paused and nobody knows why")
    if collection is None:
        shown = follow(first.run, "Paused and nobody knows why", "see who and why", ENV=first.env)[0]
        assert "the loaders are late" in " ".join(shown.stdout.split())
    else:
        follow(first.run, "Paused and nobody knows why", "it is the pause of one", ENV=first.env, COLLECTION=collection)
    for task in ("promote", "expand", "change", "cutover"):
        assert first.run(task, "--env", first.env, "--generation", generation).exit_code == 0
    first.is_right("1.1.0")


def test_hours_of_a_throttle_are_taken_back(first: Scene) -> None:
    assert first.run("throttle", "--env", first.env, "--window", "3-4").exit_code == 0
    follow(first.run, "Paused and nobody knows why", "it is the hours", ENV=first.env)
    assert all(item["window"] is None for item in commands.status(first.lake.env).document["controls"])
