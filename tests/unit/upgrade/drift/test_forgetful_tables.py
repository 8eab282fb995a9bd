"""A table that forgets transaction identifiers forgets the fence: it is not adopted, is drift, and gets the fence anew when put right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.fence import Fence, read_fence
from airflow_provider_schemamig.core.names import CollectionName, Epoch
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import unwritten
from tests.support.lake import Lake, append, no_spark, rows
from tests.support.tables import foreign
from tests.support.tables.adopting import Site, alter, field
from tests.support.upgrades import claimed, expanded, promoted, refused, seen, two_releases, whole

T = CollectionName("t")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, "CREATE TABLE t (id BIGINT)", "CREATE TABLE t (id BIGINT, g STRING)", 'evolution("t")')


def forget(lake: Lake) -> None:
    foreign.set_property(lake.path("t"), FORGETS, "interval 1 second")


def remember(path: Path) -> None:
    """What a person's UNSET TBLPROPERTIES does."""
    settings = {key: value for key, value in foreign.metadata(path)["configuration"].items() if key != FORGETS}
    foreign.commit(path, {"metaData": foreign.metadata(path) | {"configuration": settings}})


def lose(lake: Lake) -> None:
    """What a checkpoint of a table that forgets does: the identifiers before it are gone."""
    for file in (lake.path("t") / "_delta_log").glob("*.json"):
        kept = [line for line in file.read_text().splitlines() if "txn" not in json.loads(line)]
        file.write_text("".join(f"{line}\n" for line in kept))


def epoch_on_table(lake: Lake) -> int | None:
    state = lake.state
    found = read_fence(lake.env.table_store(state.shard_of(T).uri), Fence(state.config.env_id, state.objects[T].shard, Epoch(1)).app_id)
    return None if found is None else found >> 32


def epoch(lake: Lake) -> int:
    assert lake.state.leader is not None
    return lake.state.leader.epoch


def taken_over(lake: Lake) -> None:
    """A table on which a leader died, so that the next one put its fence there: its statements may still come."""
    expanded(lake, lake.second)
    commands.rollback(lake.env, jobs=no_spark)
    assert epoch_on_table(lake) == epoch(lake)


def test_forgetful_tables_it_is_not_adopted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    property_name = FORGETS.replace(".", "__")
    t, u = site.by_hand("t", [field("id", "long")], None, **{property_name: "interval 30 days"}), site.by_hand("u", [field("id", "long")])
    with refused("forgets_transactions", "t") as errors:
        site.adopt(t=t, u=u)
    assert "interval 30 days" in errors[0].message and "UNSET" in errors[0].next_action
    assert not site.release.exists()
    alter(t, None, **{property_name: None})
    site.adopt(t=t, u=u)


def test_it_is_drift_that_only_revert_takes_away(lake: Lake) -> None:
    forget(lake)
    (text,) = seen(lake, "t")["drift"]
    assert text.startswith(f"property {FORGETS}: expected nothing, found interval 1 second") and "fence" in text
    ways = {way["way"]: not way["why_not"] for way in seen(lake, "t")["ways_on"]}
    assert ways == {"accept": False, "revert": True, "unmanage": True}
    with refused("drift", "t"):
        lake.upgrade(lake.second)
    with unwritten(lake.env), refused("cannot_accept", "t"):
        accept(lake.env, lake.first)
    revert(lake.env, "t")
    assert FORGETS not in foreign.metadata(lake.path("t"))["configuration"]
    whole(lake)


def test_revert_puts_the_fence_anew_in_the_commit_that_takes_it_away(lake: Lake) -> None:
    taken_over(lake)
    forget(lake)
    lose(lake)
    assert epoch_on_table(lake) is None
    done = revert(lake.env, "t")
    assert epoch_on_table(lake) == epoch(lake)
    log = lake.path("t") / "_delta_log" / f"{done.table_version:020}.json"
    assert {key for line in log.read_text().splitlines() for key in json.loads(line)} == {"commitInfo", "metaData", "txn"}


