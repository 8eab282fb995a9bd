"""Verdicts and marks over a cluster, by tables of cases; what a status says, and that it writes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.errors import NoEnvironment
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint
from airflow_provider_schemamig.core.replication.cluster.consistency import (
    ClusterVerdict,
    differing,
    groups_of,
    set_groups,
    verdict_of,
    worst,
)
from airflow_provider_schemamig.core.replication.cluster.registry import NODES, SCHEMAS, Hashes, NodeState, exchange, publish
from airflow_provider_schemamig.core.replication.cluster.status import cluster_status, schema_status
from airflow_provider_schemamig.core.replication.model import EnvId, StreamSettings
from airflow_provider_schemamig.core.replication.stream.stored_state import write_state
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.fingerprint import set_fingerprint
from tests.support.bytes import unwritten
from tests.unit.replication.samples import NOW, environment, flowing, hash_of, move, paused, remove, stopped, stream

FLIGHTS = CollectionName("flights")


def node(env_id: str, **collections: str) -> NodeState:
    """``flights="H2 H1"``: now H2, before H1."""
    found = {}
    for name, text in collections.items():
        current, *previous = (Fingerprint(part) for part in text.split())
        found[CollectionName(name)] = Hashes(current, tuple(previous), 1)
    hashes = {name: item.current for name, item in found.items()}
    return NodeState(EnvId(env_id), f"file:///{env_id}", None, set_fingerprint(hashes), found, NOW, "0")


def nodes_of(*texts: str) -> list[NodeState]:
    return [node(f"n{number}", flights=text) for number, text in enumerate(texts, start=1)]


# --- verdicts ------------------------------------------------------------------------------------------------------------------------

CASES: list[tuple[str, list[str], int, ClusterVerdict]] = [
    ("alone", ["H1"], 1, ClusterVerdict.CONSISTENT),
    ("all alike", ["H1", "H1", "H1 H0"], 1, ClusterVerdict.CONSISTENT),
    ("the first is upgraded", ["H2 H1", "H1", "H1"], 1, ClusterVerdict.ROLLING_UPGRADE),
    ("all but one are", ["H2 H1", "H2 H1", "H1"], 1, ClusterVerdict.ROLLING_UPGRADE),
    ("one was rolled back", ["H1 H2", "H2 H1"], 1, ClusterVerdict.ROLLING_UPGRADE),
    ("one is new, another knows the way", ["H2", "H2 H1", "H1"], 1, ClusterVerdict.ROLLING_UPGRADE),
    ("one is new, nobody knows the way", ["H2", "H1"], 1, ClusterVerdict.DIVERGED),
    ("two behind", ["H3 H2 H1", "H1"], 1, ClusterVerdict.DIVERGED),
    ("two behind, and two are accepted", ["H3 H2 H1", "H1"], 2, ClusterVerdict.ROLLING_UPGRADE),
    ("one and two behind", ["H3 H2 H1", "H2 H1", "H1"], 1, ClusterVerdict.DIVERGED),
    ("one and two behind, and two are accepted", ["H3 H2 H1", "H2 H1", "H1"], 2, ClusterVerdict.ROLLING_UPGRADE),
    ("none before is accepted", ["H2 H1", "H1"], 0, ClusterVerdict.DIVERGED),
    ("two ways from one schema", ["H2 H1", "H3 H1"], 1, ClusterVerdict.DIVERGED),
]


@pytest.mark.parametrize(("texts", "depth", "verdict"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_stream_status_verdict(texts: list[str], depth: int, verdict: ClusterVerdict) -> None:
    found = {verdict_of(groups_of(FLIGHTS, order, depth)) for order in permutations(nodes_of(*texts))}
    assert found == {verdict}


def test_stream_status_marks() -> None:
    """The seed's example: two have the new schema and accept the third's."""
    found = nodes_of("a1 e5", "a1 e5", "e5")
    groups = groups_of(FLIGHTS, found, 1)
    assert [(group.hash, group.current, group.previous) for group in groups] == [("a1", ("n1", "n2"), ()), ("e5", ("n3",), ("n1", "n2"))]
    whole = set_groups(found, 1)
    assert [(group.current, group.previous) for group in whole] == [(("n1", "n2"), ()), (("n3",), ("n1", "n2"))]
    assert [set_groups(order, 1) for order in permutations(found)] == [whole] * 6


def test_marks_of_a_set_ask_for_every_collection_both_have() -> None:
    old = node("old", flights="H1", planes="P1", gates="G1")
    behind = node("behind", flights="H2 H1", planes="P3 P2 P1")
    passed = node("passed", flights="H2 H1", planes="P1")
    other = node("other", flights="H1")
    marks = {group.current: group.previous for group in set_groups([old, behind, passed, other], 1)}
    assert marks == {("old",): ("passed",), ("behind",): (), ("passed",): (), ("other",): ("behind", "passed")}


def test_cluster_status_only_what_two_have_can_differ() -> None:
    one, other = node("one", flights="H1", planes="P1"), node("other", flights="H1", gates="G1")
    assert differing([one, other], 1) == {}
    assert list(differing([one, node("other", gates="G1", planes="P2", flights="H2")], 1)) == ["flights", "planes"]


def test_the_worst_collection_is_the_clusters() -> None:
    assert worst([]) is ClusterVerdict.CONSISTENT
    assert worst([ClusterVerdict.ROLLING_UPGRADE, ClusterVerdict.DIVERGED, ClusterVerdict.CONSISTENT]) is ClusterVerdict.DIVERGED


# --- an environment ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def west(tmp_path: Path) -> Environment:
    return environment(tmp_path, "west", flights=["id"], planes=["id", "seats"])


def test_cluster_status_what_an_environment_is_comes_from_its_ledger(west: Environment) -> None:
    publish(west, NOW)
    second = move(west, "flights", "id", "gust")
    with unwritten(west):
        found = schema_status(west, NOW.add(seconds=9)).to_json()
    assert found["collections"]["flights"] == {"hash": second, "previous": [hash_of("flights", "id")], "table_version": 20}
    assert (found["published"], found["updated_at"]) == (False, NOW.isoformat())
    publish(west, NOW.add(seconds=9))
    assert schema_status(west, NOW.add(minutes=3)).to_json()["published"] is True


def test_cluster_status_what_was_never_published(west: Environment) -> None:
    found = schema_status(west, NOW).to_json()
    assert (found["published"], found["updated_at"]) == (False, None)


@pytest.mark.parametrize("look", [schema_status, cluster_status])
def test_status_no_environment(tmp_path: Path, look: object) -> None:
    with pytest.raises(NoEnvironment):
        look(Environment.open(str(tmp_path)), NOW)  # type: ignore[operator]


HEALTH = [
    ([flowing], "ok", False, False),
    ([paused], "degraded", True, False),
    ([stopped], "degraded", False, True),
    ([flowing, paused], "degraded", True, False),
    ([], "ok", False, False),
]


@pytest.mark.parametrize(("states", "status", "is_paused", "is_stopped"), HEALTH)
def test_stream_status_health(west: Environment, states: Sequence[object], status: str, is_paused: bool, is_stopped: bool) -> None:
    for number, state in enumerate(states):
        write_state(west, state(stream(f"o{number}")))  # type: ignore[operator]
    found = schema_status(west, NOW)
    assert found.health() == {
        "status": status,
        "checks": {
            "schema": {
                "status": "ok" if status == "ok" else "warning",
                "schema_hash": found.node.set_hash,
                "paused": is_paused,
                "stopped": is_stopped,
            }
        },
    }
    assert found.waiting is (status != "ok")


def test_a_stream_that_waits_says_since_when_and_why(west: Environment) -> None:
    for state in (paused(stream()), flowing(stream(collection="planes"), seen=4, origin_version=6), stopped(stream("north"))):
        write_state(west, state)
    now = NOW.add(minutes=2)
    first, second, third = schema_status(west, now).to_json()["streams"]
    assert [(item["origin"], item["collection"], item["state"]) for item in (first, second, third)] == [
        ("east", "flights", "paused"),
        ("east", "planes", "following"),
        ("north", "flights", "stopped"),
    ]
    assert first["pause"] == {
        "reason": "schema_mismatch",
        "detail": "the target has no column gust",
        "since": NOW.subtract(minutes=3).isoformat(),
        "seconds": 300.0,
        "event_version": 8,
        "event_hash": hash_of("flights", "id", "gust"),
        "local_hash": hash_of("flights", "id"),
    }
    assert (first["lag_versions"], first["lag_seconds"]) == (5, 210.0)
    assert (second["pause"], second["lag_versions"], second["lag_seconds"]) == (None, 2, 210.0)
    assert (third["error"], third["detail"]) == ("log_cleaned", "versions 8 to 9 are gone")


# --- a cluster -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def east(tmp_path: Path) -> Environment:
    return environment(tmp_path, "east", flights=["id"], planes=["id", "seats"])


def texts(found: object) -> list[str] | None:
    return None if found is None else [describe(change) for change in found]  # type: ignore[attr-defined]


def test_a_rolling_upgrade_names_the_columns(east: Environment, west: Environment) -> None:
    second = move(east, "flights", "id int", "gust double")
    exchange(east, west, NOW)
    with unwritten(west), unwritten(east):
        here, there = cluster_status(west, NOW), cluster_status(east, NOW)
    assert here.verdict is there.verdict is ClusterVerdict.ROLLING_UPGRADE
    assert here.nodes == there.nodes
    assert [group.current for group in here.differing[FLIGHTS]] == [("west",), ("east",)], "one's own is what others are compared with"
    assert texts(here.changes[FLIGHTS, second]) == ["convert id from BIGINT to INT", "add gust DOUBLE"]
    assert texts(there.changes[FLIGHTS, hash_of("flights", "id")]) == ["widen id from INT to BIGINT", "drop gust"]
    move(west, "flights", "id int", "gust double")
    assert cluster_status(west, NOW).verdict is ClusterVerdict.CONSISTENT, "of itself it knows by its ledger, told or not"


def test_a_schema_whose_content_did_not_come_is_said_to_be_unknown(east: Environment, west: Environment) -> None:
    second = move(east, "flights", "id", "gust")
    exchange(east, west, NOW)
    remove(west, SCHEMAS)
    found = cluster_status(west, NOW)
    assert found.changes[FLIGHTS, second] is None
    assert found.verdict is ClusterVerdict.ROLLING_UPGRADE


def test_two_behind_and_depth(east: Environment, west: Environment) -> None:
    move(east, "flights", "id", "gust")
    move(east, "flights", "id", "gust", "wind")
    exchange(east, west, NOW)
    assert cluster_status(west, NOW).verdict is ClusterVerdict.DIVERGED
    assert cluster_status(west, NOW, StreamSettings(depth=2)).verdict is ClusterVerdict.ROLLING_UPGRADE


@pytest.mark.parametrize(("seconds", "stale"), [(0, False), (300, False), (301, True), (-300, False), (-301, True)])
def test_cluster_status_who_is_not_heard_of_is_marked_and_stays(east: Environment, west: Environment, seconds: int, stale: bool) -> None:
    exchange(east, west, NOW)
    now = NOW.add(seconds=seconds)
    found = {item["env_id"]: item for item in cluster_status(west, now).to_json()["cluster"]["nodes"]}
    assert (found["east"]["stale"], found["east"]["age_seconds"]) == (stale, seconds)
    assert found["west"]["stale"] is False, "it is looked at right now"


def test_cluster_status_what_waits_elsewhere_is_seen_from_here(east: Environment, west: Environment) -> None:
    write_state(east, paused(stream("west", "east")))
    write_state(west, stopped(stream("east", "west")))
    exchange(east, west, NOW)
    assert [state.stream.target for state in cluster_status(west, NOW).waiting] == ["east", "west"]
    write_state(west, flowing(stream("east", "west")))
    assert [state.stream.target for state in cluster_status(west, NOW).waiting] == ["east"], "of itself it knows by its own streams"


def test_damage_is_reported_once_and_never_fatal(east: Environment, west: Environment) -> None:
    exchange(east, west, NOW)
    for key in (f"{NODES}/west.json", f"{NODES}/north.json", stream("east").key):
        west.store().put(key, b"{")
    found = cluster_status(west, NOW)
    assert [damage.where for damage in found.local.damaged] == [stream("east").key, f"{NODES}/west.json", f"{NODES}/north.json"]
    assert [item.env_id for item in found.nodes] == ["east", "west"]
    assert len(schema_status(west, NOW).damaged) == 2


def test_the_same_answer_every_time(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(5)]
    envs = [environment(tmp_path, name, flights=["id"], planes=["id", "seats"]) for name in names]
    for number, env in enumerate(envs):
        for name in ("flights", "planes"):
            move(env, name, "id", f"c{number % 2}")
    for env in envs[1:]:
        exchange(envs[0], env, NOW + timedelta(minutes=envs.index(env)))
    document = json.dumps(cluster_status(envs[0], NOW).to_json())
    again = Environment.open(envs[0].location.uri, envs[0].options)
    assert json.dumps(cluster_status(again, NOW).to_json()) == document
    cluster = json.loads(document)["cluster"]
    assert [item["env_id"] for item in cluster["nodes"]] == names
    assert [group["current"] for group in cluster["collections"]["planes"]["groups"]] == [["n0", "n2", "n4"], ["n1", "n3"]]


def test_a_release_change_alone_is_published(west: Environment) -> None:
    """Another release with the same schemas: what was told has another version."""
    told = publish(west, NOW)
    west.store().put(f"{NODES}/west.json", west.store().get(f"{NODES}/west.json").replace(b'"release":"1.0.0"', b'"release":"0.9.0"'))
    assert schema_status(west, NOW).to_json()["published"] is False
    assert publish(west, NOW) == replace(told, updated_at=NOW)
