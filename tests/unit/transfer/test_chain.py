"""Where a chain stands, from any log: links in any order, of other chains and generations, and commits of others in between."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, open_store
from airflow_provider_schemamig.core.transfer.errors import StepAlreadyMade
from airflow_provider_schemamig.core.transfer.exactly_once import (
    TXN_VERSION,
    LinkChain,
    LinkPosition,
    foreign_commits,
    position,
    put_empty_link,
)
from tests.support.rows.tables import commit_at, put

CHAIN = LinkChain("schemamig:env:target", "tail", Generation(2))
OTHERS = (
    LinkChain("schemamig:env:target", "copy", Generation(2)),
    LinkChain("schemamig:env:target", "tail", Generation(3)),
    LinkChain("schemamig:env:target", "rollback/x", Generation(2)),
)
PROTOCOL: dict[str, Any] = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
METADATA: dict[str, Any] = {
    "metaData": {
        "id": "00000000-0000-0000-0000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}',
        "partitionColumns": [],
        "configuration": {},
    }
}
FOREIGN: Sequence[dict[str, Any]] = (
    {"operation": "WRITE"},
    {"operation": "WRITE", "userMetadata": "not JSON"},
    {"operation": "WRITE", "userMetadata": "[1]"},
    {"operation": "WRITE", "userMetadata": '{"schemamig": 5}'},
)


def table(folder: Path, *commits: Sequence[dict[str, Any]]) -> Store:
    (folder / "_delta_log").mkdir(parents=True)
    first: list[dict[str, Any]] = [{"commitInfo": {}}, PROTOCOL, METADATA]
    for number, actions in enumerate([first, *commits]):
        put(folder, number - 1, actions)
    return open_store(Location.parse(str(folder)), StorageOptions())


def link(chain: LinkChain, lo: int, hi: int, rows: int = 0) -> list[dict[str, Any]]:
    """As Spark commits one: with an attempt and notes beside what we said."""
    about = {**json.loads(chain.user_metadata(lo, hi)), "attempt": "x", "applied": {}}
    info = {"operation": "WRITE", "userMetadata": json.dumps(about), "operationMetrics": {"numOutputRows": str(rows)}}
    return [{"commitInfo": info}, {"txn": {"appId": chain.txn_app_id(lo), "version": TXN_VERSION}}]


@given(
    steps=st.lists(st.integers(1, 5), max_size=6),
    start=st.integers(0, 3),
    others=st.lists(st.tuples(st.sampled_from([*OTHERS, None]), st.integers(0, 12), st.integers(1, 4)), max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_chain_position(steps: list[int], start: int, others: list[tuple[LinkChain | None, int, int]], order: random.Random) -> None:
    """All links from ``start`` on count, in whatever order they and others' commits came."""
    ours, at = [], start
    for step in steps:
        ours.append(link(CHAIN, at, at + step, rows=step))
        at += step
    foreign = [[{"commitInfo": FOREIGN[lo % 4]}] if chain is None else link(chain, lo, lo + step, 7) for chain, lo, step in others]
    commits = [*ours, *foreign]
    order.shuffle(commits)
    with tempfile.TemporaryDirectory() as folder:
        store = table(Path(folder) / "t", *commits)
        last = max((number for number, commit in enumerate(commits, start=1) if commit in ours), default=0)
        assert position(store, CHAIN, start) == LinkPosition(at, last, sum(steps))


def test_whose_commit_it_is_no_text_tells(tmp_path: Path) -> None:
    """Delta compacts after a statement under the statement's settings, and anybody may write any text; one commit has the transaction."""
    compaction = link(CHAIN, 0, 4, rows=0)
    compaction[0]["commitInfo"] |= {"operation": "OPTIMIZE", "operationMetrics": {"numAddedFiles": "1"}}
    without = link(CHAIN, 4, 9, rows=7)[:1]
    of_another = [without[0], {"txn": {"appId": CHAIN.txn_app_id(3), "version": TXN_VERSION}}]
    store = table(tmp_path / "t", link(CHAIN, 0, 4, rows=3), compaction, compaction[:1], without, of_another)
    assert position(store, CHAIN, 0) == LinkPosition(4, 1, 3)


