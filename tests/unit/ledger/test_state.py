"""State: sums of diffs, decoded only where looked at."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.ledger import codec, typed_rows
from airflow_provider_schemamig.core.ledger.codec import RawRow, encode
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, LedgerTooNew
from airflow_provider_schemamig.core.ledger.rows import (
    FORMAT_VERSION,
    BuildingShard,
    EnvironmentConfig,
    Hold,
    HoldState,
    IntentKind,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, SchemaId, ShardId, Version
from tests.unit.ledger.samples import NOW, collection, compaction, counter, deployment, element, leader, shard_of

CONFIG = EnvironmentConfig("e-1", FORMAT_VERSION, NOW)


def raw(row: Any, ts: int = 0, diff: int = 1) -> RawRow:
    return RawRow(*encode(row), ts=ts, diff=diff)


def state_of(*rows: RawRow, version: int = 9) -> State:
    return State.of(version, [raw(CONFIG), *rows], "file:///lake")


def test_every_accessor_by_its_typed_key() -> None:
    flights, shard = CollectionName("flights"), shard_of("flights")
    replacement = BuildingShard(flights, Version(1, 1, 0), Generation(1), shard)
    intent = compaction(flights, shard, Generation(1), Epoch(2), 3)
    hold = Hold(Generation(1), Version(1, 0, 0), Version(1, 1, 0), NOW, HoldState.OPEN)
    rows = [update.row for update in collection("flights")]  # type: ignore[union-attr]
    found = state_of(*map(raw, [leader(), deployment(), replacement, intent, hold, element(), *rows]))

    assert found.config == CONFIG
    assert found.release is None
    assert found.leader == leader()
    assert found.since == 0
    assert dict(found.deployments) == {1: deployment()}
    assert dict(found.replacements) == {(flights, Version(1, 1, 0), 1): replacement}
    assert dict(found.objects) == {flights: rows[0]}
    assert dict(found.schemas) == {(flights, SchemaId(1)): rows[1]}
    assert dict(found.shards) == {shard: rows[2]}
    assert dict(found.intents) == {(shard, IntentKind.COMPACT, 1): intent}
    assert dict(found.elements) == {(flights, "foreign_key:a/b", "0123456789abcdef"): element()}
    assert dict(found.holds) == {1: hold}
    assert dict(found.approvals) == {}
    assert found.objects.get(CollectionName("planes")) is None
    assert len(found.schemas) == 1


def test_the_elements_of_a_shard() -> None:
    one, two, other = element(), element("clustering"), element("column:c", "flights-2")
    found = state_of(*map(raw, [one, two, other]))
    assert set(found.elements_of(shard_of("flights"))) == {one, two}
    assert found.elements_of(ShardId("flights-2")) == (other,)
    assert found.elements_of(ShardId("planes-1")) == ()
    following = found.after([raw(two, 10, -1)], 10)
    assert following.elements_of(shard_of("flights")) == (one,)
    assert len(found.elements_of(shard_of("flights"))) == 2, "the state before stays what it was"


def test_a_row_is_decoded_once_and_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def counting(row_type: Any, key: str, value: str) -> Any:
        decoded.append(key)
        return codec.decode(row_type, key, value)

    monkeypatch.setattr(typed_rows, "decode", counting)
    found = state_of(raw(counter(1, "flights")), raw(counter(1, "planes")))
    assert decoded == []
    assert found.objects[CollectionName("planes")] is found.objects[CollectionName("planes")]
    assert decoded == ['"planes"']
    following = found.after([raw(counter(2, "flights"), 10), raw(counter(1, "flights"), 10, -1)], 10)
    assert following.objects[CollectionName("planes")].schema_id == 1
    assert following.objects[CollectionName("flights")].schema_id == 2
    assert found.objects[CollectionName("flights")].schema_id == 1, "the state before stays what it was"
    assert decoded == ['"planes"', '"flights"', '"flights"']


BROKEN = {
    "not JSON": [RawRow("objects", '"flights"', "{", 0, 1)],
    "negative": [raw(counter(1, "flights"), diff=-1)],
    "doubled": [raw(counter(1, "flights")), raw(counter(1, "flights"))],
    "two values": [raw(counter(1, "flights")), raw(counter(2, "flights"))],
    "key is not a string": [RawRow("objects", "7", "{}", 0, 1)],
}


@pytest.mark.parametrize("rows", BROKEN.values(), ids=BROKEN.keys())
def test_damage_raises_where_it_is_looked_at_and_nowhere_else(rows: list[RawRow]) -> None:
    found = state_of(*rows, raw(leader()), raw(deployment()))
    assert found.leader == leader()
    assert found.deployments[Generation(1)] == deployment()
    with pytest.raises(LedgerDamaged, match=r"objects"):
        list(found.objects.values())


def test_a_key_of_the_wrong_form_is_damage() -> None:
    found = state_of(RawRow("deploys", '"one"', "{}", 0, 1))
    with pytest.raises(LedgerDamaged, match="deploys"):
        list(found.deployments)


def test_a_newer_format_is_refused_before_anything_else_is_looked_at() -> None:
    config = RawRow("config", '"environment"', '{"format_version":7,"all":"else is new"}', 0, 1)
    with pytest.raises(LedgerTooNew) as caught:
        State.of(3, [config, *BROKEN["not JSON"]], "file:///lake")
    assert (caught.value.found, caught.value.known) == ("7", FORMAT_VERSION)


@pytest.mark.parametrize("value", ["{", "[]", '{"env_id":"x"}'])
def test_a_config_without_a_format_is_damage(value: str) -> None:
    with pytest.raises(LedgerDamaged, match="names no format"):
        State.of(3, [RawRow("config", '"environment"', value, 0, 1)], "file:///lake")


def test_no_config_is_damage() -> None:
    with pytest.raises(LedgerDamaged, match="no config row"):
        State.of(3, [raw(leader())], "file:///lake")


def test_unknown_collections_are_kept_as_they_are() -> None:
    found = state_of(RawRow("unheard_of", '"x"', "whatever", 0, 1))
    assert found.raw["unheard_of"] == {'"x"': "whatever"}
    assert found.after([raw(leader(), 10)], 10).raw["unheard_of"] == {'"x"': "whatever"}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30), st.randoms())
def test_the_order_of_stored_rows_does_not_matter(puts: list[tuple[int, int]], random: Any) -> None:
    rows: list[RawRow] = []
    model: dict[str, int] = {}
    for ts, (name, value) in enumerate(puts, start=1):
        key = f"c{name}"
        if key in model:
            rows.append(raw(counter(model[key], key), ts, -1))
        rows.append(raw(counter(value, key), ts))
        model[key] = value
    random.shuffle(rows)
    found = state_of(*rows, version=len(puts))
    assert {name: row.schema_id for name, row in found.objects.items()} == model


def test_a_row_that_another_names_and_that_is_gone_is_damage(sound: LedgerWriter) -> None:
    state = sound.state()
    gone = ShardId("9.9.9")
    with pytest.raises(LedgerDamaged, match=r'ledger row shards "9\.9\.9" .*ledger verify'):
        state.shards[gone]
    with pytest.raises(LedgerDamaged, match=r'ledger row \w+ "77"'):
        state.deployments[Generation(77)]
    assert gone not in state.shards
    assert state.shards.get(gone) is None
