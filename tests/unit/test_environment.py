"""An environment: where things lie below its root, and the seam for crash tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter
from airflow_provider_schemamig.core.storage import InvalidLocation, PutIfAbsentIgnored, WriteReceipt


def test_where_things_lie(tmp_path: Path) -> None:
    env = Environment.open(str(tmp_path))
    assert env.ledger_uri == f"file://{tmp_path}/_schemamig/ledger"
    assert env.history_uri == f"file://{tmp_path}/_schemamig/history"
    assert env.store().location == env.location
    assert env.table_store("flights/0a1b").location.uri == f"file://{tmp_path}/flights/0a1b"
    assert env.table_store("s3://bucket/adopted/flights").location.uri == "s3://bucket/adopted/flights"
    assert env.table_store("/data/flights").location.uri == "file:///data/flights"
    assert not list(tmp_path.iterdir()), "opening makes nothing"


@pytest.mark.parametrize("uri", ["../outside", "flights/../../outside", "", "flights//x"])
def test_a_relative_table_stays_below_the_root(tmp_path: Path, uri: str) -> None:
    with pytest.raises(InvalidLocation):
        Environment.open(str(tmp_path)).table_store(uri)


def test_options_reach_delta_without_ours_and_are_never_printed() -> None:
    options = {"aws_secret_access_key": "hush-hush", "schemamig.conditional_log_store": "true"}
    env = Environment.open("s3://bucket/lake", options)
    assert env.delta_options == {"aws_secret_access_key": "hush-hush"}
    assert "hush" not in repr(env)
    assert env.first_line(OSError("denied for hush-hush.\n  at <unknown>")) == "denied for ***"


def test_every_write_passes_the_hook(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str]] = []
    env = replace(Environment.open(str(tmp_path)), on_write=lambda *call: seen.append(call))
    store = env.store()
    store.put_if_absent("a", b"1")
    store.put("b", b"2")
    store.delete("b")
    store.delete_tree("_schemamig/scratch/1")
    assert seen == [
        (moment, what, key)
        for what, key in (("put_if_absent", "a"), ("put", "b"), ("delete", "b"), ("delete_tree", "_schemamig/scratch/1"))
        for moment in ("before", "after")
    ]
    seen.clear()
    assert (store.get("a"), store.exists("a"), store.names(""), store.open_random("a").read()) == (b"1", True, ["a"], b"1")
    assert seen == []
    table = env.table_store("flights/x")
    table.put("b", b"2")
    assert seen[0] == ("before", "put", "b")
    assert env == Environment.open(str(tmp_path)), "the hook is no part of what an environment is"


class Overwriting:
    """A store that ignores the condition of a conditional put."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, data: bytes) -> WriteReceipt:
        self._inner.put(key, data)  # type: ignore[attr-defined]
        return WriteReceipt(self._inner.location, key, 0.0)  # type: ignore[attr-defined]


def test_a_store_that_ignores_the_condition_gets_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = Environment.open(str(tmp_path))
    inner = env.store()
    monkeypatch.setattr(Environment, "store", lambda self: Overwriting(inner))
    with pytest.raises(PutIfAbsentIgnored):
        LedgerWriter(env).create("env-1")
    monkeypatch.undo()
    assert not LedgerReader(env).exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
