"""Heartbeats: one object a node, alive until its lease is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.objects.nodes import Node, NodeKind, heartbeats, live_nodes, write_heartbeat
from airflow_provider_schemamig.core.names import Fingerprint, InvalidName, Version
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.unit.ledger.samples import NOW

NODE = Node("etl-1", NodeKind.WRITER, Version(1, 0, 0), Fingerprint("sf1:00"), NOW.add(seconds=30), NOW)


def test_a_node_lives_until_its_lease_is_over(env: EnvironmentRoot) -> None:
    assert live_nodes(env, NOW) == ()
    other = replace(NODE, node_id="api", kind=NodeKind.READER, lease_until=NOW.add(seconds=10))
    write_heartbeat(env, NODE)
    write_heartbeat(env, other)
    assert live_nodes(env, NOW) == (other, NODE)
    assert live_nodes(env, NOW.add(seconds=10)) == (NODE,)
    assert live_nodes(env, NOW.add(seconds=30)) == ()


def test_a_heartbeat_replaces_the_one_before(env: EnvironmentRoot) -> None:
    write_heartbeat(env, NODE)
    renewed = replace(NODE, release=Version(1, 1, 0), lease_until=NOW.add(seconds=60))
    write_heartbeat(env, renewed)
    assert live_nodes(env, NOW) == (renewed,)
    assert env.store().names("_schemamig/nodes") == ["etl-1.json"]


@pytest.mark.parametrize("node_id", ["", ".hidden", "../ledger/x", "a/b", "a b", "a" * 129])
def test_an_id_that_is_no_file_name_is_refused(env: EnvironmentRoot, node_id: str) -> None:
    with pytest.raises(InvalidName):
        write_heartbeat(env, replace(NODE, node_id=node_id))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"node_id":"x"}', b"[" * 100_000])
def test_a_node_that_cannot_be_read_is_not_taken_for_dead(env: EnvironmentRoot, content: bytes) -> None:
    env.store().put("_schemamig/nodes/x.json", content)
    with pytest.raises(LedgerDamaged, match=r"x\.json"):
        live_nodes(env, NOW)
    write_heartbeat(env, NODE)
    found, unreadable = sorted(heartbeats(env), key=lambda item: isinstance(item, LedgerDamaged))
    assert found == NODE, "the others can be looked at still"
    assert isinstance(unreadable, LedgerDamaged)


def test_other_files_are_none_of_ours(env: EnvironmentRoot) -> None:
    env.store().put("_schemamig/nodes/README", b"hello")
    assert live_nodes(env, NOW) == ()
