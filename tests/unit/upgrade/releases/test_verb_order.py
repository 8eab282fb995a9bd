"""Every verb at every moment of a deployment's life: done, done already, or refused with what to do first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation
from tests.support.bytes import unwritten
from tests.support.lake import Lake, no_spark, rows
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, expanded, promoted, refused, releases, two_releases, whole

A = "CREATE TABLE a (id BIGINT);"
AX = "CREATE TABLE a (id BIGINT, x STRING);"
B = "CREATE TABLE b (id BIGINT);"
SECOND = Generation(2)

VERBS: dict[str, Callable[[Lake, Generation], object]] = {
    "approve": lambda lake, generation: commands.approve(lake.env, generation, "0" * 64, "somebody"),
    "approved": lambda lake, generation: commands.approved(lake.env, generation),
    "fill": lambda lake, generation: commands.fill(lake.env, generation, ["a"], jobs=no_spark),
    "promote": lambda lake, generation: commands.promote(lake.env, generation),
    "stale": lambda lake, generation: commands.to_change(lake.env, generation),
    "expand": lambda lake, generation: commands.expand(lake.env, generation),
    "change": lambda lake, generation: commands.change(lake.env, generation, jobs=no_spark),
    "cutover": lambda lake, generation: commands.cutover(lake.env, generation),
    "cleanup": lambda lake, generation: commands.cleanup(lake.env, generation),
}
LEADER_VERBS = ("expand", "change", "cutover", "cleanup")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.0.0; 1.1.0 evolves a and creates b."""
    return two_releases(tmp_path, A, AX + B, 'evolution("a")')


@pytest.mark.parametrize("verb", VERBS)
def test_verb_order_unknown_generation(lake: Lake, verb: str) -> None:
    with unwritten(lake.env), refused("unknown_generation") as found:
        VERBS[verb](lake, Generation(7))
    assert "generation 7" in found[0].message


@pytest.mark.parametrize("verb", ["status", "contract", "rollback"])
def test_verb_order_no_environment(tmp_path: Path, verb: str) -> None:
    with refused("no_environment"):
        getattr(commands, verb)(Environment.open(str(tmp_path / "nothing")))
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("verb", LEADER_VERBS)
def test_not_before_promotion(lake: Lake, verb: str) -> None:
    generation = claimed(lake, lake.second)
    version = lake.state.version
    with refused("wrong_state") as found:
        VERBS[verb](lake, generation)
    assert "claimed" in found[0].message
    assert found[0].next_action == "Run `schemamig promote --generation 2` first."
    assert lake.state.version == version


@pytest.mark.parametrize(
    ("schema", "steps", "collection"),
    [(AX, 'evolution("a")', "a"), (A + B, "", "b")],
    ids=["a column lacks", "a table lacks"],
)
def test_no_cutover_before_expand(tmp_path: Path, schema: str, steps: str, collection: str) -> None:
    lake = two_releases(tmp_path, A, schema, steps)
    generation = promoted(lake, lake.second)
    not_before_expand(lake, generation, collection)


def test_no_cutover_while_a_hold_that_is_to_end_is_open(tmp_path: Path) -> None:
    """The rename needs no expand commit, but expand is what ends the hold."""
    first, second, third = releases(
        tmp_path, (AX, ""), (A, 'evolution("a", drop=["x"])'), ("CREATE TABLE a (key BIGINT);", 'evolution("a", rename={"id": "key"})')
    )
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    generation = promoted(lake, third, end_hold=True)
    not_before_expand(lake, generation, None)
    assert [column["name"] for column in foreign.live_schema(lake.path("a"))] == ["key"]


def not_before_expand(lake: Lake, generation: Generation, collection: str | None) -> None:
    before = lake.version
    with refused("wrong_state", collection) as found:
        commands.cutover(lake.env, generation)
    assert found[0].next_action.startswith(f"Run `schemamig expand --generation {generation}` again")
    assert lake.version == before
    commands.expand(lake.env, generation)
    commands.cutover(lake.env, generation)
    whole(lake)


