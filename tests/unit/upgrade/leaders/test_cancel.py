"""Giving a promoted generation up takes back that one, and never one that leads or was committed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.errors import WrongState
from airflow_provider_schemamig.core.upgrade.rollback.rollback import roll_back
from airflow_provider_schemamig.core.upgrade.tasks import leader
from tests.support.lake import no_spark
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, expanded, refused, releases, two_releases, whole


@pytest.mark.parametrize("ends_as", ["promoted", "committed", "rolled_back"])
def test_the_generation_that_took_over_is_left_alone(tmp_path: Path, ends_as: str) -> None:
    schemas = [f"CREATE TABLE t (id BIGINT{more});" for more in ("", ", a INT", ", a INT, b INT", ", a INT, b INT, c INT")]
    folders = releases(tmp_path, *((schema, 'evolution("t")' if number else "") for number, schema in enumerate(schemas)))
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
    assert commands.reject(lake.env, generation, "d" * 64, "ann") == ""
    entry = read_history(lake.env)[-1]
    assert (entry.who, entry.what, entry.generation, entry.outcome, entry.detail) == ("ann", "reject", generation, "done", "d" * 64)
    assert lake.state.deployments[generation].state is DeploymentState.CLAIMED, "a person may think better of it"


def test_a_generation_that_is_over_is_not_approved(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    lake.upgrade(lake.second)
    commands.rollback(lake.env, jobs=no_spark)
    with refused("wrong_state"):
        commands.approve(lake.env, Generation(2), lake.state.deployments[Generation(2)].plan_digest)
