"""The end of a change of type, and its way back: two columns change places in one commit, when no row lacks a value of the one that comes.

Others may write a row at any moment, so the commit has to follow right upon a version at which nothing was due: put-if-absent, and beaten
means to fill what came and to try again.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import FilesArrived
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits, last_metadata_version
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.log.listing import list_from
from airflow_provider_schemamig.core.delta.names import physical_name
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, ShardId
from airflow_provider_schemamig.core.online.errors import BackfillStarved
from airflow_provider_schemamig.core.online.operation import Files
from airflow_provider_schemamig.core.online.unfilled import Fill
from airflow_provider_schemamig.core.schema.diff.renames import is_stand_in, stands_in_for
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.spark.errors import BadValue
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.transfer.errors import FilesMoved
from airflow_provider_schemamig.core.transfer.throttle import forced
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables.backfill import backfill
from airflow_provider_schemamig.core.upgrade.tables.errors import NotInvertible, SwapRaced
from airflow_provider_schemamig.core.upgrade.tables.inverse import ColumnSwap, ColumnSwaps, column_swaps
from airflow_provider_schemamig.core.upgrade.tables.seals import sealed_during

T = TypeVar("T")

#: Lost races until somebody should look: each was preceded by a fill of what had come.
TRIES = 5
#: Races that are run while everybody may write; after as many were lost, others wait.
OPEN_RACES = 2
_LONGEST_PAUSE_SECONDS = 2.0


def retry_on_new_files(leader: LeaderWriter, collection: CollectionName, shard: ShardId, attempt: Callable[[], T]) -> T:
    """Repeat ``attempt``, which fills and may commit upon it, as long as rows come in between; after two lost races while nobody else may
    write, and if somebody said ``force`` after the first one: what was filled before, nobody has to wait for.

    Raises SwapRaced; without ``force`` BackfillStarved and FilesMoved at once, since the fill has had its own tries.
    """
    for number in range(1, TRIES + 1):
        try:
            if number > OPEN_RACES or (number > 1 and forced(leader.newest(), collection)):
                with sealed_during(leader, {collection: shard}):
                    return attempt()
            return attempt()
        except FilesArrived as arrived:
            if number == TRIES:
                raise SwapRaced(collection=collection, uri=arrived.uri, version=arrived.version, tries=TRIES) from arrived
        except (BackfillStarved, FilesMoved):
            if number == TRIES or not forced(leader.newest(), collection):
                raise
        rest(number)
    raise AssertionError("unreachable")


def rest(number: int) -> None:
    """Wait before the race after the ``number``-th lost one."""
    time.sleep(random.uniform(0.0, min(0.1 * 2**number, _LONGEST_PAUSE_SECONDS)))


@dataclass(frozen=True)
class SwapBack:
    """From ``now``, which the table is, back to ``wanted``. ``since``: a version from before the columns changed places; ``renames``: of
    the way out (``inverse.inverse_changes``). ``lossy``: NULL where a value does not fit the type of before."""

    collection: CollectionName
    shard: ShardId
    now: Declaration
    wanted: Declaration
    renames: Sequence[tuple[ColumnPath, str]]
    since: int
    lossy: bool = False

    @property
    def columns(self) -> ColumnSwaps:
        return column_swaps(self.now, self.wanted, self.renames)

    def fill_of(self, store: ReadStore, head: Head, item: ColumnSwap) -> Fill:
        """Return the fill that gives the hidden column its values.

        Files from before the columns changed places have every value of it; those that came since have none, or old ones. Where the log
        was cleaned up since, or the hidden column was dropped and came anew, every row is asked: a value that still says the same stays as
        it is (``ColumnSwap.value``).
        """
        expression = self.columns.expression(item, lossy=self.lossy)
        try:
            aside = _aside_since(store, self.since, head, item.hidden.name)
        except LogTruncated:
            aside = None
        if aside is None:
            return Fill(item.hidden.name, expression, _settled_since(store, head), Files.ALL)
        return Fill(item.hidden.name, expression, aside, Files.NEWER)


def fill_old_column(leader: LeaderWriter, way: SwapBack, jobs: Jobs) -> int | None:
    """Give the columns that come back their values in the rows since the swap. Return the version at which no row lacked one; None: there
    are no such columns. No such row: no Spark. A pause does not hold it: no way back is held.

    Raises NotInvertible, MetadataMoved, and what ``backfill`` raises.
    """
    if not way.columns:
        return None
    store = table_store(leader.env, leader.state, way.shard)
    head = read_head(store)
    there = {field["name"] for field in head.schema["fields"]}
    if any(item.hidden.name not in there for item in way.columns):  # another leader, or somebody, was faster
        raise MetadataMoved(collection=way.collection, uri=store.location.uri)
    try:
        return min(backfill(leader, way.collection, way.shard, way.fill_of(store, head, item), jobs, is_held=False) for item in way.columns)
    except BadValue as bad:
        raise NotInvertible(collection=way.collection, reason=bad.message) from bad


def _settled_since(store: ReadStore, head: Head) -> int:
    """Return the newest change of the table's schema in its log; if there is none, the version before its oldest commit.

    No batch of an earlier way back is after it, so what a batch after it wrote is of this one.
    """
    oldest = min(list_from(store, 0).commits, default=head.version + 1) - 1
    changed = last_metadata_version(store, oldest, head.version)
    return oldest if changed is None else changed


def _aside_since(store: ReadStore, since: int, head: Head, column: str) -> int | None:
    """Return the commit in which the column stepped aside, ``since`` if it has been aside from before; None if it came anew, or was in use
    again in between: a RESTORE brings files back that came while it was aside.

    It is the one in which a stand-in took the place of another column than it was before. Somebody may rename the column that is aside, and
    back: that is no such commit. It is followed by its name in the data files, so one that was dropped and came anew is another one.
    """
    hidden = next(physical_name(field) for field in head.schema["fields"] if field["name"] == column)
    before, found = _names_at(read_head(store, at=since).schema), since
    if hidden not in before:
        return None
    for commit in commits(store, since, head.version):
        if commit.metadata is None:
            continue
        now = _names_at(json.loads(commit.metadata["schemaString"]))
        if hidden not in now:
            return None
        if now[hidden] != before[hidden] and _has_changed_places(before[hidden], before, now):
            if found != since:
                return None
            found = commit.version
        before = now
    return found


def _names_at(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return what the columns are called, by their names in the data files."""
    return {physical_name(field): str(field["name"]) for field in schema["fields"]}


def _has_changed_places(column: str, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return whether a stand-in of ``column`` came to be in use."""
    return any(stands_in_for(name, column) and not is_stand_in(now.get(physical, name)) for physical, name in before.items())
