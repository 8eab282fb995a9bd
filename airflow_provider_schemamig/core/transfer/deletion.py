"""Delete the tables of shards: the one way in which a table goes, whatever the rows say that name it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.errors import LogDamaged, LogTruncated, TableMissing
from airflow_provider_schemamig.core.delta.features import CatalogManagedTable
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import look_at_head
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, is_at, read_history
from airflow_provider_schemamig.core.ledger.rows import SealIntent, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId
from airflow_provider_schemamig.core.storage import NotOurPlace
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.exactly_once import foreign_commits
from airflow_provider_schemamig.exceptions import SchemamigError

#: Why a table is left alone that is not the one which the ledger knows at its place.
MADE_ANEW = "somebody made another table there"


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


def left_alone(env: EnvironmentRoot, state: State, shards: Sequence[Shard]) -> Mapping[ShardId, str]:
    """Return the reasons to leave tables alone, by shard.

    Such a table is not what its row says: others made it anew, or brought rows since it was retired.

    Of a ledger that was restored, a table that it has as retired may be live again, and one that it has as being built may be live by now.
    """
    in_doubt = any(shard.state is ShardState.BUILDING and state.is_before_restore(shard.generation) for shard in shards)
    claimed = _claims_of_live_tables(env, state) if in_doubt else {}
    committed = _maybe_committed(env, {shard.generation for shard in shards}) if in_doubt else set[Generation]()
    given_back = _given_back(env) if state.given_out is not None else []
    reasons = env.each(functools.partial(_why_left, env, state, claimed, committed, given_back), shards)
    return {shard.shard: reason for shard, reason in zip(shards, reasons, strict=True) if reason}


def _given_back(env: EnvironmentRoot) -> list[HistoryEntry]:
    """Return the audit log's entries of tables that were given back. Only a restored ledger has one of them as ours."""
    with contextlib.suppress(SchemamigError):
        return [entry for entry in read_history(env) if entry.what == "unmanage"]
    return []


def _why_left(
    env: EnvironmentRoot,
    state: State,
    claimed: Mapping[ShardId | None, str],
    committed: Collection[Generation],
    given_back: Sequence[HistoryEntry],
    shard: Shard,
) -> str:
    try:
        head = look_at_head(env.table_store(shard.uri, shard.table_id))
    except (TableMissing, LogTruncated, LogDamaged):  # what a run that died in deleting it has left
        return ""
    except CatalogManagedTable:
        return "a catalog manages it by now"
    if head.is_another:
        return MADE_ANEW
    if any(is_at(env, entry, shard.uri) for entry in given_back):
        return "the audit log shows that it was given back (`unmanage`), and the ledger that was restored has it as managed"
    if shard.adopted:  # its files stay whatever comes into them
        return ""
    if shard.state is ShardState.RETIRED:
        is_open = head.sealed_for is None
        return "it is open for writers, and in the ledger it is retired" if is_open else _came_after_seal(env, shard, head.version)
    if shard.state is not ShardState.BUILDING or not state.is_before_restore(shard.generation):
        return ""
    if shard.generation in committed:
        return f"generation {shard.generation} may have been committed since, and in the ledger that was restored it is being built"
    return _why_in_use(env, claimed, shard)


def _came_after_seal(env: EnvironmentRoot, shard: Shard, newest: int) -> str:
    """Describe others' rows that came since the table was retired: a rollback that failed had opened it, or RESTORE got in. A log that was
    cleaned up since then cannot tell, so they count as having come.
    """
    if shard.sealed_version is None or newest <= shard.sealed_version:
        return ""
    store = env.table_store(shard.uri, shard.table_id)
    try:
        came = next((commit.version for commit in foreign_commits(store, shard.sealed_version) if commit.adds), None)
    except LogTruncated:
        return "its log goes on after its rows had moved on and was cleaned up since, so others may have written rows to it"
    return "" if came is None else f"others wrote rows to it after its own had moved on (version {came}), which are nowhere else"


def _maybe_committed(env: EnvironmentRoot, generations: Collection[Generation]) -> set[Generation]:
    """Return those that came to their cut-over, says the audit log; and those of which it says nothing at all, as it is lost, too."""
    told: dict[int | None, set[str]] = {}
    with contextlib.suppress(SchemamigError):
        for entry in read_history(env):
            told.setdefault(entry.generation, set()).add(entry.what)
    return {generation for generation in generations if "cutover" in told.get(generation, {"cutover"})}


def _why_in_use(env: EnvironmentRoot, claimed: Mapping[ShardId | None, str], shard: Shard) -> str:
    """Return the sign that a table has gone live, though the restored ledger has it as being built; empty: there is none."""
    try:
        if any(_is_of_a_live_table(commit) for commit in commits(env.table_store(shard.uri, shard.table_id), -1)):
            return "rows have come into it since, and in the ledger that was restored it is being built"
    except LogTruncated:
        return "its log was cleaned up, and in the ledger that was restored it is being built"
    return claimed.get(shard.shard) or claimed.get(None, "")


def _is_of_a_live_table(commit: LogCommit) -> bool:
    """Return whether a commit brings rows and is no step of a deployment: others' writes, a replica's batch, a compaction."""
    return commit.changes_rows and "generation" not in (commit.about or {})


def _claims_of_live_tables(env: EnvironmentRoot, state: State) -> Mapping[ShardId | None, str]:
    """Return the tables that live ones are sealed for, and why; None: a live one may have its rows in any of them.

    Not by a seal of the ledger's own, which a cut-over that died has left.
    """

    def look(name: CollectionName) -> tuple[ShardId | None, str]:
        live = state.shard_of(name)
        try:
            sealed_for = look_at_head(env.table_store(live.uri, live.table_id)).sealed_for
        except TableMissing:
            return None, f"the table of {name} is gone, whose rows may be in it"
        except (LogTruncated, LogDamaged):
            return None, f"the table of {name} cannot be read, which may be sealed for it"
        if any(isinstance(intent, SealIntent) for intent in state.intents_of(live.shard)):
            return None, ""
        known = f"the table of {name} is sealed for it, which the ledger that was restored does not know"
        return (ShardId(sealed_for), known) if sealed_for is not None else (None, "")

    return {shard: why for shard, why in env.each(look, list(state.objects)) if why}


def left_note(shard: Shard, why: str) -> str:
    return f"{shard.collection}: the table at {shard.uri} is left alone: {why}"


def delete_table(env: EnvironmentRoot, shard: Shard) -> None:
    """Delete all files of a table.

    ``check_deletable`` has let it pass, and it is none that is ``left_alone``. Missing is fine. Raises NotOurPlace.
    """
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
