"""What people read of a task's end: where the environment is, and what is so from now on."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import Generation
from tests.support.lake import Crash, Lake, append, no_spark
from tests.support.product import Product
from tests.unit.cli.samples import SCHEMA_1, Run


def test_cancelling_what_is_over_says_where_the_environment_is(run: Run, env: Path, new_release: Path) -> None:
    generation = run("preflight", "--env", env, "--release", new_release, "--json").document["generation"]
    assert run("cancel", "--env", env, "--generation", generation).exit_code == 0
    assert run("upgrade", "--env", env, "--release", new_release).exit_code == 0
    assert run("cancel", "--env", env, "--generation", generation).stdout.startswith(f"at 1.1.0   generation {generation}\n")


def test_a_claim_says_what_leads_on_from_it(run: Run, env: Path, new_release: Path) -> None:
    assert "not promoted" not in run("status", "--env", env).stdout
    claimed = " ".join(run("preflight", "--env", env, "--release", new_release).stdout.split())
    assert f"To go on then: `schemamig promote --env {env} --generation 2`" in claimed
    shown = " ".join(run("status", "--env", env).stdout.split())
    assert "claimed, not promoted generation 2: if nobody is at work, `schemamig upgrade" in shown
    assert f"`schemamig promote --env {env} --generation 2` promotes it" in shown
    assert f"`schemamig cancel --env {env} --generation 2` gives it up." in shown
    assert run("cancel", "--env", env, "--generation", 2).exit_code == 0
    assert "not promoted" not in run("status", "--env", env).stdout


def test_a_plan_after_a_kill_counts_each_collection_once(run: Run, tmp_path: Path, product: Product) -> None:
    names, lake = [f"t{number}" for number in range(5)], tmp_path / "counted"
    first = "".join(f"CREATE TABLE {name} (id BIGINT);\n" for name in names)
    old = product.release("1.0.0", first)
    new = product.release("1.1.0", first.replace("BIGINT", "BIGINT, x INT"), ", ".join(f'evolution("{name}")' for name in names))
    assert run("upgrade", "--env", lake, "--release", old, "--create").exit_code == 0
    assert run("preflight", "--env", lake, "--release", new).exit_code == 0
    for task in ("promote", "expand"):
        assert run(task, "--env", lake, "--generation", 2).exit_code == 0
    shown = run("plan", "--env", lake, "--release", new).stdout
    assert "what an earlier leader left open on t0, t1, t2 and 2 more" in " ".join(shown.split())
    assert "readers or writers of 5 collection(s) will notice" in shown


def test_contract_says_that_a_way_back_is_gone_where_there_is_nothing_to_drop(run: Run, env: Path, product: Product) -> None:
    more = product.release("1.1.0", SCHEMA_1.replace("year INT", "year INT, seats INT"), 'evolution("planes")')
    assert run("upgrade", "--env", env, "--release", more).exit_code == 0
    ended = run("contract", "--env", env, "--now").stdout
    assert ended.startswith("at 1.1.0   generation 2, epoch 2\n"), "it leads nowhere"
    assert "the hold of generation 2 has ended: there is no way back to 1.0.0 any more" in ended and "Nothing to do" not in ended
    assert run("contract", "--env", env, "--now").stdout == "at 1.1.0\nNothing to do.\n"


def test_a_rollback_that_died_is_said_to_be_under_way_and_what_is_printed_ends_it(run: Run, env: Path, new_release: Path) -> None:
    assert run("upgrade", "--env", env, "--release", new_release).exit_code == 0
    lake = Lake(Environment.open(str(env)), new_release, new_release)
    moments = itertools.count()
    while lake.state.holds[Generation(2)].state is not HoldState.ROLLING_BACK:
        with pytest.raises(Crash):
            commands.rollback(lake.crashing_at(next(moments)), jobs=no_spark)
    for words in (["status"], ["plan", "--release", new_release], ["contract"]):
        shown = " ".join(run(*words, "--env", env).stdout.split())
        assert "The rollback to 1.0.0 was begun and is not at its end: `schemamig rollback" in shown and "is over" not in shown
    assert run("rollback", "--env", env).exit_code == 0
    assert "was begun" not in run("status", "--env", env).stdout


def test_cancelling_what_was_rolled_back_says_that_rows_are_kept(run: Run, env: Path, old_release: Path, product: Product) -> None:
    more = product.release("1.1.0", SCHEMA_1 + "\nCREATE TABLE added (id BIGINT);\n")
    assert run("upgrade", "--env", env, "--release", more).exit_code == 0
    append(Lake(Environment.open(str(env)), more, more).path("added"), [{"id": 1}])
    assert run("rollback", "--env", env).exit_code == 0
    told = " ".join(run("cancel", "--env", env, "--generation", 2).stdout.split())
    assert "Generation 2 is over; what it was building is deleted." in told
    assert "the rows that stayed behind are kept until" in told
