"""Handles that write while the table under them changes: another schema, a lost answer, a seal."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.access import writer as writers
from airflow_provider_schemamig.core.access.errors import (
    ShardMoving,
    WroteOtherColumns,
)
from airflow_provider_schemamig.core.access.statement import append_arrow
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.commit.seal import seal, unseal
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId
from airflow_provider_schemamig.core.spark.errors import ConcurrentWrite
from tests.support.lake import Lake
from tests.support.tables import foreign
from tests.support.upgrades import two_releases
from tests.unit.access.support import batch, rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    t = "CREATE TABLE t (id BIGINT, x INT);"
    return two_releases(tmp_path, t, t, "")


def test_another_schema_in_between_is_planned_on_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def slow(*given: Any) -> None:
        tries.append(given[1].head.version)
        if len(tries) == 1:
            foreign.add_column(lake.path("t"), "extra")
        append_arrow(*given)

    monkeypatch.setattr(writers, "append_arrow", slow)
    assert lake.env.writer("t").append(batch(id=[1])).version == 2
    assert tries == [0, 1]
    assert rows(lake) == [{"id": 1, "x": None}]


def test_an_answer_that_was_lost_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*given: Any) -> None:
        append_arrow(*given)
        raise ConcurrentWrite(condition="delta-rs", detail="who knows")

    monkeypatch.setattr(writers, "append_arrow", lost)
    assert lake.env.writer("t").append(batch(id=[1])).version == 1
    assert rows(lake) == [{"id": 1, "x": None}]


def test_names_that_changed_hands_under_a_statement_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark plans on the newest names, whatever ours were: what cannot be prevented is at least not silent."""
    swapped = "CREATE TABLE t (id BIGINT, x BIGINT);"
    lake = two_releases(tmp_path, swapped, swapped, 'evolution("t", rename={"x": "id", "id": "x"})')

    def late(rows: Any, place: Any, fit: Any, collection: Any, options: Any, stamp: Any, *_: Any) -> None:
        lake.upgrade(lake.second)
        add = {"path": "f", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
        foreign.commit(lake.path("t"), {"commitInfo": {"userMetadata": stamp.text}}, {"add": add})

    monkeypatch.setattr(writers, "append_arrow", late)
    monkeypatch.setattr(foreign, "commit", _without_info)
    with pytest.raises(WroteOtherColumns, match="became the name of another column"):
        lake.env.writer("t", "1.0.0").append(pa.table({"id": [1], "x": [1]}))


def _without_info(path: Path, *actions: Any) -> None:
    version = len(list((path / "_delta_log").glob("*.json")))
    (path / "_delta_log" / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def sealed(lake: Lake) -> Any:
    shard = lake.state.shard_of(CollectionName("t"))
    store = lake.env.table_store(shard.uri)
    fence, tag = Fence(lake.state.config.env_id, shard.shard, Epoch(1)), Tag(Generation(1), Epoch(1), "seal")
    head = read_head(store)
    found = seal(store, head, ShardId("elsewhere"), fence, tag, since=head.version).head
    return lambda: unseal(store, found, fence, tag, since=head.version)


def test_a_seal_is_waited_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lift, pauses, really = sealed(lake), [], time.sleep

    def sleep(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():  # of a test before, which waits for something of its own
            really(seconds)
            return
        pauses.append(seconds)
        if len(pauses) == 3:
            lift()

    monkeypatch.setattr(time, "sleep", sleep)
    assert rows(lake) == [], "a sealed table is read while it is the collection's"
    assert lake.env.writer("t").append(batch(id=[1])).version == 3
    assert len(pauses) == 3


def test_a_seal_that_stays_is_a_conflict(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "SEAL_WAIT_SECONDS", 0.1)
    sealed(lake)
    with pytest.raises(ShardMoving) as moving:
        lake.env.writer("t").append(batch(id=[1]))
    assert moving.value.retryable
