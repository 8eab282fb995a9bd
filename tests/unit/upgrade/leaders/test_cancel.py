"""Giving a promoted generation up takes back that one, and never one that leads or was committed meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.errors import PlanChanged, PlanRejected, WrongState
from airflow_provider_schemamig.core.upgrade.rollback.rollback import roll_back
from airflow_provider_schemamig.core.upgrade.tasks import leader
from tests.support.lake import Crash, Lake, no_spark
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, expanded, promoted, refused, releases, seen, two_releases, whole


def growing(folder: Path, number: int) -> list[Path]:
    """So many releases of one table, each with a column more."""
    schemas = [f"CREATE TABLE t (id BIGINT{''.join(f', {name} INT' for name in 'abc'[:more])});" for more in range(number)]
    return list(releases(folder, *((schema, 'evolution("t")' if more else "") for more, schema in enumerate(schemas))))


@pytest.mark.parametrize("ends_as", ["promoted", "committed", "rolled_back"])
def test_the_generation_that_took_over_is_left_alone(tmp_path: Path, ends_as: str) -> None:
    folders = growing(tmp_path, 4)
    lake = deployed(tmp_path, folders[0], folders[1])
    lake.upgrade(folders[1])
    given_up = expanded(lake, folders[2], claim_id="one")
    leading = expanded(lake, folders[3], claim_id="another")
    if ends_as == "committed":
        commands.change(lake.env, leading, jobs=no_spark)
        commands.cutover(lake.env, leading)
    elif ends_as == "rolled_back":
        commands.rollback(lake.env, jobs=no_spark)
    before = lake.version
    with refused("fenced"):
        commands.cancel(lake.env, given_up, jobs=no_spark)
    assert lake.state.deployments[leading].state.value == ends_as
    assert lake.version == before == ("1.3.0" if ends_as == "committed" else "1.1.0")


def test_cancel_of_a_committed_release_names_the_rollback(tmp_path: Path) -> None:
    first, second = releases(tmp_path, ("CREATE TABLE t (id BIGINT);", ""), ("CREATE TABLE t (id BIGINT, a INT);", 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    with pytest.raises(WrongState) as caught:
        commands.cancel(lake.env, Generation(2), jobs=no_spark)
    assert "schemamig rollback" in caught.value.next_action


def test_cancel_what_is_committed_while_it_begins_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = releases(tmp_path, ("CREATE TABLE t (id BIGINT);", ""), ("CREATE TABLE t (id BIGINT, a INT);", 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    generation = expanded(lake, second)

    def late(*arguments: Any, **options: Any) -> Any:
        commands.change(lake.env, generation, jobs=no_spark)
        commands.cutover(lake.env, generation)
        return roll_back(*arguments, **options)

    monkeypatch.setattr(leader, "roll_back", late)
    with refused("wrong_state"):
        commands.cancel(lake.env, generation, jobs=no_spark)
    assert lake.version == "1.1.0"
    whole(lake)


@pytest.mark.parametrize("verb", ["rollback", "cancel"])
def test_cancel_what_the_generation_before_had_made_goes_too(tmp_path: Path, verb: str) -> None:
    """No clean-up of a later commit may come for long, and `ledger verify` would tell of a table that nothing points to."""
    schemas = [f"CREATE TABLE a (id BIGINT{more});" for more in ("", ", x INT", ", x INT, y INT")]
    new = "CREATE TABLE n (id BIGINT);"
    folders = releases(tmp_path, (schemas[0], ""), *((schema + new, 'evolution("a")') for schema in schemas[1:]))
    lake = deployed(tmp_path, folders[0], folders[1])
    expanded(lake, folders[1], claim_id="one")
    (made,) = (tmp_path / "lake" / "n").iterdir()
    foreign.write(made, [{"id": 1}])
    leading = expanded(lake, folders[2], claim_id="another")
    if verb == "cancel":
        commands.cancel(lake.env, leading, jobs=no_spark)
    else:
        commands.rollback(lake.env, jobs=no_spark)
    whole(lake)
    assert not made.exists()
    assert {shard.collection for shard in lake.state.shards.values()} == {"a"}


def test_a_rejected_plan_is_in_the_history(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = claimed(lake, lake.second)
    digest = commands.plan_digest(lake.env, generation)
    assert commands.reject(lake.env, generation, digest, "ann").note == ""
    entry = read_history(lake.env)[-1]
    assert (entry.who, entry.what, entry.generation, entry.outcome, entry.detail) == ("ann", "reject", generation, "done", digest)
    assert lake.state.deployments[generation].state is DeploymentState.CLAIMED, "a person may think better of it"
    commands.reject(lake.env, generation, digest, "ann", "the gate writes it, too", at_gate=True)
    assert [item.what for item in read_history(lake.env)].count("reject") == 1


def test_a_rejected_plan_is_neither_approved_nor_promoted_at_any_gate(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = claimed(lake, lake.second)
    digest = commands.plan_digest(lake.env, generation)
    commands.approve(lake.env, generation, digest, "bob")
    commands.reject(lake.env, generation, digest, "ann", "not before Monday")
    gates: list[Callable[[], Any]] = [
        lambda: commands.approve(lake.env, generation, digest, "bob"),
        lambda: commands.approved(lake.env, generation),
        lambda: commands.promote(lake.env, generation),
    ]
    for gate in gates:
        with refused("plan_rejected") as told:
            gate()
        assert "by ann at" in str(told[0]) and "not before Monday" in str(told[0])
    commands.promote(lake.env, generation, approved_by="eve", rejected_at=rejected_at(lake, generation))
    assert lake.state.deployments[generation].promoted_by == "eve", "Airflow's gate asked again"
    assert lake.state.deployments[generation].rejected is None
    with refused("wrong_state"):
        commands.reject(lake.env, generation, digest, "ann")


def rejected_at(lake: Lake, generation: Generation) -> pendulum.DateTime:
    rejected = lake.state.deployments[generation].rejected
    assert rejected is not None
    return rejected.at


def test_a_gate_that_asks_again_takes_a_rejection_back(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = claimed(lake, lake.second)
    digest = commands.plan_digest(lake.env, generation)
    commands.reject(lake.env, generation, digest, "ann")
    with pytest.raises(PlanRejected):
        commands.approve(lake.env, generation, digest, "bob", rejected_at=None)
    commands.approve(lake.env, generation, digest, "bob", rejected_at=rejected_at(lake, generation))
    assert commands.approved(lake.env, generation)


def test_an_answer_to_a_gate_that_asked_before_a_rejection_or_about_another_plan_promotes_nothing(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = claimed(lake, lake.second)
    digest = commands.plan_digest(lake.env, generation)
    with pytest.raises(PlanChanged):
        commands.promote(lake.env, generation, approved_by="bob", approved_plan="0" * 64)
    commands.reject(lake.env, generation, digest, "ann")
    with pytest.raises(PlanRejected, match="ann"):
        commands.promote(lake.env, generation, approved_by="bob", approved_plan=digest)
    known = rejected_at(lake, generation)
    commands.reject(lake.env, generation, digest, "eve", "never")
    with pytest.raises(PlanRejected, match=r"eve.*never"):
        commands.promote(lake.env, generation, approved_by="bob", approved_plan=digest, rejected_at=known)
    assert lake.state.leader is None or lake.state.leader.generation < generation
    known = rejected_at(lake, generation)
    commands.promote(lake.env, generation, approved_by="bob", approved_plan=digest, rejected_at=known)
    assert lake.state.deployments[generation].promoted_by == "bob"


def test_a_gate_asks_again_after_promotion_ended_by_the_no(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = claimed(lake, lake.second)
    digest = commands.plan_digest(lake.env, generation)
    commands.reject(lake.env, generation, digest, "bob")
    with pytest.raises(PlanRejected, match="bob"):
        commands.promote(lake.env, generation, approved_by="ann", approved_plan=digest)
    assert commands.meet_rejection(lake.env, generation) == rejected_at(lake, generation)


def test_a_gate_ends_by_a_no_that_none_has_met_and_asks_again_after_that(tmp_path: Path) -> None:
    """Whoever has it ask again then, by clearing it, knows of the no: a gate that is tried again by itself does not count."""
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = claimed(lake, lake.second)
    digest = commands.plan_digest(lake.env, generation)
    assert commands.meet_rejection(lake.env, generation) is None
    for who in ("bob", "eve"):
        commands.reject(lake.env, generation, digest, who)
        with pytest.raises(PlanRejected, match=who):
            commands.meet_rejection(lake.env, generation)
        assert commands.meet_rejection(lake.env, generation) == rejected_at(lake, generation)
    commands.reject(lake.env, generation, digest, "ann", at_gate=True, rejected_at=rejected_at(lake, generation))
    assert commands.meet_rejection(lake.env, generation) == rejected_at(lake, generation), "the gate's own no ended it"


def test_a_no_that_comes_while_a_gate_ends_by_another_one_is_met_by_none(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = claimed(lake, lake.second)
    digest, said = commands.plan_digest(lake.env, generation), list[str]()

    def meanwhile(at: str, what: str, key: str) -> None:
        if not said:
            said.append("eve")
            commands.reject(lake.env, generation, digest, "eve")

    commands.reject(lake.env, generation, digest, "bob")
    with pytest.raises(PlanRejected, match="bob"):
        commands.meet_rejection(replace(lake.env, on_write=meanwhile), generation)
    assert said == ["eve"]
    with pytest.raises(PlanRejected, match="eve"):
        commands.meet_rejection(lake.env, generation)


def test_a_no_at_the_gate_is_told_once_with_that_of_the_page_and_anew_where_the_gate_has_asked_again(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = claimed(lake, lake.second)
    digest = commands.plan_digest(lake.env, generation)

    def told(*, at_gate: bool, known: Any = None) -> list[str | None]:
        commands.reject(lake.env, generation, digest, f"who {len(read_history(lake.env))}", at_gate=at_gate, rejected_at=known)
        return [entry.who for entry in read_history(lake.env) if entry.what == "reject"]

    assert len(told(at_gate=False)) == len(told(at_gate=True)) == 1, "the page wrote it, and answered the gate"
    asked_again = rejected_at(lake, generation)
    assert len(told(at_gate=True, known=asked_again)) == 2
    assert len(told(at_gate=False)) == 3, "of somebody else"


@pytest.mark.parametrize("claim_id", [None, "airflow:d/r"])
def test_an_upgrade_that_is_started_again_after_a_rejection_claims_another_generation(tmp_path: Path, claim_id: str | None) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    first = claimed(lake, lake.second, claim_id=claim_id)
    commands.reject(lake.env, first, commands.plan_digest(lake.env, first), "ann")
    assert claimed(lake, lake.second, claim_id=claim_id) > first
    lake.upgrade(lake.second)
    assert lake.version == "1.1.0"
    whole(lake)


def test_a_generation_that_is_over_is_not_approved(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    lake.upgrade(lake.second)
    commands.rollback(lake.env, jobs=no_spark)
    with refused("wrong_state"):
        commands.approve(lake.env, Generation(2), lake.state.deployments[Generation(2)].plan_digest)


def test_a_claim_whose_cancel_was_killed_is_not_made_after_what_led_since(tmp_path: Path) -> None:
    """It dies after its first append: what it says of the generation is all in that one. The audit log is not asked."""
    folders = growing(tmp_path, 3)
    lake = deployed(tmp_path, *folders[:2])
    given_up = claimed(lake, folders[2], claim_id="X")

    with pytest.raises(Crash):
        commands.cancel(lake.crashing_at(1), given_up, jobs=no_spark)
    assert lake.state.deployments[given_up].state is DeploymentState.CANCELLED
    lake.upgrade(folders[1], claim_id="Y")
    with refused("wrong_state") as errors:
        commands.preflight(lake.env, folders[2], jobs=no_spark, claim_id="X")
    assert "`schemamig preflight`, `upgrade` or `alter`" in errors[0].next_action


@pytest.mark.parametrize("begins", [promoted, expanded])
@pytest.mark.parametrize("retry", ["upgrade", "preflight", "promote"])
def test_a_promoted_claim_whose_cancel_has_begun_is_not_made_by_its_retry(
    tmp_path: Path, begins: Callable[..., Generation], retry: str
) -> None:
    """At each moment of the cancel, which dies there or goes on. Who runs ``upgrade`` without the claim goes on with the release."""
    ended = 0
    for moment in range(1, 20):
        folders = growing(tmp_path / str(moment), 2)
        lake = deployed(tmp_path / str(moment), *folders)
        generation = begins(lake, folders[1], claim_id="X")
        try:
            commands.cancel(lake.crashing_at(moment), generation, jobs=no_spark)
            ended += 1
        except Crash:
            pass
        with refused("wrong_state"):
            if retry == "promote":
                commands.promote(lake.env, generation)
            else:
                lake.upgrade(folders[1], claim_id="X") if retry == "upgrade" else claimed(lake, folders[1], claim_id="X")
        assert lake.version == "1.0.0"
        lake.upgrade(folders[1])
        assert lake.version == "1.1.0"
        whole(lake)
        if ended:
            break
    assert ended and moment > 3


@pytest.mark.parametrize("retry", ["upgrade", "preflight"])
def test_a_committed_claim_whose_rollback_has_begun_is_not_made_again_by_its_retry(tmp_path: Path, retry: str) -> None:
    """At each moment of the rollback until the release is back. Who runs ``upgrade`` without the claim goes on with the release."""
    played = 0
    for moment in range(1, 40):
        folders = growing(tmp_path / str(moment), 2)
        lake = deployed(tmp_path / str(moment), *folders)
        lake.upgrade(folders[1], claim_id="X")
        with contextlib.suppress(Crash):
            commands.rollback(lake.crashing_at(moment), jobs=no_spark, claim_id="R")
        if lake.version == "1.0.0":
            break
        with refused("wrong_state") as errors:
            lake.upgrade(folders[1], claim_id="X") if retry == "upgrade" else claimed(lake, folders[1], claim_id="X")
        assert "`schemamig rollback --generation 2` again" in errors[0].next_action
        lake.upgrade(folders[1])
        assert (lake.version, [hold.state.value for hold in lake.state.holds.values()]) == ("1.1.0", ["open"])
        whole(lake)
        played += 1
    assert played > 3


def test_a_claim_whose_cancel_was_killed_is_over_once_another_led(tmp_path: Path) -> None:
    """The way on that its retry is told takes back no other release."""
    folders = growing(tmp_path, 4)
    lake = deployed(tmp_path, *folders[:2])
    lake.upgrade(folders[1])
    given_up = expanded(lake, folders[2], claim_id="X")
    with pytest.raises(Crash):
        commands.cancel(lake.crashing_at(2), given_up, jobs=no_spark)
    commands.cancel(lake.env, expanded(lake, folders[3], claim_id="Y"), jobs=no_spark)
    with refused("wrong_state") as errors:
        lake.upgrade(folders[2], claim_id="X")
    assert "under another claim" in errors[0].next_action and "rollback" not in errors[0].next_action
    lake.upgrade(folders[2], claim_id="Z")
    whole(lake)


def test_a_claim_whose_rollback_was_killed_is_not_sent_into_the_release_of_another_that_leads(tmp_path: Path) -> None:
    folders = growing(tmp_path, 3)
    lake = deployed(tmp_path, *folders[:2])
    lake.upgrade(folders[1], claim_id="X")
    with pytest.raises(Crash):
        commands.rollback(lake.crashing_at(2), jobs=no_spark)
    later = promoted(lake, folders[2], claim_id="Y")
    with refused("wrong_state") as errors:
        lake.upgrade(folders[1], claim_id="X")
    assert f"Generation {later} has taken the lead since" in errors[0].next_action
    with refused("nothing_to_roll_back"):
        commands.rollback(lake.env, generation=Generation(2), jobs=no_spark)
    commands.cancel(lake.env, later, jobs=no_spark)
    with refused("wrong_state") as errors:
        lake.upgrade(folders[1], claim_id="X")
    assert errors[0].next_action.startswith("Run `schemamig rollback --generation 2` again")
    commands.rollback(lake.env, generation=Generation(2), jobs=no_spark)
    assert lake.version == "1.0.0"
    whole(lake)


@pytest.mark.parametrize("is_claimed", [True, False])
def test_an_alter_whose_cancel_was_killed_goes_on_where_its_claim_is_left_away(tmp_path: Path, is_claimed: bool) -> None:
    one = growing(tmp_path, 1)
    lake = deployed(tmp_path, one[0], one[0])
    statement = "ALTER TABLE t ADD COLUMN c INT"
    with pytest.raises(Crash):
        commands.alter(lake.crashing_at(14), statement, jobs=no_spark, claim_id="X")
    (generation,) = [found.generation for found in lake.state.deployments.values() if found.state is DeploymentState.PROMOTED]
    with pytest.raises(Crash):
        commands.cancel(lake.crashing_at(1), generation, jobs=no_spark)
    if is_claimed:
        with refused("wrong_state") as errors:
            commands.alter(lake.env, statement, jobs=no_spark, claim_id="X")
        assert "`alter` without --claim-id" in errors[0].next_action
    else:
        commands.alter(lake.env, statement, jobs=no_spark)
        assert [column["name"] for column in seen(lake, "t")["declared"]] == ["id", "c"]
        whole(lake)


def test_cancel_of_a_generation_that_a_later_plan_replaced_says_what_goes_on(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE t (a INT);", "CREATE TABLE t (a INT, b INT);", 'evolution("t")')
    first = claimed(lake, lake.second, claim_id="X")
    other = releases(tmp_path / "edited", ("CREATE TABLE t (a INT);", ""), ("CREATE TABLE t (a INT, c INT);", 'evolution("t")'))[1]
    second = claimed(lake, other, claim_id="X")
    (note,) = commands.cancel(lake.env, first, jobs=no_spark).notes
    way = f"`schemamig cancel --generation {second}` gives it up, too"
    assert note == f"generation {second} was claimed since under the same claim, and goes on: {way}"
