"""Every kind of damage has its finding, and a sound ledger has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.codec import RawRow, encode
from airflow_provider_schemamig.core.ledger.errors import LedgerMissing, LedgerTooNew
from airflow_provider_schemamig.core.ledger.maintenance import compact
from airflow_provider_schemamig.core.ledger.rows import (
    EnvironmentRelease,
    Intent,
    IntentKind,
    Object,
    Replacement,
    SchemaEntry,
    Shard,
    ShardState,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.ledger.verify import verify
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Fingerprint, Generation, SchemaId, ShardId, Version
from tests.support.bytes import tree
from tests.unit.ledger.samples import LOG, append_raw, collection, declaration, deployment, leader, sound_environment

FLIGHTS, SHARD = CollectionName("flights"), ShardId("flights-1")


@pytest.fixture
def sound(tmp_path: Path) -> LedgerWriter:
    return sound_environment(tmp_path / "lake", "flights", "planes")


def codes(writer: LedgerWriter) -> list[tuple[str, str]]:
    return [(finding.code, finding.where) for finding in verify(LedgerReader(writer.env))]


def object_(now: State, /, **changes: object) -> Put:
    return Put(replace(now.objects[FLIGHTS], **changes))  # type: ignore[arg-type]


def shard(now: State, /, **changes: object) -> Put:
    return Put(replace(now.shards[SHARD], **changes))  # type: ignore[arg-type]


INTENT = Intent(FLIGHTS, SHARD, Generation(1), Epoch(1), IntentKind.EXPAND, 0, None, None)

#: Appended through the front door: each row is well-formed, together they do not agree.
UNSOUND: dict[str, tuple[Callable[[State], list[Update]], list[tuple[str, str]]]] = {
    "no shard": (
        lambda s: [object_(s, shard=ShardId("gone"))],
        [("shard_not_live", "objects flights"), ("schema_of_other_shard", "objects flights"), ("orphan_shard", "shards flights-1")],
    ),
    "retired shard": (lambda s: [shard(s, state=ShardState.RETIRED)], [("shard_not_live", "objects flights")]),
    "shard of another": (lambda s: [shard(s, collection=CollectionName("planes"))], [("shard_not_live", "objects flights")]),
    "no schema": (lambda s: [Drop(SchemaEntry, "flights/1")], [("schema_missing", "objects flights")]),
    "fingerprint": (
        lambda s: [object_(s, fingerprint=Fingerprint("sf1:0"))],
        [("wrong_fingerprint", "objects flights"), ("wrong_set_fingerprint", "config release")],
    ),
    "declaration": (
        lambda s: [Put(replace(s.schemas[FLIGHTS, SchemaId(1)], declared=declaration("flights", "id", "extra")))],
        [("wrong_fingerprint", "objects flights")],
    ),
    "release": (
        lambda s: [Put(EnvironmentRelease("lake", Version(1, 0, 0), Fingerprint("sf1:0")))],
        [("wrong_set_fingerprint", "config release")],
    ),
    "unknown leader": (lambda s: [Put(leader(2, 2))], [("leader_unknown", "leader leader")]),
    "epoch back": (lambda s: [Put(leader(1, 0))], [("went_backwards", "leader leader")]),
    "generation back": (
        lambda s: [Put(leader(0, 2)), Put(deployment(0))],
        [("went_backwards", "leader leader")],
    ),
    "intent ahead": (lambda s: [Put(replace(INTENT, epoch=Epoch(2)))], [("intent_ahead", "intents flights-1/expand/1")]),
    "orphan": (
        lambda s: [Put(Shard(ShardId("x"), FLIGHTS, "flights/x", Generation(1), ShardState.LIVE))],
        [("orphan_shard", "shards x")],
    ),
    "orphan being built": (
        lambda s: [Put(Shard(ShardId("x"), FLIGHTS, "flights/x", Generation(1), ShardState.BUILDING))],
        [("orphan_shard", "shards x")],
    ),
}


@pytest.mark.parametrize(("updates", "expected"), UNSOUND.values(), ids=UNSOUND.keys())
def test_rows_that_do_not_agree(sound: LedgerWriter, updates: Callable[[State], list[Update]], expected: list[tuple[str, str]]) -> None:
    assert codes(sound) == []
    sound.transact(updates)
    assert codes(sound) == expected


SOUND: dict[str, list[Update]] = {
    "a shard being built for a replacement": [
        Put(Shard(ShardId("x"), FLIGHTS, "flights/x", Generation(1), ShardState.BUILDING)),
        Put(Replacement(FLIGHTS, Version(1, 1, 0), Generation(1), ShardId("x"))),
    ],
    "a shard being built under an open intent": [
        Put(Shard(SHARD, FLIGHTS, "flights/x", Generation(1), ShardState.LIVE)),
        Put(Shard(ShardId("x"), CollectionName("new"), "new/x", Generation(1), ShardState.BUILDING)),
        Put(replace(INTENT, shard=ShardId("x"), kind=IntentKind.CREATE)),
    ],
    "a retired shard": [Put(Shard(ShardId("x"), FLIGHTS, "flights/x", Generation(1), ShardState.RETIRED))],
    "the next epoch": [Put(leader(2, 2)), Put(deployment(2))],
}


@pytest.mark.parametrize("updates", SOUND.values(), ids=SOUND.keys())
def test_what_is_normal_has_no_finding(sound: LedgerWriter, updates: list[Update]) -> None:
    sound.transact(lambda state: updates)
    assert codes(sound) == []
    compact(sound)
    assert codes(sound) == []


_, KEY, VALUE = encode(next(update.row for update in collection("flights") if isinstance(update, Put) and isinstance(update.row, Object)))
OTHER = VALUE.replace('"schema_id":1', '"schema_id":2')

#: Written past the front door.
DAMAGE: dict[str, tuple[list[RawRow], list[tuple[str, str]]]] = {
    "negative": ([RawRow("objects", '"x"', "{}", 2, -1)], [("negative_multiplicity", 'objects "x"'), ("unreadable_row", 'objects "x"')]),
    "doubled": ([RawRow("objects", KEY, VALUE, 2, 1)], [("doubled", 'objects "flights"')]),
    "two values": ([RawRow("objects", KEY, OTHER, 2, 1)], [("two_values", 'objects "flights"')]),
    "not JSON": ([RawRow("holds", '"1"', "{", 2, 1)], [("unreadable_row", 'holds "1"')]),
    "other shape": ([RawRow("holds", '"1"', '{"zork":1}', 2, 1)], [("unreadable_row", 'holds "1"')]),
    "later than the head": ([RawRow("elements", '"x"', "{}", 3, 1)], [("wrong_time", 'elements "x"')]),
    "config": ([RawRow("config", '"release"', "{", 2, 1)], [("two_values", 'config "release"'), ("unreadable_row", 'config "release"')]),
}


@pytest.mark.parametrize(("rows", "expected"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_rows(sound: LedgerWriter, rows: list[RawRow], expected: list[tuple[str, str]]) -> None:
    append_raw(sound.env, *rows)
    assert codes(sound) == expected


def test_damage_in_one_place_does_not_hide_damage_in_another(sound: LedgerWriter) -> None:
    sound.transact(lambda state: [Put(leader(1, 0))])
    append_raw(sound.env, RawRow("holds", '"1"', "{", 3, 1))
    assert codes(sound) == [("unreadable_row", 'holds "1"'), ("went_backwards", "leader leader")]


def ledger_folder(env: Environment) -> Path:
    path = env.location.local_path
    assert path is not None
    return path / "_schemamig" / "ledger"


@pytest.mark.parametrize("content", [b"", b"\x00" * 200, b'{"commitInfo":'], ids=["empty", "zeros", "cut"])
def test_a_damaged_log(sound: LedgerWriter, content: bytes) -> None:
    name = f"{1:020}.json"
    (ledger_folder(sound.env) / "_delta_log" / name).write_bytes(content)
    found = codes(sound)
    assert [code for code, _ in found] == ["unreadable_log"]
    assert found[0][1].startswith(LOG)


def test_a_hole_in_the_log(sound: LedgerWriter) -> None:
    sound.transact(lambda state: [Put(leader(1, 2))])
    (ledger_folder(sound.env) / "_delta_log" / f"{1:020}.json").unlink()
    assert codes(sound) == [("log_gap", LOG)]


@pytest.mark.parametrize("damage", ["cut", "gone", "flipped"])
def test_a_damaged_data_file_is_named(sound: LedgerWriter, damage: str) -> None:
    path = max(ledger_folder(sound.env).glob("*.parquet"), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(content[:100])
        case "gone":
            path.unlink()
        case _:
            path.write_bytes(content[:-60] + b"\xff" * 40 + content[-20:])
    expected = "data_missing" if damage == "gone" else "unreadable_data"
    assert codes(sound) == [(expected, f"_schemamig/ledger/{path.name}")]


def test_verify_writes_nothing_on_damage_either(sound: LedgerWriter, tmp_path: Path) -> None:
    append_raw(sound.env, RawRow("holds", '"1"', "{", 2, 1))
    before = tree(tmp_path)
    assert len(verify(LedgerReader(sound.env))) == 1
    assert tree(tmp_path) == before


def test_missing_and_too_new_are_no_damage(env: Environment, sound: LedgerWriter) -> None:
    with pytest.raises(LedgerMissing):
        verify(LedgerReader(Environment.open(str(env.location.local_path) + "-nowhere")))
    key = '"environment"'
    stored = sound.state().stored("config", key)
    assert stored is not None
    newer = json.dumps(json.loads(stored) | {"format_version": 7})
    append_raw(sound.env, RawRow("config", key, stored, 2, -1), RawRow("config", key, newer, 2, 1), RawRow("objects", '"x"', "{", 2, 1))
    with pytest.raises(LedgerTooNew):
        verify(LedgerReader(sound.env))