def test_no_cleanup_and_no_contract_while_a_deployment_is_open(lake: Lake) -> None:
    generation = promoted(lake, lake.second)
    with refused("deployment_open") as found:
        commands.cleanup(lake.env, generation)
    assert found[0].retryable
    assert "`schemamig upgrade` goes on, `schemamig rollback` takes it back" in found[0].next_action, "it may have been killed"
    for at_once in (False, True):
        with refused("deployment_open"):
            commands.contract(lake.env, at_once=at_once)
    commands.expand(lake.env, generation)
    with refused("deployment_open"):
        commands.preflight(lake.env, lake.first, jobs=no_spark)


def test_every_verb_again_after_the_commit_changes_nothing(lake: Lake) -> None:
    lake.upgrade(lake.second)
    foreign.write(lake.path("a"), [{"id": 1, "x": "y"}])
    state, log = lake.state, len(list(lake.path("a").glob("_delta_log/*.json")))
    for verb in ("promote", "stale", *LEADER_VERBS):
        VERBS[verb](lake, SECOND)
    assert commands.contract(lake.env).pending, "not due"
    assert lake.state.raw == state.raw
    assert len(list(lake.path("a").glob("_delta_log/*.json"))) == log


@pytest.mark.parametrize("verb", ["promote", *LEADER_VERBS])
def test_verb_order_what_was_rolled_back_stays_so(lake: Lake, verb: str) -> None:
    expanded(lake, lake.second)
    commands.rollback(lake.env)
    version = lake.state.version
    with refused("wrong_state") as found:
        VERBS[verb](lake, SECOND)
    assert "rolled_back" in found[0].message
    assert found[0].next_action.startswith("If it is still wanted, start it under another claim: in Airflow a new run, ")
    assert lake.state.version == version
    lake.upgrade(lake.second)
    assert lake.state.leader is not None
    assert lake.state.leader.generation == 3


@pytest.mark.parametrize("verb", ["promote", *LEADER_VERBS])
def test_verb_order_what_a_later_generation_overtook_is_fenced(lake: Lake, verb: str) -> None:
    claimed(lake, lake.second, claim_id="slow")
    lake.upgrade(lake.second, claim_id="fast")
    state = lake.state
    with refused("fenced") as found:
        VERBS[verb](lake, SECOND)
    assert not found[0].retryable
    assert lake.state.raw == state.raw


# --- the plan that was checked is the plan that runs ---------------------------------------------------------------------------------


def test_a_plan_is_approved_by_what_is_shown_of_its_digest(lake: Lake) -> None:
    """Status, report and logs show twelve digits: they were refused with "1e6fbbba8769 is not 1e6fbbba8769"."""
    checked = commands.preflight(lake.env, lake.second, jobs=no_spark)
    assert checked.generation is not None
    with refused("plan_changed"):
        commands.approve(lake.env, checked.generation, checked.plan_digest[:11], "somebody")
    approval = commands.approve(lake.env, checked.generation, checked.plan_digest[:12], "somebody")
    assert approval.plan_digest == lake.state.approvals[checked.generation].plan_digest == checked.plan_digest
    assert commands.approved(lake.env, checked.generation)


def test_approval_is_of_this_plan(lake: Lake) -> None:
    checked = commands.preflight(lake.env, lake.second, jobs=no_spark)
    assert checked.generation is not None
    assert not commands.approved(lake.env, checked.generation)
    with refused("plan_changed"):
        commands.approve(lake.env, checked.generation, "0" * 64, "somebody")
    assert not commands.approved(lake.env, checked.generation)
    first = commands.approve(lake.env, checked.generation, checked.plan_digest, "somebody")
    assert commands.approved(lake.env, checked.generation)
    commands.approve(lake.env, checked.generation, checked.plan_digest, "somebody else")
    assert lake.state.approvals[checked.generation] == first, "once is enough"


