"""What is done under one claim: an upgrade, or a rollback of one release, in however many tries and by however many processes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.execute.cancel import give_back_claim
from airflow_provider_schemamig.core.upgrade.tasks import leader as leader_module
from airflow_provider_schemamig.core.upgrade.tasks import read_only
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, no_spark
from tests.support.upgrades import claimed, deployed, refused, releases, whole
from tests.unit.upgrade.holds.test_stacked_holds import ONE, STEP_THREE, STEP_TWO, THREE, TWO, B, Stack


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path)


def test_a_rollback_and_its_retry_go_one_release_back(tmp_path: Path) -> None:
    """Killed anywhere, also after the last append: what is done under one claim is one release."""
    for write in range(2, 62, 3):
        stack = Stack(tmp_path / str(write))
        try:
            commands.rollback(stack.lake.crashing_at(write), jobs=no_spark, claim_id="run 1")
        except Crash:
            done = False
        else:
            done = True
        again = commands.rollback(stack.lake.env, jobs=no_spark, claim_id="run 1")
        assert (stack.lake.version, again.generation) == ("1.1.0", B), write
        whole(stack.lake)
        if done:
            commands.rollback(stack.lake.env, jobs=no_spark, claim_id="run 2")
            assert stack.lake.version == "1.0.0"
            return
    raise AssertionError("it never ended")


def test_a_rollback_that_another_one_finished_goes_no_further(stack: Stack) -> None:
    """Both go one release back, whoever was first, however often each is tried again."""
    with pytest.raises(Crash):
        commands.rollback(stack.lake.crashing_at(6), jobs=no_spark, claim_id="run 1")
    for claim in ("run 2", "run 1", "run 2", "run 1"):
        assert commands.rollback(stack.lake.env, jobs=no_spark, claim_id=claim).generation == B
        assert stack.lake.version == "1.1.0"
    whole(stack.lake)


def ends(lake: Lake) -> int:
    return [entry.outcome for entry in read_history(lake.env) if entry.what == "rollback"].count("done")


def cut_off(folder: Path, before: Callable[[Stack], object], moments: Iterator[int]) -> Iterator[tuple[int, Stack]]:
    """Yield (moment, lake) after ``before`` and a bare rollback that died at that moment; ends where its last write was made."""
    for write in moments:
        stack = Stack(folder / str(write))
        before(stack)
        ended = ends(stack.lake)
        with contextlib.suppress(Crash):
            commands.rollback(stack.lake.crashing_at(write), jobs=no_spark)
        if ends(stack.lake) > ended:
            return
        yield write, stack


def test_a_rollback_that_was_cut_off_goes_one_release_back_if_the_same_command_is_given_again(tmp_path: Path) -> None:
    """Also without a claim: killed before its last write, whoever repeats it wants the answer that was lost. Then one goes further."""
    write = 0
    for write, stack in cut_off(tmp_path, lambda _: None, itertools.count(2, 3)):
        again = commands.rollback(stack.lake.env, jobs=no_spark)
        assert (stack.lake.version, str(again.source), str(again.target)) == ("1.1.0", "1.2.0", "1.1.0"), write
        assert ends(stack.lake) == 1, write
        further = commands.rollback(stack.lake.env, jobs=no_spark)
        assert (stack.lake.version, str(further.source), str(further.target)) == ("1.0.0", "1.1.0", "1.0.0"), write
        whole(stack.lake)
    assert write > 11


@pytest.mark.parametrize("first", [{}, {"claim_id": "run 1"}, {"generation": Generation(3)}], ids=["bare", "claim", "generation"])
def test_the_second_of_two_rollbacks_that_is_cut_off_is_ended_by_the_next(tmp_path: Path, first: dict[str, Any]) -> None:
    """Whoever began the first one. It is the newest rollback that was not answered, not the newest generation's."""

    def back_once(stack: Stack) -> None:
        with contextlib.suppress(Crash):
            commands.rollback(stack.lake.crashing_at(6), jobs=no_spark, **first)
        commands.rollback(stack.lake.env, jobs=no_spark)
        assert stack.lake.version == "1.1.0" and ends(stack.lake) == 1

    write = 0
    for write, stack in cut_off(tmp_path, back_once, itertools.count(5, 3)):
        commands.rollback(stack.lake.env, jobs=no_spark)
        assert stack.lake.version == "1.0.0", write
        whole(stack.lake)
    assert write > 11


