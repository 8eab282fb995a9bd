"""Streams' objects: read back as written, woken all at once, and never in the way when they are damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, InvalidName
from airflow_provider_schemamig.core.replication.model import EnvId, StreamSettings
from airflow_provider_schemamig.core.replication.note_errors import NoteDamaged
from airflow_provider_schemamig.core.replication.stream.stored_state import read_state, read_states, states, wake, write_state
from tests.support.bytes import unwritten
from tests.unit.replication.samples import NOW, flowing, paused, stopped, stream


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return Environment.open(str(tmp_path / "west"), {"schemamig.throwaway": "true"})


def test_stored_state_what_is_written_is_read_in_order(env: Environment) -> None:
    assert read_states(env) == ()
    assert read_state(env, stream()) is None
    found = [paused(stream()), stopped(stream(collection="planes")), flowing(stream("north")), flowing(stream("south"), seen=3)]
    for state in reversed(found):
        write_state(env, state)
    assert list(read_states(env)) == found
    assert read_state(env, stream()) == found[0]
    write_state(env, replace(found[0], pause=None))
    assert read_state(env, stream()) == replace(found[0], pause=None)


@pytest.mark.parametrize(
    "found",
    [replace(stream(), origin=EnvId("../west")), replace(stream(), collection=CollectionName("a/b")), replace(stream(), origin=EnvId(""))],
)
def test_a_name_that_is_no_file_name_is_refused(env: Environment, found: object) -> None:
    with pytest.raises(InvalidName):
        write_state(env, replace(flowing(stream()), stream=found))  # type: ignore[arg-type]
    with pytest.raises(InvalidName):
        read_state(env, found)  # type: ignore[arg-type]


OF_ANOTHER = b'{"stream":{"origin":"x","target":"y","collection":"z"}}'


@pytest.mark.parametrize("content", [b"", b"{", b"[]", OF_ANOTHER, b"[" * 100_000])
def test_a_damaged_one_is_reported_and_as_good_as_none(env: Environment, content: bytes) -> None:
    write_state(env, flowing(stream("north")))
    env.store().put(stream().key, content)
    assert read_states(env) == (flowing(stream("north")),)
    damaged = next(iter(states(env)))
    assert isinstance(damaged, NoteDamaged)
    assert damaged.where == stream().key
    assert damaged.message.endswith(".")
    assert read_state(env, stream()) is None, "its stream writes it anew"


def test_one_at_anothers_place_is_damaged(env: Environment) -> None:
    write_state(env, flowing(stream()))
    env.store().put(stream("north").key, env.store().get(stream().key))
    assert [type(found).__name__ for found in states(env)] == ["StreamState", "NoteDamaged"]


def test_stored_state_what_else_lies_there_is_not_looked_at(env: Environment) -> None:
    """The claims of batches lie in a folder below, one a collection."""
    write_state(env, flowing(stream()))
    env.store().put(stream().key.removesuffix(".json") + "/flights-1-7.json", b'{"hi": 9}')
    env.store().put("_schemamig/replicas/streams/east/README", b"hello")
    assert list(states(env)) == [flowing(stream())]


def test_waking_makes_every_pause_due_that_was_there(env: Environment) -> None:
    for collection in ("flights", "planes"):
        write_state(env, paused(stream(collection=collection)))
    wake(env, NOW.add(seconds=5))
    for state in (*read_states(env), read_state(env, stream())):
        assert state is not None
        assert state.pause is not None
        assert NOW - state.pause.recomputed_at > StreamSettings().recompute
        assert state.pause.since == paused(stream()).pause.since, "it waits as long as it does"  # type: ignore[union-attr]
    again = paused(stream(), recomputed_at=NOW.add(seconds=6))
    write_state(env, again)
    assert read_state(env, stream()) == again, "it looked, and did not find what it needs"


def test_waking_survives_what_the_stream_writes_meanwhile(env: Environment) -> None:
    write_state(env, paused(stream()))
    wake(env, NOW.add(seconds=5))
    write_state(env, paused(stream()))  # looked at before the wake-up, written after it
    state = read_state(env, stream())
    assert state is not None
    assert state.pause is not None
    assert state.pause.recomputed_at < NOW


def test_a_damaged_wake_up_wakes_nobody(env: Environment) -> None:
    write_state(env, paused(stream()))
    env.store().put("_schemamig/replicas/woken.json", b"{")
    assert read_states(env) == (paused(stream()),)


def test_reading_writes_nothing(env: Environment) -> None:
    write_state(env, paused(stream()))
    wake(env, NOW)
    with unwritten(env):
        assert len(read_states(env)) == 1
        assert read_state(env, stream()) is not None
