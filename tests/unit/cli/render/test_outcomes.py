"""What people read of a task's end: where the environment is, and what is so from now on."""

from __future__ import annotations

from pathlib import Path

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
    assert "readers or writers of 5 collection(s) break" in shown


def test_contract_says_that_a_way_back_is_gone_where_there_is_nothing_to_drop(run: Run, env: Path, product: Product) -> None:
    more = product.release("1.1.0", SCHEMA_1.replace("year INT", "year INT, seats INT"), 'evolution("planes")')
    assert run("upgrade", "--env", env, "--release", more).exit_code == 0
    ended = run("contract", "--env", env, "--now").stdout
    assert ended.startswith("at 1.1.0   generation 2, epoch 2\n"), "it leads nowhere"
    assert "the hold of generation 2 has ended: there is no way back to 1.0.0 any more" in ended and "Nothing to do" not in ended
    assert run("contract", "--env", env, "--now").stdout == "at 1.1.0\nNothing to do.\n"