def test_a_rollback_that_is_cut_off_and_one_by_generation_after_it_hold_no_other_up(tmp_path: Path) -> None:
    for write in range(8, 18):
        stack = Stack(tmp_path / str(write))
        with contextlib.suppress(Crash):
            commands.rollback(stack.lake.crashing_at(write), jobs=no_spark)
        if stack.lake.version == "1.1.0":
            commands.rollback(stack.lake.env, generation=Generation(2), jobs=no_spark)
            assert stack.lake.version == "1.0.0", write
            with refused("nothing_to_roll_back"):
                commands.rollback(stack.lake.env, jobs=no_spark)


def test_a_rollback_that_is_through_is_not_stopped_any_more(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever presses Ctrl-C then would be told to run the same again, which goes one release further."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(leader_module, "keep_short", interrupted)
        done = commands.rollback(stack.lake.env, jobs=no_spark)
    assert (str(done.target), stack.lake.version, ends(stack.lake)) == ("1.1.0", "1.1.0", 1)


def test_a_history_that_cannot_be_written_is_told(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "append_history", lambda env, *entries: "the audit log could not be written")
    assert "the audit log could not be written" in commands.rollback(stack.lake.env, jobs=no_spark).notes


def test_an_upgrade_that_was_taken_back_before_its_commit_stays_so_if_the_same_command_is_given_again(tmp_path: Path) -> None:
    """Over an older release that could go back as well."""

    def promoted_again(stack: Stack) -> None:
        commands.rollback(stack.lake.env, jobs=no_spark)
        commands.promote(stack.lake.env, claimed(stack.lake, stack.releases[2]))

    write = 0
    for write, stack in cut_off(tmp_path, promoted_again, itertools.count(1)):
        commands.rollback(stack.lake.env, jobs=no_spark)
        assert stack.lake.version == "1.1.0", write
        whole(stack.lake)
    assert write > 4


def test_the_retry_of_an_upgrade_does_not_bring_back_what_was_rolled_back(stack: Stack) -> None:
    commands.rollback(stack.lake.env, jobs=no_spark)
    stack.lake.upgrade(stack.releases[2], claim_id="run 1")
    commands.rollback(stack.lake.env, jobs=no_spark)
    before = stack.lake.version
    with refused("wrong_state"):
        stack.lake.upgrade(stack.releases[2], claim_id="run 1")
    assert stack.lake.version == before
    stack.lake.upgrade(stack.releases[2], claim_id="run 2")
    assert stack.lake.version == "1.2.0"


def test_the_retry_of_a_rollback_takes_nothing_back_that_came_since(stack: Stack) -> None:
    with pytest.raises(Crash):
        commands.rollback(stack.lake.crashing_at(4), jobs=no_spark, claim_id="run 1")
    stack.lake.upgrade(stack.releases[2])
    fourth = (THREE.replace("z INT", "z INT, y INT"), 'evolution("u")')
    found = releases(stack.folder / "later", (ONE, ""), (TWO, STEP_TWO), (THREE, STEP_THREE), fourth)
    stack.lake.upgrade(found[3])
    with refused("nothing_to_roll_back"):
        commands.rollback(stack.lake.env, jobs=no_spark, claim_id="run 1")
    assert stack.lake.version == "1.3.0"


def test_the_retry_of_a_rollback_says_how_to_give_an_upgrade_up_that_died(stack: Stack) -> None:
    with pytest.raises(Crash):
        commands.rollback(stack.lake.crashing_at(4), jobs=no_spark, claim_id="run 1")
    upgrade = claimed(stack.lake, stack.releases[2])
    commands.promote(stack.lake.env, upgrade)
    with refused("nothing_to_roll_back") as found:
        commands.rollback(stack.lake.env, jobs=no_spark, claim_id="run 1")
    assert f"schemamig cancel --generation {upgrade}" in found[0].next_action
    commands.cancel(stack.lake.env, upgrade, jobs=no_spark)
    assert commands.rollback(stack.lake.env, jobs=no_spark, claim_id="run 1").generation == B
    assert stack.lake.version == "1.1.0"
    whole(stack.lake)


def test_what_gives_an_upgrade_up_is_no_claim_of_before_it(tmp_path: Path) -> None:
    """A claim of before the newest leader can be promoted no more, so to go on with it is no advice."""
    first, second, third = releases(tmp_path, (ONE, ""), (TWO, STEP_TWO), (THREE, STEP_THREE))
    lake = deployed(tmp_path, first, third)
    older, newer = claimed(lake, second), claimed(lake, third)
    commands.promote(lake.env, newer)
    commands.cancel(lake.env, newer, jobs=no_spark)
    assert lake.state.deployments[older].state is DeploymentState.CLAIMED and lake.version == "1.0.0"
    with refused("nothing_to_roll_back") as found:
        commands.rollback(lake.env, jobs=no_spark)
    assert f"generation {newer} is rolled_back" in found[0].message and f"--generation {older}" not in found[0].next_action


@pytest.mark.parametrize("claim", ["", "s3://key:secret@bucket"], ids=["empty", "a credential"])
def test_a_claim_that_cannot_be_found_again_or_is_a_secret_writes_nothing(stack: Stack, tmp_path: Path, claim: str) -> None:
    """An empty one comes of a variable that is not set: each try would be another claim."""
    env, elsewhere = stack.lake.env, Environment.open(str(tmp_path / "elsewhere"))
    with unwritten(env), unwritten(elsewhere):
        for verb in (
            lambda: commands.upgrade(env, stack.releases[2], jobs=no_spark, claim_id=claim),
            lambda: commands.upgrade(elsewhere, stack.releases[2], jobs=no_spark, claim_id=claim, create=True),
            lambda: commands.preflight(env, stack.releases[2], jobs=no_spark, claim_id=claim),
            lambda: commands.alter(env, "ALTER TABLE u ADD COLUMN w INT", jobs=no_spark, claim_id=claim),
            lambda: commands.rollback(env, jobs=no_spark, claim_id=claim),
        ):
            with refused("invalid_name"):
                verb()
    assert not (tmp_path / "elsewhere").exists()


def test_a_claim_that_goes_on_keeps_the_longer_hold_and_says_which(tmp_path: Path) -> None:
    first, second = releases(tmp_path, (ONE, ""), (TWO, STEP_TWO))
    lake = deployed(tmp_path, first, second)
    hours = timedelta(hours=1)
    for asked, kept in ((2, 2), (7, 7), (3, 7)):
        found = commands.preflight(lake.env, second, jobs=no_spark, hold=asked * hours)
        assert lake.state.deployments[Generation(2)].hold_seconds == kept * 3_600 and found.generation == 2
        notes = [note for note in found.report.plan.notes if "way back" in note]
        assert notes == ["the way back is kept for 7 hours, as generation 2 was claimed for, and not for 3 hours"] * (asked != kept)
    found = commands.preflight(lake.env, second, jobs=no_spark)
    assert lake.state.deployments[Generation(2)].hold_seconds == 7 * 3_600, "who asks for no time asks for no other one"
    assert "the way back is kept for 7 hours, as generation 2 was claimed for" in found.report.plan.notes
    commands.promote(lake.env, Generation(2))
    outcome = lake.upgrade(second, hold=9 * hours)
    assert any("is kept for 7 hours" in note and "not for 9 hours" in note for note in outcome.notes)
    (hold,) = lake.state.holds.values()
    assert 6.9 * hours < hold.until - pendulum.now("UTC") <= 7 * hours


@pytest.mark.parametrize(("asked", "is_approved"), [(False, False), (True, False), (True, True)])
def test_a_claim_that_goes_on_passes_over_live_nodes_if_who_goes_on_says_so(tmp_path: Path, asked: bool, is_approved: bool) -> None:
    """A node that needs the hold comes between two tries: who is there now says whether it counts, not who claimed.

    But not over an approval that was given without it.
    """
    first, second, third = releases(tmp_path, (ONE, ""), (TWO, STEP_TWO), (THREE, STEP_THREE))
    lake = deployed(tmp_path, first, third)
    lake.upgrade(second)
    claimed = commands.preflight(lake.env, third, jobs=no_spark, end_hold=True, ignore_nodes=not asked)
    assert claimed.generation is not None
    lake.env.reader("t", "1.0.0", node="early").arrow()
    if is_approved:
        commands.approve(lake.env, claimed.generation, lake.state.deployments[claimed.generation].plan_digest, "ann")
    if asked and not is_approved:
        commands.upgrade(lake.env, third, jobs=no_spark, end_hold=True, ignore_nodes=True)
    else:
        with refused("hold_in_use"):
            commands.upgrade(lake.env, third, jobs=no_spark, end_hold=True, ignore_nodes=asked)
    assert lake.version == ("1.2.0" if asked and not is_approved else "1.1.0")


def test_a_claim_with_work_again_stays_where_a_stalled_try_had_found_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right before its append another try gets the same claim back, as the faster upgrade was taken back."""
    folders = releases(tmp_path, ("CREATE TABLE t (id BIGINT);", ""), ("CREATE TABLE t (id STRING);", 'replacement("t")'))
    lake = deployed(tmp_path, *folders)
    faster = claimed(lake, folders[1], claim_id="faster")
    slower = claimed(lake, folders[1], claim_id="slower")
    for verb in (commands.promote, commands.expand, commands.cutover):
        verb(lake.env, faster)
    done: list[Generation] = []

    def twin(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "ledger") and not done:
            done.append(slower)
            commands.rollback(lake.env, jobs=no_spark)
            assert claimed(lake, folders[1], claim_id="slower") == slower

    late = replace(lake.env, on_write=twin)
    assert commands.preflight(late, folders[1], claim_id="slower", jobs=no_spark).generation is None
    assert done and lake.state.deployments[slower].state is DeploymentState.CLAIMED
    lake.upgrade(folders[1], claim_id="slower")
    whole(lake)


def test_a_claim_made_since_stays_where_a_stalled_try_had_found_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its look and its end the upgrade is rolled back, and the retry claims anew."""
    folders = releases(tmp_path, ("CREATE TABLE t (id BIGINT);", ""), ("CREATE TABLE t (id STRING);", 'replacement("t")'))
    lake = deployed(tmp_path, *folders)
    faster = claimed(lake, folders[1], claim_id="faster")
    claimed(lake, folders[1], claim_id="slower")
    for verb in (commands.promote, commands.expand, commands.cutover):
        verb(lake.env, faster)
    anew = []

    def stalled(*arguments: Any) -> Any:
        commands.rollback(lake.env, jobs=no_spark)
        monkeypatch.setattr(read_only, "give_back_claim", give_back_claim)
        anew.append(claimed(lake, folders[1], claim_id="slower"))
        return give_back_claim(*arguments)

    monkeypatch.setattr(read_only, "give_back_claim", stalled)
    assert commands.preflight(lake.env, folders[1], claim_id="slower", jobs=no_spark).generation is None
    assert lake.state.deployments[anew[0]].state is DeploymentState.CLAIMED


@pytest.mark.parametrize("killed", [False, True])
def test_a_claim_is_given_back_where_another_run_was_faster(tmp_path: Path, killed: bool) -> None:
    """The run ends green with nothing to do, and nobody is left who would cancel it. Killed anywhere, its next try does so."""
    one, two = "CREATE TABLE t (id BIGINT);", "CREATE TABLE t (id STRING);"
    folders = releases(tmp_path, (one, ""), (two, 'replacement("t")'))
    lake = deployed(tmp_path, *folders)
    faster = claimed(lake, folders[1], claim_id="faster")
    slower = claimed(lake, folders[1], claim_id="slower")
    for verb in (commands.promote, commands.expand, commands.cutover):
        verb(lake.env, faster)
    made = {shard.uri for shard in lake.state.shards.values() if shard.generation == slower}
    assert made and all(((lake.env.location.local_path or Path()) / uri).exists() for uri in made)

    for write in range(1, 8) if killed else ():
        with contextlib.suppress(Crash):
            commands.preflight(lake.crashing_at(write), folders[1], claim_id="slower", jobs=no_spark)
    found = commands.preflight(lake.env, folders[1], claim_id="slower", jobs=no_spark)

    assert (found.generation, lake.state.deployments[slower].state) == (None, DeploymentState.CANCELLED)
    assert not any(((lake.env.location.local_path or Path()) / uri).exists() for uri in made)
    assert not [shard for shard in lake.state.shards.values() if shard.generation == slower]
    told = [entry.generation for entry in read_history(lake.env) if entry.what == "cancel"]
    assert told == [slower] or (killed and told == [])
    commands.rollback(lake.env, jobs=no_spark)
    assert commands.preflight(lake.env, folders[1], claim_id="slower", jobs=no_spark).generation is not None
    whole(lake)
