"""Rows as canonical JSON and back; what is frozen stays byte for byte what it is."""

from __future__ import annotations

import dataclasses
from typing import Any

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.jsonable import members_of
from airflow_provider_schemamig.core.ledger.codec import decode, encode, row_type_of
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.rows import (
    FROZEN_COLLECTIONS,
    ROW_TYPES,
    Approval,
    BuildingShard,
    CompactionIntent,
    Control,
    CreateIntent,
    DriftRevertIntent,
    EnvironmentConfig,
    EnvironmentRelease,
    GivenOut,
    HeldTable,
    Hold,
    HoldState,
    IntentKind,
    Leader,
    LedgerSince,
    Object,
    Pin,
    Progress,
    SchemaEntry,
    SealIntent,
    Shard,
    ShardState,
    ShardSwapIntent,
    SwapIntent,
    TransitionIntent,
    UnreleasedChange,
    Use,
)
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Fingerprint, Generation, SchemaId, ShardId, Version
from tests.unit.ledger.samples import NOW, counter, declaration, deployment, element, leader

FLIGHTS = CollectionName("flights")
SHARD = ShardId("flights-1")
HELD = HeldTable(FLIGHTS, SchemaId(2), SHARD, "11111111-1111-1111-1111-111111111111", 6, (("a", "c-1"),), (("b",),), ("b",))

#: A row of each type, and its stored key and value where its shape may never change (the frozen collections).
FROZEN: list[tuple[Any, str, str]] = [
    (
        EnvironmentConfig("e-1", 1, NOW),
        '"environment"',
        '{"created_at":"2026-03-01T12:30:15.250000+00:00","env_id":"e-1","format_version":1}',
    ),
    (
        EnvironmentRelease("lake", Version(1, 10, 0), Fingerprint("sf1:00")),
        '"release"',
        '{"fingerprint":"sf1:00","name":"lake","version":"1.10.0"}',
    ),
    (LedgerSince(7), '"since"', '{"since":7}'),
    (GivenOut(Generation(70_000), Epoch(80_000)), '"given_out"', '{"epoch":80000,"generation":70000}'),
    (leader(3, 4), '"leader"', '{"epoch":4,"generation":3,"since":"2026-03-01T12:30:15.250000+00:00"}'),
    (
        deployment(3),
        '"3"',
        '{"claim_id":"claim","created_at":"2026-03-01T12:30:15.250000+00:00","generation":3,"hold_seconds":86400,'
        f'"plan_digest":"{"d" * 64}","source":"1.0.0","state":"claimed","target":"1.1.0"}}',
    ),
    (
        BuildingShard(FLIGHTS, Version(1, 1, 0), Generation(3), SHARD, 3, 2, (("planes-1", 5),), 10),
        '"flights/1.1.0/3"',
        '{"attempt":3,"collection":"flights","fill_inputs":[["planes-1",5]],"fill_number":2,"filled_rows":10,"generation":3,'
        '"shard":"flights-1","version":"1.1.0"}',
    ),
    (
        Approval(Generation(3), "d" * 64, "Zoë", NOW),
        '"3"',
        f'{{"approved_at":"2026-03-01T12:30:15.250000+00:00","approved_by":"Zoë","generation":3,"plan_digest":"{"d" * 64}"}}',
    ),
    (
        Shard(SHARD, FLIGHTS, "flights/flights-1", "id", Generation(1), ShardState.RETIRED, True, Generation(3), ShardId("flights-2"), 7),
        '"flights-1"',
        '{"adopted":true,"collection":"flights","generation":1,"retired_by":3,"sealed_version":7,'
        '"shard":"flights-1","state":"retired","successor":"flights-2","table_id":"id","uri":"flights/flights-1"}',
    ),
    (
        Control("*", paused=True, rows_per_second=1000, max_files=3, commits_per_minute=4, window=(22, 6)),
        '"*"',
        '{"commits_per_minute":4,"max_files":3,"paused":true,"rows_per_second":1000,"scope":"*","window":[22,6]}',
    ),
    (
        Progress(FLIGHTS, Generation(3), "copy", "files", 3, 10, 12_000, NOW, NOW, 1, 500),
        '"flights/copy/3"',
        '{"collection":"flights","done":3,"done_before":1,"generation":3,"rows":12000,"rows_before":500,"stage":"copy",'
        '"started_at":"2026-03-01T12:30:15.250000+00:00","total":10,"unit":"files","updated_at":"2026-03-01T12:30:15.250000+00:00"}',
    ),
    (
        Pin(ShardId("g1-0"), "alice", 720, (("delta.logRetentionDuration", None),), (720,), "alice", NOW, given_up=False),
        '"g1-0/alice"',
        '{"asked":[720],"given_up":false,"holder":"alice","hours":720,"pinned_at":"2026-03-01T12:30:15.250000+00:00","pinned_by":"alice",'
        '"properties":[["delta.logRetentionDuration",null]],"shard":"g1-0"}',
    ),
]
ABOUT: dict[str, Any] = {"collection": FLIGHTS, "shard": SHARD, "generation": Generation(3), "epoch": Epoch(4), "base_version": 7}
OTHERS: list[Any] = [
    counter(1, "flights"),
    SchemaEntry(
        FLIGHTS, SchemaId(2), SHARD, declaration("flights", "id", "day"), declaration("flights", "id", "day"), 4, Version(1, 1, 0), ()
    ),
    SchemaEntry(
        FLIGHTS,
        SchemaId(2),
        SHARD,
        declaration("flights", "id"),
        declaration("flights", "id", "hidden"),
        4,
        None,
        ((ColumnPath("id"), "c-1"),),
        (Use("hidden", 0, 3),),
    ),
    CreateIntent(**ABOUT, kind=IntentKind.CREATE, after=declaration("flights")),
    TransitionIntent(
        **ABOUT,
        kind=IntentKind.CHANGE,
        before=declaration("flights"),
        after=declaration("flights", "id", "a", "b"),
        reached=declaration("flights", "id", "a"),
        renames=((ColumnPath("a.b"), "c"),),
    ),
    SwapIntent(**ABOUT, kind=IntentKind.CUTOVER, before=declaration("flights"), after=declaration("flights", "id"), deadline=NOW),
    SealIntent(**ABOUT, kind=IntentKind.SEAL, deadline=NOW, is_given_up=True),
    ShardSwapIntent(**ABOUT, kind=IntentKind.SEAL),
    DriftRevertIntent(**ABOUT, kind=IntentKind.REVERT, done_version=9),
    CompactionIntent(**ABOUT, kind=IntentKind.COMPACT),
    Hold(Generation(3), Version(1, 0, 0), Version(1, 1, 0), NOW, HoldState.OPEN, (HELD,), ((FLIGHTS, SchemaId(2)),)),
    UnreleasedChange(
        FLIGHTS, SchemaId(3), Epoch(4), declaration("flights", "id", "n"), declaration("flights", "id"), Fingerprint("sf1:00")
    ),
    element(),
]


