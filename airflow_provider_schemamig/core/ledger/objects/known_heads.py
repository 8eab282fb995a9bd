"""The heads of live tables as they were seen last, in one object: a process that begins asks each table only for what came since.

``_schemamig/heads.json.gz`` is written by leaders after they changed tables, and read by all. It is a memory and no record: each head in it
counts only while the table's log shows the very commit that it is of, by the tag that the store gives to an object. Whatever is wrong with
it, or if it is gone, the tables are read as if it had never been.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from typing import Any

from airflow_provider_schemamig.core.delta.action_forms import are_usable, plain
from airflow_provider_schemamig.core.delta.log.head import Head, KnownHead, SeenFence
from airflow_provider_schemamig.core.storage import Location
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

KNOWN_HEADS = f"{EnvironmentRoot.SYSTEM_FOLDER}/heads.json.gz"
_FORMAT = 2
#: In the environment's memory beside the heads: those that are stored, by their tables' URIs.
_STORED = "known heads"


def recall_heads(env: EnvironmentRoot) -> None:
    """Put the stored heads into the environment's memory, once; those of tables that it has looked at itself stay."""
    if _STORED in env.memory:
        return
    stored = _read(env)
    env.memory[_STORED] = stored
    for uri, known in stored.items():
        env.memory.setdefault(uri, known)


def store_heads(env: EnvironmentRoot, tables: Iterable[Location]) -> None:
    """Store what the environment's memory has of these tables, if it is news. Done or not, nothing depends on it."""
    recall_heads(env)
    heads = {table.uri: env.memory[table.uri] for table in tables if table.uri in env.memory}
    stored = env.memory[_STORED]
    if all(stored.get(uri) is known for uri, known in heads.items()):
        return
    document = {"format": _FORMAT, "heads": {uri: _to_json(known) for uri, known in heads.items()}}
    try:
        env.store().put(KNOWN_HEADS, gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 1, mtime=0))
    except (SchemamigError, TypeError, ValueError):  # the next process asks the tables
        return
    env.memory[_STORED] = heads


def _read(env: EnvironmentRoot) -> dict[str, KnownHead]:
    try:
        document = json.loads(gzip.decompress(env.store().get(KNOWN_HEADS)))
        if document["format"] != _FORMAT:
            return {}
        return {uri: _from_json(uri, found) for uri, found in document["heads"].items()}
    except SchemamigError:  # it is not there, or cannot be read
        return {}
    except (ValueError, OSError, EOFError, zlib.error, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _to_json(known: KnownHead) -> list[object]:
    head = known.head
    return [known.tag, known.is_conditional, head.version, head.protocol, head.metadata, head.domains, known.fence]


def _from_json(uri: str, found: list[Any]) -> KnownHead:
    tag, is_conditional, version, protocol, metadata, domains, fence = found
    kinds = ((tag, str), (is_conditional, bool), (version, int), (protocol, dict), (metadata, dict), (domains, dict), (metadata["id"], str))
    if not all(isinstance(item, kind) for item, kind in kinds) or not are_usable(protocol, metadata, domains.values()):
        raise ValueError(f"not a head: {uri}")
    return KnownHead(Head(Location(uri), version, protocol, plain("metaData", metadata), domains), tag, is_conditional, _fence(fence))


def _fence(found: Any) -> SeenFence | None:
    if found is None:
        return None
    app_id, version = found
    if not isinstance(app_id, str) or not isinstance(version, int):
        raise ValueError("not a fence")
    return app_id, version
