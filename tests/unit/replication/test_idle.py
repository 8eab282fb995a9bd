"""What a poll costs if nothing was committed: one listing a collection, and nothing read."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.stream.events import next_events
from airflow_provider_schemamig.core.replication.stream.gaps import check_gap
from airflow_provider_schemamig.core.storage import LocalStore
from tests.support.lake import Lake
from tests.support.product import Product
from tests.support.rows import tables

NAMES = tuple(CollectionName(f"t{number}") for number in range(100))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("idle")
    release = Product(folder / "product").release("1.0.0", "".join(f"CREATE TABLE {name} (id BIGINT);\n" for name in NAMES))
    found = Lake(Environment.open(str(folder / "lake")), release, release)
    found.upgrade(release)
    for number in range(100):
        tables.put(found.path(NAMES[0]), number, [{"commitInfo": {"operation": "VACUUM END"}}])
    return found


def poll(lake: Lake, after: dict[CollectionName, int]) -> None:
    state, now = lake.state, pendulum.now("UTC")
    for name in NAMES:
        shard = state.objects[name].shard
        found = next_events(lake.env, state, name, shard, after[name])
        assert check_gap(lake.env, state, shard, found, now) == ""
        assert found.batch is None


def heads(lake: Lake) -> dict[CollectionName, int]:
    return {name: tables.newest(lake.path(name)) for name in NAMES}


def test_a_hundred_idle_collections_take_less_than_a_second(lake: Lake) -> None:
    after = heads(lake)
    poll(lake, after)
    started = time.process_time()
    poll(lake, after)
    assert time.process_time() - started < 1.0


def test_an_idle_collection_is_listed_and_not_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    state, after, asked = lake.state, heads(lake), Counter[str]()
    for what in ("names", "listing", "get", "exists", "open_random"):
        monkeypatch.setattr(LocalStore, what, _counted(getattr(LocalStore, what), what, asked))
    for name in NAMES:
        shard = state.objects[name].shard
        found = next_events(lake.env, state, name, shard, after[name])
        check_gap(lake.env, state, shard, found, pendulum.now("UTC"))
    assert asked == {"listing": len(NAMES)}


def _counted(method: Any, what: str, asked: Counter[str]) -> Any:
    def counted(*arguments: Any, **named: Any) -> Any:
        asked[what] += 1
        return method(*arguments, **named)

    return counted