@pytest.mark.parametrize("row", [*(row for row, _, _ in FROZEN), *OTHERS], ids=lambda row: type(row).__name__)
def test_codec_round_trip(row: Any) -> None:
    collection, key, value = encode(row)
    row_type = row_type_of(collection, key)
    assert row_type is not None
    assert isinstance(row, row_type)
    assert decode(row_type, key, value) == row


def test_every_row_type_is_among_the_samples() -> None:
    found = {type(row) for row, _, _ in FROZEN} | {type(row) for row in OTHERS}
    assert found == {member for row_type in ROW_TYPES for member in members_of(row_type)}


@pytest.mark.parametrize(("row", "key", "value"), FROZEN, ids=lambda value: type(value).__name__)
def test_the_frozen_collections_are_stored_as_they_always_were(row: Any, key: str, value: str) -> None:
    assert encode(row) == (row.COLLECTION, key, value)


def test_the_samples_of_frozen_rows_cover_exactly_the_frozen_collections() -> None:
    assert {row.COLLECTION for row, _, _ in FROZEN} == FROZEN_COLLECTIONS


def test_a_schema_stored_as_declared_shares_one_declaration() -> None:
    row = OTHERS[1]
    decoded = decode(SchemaEntry, *encode(row)[1:])
    assert decoded.physical is decoded.declared


@given(name=st.text(max_size=40), number=st.integers(min_value=0, max_value=2**62), moment=st.datetimes())
def test_any_text_and_number_survive(name: str, number: int, moment: Any) -> None:
    approval = Approval(Generation(number), name, name, pendulum.instance(moment, tz="UTC"))
    assert decode(Approval, *encode(approval)[1:]) == approval


LEADER_KEY = '"leader"'
DAMAGED = {
    "not JSON": '{"epoch":',
    "not an object": "[1]",
    "null": "null",
    "missing field": '{"epoch":1,"generation":1}',
    "unknown field": '{"epoch":1,"generation":1,"since":"2026-03-01T00:00:00+00:00","zork":1}',
    "wrong type": '{"epoch":"1","generation":1,"since":"2026-03-01T00:00:00+00:00"}',
    "true is no number": '{"epoch":true,"generation":1,"since":"2026-03-01T00:00:00+00:00"}',
    "not a time": '{"epoch":1,"generation":1,"since":"soon"}',
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_value_names_its_row(value: str) -> None:
    with pytest.raises(LedgerDamaged, match="leader") as caught:
        decode(Leader, LEADER_KEY, value)
    assert caught.value.code == "ledger_damaged"


def test_a_value_under_another_key_is_damage() -> None:
    _, _, value = encode(counter(1, "flights"))
    with pytest.raises(LedgerDamaged, match="belongs to the key 'flights'"):
        decode(Object, '"planes"', value)


def test_unknown_enum_member_is_damage() -> None:
    _, key, value = encode(next(row for row, _, _ in FROZEN if isinstance(row, Shard)))
    with pytest.raises(LedgerDamaged, match="zork"):
        decode(Shard, key, value.replace('"retired"', '"zork"'))


def test_unknown_collections_and_keys_have_no_type() -> None:
    assert row_type_of("unheard_of", '"x"') is None
    assert row_type_of("config", '"colour"') is None


def test_rows_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        counter(1).schema_id = SchemaId(2)  # type: ignore[misc]
