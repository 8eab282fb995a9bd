"""In whose name an upgrade runs: the ledger and the audit log name the person who let it through, not the process's user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.history import here, read_history
from airflow_provider_schemamig.core.names import Generation
from tests.support.bytes import unwritten
from tests.support.lake import Lake, no_spark
from tests.support.upgrades import claimed, refused, two_releases

RUN = "airflow:schemamig_upgrade/manual__1/upgrade.preflight"
SECOND = Generation(2)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, x STRING);", 'evolution("a")')
    return replace(found, env=replace(found.env, who="airflow:schemamig_upgrade/manual__1"))


def who_did(lake: Lake, generation: int = SECOND) -> dict[str, str]:
    return {entry.what: entry.who for entry in read_history(lake.env) if entry.generation == generation}


def upgraded(lake: Lake, approved_by: str | None) -> None:
    generation = claimed(lake, lake.second, claim_id=RUN)
    commands.promote(lake.env, generation, approved_by=approved_by)
    commands.expand(lake.env, generation)
    commands.cutover(lake.env, generation)


def test_the_approver_is_on_record_with_the_run_and_the_version(lake: Lake) -> None:
    upgraded(lake, "ann")
    assert who_did(lake) == {"preflight": "airflow:schemamig_upgrade/manual__1", "promote": "ann", "expand": "ann", "cutover": "ann"}
    found = commands.status(lake.env).document["deployments"][-1]
    assert {name: found[name] for name in ("approved_by", "promoted_by", "promoted_with", "claimed_by")} == {
        "approved_by": "ann",
        "promoted_by": "ann",
        "promoted_with": __version__,
        "claimed_by": RUN,
    }
    promotion = next(entry for entry in read_history(lake.env) if entry.what == "promote" and entry.generation == SECOND)
    assert promotion.detail == f"epoch 2, plan {found['plan_digest'][:12]}, claimed by {RUN}, schemamig {__version__}"


def test_the_bundle_of_the_run_is_on_record(lake: Lake) -> None:
    generation = claimed(lake, lake.second, claim_id=RUN)
    commands.promote(lake.env, generation, bundle="flights@1a2b3c")
    assert commands.status(lake.env).document["deployments"][-1]["promoted_from"] == "flights@1a2b3c"
    promotion = next(entry for entry in read_history(lake.env) if entry.what == "promote" and entry.generation == SECOND)
    assert promotion.detail.endswith(f"schemamig {__version__}, bundle flights@1a2b3c")


def test_who_approved_in_the_ledger(lake: Lake) -> None:
    generation = claimed(lake, lake.second, claim_id=RUN)
    commands.approve(lake.env, generation, lake.state.deployments[generation].plan_digest, "bob")
    upgraded(lake, None)
    assert who_did(lake)["cutover"] == "bob"


def test_without_an_approval_it_is_the_run(lake: Lake) -> None:
    upgraded(lake, None)
    assert set(who_did(lake).values()) == {"airflow:schemamig_upgrade/manual__1"}
    assert commands.status(lake.env).document["deployments"][-1]["approved_by"] is None


def test_at_a_terminal_it_is_who_types(lake: Lake) -> None:
    upgraded(replace(lake, env=replace(lake.env, who=None)), None)
    assert set(who_did(lake).values()) == {here()}


def test_the_end_of_a_hold_is_not_the_approvers(lake: Lake) -> None:
    upgraded(lake, "ann")
    commands.contract(replace(lake.env, who="airflow:schemamig_maintenance/scheduled__1"), at_once=True)
    assert who_did(lake)["contract"] == "airflow:schemamig_maintenance/scheduled__1"


def test_a_promotion_that_comes_too_late_names_who_leads(lake: Lake) -> None:
    generation = claimed(lake, lake.second, claim_id=RUN)
    commands.upgrade(replace(lake.env, who="carl"), lake.second, claim_id="another", jobs=no_spark)
    with unwritten(lake.env), refused("fenced") as found:
        commands.promote(lake.env, generation, approved_by="ann")
    assert "generation 2 does not lead here: generation 3 (1.0.0 -> 1.1.0, committed) leads since" in found[0].message
    assert found[0].message.endswith("promoted by carl, claimed as another.")


def test_a_leader_that_is_overtaken_names_who_overtook_it(lake: Lake) -> None:
    generation = claimed(lake, lake.second, claim_id=RUN)
    commands.promote(lake.env, generation, approved_by="ann")
    commands.upgrade(replace(lake.env, who="carl"), lake.second, claim_id="another", jobs=no_spark)
    with refused("fenced") as found:
        commands.expand(lake.env, generation)
    assert "generation 3 (1.0.0 -> 1.1.0, committed) leads" in found[0].message
