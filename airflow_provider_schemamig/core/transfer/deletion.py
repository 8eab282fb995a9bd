"""Delete the tables of shards: the one way in which a table goes, whatever the rows say that name it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from airflow_provider_schemamig.core.ledger.rows import Shard
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.storage import NotOurPlace
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


def check_deletable(env: EnvironmentRoot, state: State, shards: Sequence[Shard]) -> None:
    """Raise NotOurPlace unless every one of these tables may be deleted: ask before anything is done that ends with ``delete_table`` of
    each.

    A table may be deleted if we made it, below the root, in a folder named for it; if no collection's rows are in it; and if no other table
    lies inside of it.
    """
    live = {item.shard: item.collection for item in state.objects.values()}
    places = {}
    for shard in shards:
        _check_made(shard)
        env.store().refuse_links(shard.uri)
        if shard.shard in live:
            raise _refused(shard, f"the rows of {live[shard.shard]} are in it")
        places[env.table_location(shard.uri).uri] = shard
    wanted = {shard.shard for shard in shards}
    for other in state.shards.values():
        if places and other.shard not in wanted:
            for place in _around(env.table_location(other.uri).uri):
                if place in places:
                    raise _refused(places[place], f"the table of shard {other.shard} is in it")


def delete_table(env: EnvironmentRoot, shard: Shard) -> None:
    """Delete all files of a table that ``check_deletable`` let pass; missing is fine. Raises NotOurPlace."""
    _check_made(shard)
    env.store().delete_tree(shard.uri)


def _check_made(shard: Shard) -> None:
    if shard.adopted:
        raise _refused(shard, "it was adopted, so its files are its owners'")
    if not shard.is_at_own_place:
        raise _refused(shard, f"it is no folder that schemamig makes for shard {shard.shard}")


def _around(uri: str) -> Iterator[str]:
    """Yield the place itself, and all that it is in."""
    scheme, _, path = uri.partition("://")
    for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
        yield f"{scheme}://{folder}"


def _refused(shard: Shard, rule: str) -> NotOurPlace:
    error = NotOurPlace(uri=shard.uri, rule=rule)
    error.collection = shard.collection
    return error