def test_a_table_that_was_changed_since_preflight(lake: Lake) -> None:
    generation = claimed(lake, lake.second)
    foreign.add_column(lake.path("a"), "x")
    with refused("drift", "a"):
        commands.promote(lake.env, generation)


def test_verb_order_what_the_tables_have_since_preflight(tmp_path: Path) -> None:
    """1.2.0 was checked when 1.1.0 stood to be rolled back; since then a hidden column is left, and there is less to be done."""
    wider = "CREATE TABLE a (id BIGINT, x STRING, y STRING);"
    first, second, third = releases(tmp_path, (A, ""), (AX, 'evolution("a")'), (wider, 'evolution("a")'))
    lake = deployed(tmp_path, first, second)
    early = claimed(lake, third, claim_id="early")
    expanded(lake, second)
    foreign.write(lake.path("a"), [{"id": 1, "x": "kept"}])
    commands.rollback(lake.env)
    with refused("fenced"):
        commands.promote(lake.env, early)
    late = claimed(lake, third, claim_id="early")
    assert late > early
    finish(lake, late)
    assert rows(lake.path("a")) == [{"id": 1, "x": "kept", "y": None}]
    whole(lake)


def test_a_hidden_column_that_went_since_preflight(tmp_path: Path) -> None:
    """A plan that reuses a hidden column is not the plan for a table without it."""
    wider = "CREATE TABLE a (id BIGINT, x STRING, y STRING);"
    first, second, third = releases(tmp_path, (A, ""), (AX, 'evolution("a")'), (wider, 'evolution("a")'))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    foreign.write(lake.path("a"), [{"id": 1, "x": "kept"}])
    commands.rollback(lake.env)
    generation = claimed(lake, third)
    forget_hidden(lake)
    with refused("plan_changed"):
        commands.promote(lake.env, generation)


def forget_hidden(lake: Lake) -> None:
    """As `schemamig compact` and a drop of what is hidden would leave it."""
    foreign.drop_column(lake.path("a"), "x")
    name = CollectionName("a")

    def shorten(state: State) -> list[Put]:
        entry = state.entry(name)
        return [Put(replace(entry, physical=entry.declared))]

    LedgerWriter(lake.env).transact(shorten)


def finish(lake: Lake, generation: Generation) -> None:
    for verb in (commands.promote, commands.expand, commands.cutover):
        verb(lake.env, generation)


def test_a_commit_between_preflight_and_promote(tmp_path: Path) -> None:
    """Generation 3 was checked from 1.0.0; generation 2 commits 1.1.0 meanwhile."""
    first, second, third = releases(tmp_path, (A, ""), (AX, 'evolution("a")'), (AX + B, ""))
    lake = deployed(tmp_path, first, second)
    slow = claimed(lake, second)
    late = claimed(lake, third)
    finish(lake, slow)
    with refused("plan_changed") as found:
        commands.promote(lake.env, late)
    assert "from 1.1.0" in found[0].message
    lake.upgrade(third)
    assert lake.version == "1.2.0"


# --- fills ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def filling(tmp_path: Path) -> Lake:
    """At 1.0.0 with three rows in a; 1.1.0 fills b from a."""
    second = A + "CREATE TABLE b (n BIGINT);"
    lake = two_releases(tmp_path, A + B, second, 'replacement("b", fill="SELECT count(*) AS n FROM {a}")')
    foreign.write(lake.path("a"), [{"id": 1}, {"id": 2}, {"id": 3}])
    return lake


def test_not_promoted_before_it_is_filled(filling: Lake) -> None:
    jobs = FakeJobs({"n": 7})
    checked = commands.preflight(filling.env, filling.second, jobs=jobs, fill=False)
    assert (checked.generation, checked.fills, jobs.fills) == (2, ("b",), [])
    with refused("not_built", "b"):
        commands.promote(filling.env, SECOND)
    commands.fill(filling.env, SECOND, ["a"], jobs=no_spark)
    with refused("not_built", "b"):
        commands.promote(filling.env, SECOND)
    commands.fill(filling.env, SECOND, ["b"], jobs=jobs)
    commands.fill(filling.env, SECOND, ["b"], jobs=no_spark)
    finish(filling, SECOND)
    assert rows(filling.path("b")) == [{"n": 7}] * 3
    whole(filling)


