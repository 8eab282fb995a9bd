"""The folders that we make, and so may take away again: how each is named, and the one check that a deletion passes.

Keys are relative to a root: an environment's, a table's, or that of the folder in which a Spark driver and its caller exchange files. What
a ledger, an object or an option says about a place is what somebody wrote there; only what has a name of ours is ours.
"""

from __future__ import annotations

import re
import uuid

from airflow_provider_schemamig.core.names import RESERVED_PREFIX, CollectionName, Generation, ShardId
from airflow_provider_schemamig.core.storage.errors import NotOurPlace
from airflow_provider_schemamig.core.storage.location import Location

SYSTEM_FOLDER = f"_{RESERVED_PREFIX}"
#: Tables that live as long as a Spark statement, by generation.
SCRATCH = f"{SYSTEM_FOLDER}/scratch"
#: What streams and the registry of nodes keep. Of a stream's, ``streams/<origin>/<collection>/...`` comes and goes with its batches.
REPLICAS = f"{SYSTEM_FOLDER}/replicas"

_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SHARD = re.compile(r"g\d+-[0-9a-f]{12}")
_OURS = re.compile(
    rf"""( {SCRATCH}/[^/]+ | {REPLICAS}/streams/[^/]+/[^/]+/[^/]+
      | {RESERVED_PREFIX}-[a-z_]+-{_UUID} | job-[0-9a-f]{{32}} | [a-z][a-z0-9_]*/{_SHARD.pattern} )(/.+)?""",
    re.VERBOSE | re.DOTALL,
)


def shard_id(generation: Generation, digest: str) -> ShardId:
    """Return the id of a table that we make. ``digest``: at least 12 hex digits."""
    return ShardId(f"g{generation}-{digest[:12]}")


def shard_folder(collection: CollectionName, shard: ShardId) -> str:
    """Return a table's folder, relative to the environment's root."""
    return f"{collection}/{shard}"


def is_shard_id(name: str) -> bool:
    return _SHARD.fullmatch(name) is not None


def is_shard_folder(key: str, shard: ShardId) -> bool:
    """Return whether ``key`` is the folder that we made for ``shard``; the collection may have another name by now."""
    return is_shard_id(shard) and key.count("/") == 1 and key.endswith(f"/{shard}") and _OURS.fullmatch(key) is not None


def work_folder(operation: str) -> str:
    """Return a new folder's name below a table's root. It is not hidden: VACUUM must find what a killed process left there."""
    return f"{RESERVED_PREFIX}-{operation}-{uuid.uuid4()}"


def exchange_folder() -> str:
    return f"job-{uuid.uuid4().hex}"


def check_own_place(location: Location, key: str) -> None:
    """Raise NotOurPlace unless the folder ``key`` below ``location`` has a name that only we give."""
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise NotOurPlace(uri=f"{location.uri}/{key}", rule="it leads out of its location, or is the location itself")
    if _OURS.fullmatch(key) is None:
        raise NotOurPlace(uri=f"{location.uri}/{key}", rule="it has no name that schemamig gives to what it makes")
