"""What environments say of themselves, and how each comes to know what the others said."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.jsonable import canonical, to_json
from airflow_provider_schemamig.core.ledger.errors import NoEnvironment
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, InvalidName, SchemaId, Version
from airflow_provider_schemamig.core.replication.cluster.registry import (
    CLOCK_SKEW,
    HEARTBEAT,
    KEPT,
    NODES,
    SCHEMAS,
    Hashes,
    NodeState,
    exchange,
    heard_of,
    known_schema,
    nodes,
    publish,
    published,
    refresh,
)
from airflow_provider_schemamig.core.replication.model import EnvId
from airflow_provider_schemamig.core.replication.note_errors import NoteDamaged
from airflow_provider_schemamig.core.replication.stream.stored_state import read_state, write_state
from airflow_provider_schemamig.core.schema.fingerprint import set_fingerprint
from tests.support.bytes import unwritten
from tests.unit.replication.samples import NOW, declared, environment, flowing, hash_of, move, paused, remove, stopped, stream

FLIGHTS = CollectionName("flights")
SECOND = timedelta(seconds=1)


@pytest.fixture
def east(tmp_path: Path) -> Environment:
    return environment(tmp_path, "east", flights=["id"], planes=["id", "seats"])


@pytest.fixture
def west(tmp_path: Path) -> Environment:
    return environment(tmp_path, "west", flights=["id"], planes=["id", "seats"])


def put(env: Environment, node: NodeState) -> None:
    env.store().put(f"{NODES}/{node.env_id}.json", canonical(to_json(node)).encode())


def ids(found: Sequence[NodeState]) -> list[str]:
    return [node.env_id for node in found]


# --- of itself -----------------------------------------------------------------------------------------------------------------------


def test_an_environment_says_what_its_ledger_says(east: Environment) -> None:
    second, planes = move(east, "flights", "id", "gust"), hash_of("planes", "id", "seats")
    node = publish(east, NOW)
    assert heard_of(east, EnvId("east")) == node
    assert replace(node, collections={name: replace(hashes, marks=()) for name, hashes in node.collections.items()}) == NodeState(
        EnvId("east"),
        east.location.uri,
        Version(1, 1, 0),
        set_fingerprint({FLIGHTS: second, CollectionName("planes"): planes}),
        {FLIGHTS: Hashes(second, (hash_of("flights", "id"),), 20), CollectionName("planes"): Hashes(planes, (), 10)},
        NOW,
        node.software,
    )


def test_no_environment_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(NoEnvironment):
        publish(Environment.open(str(tmp_path)), NOW)
    assert list(tmp_path.iterdir()) == []


def test_registry_is_said_on_change_and_once_a_minute(east: Environment) -> None:
    first = publish(east, NOW)
    with unwritten(east):
        assert publish(east, NOW + HEARTBEAT - SECOND) == first
    assert publish(east, NOW + HEARTBEAT).updated_at == NOW + HEARTBEAT
    move(east, "flights", "id", "gust")
    assert publish(east, NOW + HEARTBEAT + SECOND).updated_at == NOW + HEARTBEAT + SECOND


def test_a_clock_that_was_set_back_does_not_silence_it(east: Environment) -> None:
    publish(east, NOW.add(days=30))
    assert publish(east, NOW).updated_at == NOW


def test_previous_hashes_are_the_ledgers(east: Environment) -> None:
    """Nobody's memory and nobody's object: what was there is there after a restart, and on another machine."""
    hashes = [hash_of("flights", "id"), *(move(east, "flights", "id", *"abcdefghijklmn"[:n]) for n in range(1, KEPT + 4))]
    before = publish(east, NOW).collections[FLIGHTS]
    assert before.current == hashes[-1]
    assert before.previous == tuple(reversed(hashes[-KEPT - 1 : -1]))
    remove(east, "_schemamig/replicas")
    assert publish(Environment.open(east.location.uri, east.options), NOW).collections[FLIGHTS] == before


def test_a_schema_that_comes_back_is_current_and_not_previous(east: Environment) -> None:
    first, second = hash_of("flights", "id"), move(east, "flights", "id", "gust")
    move(east, "flights", "id")
    assert replace(publish(east, NOW).collections[FLIGHTS], marks=()) == Hashes(first, (second,), 30)


def test_a_commit_that_left_the_schema_alone_is_no_other_schema(east: Environment) -> None:
    move(east, "flights", "id", "gust")
    move(east, "flights", "id", "gust")
    assert publish(east, NOW).collections[FLIGHTS].previous == (hash_of("flights", "id"),)


def test_the_current_schema_need_not_be_the_newest(east: Environment) -> None:
    """A replacement that was rolled back: the collection has its old shard and schema id again."""
    second = move(east, "flights", "id", "gust")
    ledger = LedgerWriter(east)
    old = replace(ledger.state().objects[FLIGHTS], schema_id=SchemaId(1), fingerprint=hash_of("flights", "id"))
    ledger.transact(lambda state: [Put(old)])
    assert replace(publish(east, NOW).collections[FLIGHTS], marks=()) == Hashes(hash_of("flights", "id"), (second,), 10)


def test_streams_that_wait_are_told_with_it(east: Environment) -> None:
    found = [paused(stream("north", "east")), stopped(stream("north", "east", "planes"))]
    for state in (*found, flowing(stream("west", "east"))):
        write_state(east, state)
    assert publish(east, NOW).waiting == tuple(found)
    assert heard_of(east, EnvId("east")) == publish(east, NOW)


def test_a_stream_that_begins_or_ends_to_wait_is_news(east: Environment, west: Environment) -> None:
    """News of the runner that has just left it so; other streams follow with the heartbeat, and how far behind they are is none."""
    found = [flowing(stream("west", "east")), paused(stream("west", "east")), stopped(stream("west", "east"))]
    exchange(east, west, NOW)
    for number, state in enumerate((*found, found[0]), start=1):
        write_state(east, state)
        exchange(east, west, NOW + number * SECOND, [state])
        told = heard_of(west, EnvId("east"))
        assert isinstance(told, NodeState)
        assert told.waiting == ((state,) if state.waits else ())
        lagging = replace(state, origin_version=99, applied_rows=0)
        with unwritten(east), unwritten(west):
            exchange(east, west, NOW + number * SECOND, [lagging, paused(stream("south", "north"))])


def test_refresh_publishes_at_once_and_wakes(east: Environment) -> None:
    write_state(east, paused(stream("north", "east")))
    publish(east, NOW)
    assert refresh(east, NOW + SECOND).updated_at == NOW + SECOND
    state = read_state(east, stream("north", "east"))
    assert state is not None
    assert state.pause is not None
    assert state.pause.recomputed_at < NOW.subtract(years=1)


def test_an_id_that_is_no_file_name_reaches_no_path(tmp_path: Path) -> None:
    env = environment(tmp_path / "lake", "x", flights=["id"])
    config = replace(LedgerReader(env).state().config, env_id="../../x")
    LedgerWriter(env).transact(lambda state: [Put(config)])
    with unwritten(env), pytest.raises(InvalidName):
        publish(env, NOW)


# --- contents ------------------------------------------------------------------------------------------------------------------------


def test_whoever_reads_a_hash_finds_what_it_means(east: Environment) -> None:
    second = move(east, "flights", "id", "gust")
    assert known_schema(east, second) is None
    publish(east, NOW)
    assert known_schema(east, second) == declared("flights", "id", "gust")
    assert known_schema(east, hash_of("flights", "id")) == declared("flights", "id")
    assert known_schema(east, hash_of("flights", "id", "wind")) is None


@pytest.mark.parametrize("text", ["", "sf1:", "sf1:../../ledger", f"sf2:{'0' * 64}", f"sf1:{'0' * 64}\n"])
def test_registry_what_is_no_hash_reaches_no_path(east: Environment, text: str) -> None:
    assert known_schema(east, Fingerprint(text)) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", canonical(to_json(declared("flights", "other"))).encode()])
def test_content_that_is_not_what_its_hash_says_is_none(east: Environment, west: Environment, content: bytes) -> None:
    publish(east, NOW)
    name = f"{SCHEMAS}/{hash_of('flights', 'id').removeprefix('sf1:')}.json"
    east.store().put(name, content)
    assert known_schema(east, hash_of("flights", "id")) is None
    move(west, "flights", "id", "gust")
    remove(west, SCHEMAS)
    exchange(east, west, NOW)
    assert west.store().get(name) != content, "nor is it handed on"


# --- of each other -------------------------------------------------------------------------------------------------------------------


def test_each_comes_to_know_the_whole_cluster(tmp_path: Path, east: Environment, west: Environment) -> None:
    north = environment(tmp_path, "north", flights=["id", "gust"])
    exchange(east, west, NOW)
    exchange(west, north, NOW + SECOND)
    assert [ids(nodes(env)) for env in (east, west, north)] == [["east", "west"], ["east", "north", "west"], ["east", "north", "west"]]
    exchange(east, west, NOW + HEARTBEAT + SECOND)
    assert nodes(east) == nodes(west)
    assert known_schema(east, hash_of("flights", "id", "gust")) == declared("flights", "id", "gust")
    publish(north, NOW.add(minutes=9))
    assert "north" in ids(nodes(east)), "who is not heard of stays"


def test_registry_nothing_is_written_while_nothing_is_new(east: Environment, west: Environment) -> None:
    exchange(east, west, NOW)
    with unwritten(east), unwritten(west):
        exchange(east, west, NOW + HEARTBEAT - SECOND)
        exchange(west, east, NOW + HEARTBEAT - SECOND)
    exchange(east, west, NOW + HEARTBEAT)
    assert [node.updated_at for node in nodes(east)] == [NOW + HEARTBEAT] * 2
    assert nodes(east) == nodes(west)


def test_a_heartbeat_that_another_runner_published_is_handed_on(east: Environment, west: Environment) -> None:
    exchange(east, west, NOW)
    for env in (east, west):
        publish(env, NOW + HEARTBEAT)
    exchange(east, west, NOW + HEARTBEAT)
    assert [node.updated_at for node in nodes(west)] == [NOW + HEARTBEAT] * 2


def test_the_newest_word_on_a_third_node_counts(east: Environment, west: Environment, tmp_path: Path) -> None:
    north = publish(environment(tmp_path, "north", flights=["id"]), NOW)
    put(east, replace(north, updated_at=NOW.subtract(hours=1)))
    put(west, north)
    exchange(east, west, NOW)
    assert heard_of(east, north.env_id) == heard_of(west, north.env_id) == north


def test_of_themselves_their_own_word_counts(east: Environment, west: Environment) -> None:
    """A clock that was days ahead once: what was said then is not kept for days."""
    wrong = replace(publish(west, NOW), updated_at=NOW.add(days=3), software="0")
    put(east, wrong)
    put(west, wrong)
    exchange(east, west, NOW)
    assert heard_of(east, EnvId("west")) == heard_of(west, EnvId("west")) == replace(publish(west, NOW), updated_at=NOW)


@pytest.mark.parametrize(("ahead", "wins"), [(CLOCK_SKEW, True), (CLOCK_SKEW + SECOND, False)])
def test_a_word_from_a_wrong_clock_gives_way(east: Environment, west: Environment, tmp_path: Path, ahead: timedelta, wins: bool) -> None:
    north = publish(environment(tmp_path, "north", flights=["id"]), NOW.subtract(seconds=30))
    put(east, north)
    put(west, replace(north, updated_at=NOW + ahead))
    exchange(east, west, NOW)
    assert heard_of(east, north.env_id) == heard_of(west, north.env_id) == (replace(north, updated_at=NOW + ahead) if wins else north)


BAD = [b"", b"{", b"[]", b'{"env_id":"x"}', b"[" * 100_000]


@pytest.mark.parametrize("content", BAD)
def test_damage_in_anothers_object_is_reported_and_never_fatal(east: Environment, west: Environment, content: bytes) -> None:
    east.store().put(f"{NODES}/north.json", content)
    exchange(east, west, NOW)
    assert ids(nodes(east)) == ids(nodes(west)) == ["east", "west"]
    damaged = [found for found in published(east) if isinstance(found, NoteDamaged)]
    assert [found.where for found in damaged] == [f"{NODES}/north.json"]
    assert east.store().get(f"{NODES}/north.json") == content, "newer software may have written it"


def test_an_unreadable_word_is_not_written_over(east: Environment, west: Environment, tmp_path: Path) -> None:
    put(west, publish(environment(tmp_path, "north", flights=["id"]), NOW))
    east.store().put(f"{NODES}/north.json", b"{")
    exchange(east, west, NOW)
    assert east.store().get(f"{NODES}/north.json") == b"{"


@pytest.mark.parametrize("content", BAD)
def test_damage_in_its_own_object_is_mended(east: Environment, west: Environment, content: bytes) -> None:
    exchange(east, west, NOW)
    good = nodes(east)
    for env in (east, west):
        env.store().put(f"{NODES}/east.json", content)
    exchange(east, west, NOW)
    assert nodes(east) == nodes(west) == good


@pytest.mark.parametrize("name", ["a b.json", ".json", f"{'x' * 129}.json"])
def test_registry_what_no_environment_is_called_is_reported(east: Environment, name: str) -> None:
    publish(east, NOW)
    east.store().put(f"{NODES}/{name}", b"{}")
    east.store().put(f"{NODES}/README", b"hello")
    assert sorted(type(found).__name__ for found in published(east)) == ["NodeState", "NoteDamaged"]


def test_an_object_at_anothers_place_is_damaged(east: Environment, west: Environment) -> None:
    east.store().put(f"{NODES}/north.json", canonical(to_json(publish(west, NOW))).encode())
    assert [type(found).__name__ for found in published(east)] == ["NoteDamaged"]


def test_an_environment_has_nothing_to_tell_itself(east: Environment) -> None:
    exchange(east, Environment.open(east.location.uri, east.options), NOW)
    assert ids(nodes(east)) == ["east"]


# --- what if it dies right here ------------------------------------------------------------------------------------------------------


class _Dies:
    """A hook that ends the process at its ``at``-th moment."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, moment: str, what: str, key: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_an_exchange_that_is_cut_anywhere_is_made_again(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    put(environment(lake, "east", flights=["id"]), publish(environment(tmp_path, "north", flights=["id", "wind"]), NOW))
    environment(lake, "west", flights=["id", "gust"])
    whole, moment = False, 0
    while not whole:
        moment += 1
        shutil.copytree(lake, tmp_path / str(moment))
        one, other = (Environment.open(str(tmp_path / str(moment) / name), {"schemamig.throwaway": "true"}) for name in ("east", "west"))
        dies = _Dies(moment)
        try:
            exchange(replace(one, on_write=dies), replace(other, on_write=dies), NOW)
            whole = True
        except KeyboardInterrupt:
            exchange(one, other, NOW)
        assert nodes(one) == nodes(other), moment
        assert ids(nodes(one)) == ["east", "north", "west"], moment
        for node in nodes(one):
            if node.env_id != "north":
                assert known_schema(other, node.collections[FLIGHTS].current) is not None, moment
    assert moment > 10


def test_any_order_of_exchanges_ends_with_what_the_ledgers_say(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    envs = [environment(tmp_path, name, flights=["id"]) for name in ("east", "north", "south", "west")]
    now = NOW
    for _ in range(25):
        one, other = choose.sample(envs, 2)
        if choose.random() < 0.3:
            move(one, "flights", "id", f"c{choose.randrange(3)}")
        now += timedelta(seconds=choose.choice([1, 20, 61]))
        exchange(one, other, now + timedelta(seconds=choose.randrange(-30, 30)))
    now += timedelta(minutes=5)
    for first in (0, 1, 2, 2, 1, 0):
        now += timedelta(minutes=2)
        exchange(envs[first], envs[first + 1], now)
    for env in envs:
        told = {node.env_id: node.collections[FLIGHTS].current for node in nodes(env)}
        assert told == {known.location.uri.rpartition("/")[2]: LedgerReader(known).state().objects[FLIGHTS].fingerprint for known in envs}