@given(steps=st.lists(st.integers(1, 3), min_size=2, max_size=6), missing=st.integers(0, 5))
def test_a_gap_ends_it(steps: list[int], missing: int) -> None:
    """A link beyond a gap would be one of a driver that knew more than the log: nobody builds on it."""
    los = [sum(steps[:number]) for number in range(len(steps))]
    commits = [link(CHAIN, lo, lo + step) for number, (lo, step) in enumerate(zip(los, steps, strict=True)) if number != missing]
    with tempfile.TemporaryDirectory() as folder:
        found = position(table(Path(folder) / "t", *commits), CHAIN, 0)
    assert found.at == (sum(steps) if missing >= len(steps) else los[missing])


def test_link_chain_what_lies_before_is_not_looked_at(tmp_path: Path) -> None:
    store = table(tmp_path / "t", link(CHAIN, 0, 4), link(CHAIN, 4, 6))
    assert position(store, CHAIN, 0, after=1) == LinkPosition(0, 1)
    assert position(store, CHAIN, 4, after=1) == LinkPosition(6, 2)


def test_chain_empty_link(tmp_path: Path) -> None:
    """It is a link like any other: found again, and its transaction id is taken."""
    store = table(tmp_path / "t", link(CHAIN, 0, 4, rows=3))
    assert put_empty_link(store, CHAIN, 4, 9) == 2
    assert position(store, CHAIN, 0) == LinkPosition(9, 2, 3)
    txns = [action["txn"] for action in commit_at(tmp_path / "t", 2) if "txn" in action]
    assert [(txn["appId"], txn["version"]) for txn in txns] == [(CHAIN.txn_app_id(4), TXN_VERSION)]
    assert not any("metaData" in action for action in commit_at(tmp_path / "t", 2)), "it disturbs nobody"
    with pytest.raises(StepAlreadyMade):
        put_empty_link(store, CHAIN, 0, 9)
    with pytest.raises(StepAlreadyMade):
        put_empty_link(store, CHAIN, 4, 5)
    assert put_empty_link(store, OTHERS[0], 4, 5) == 3


class Slow:
    """A store whose first commit is overtaken by ``other``."""

    def __init__(self, store: Store, other: list[dict[str, Any]]) -> None:
        self._store, self._other = store, [other]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, data: bytes) -> Any:
        while self._other:
            put(self._store.location.local_path or Path(), 0, self._other.pop())
        return self._store.put_if_absent(key, data)


def test_empty_link_is_overtaken(tmp_path: Path) -> None:
    mine = table(tmp_path / "mine")
    with pytest.raises(StepAlreadyMade):
        put_empty_link(Slow(mine, link(CHAIN, 0, 3)), CHAIN, 0, 9)
    others = table(tmp_path / "others")
    assert put_empty_link(Slow(others, [{"commitInfo": FOREIGN[0]}]), CHAIN, 0, 9) == 2


def test_chain_foreign_commits(tmp_path: Path) -> None:
    """Those that are not ours and change rows."""

    def writes(action: str, **more: Any) -> list[dict[str, Any]]:
        return [{"commitInfo": FOREIGN[1]}, {action: {"path": "x", **more}}]

    found: list[list[dict[str, Any]]] = [
        [*link(CHAIN, 0, 1), {"add": {"path": "y"}}],
        writes("add"),
        writes("add", dataChange=False),
        writes("remove"),
        [{"commitInfo": {}}, METADATA],
    ]
    store = table(tmp_path / "t", *found)
    assert [commit.version for commit in foreign_commits(store, 0)] == [2, 4]
    assert [commit.version for commit in foreign_commits(store, 3)] == [4]
