"""Who reads and writes this environment: one heartbeat object a node, ``_schemamig/nodes/<id>.json``.

Heartbeats are overwritten objects and not ledger rows: a thousand nodes would race for the ledger, and nobody needs their history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pendulum

from airflow_provider_schemamig.core.jsonable import canonical, from_json, to_json
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.names import Fingerprint, InvalidName, Version
from airflow_provider_schemamig.core.storage import ObjectMissing
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

NODES = f"{EnvironmentRoot.SYSTEM_FOLDER}/nodes"

_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class NodeKind(StrEnum):
    READER = "reader"
    WRITER = "writer"
    REPLICA = "replica"


@dataclass(frozen=True, slots=True)
class Node:
    """A heartbeat: which release the node works with, until when it counts as alive, and since when it works with that release (UTC)."""

    node_id: str
    kind: NodeKind
    release: Version
    schema_hash: Fingerprint
    lease_until: pendulum.DateTime
    since: pendulum.DateTime


def write_heartbeat(env: EnvironmentRoot, node: Node) -> None:
    """Renew the node's lease. Raises InvalidName for an id that is no file name."""
    env.store().put(_key(node.node_id), canonical(to_json(node)).encode())


def remove_heartbeat(env: EnvironmentRoot, node_id: str) -> None:
    """Sign the node off; fine if it never signed on. Raises InvalidName."""
    env.store().delete(_key(node_id))


def live_nodes(env: EnvironmentRoot, now: pendulum.DateTime) -> tuple[Node, ...]:
    """Return the nodes whose lease runs beyond ``now``, by id.

    Raises LedgerDamaged, because a node that cannot be read may not be taken for dead.
    """
    found = []
    for node in heartbeats(env):
        if isinstance(node, LedgerDamaged):
            raise node
        if node.lease_until > now:
            found.append(node)
    return tuple(sorted(found, key=lambda node: node.node_id))


def heartbeats(env: EnvironmentRoot) -> Iterator[Node | LedgerDamaged]:
    """Yield every heartbeat there is, or what is wrong with it."""
    store = env.store()

    def read(name: str) -> Node | LedgerDamaged | None:
        try:
            return _parse(name, store.get(f"{NODES}/{name}"))
        except ObjectMissing:  # signed off between listing and reading
            return None
        except LedgerDamaged as error:
            return error

    names = [name for name in store.names(NODES) if name.endswith(".json")]
    return (found for found in env.each(read, names) if found is not None)


def _parse(name: str, data: bytes) -> Node:
    try:
        node: Node = from_json(Node, json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, SchemamigError) as error:
        raise LedgerDamaged(where=f"{NODES}/{name}", reason=f"not a heartbeat ({type(error).__name__}: {error})") from error
    return node


def file_name(node_id: str) -> str:
    """Return the name of a node's object, wherever there is one for each node. Raises InvalidName for an id that is no file name."""
    if _NODE_ID.fullmatch(node_id) is None:
        raise InvalidName(kind="node", name=node_id, rule="letters, digits, '_', '-' and '.', at most 128, not beginning with a dot")
    return f"{node_id}.json"


def _key(node_id: str) -> str:
    return f"{NODES}/{file_name(node_id)}"
