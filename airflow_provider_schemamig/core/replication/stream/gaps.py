"""Can what a stream has not brought yet still be read? A gap is never passed over.

Three things go at their own time: the log's commits, the change data, the data files that stand in where there is none. Each poll looks for
them, and warns once half of the time is over that the table keeps them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from urllib.parse import unquote

import pendulum

from airflow_provider_schemamig.core.delta.actions import RawAction, file_id
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.files import FileDifference, file_difference, records_changes
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.log.listing import commit_key, list_log
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.replication.errors import ChangeDataVacuumed, ChangeFeedOff, LogCleaned, OriginReplaced
from airflow_provider_schemamig.core.replication.stream.events import EventBatch, FoundEvents, row_of
from airflow_provider_schemamig.core.storage import ObjectMissing, ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.core.transfer.retention import Age, age_of

#: Files of the next batch that are looked for, those of its oldest commits: VACUUM goes by age, too, and a request each adds up.
PROBED = 100


def commit_hash(store: ReadStore, version: int) -> str:
    """Return what tells a commit from another one of its version; "" where it was cleaned up."""
    try:
        return hashlib.sha256(store.get(commit_key(version))).hexdigest()
    except ObjectMissing:
        return ""


def check_same_log(env: EnvironmentRoot, state: State, shard: ShardId, found: FoundEvents, seen: int, known: str) -> str:
    """Return the hash of the commit up to which a stream has seen the origin's log now, ``found.seen``.

    Raises OriginReplaced where the log does not have the commit ``seen`` any more that the stream went on from, be it that it brought that
    one or passed it over: it was brought back from a copy of before, and its versions since are other commits. ``known``: the hash of that
    commit, "" if nobody knows. Costs nothing if nothing was committed.
    """
    if found.head_version <= seen:
        return known
    row = row_of(state, shard)
    store = env.table_store(row.uri, row.table_id)
    now = commit_hash(store, seen)
    if known and now and now != known:
        reason = f"its log has another commit {seen} than the one that was seen, so it was brought back from a copy of before"
        raise OriginReplaced(collection=row.collection, shard=row.shard, reason=reason)
    return (now or known) if found.seen == seen else commit_hash(store, found.seen)


def check_gap(env: EnvironmentRoot, state: State, shard: ShardId, found: FoundEvents, now: pendulum.DateTime) -> str:
    """Return a warning while there is still time before a gap; "" if all is well.

    ``found``: what is next in the origin's shard (``next_events``). Raises LogCleaned, ChangeDataVacuumed, ChangeFeedOff, OriginReplaced,
    TableMissing. Costs nothing if nothing was committed.
    """
    if found.seen >= found.head_version:
        return ""
    row = row_of(state, shard)
    store = env.table_store(row.uri, row.table_id)
    if found.batch is not None:
        try:
            _check_files(store, found.batch)
        except LogTruncated as error:  # the commits are there, and not the checkpoint that they go on from
            first = min(list_log(store).checkpoints, default=found.head_version)
            raise LogCleaned(collection=row.collection, uri=store.location.uri, after=found.seen, first=first) from error
    return _warning(age_of(store, read_head(store), found.seen, now), found.seen + 1)


def feed_serves(store: ReadStore, lo: int, hi: int, difference: FileDifference) -> bool:
    """Return whether the change data feed tells what the commits after ``lo`` up to ``hi``, all under one metaData, changed, as it was.

    It does if it is wanted for their ``difference``, it was on, and the table still has their schema: Spark reads change data with its
    newest. Raises LogTruncated.
    """
    if not difference.wants_change_data:
        return False
    at = read_head(store, hi).metadata
    return lo < hi and records_changes(at) and at["schemaString"] == read_head(store).metadata["schemaString"]


def _check_files(store: ReadStore, batch: EventBatch) -> None:
    kind = ChangeDataVacuumed if records_changes(read_head(store, batch.hi).metadata) else ChangeFeedOff
    for file in islice(_needed(store, batch.lo, batch.hi), PROBED):
        if not store.exists(file):
            raise kind(collection=batch.collection, uri=store.location.uri, lo=batch.lo, hi=batch.hi, file=file)


def _needed(store: ReadStore, lo: int, hi: int) -> Iterator[str]:
    """Yield the files with the changes, oldest commits first; those elsewhere (of a shallow clone) are left out."""
    difference = file_difference(store, lo, hi)
    by_feed = feed_serves(store, lo, hi, difference)
    wanted = {file_id(file) for file in (*difference.removed, *difference.added)}
    for commit in commits(store, lo, hi):
        files: list[RawAction] = [*commit.removes, *commit.adds]
        if by_feed:
            changes = [file for file in files if file.get("dataChange", True)]
            files = list(commit.actions("cdc")) or changes
        else:
            files = [file for file in files if file_id(file) in wanted]
        yield from (path for path in (unquote(str(file["path"])) for file in files) if "://" not in path and not path.startswith("/"))


def _warning(age: Age, version: int) -> str:
    if not age.is_half:
        return ""
    until = age.since.add(seconds=round(age.kept_hours * 3600))
    return (
        f"version {version} waits since {minute(age.since)}, and the table keeps its history for {age.kept_hours:g} hours: "
        f"from {minute(until)} on it may be gone"
    )