def test_a_shard_that_is_gone_is_not_promoted(filling: Lake) -> None:
    claimed_with(filling, FakeJobs({"n": 7}))
    shutil.rmtree(filling.env.table_location(f"b/{built(filling)}").local_path or Path())
    with refused("not_built", "b"):
        commands.promote(filling.env, SECOND)


def test_verb_order_what_only_rearranges_makes_no_fill_stale_and_what_deletes_does(filling: Lake) -> None:
    claimed_with(filling, FakeJobs({"n": 7}))
    foreign.compact(filling.path("a"))
    assert commands.to_change(filling.env, SECOND) == ()
    foreign.delete_all(filling.path("a"))
    assert commands.to_change(filling.env, SECOND) == ("b",)


def test_verb_order_what_was_filled_twice_and_compacted_is_not_its_users(filling: Lake) -> None:
    """Delta compacts by itself after a fill, so that no version tells which commits were fills."""
    jobs = FakeJobs({"n": 7}, compacts=True)
    claimed_with(filling, jobs)
    foreign.write(filling.path("a"), [{"id": 4}])
    for verb in (commands.promote, commands.expand):
        verb(filling.env, SECOND)
    commands.change(filling.env, SECOND, jobs=jobs)
    commands.cutover(filling.env, SECOND)
    foreign.compact(filling.path("b"))
    assert jobs.fills == ["append", "overwrite"]
    commands.rollback(filling.env)
    assert filling.version == "1.0.0"


def test_verb_order_what_users_deleted_from_a_replacement_is_lost_by_a_rollback(filling: Lake) -> None:
    commands.upgrade(filling.env, filling.second, jobs=FakeJobs({"n": 7}))
    foreign.delete_all(filling.path("b"))
    with refused("lossy_rollback"):
        commands.rollback(filling.env)


def test_rows_that_came_after_the_fill_are_in_it_after_all(filling: Lake) -> None:
    jobs = FakeJobs({"n": 7})
    claimed_with(filling, jobs)
    assert commands.to_change(filling.env, SECOND) == ()
    foreign.write(filling.path("a"), [{"id": 4}])
    assert commands.to_change(filling.env, SECOND) == ("b",)
    commands.promote(filling.env, SECOND)
    commands.expand(filling.env, SECOND)
    commands.change(filling.env, SECOND, collections=["a"], jobs=no_spark)
    assert commands.to_change(filling.env, SECOND) == ("b",)
    commands.change(filling.env, SECOND, jobs=jobs)
    assert commands.to_change(filling.env, SECOND) == ()
    commands.cutover(filling.env, SECOND)
    assert jobs.fills == ["append", "overwrite"]
    assert rows(filling.path("b")) == [{"n": 7}] * 4
    commands.rollback(filling.env)
    whole(filling)


def test_a_fill_that_breaks_a_key_of_its_collection(tmp_path: Path) -> None:
    second = A + "CREATE TABLE b (n BIGINT NOT NULL, PRIMARY KEY (n));"
    lake = two_releases(tmp_path, A + B, second, 'replacement("b", fill="SELECT id AS n FROM {a}")')
    foreign.write(lake.path("a"), [{"id": 1}])
    jobs = FakeJobs({"n": 7}, violations=[{"collection": "b", "rule": "PRIMARY KEY (n)", "count": 2, "sample": ["7"]}])
    with refused("data_violation", "b"):
        commands.preflight(lake.env, lake.second, jobs=jobs)
    with refused("not_built", "b"):
        commands.promote(lake.env, SECOND)


def claimed_with(lake: Lake, jobs: FakeJobs) -> None:
    assert commands.preflight(lake.env, lake.second, jobs=jobs).generation == SECOND


def built(lake: Lake) -> str:
    (row,) = lake.state.replacements.values()
    return row.shard