def test_revert_never_takes_the_number_of_a_statement_back(lake: Lake) -> None:
    taken_over(lake)
    forget(lake)
    state, number = lake.state, epoch(lake) * 2**32 + 7
    app_id = Fence(state.config.env_id, state.objects[T].shard, Epoch(1)).app_id
    foreign.commit(lake.path("t"), {"txn": {"appId": app_id, "version": number, "lastUpdated": int(time.time() * 1000)}})
    revert(lake.env, "t")
    assert read_fence(lake.env.table_store(state.shard_of(T).uri), app_id) == number


def test_a_leader_puts_the_fence_anew_where_a_person_put_the_table_right(lake: Lake) -> None:
    taken_over(lake)
    forget(lake)
    lose(lake)
    remember(lake.path("t"))
    generation = promoted(lake, lake.second)
    assert epoch_on_table(lake) is None
    commands.expand(lake.env, generation)
    assert epoch_on_table(lake) == epoch(lake)
    fences = [path for path in (lake.path("t") / "_delta_log").glob("*.json") if '"txn"' in path.read_text()]
    commands.cutover(lake.env, generation, jobs=no_spark)
    assert [path for path in (lake.path("t") / "_delta_log").glob("*.json") if '"txn"' in path.read_text()] == fences, "once"
    whole(lake)


@pytest.mark.parametrize("begin", [claimed, promoted, expanded])
def test_forgetful_tables_nothing_is_done_while_it_forgets(lake: Lake, begin: object) -> None:
    generation = begin(lake, lake.second)  # type: ignore[operator]
    forget(lake)
    append(lake.path("t"), [{"id": 1, "g": "x"}] if begin is expanded else [{"id": 1}])
    before = len(list((lake.path("t") / "_delta_log").iterdir()))
    for task in (commands.promote, commands.expand, commands.cutover) if begin is claimed else (commands.expand, commands.cutover):
        with pytest.raises(SchemamigError):
            task(lake.env, generation)
    assert len(list((lake.path("t") / "_delta_log").iterdir())) == before
    remember(lake.path("t"))
    lake.upgrade(lake.second)
    whole(lake)
    assert lake.version == "1.1.0"


def test_in_the_middle_of_an_upgrade_the_text_says_what_works(lake: Lake) -> None:
    """``revert`` waits for the upgrade, and the upgrade for the table: only the table itself is left."""
    generation = expanded(lake, lake.second)
    forget(lake)
    ways: tuple[Callable[[], object], ...] = (
        lambda: commands.cutover(lake.env, generation, jobs=no_spark),
        lambda: commands.rollback(lake.env, jobs=no_spark),
    )
    for way in ways:
        with refused("drift", "t") as errors:
            way()
        assert "ALTER TABLE" in errors[0].next_action and "schemamig revert" not in errors[0].next_action
    with refused("deployment_open"):
        revert(lake.env, "t")
    remember(lake.path("t"))
    commands.rollback(lake.env, jobs=no_spark)
    whole(lake)


def test_the_old_table_of_a_replacement_is_put_right_by_hand_before_the_rollback(tmp_path: Path) -> None:
    """No command of ours looks at that table but the rollback, so its refusal names what undoes it."""
    lake = two_releases(tmp_path, "CREATE TABLE t (id BIGINT);", "CREATE TABLE t (id BIGINT, g STRING);", 'replacement("t")')
    old = lake.path("t")
    foreign.write(old, [{"id": 1}])
    commands.upgrade(lake.env, lake.second, jobs=no_spark)
    foreign.set_property(old, FORGETS, "interval 1 second")
    with unwritten(lake.env), refused("old_table_forgets", "t"):
        commands.rollback(lake.env, jobs=no_spark)
    remember(old)
    commands.rollback(lake.env, jobs=no_spark)
    assert [row["id"] for row in rows(old, "id")] == [1]
    whole(lake)
