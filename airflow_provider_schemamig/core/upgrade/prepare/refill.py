"""Fills of replacements, run again where rows came to their inputs.

Before the seals as often as the tasks look; under them once more for what is sealed with the commit (the table that is replaced, one that
goes): its users' last rows are to be in the new table. What else a fill reads is written to all the time, so the outcome says up to which
version its rows count. Right before the commit the new tables are closed to all fills: a statement that comes later, of a twin or of a
driver that outlived its task, would overwrite what users write to them by then. Delta sees to that, by the number of a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.delta.commit.fence import put_fence
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import BuildingShard
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.transfer.errors import NeverSettles, StepAlreadyMade
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import SourceTouched
from airflow_provider_schemamig.core.upgrade.plan.live_tables import names_under_way, table_store
from airflow_provider_schemamig.core.upgrade.plan.stages import Build
from airflow_provider_schemamig.core.upgrade.prepare.build import FILL, last_fill, moved_inputs, stale_fills
from airflow_provider_schemamig.core.upgrade.prepare.fill import FillContext, Jobs, fill, fill_all, takes_fills
from airflow_provider_schemamig.core.upgrade.prepare.transfers import row_of


def refill_stale(
    leader: LeaderWriter, jobs: Jobs, collections: Collection[str] | None = None, sealed: Collection[ShardId] | None = None
) -> Mapping[CollectionName, float]:
    """Fill again what went stale (of ``collections``, if they are named); returns for how many seconds each took.

    ``sealed``: what the cut-over is about to seal; a fill that reads some of it has to have a shard that is open. There one that reads a
    table whose names are under way already, as this cut-over was killed, stays as it is: the outcome says up to where its rows count.
    """
    stale = set(stale_fills(leader.env, leader.state, leader.deployment, leader.plan))
    wanted = [build for build in fills_of(leader, with_snapshots=True) if collections is None or build.collection in collections]
    due = [build for build in wanted if build.collection in stale or _has_to_begin_anew(leader, build, sealed or ())]
    if sealed is not None:
        due = [build for build in due if _row(leader, build).filled_rows is None or _is_readable(leader, build)]
    todo = [build.collection for build in due]
    done = fill_all(_filling(leader, jobs), todo)
    leader.results += done
    if done:
        leader.refresh()
    return {CollectionName(result.collection): result.seconds for result in done if result.collection is not None}


def fills_of(leader: LeaderView, *, with_snapshots: bool = False) -> Sequence[Build]:
    """Return the builds whose fill runs again if rows come to its inputs; also those of ``snapshot=True``, which read once."""
    return [build for build in leader.plan.of_kind(Build) if build.fill is not None and (with_snapshots or not build.snapshot)]


def warm_up(
    leader: LeaderView, sealed: Collection[ShardId], jobs: Callable[[], JobRunner], seconds: Mapping[CollectionName, float]
) -> Mapping[CollectionName, float]:
    """Start Spark before writers wait for it, if a fill may have to be run again under the seals; returns for how long each may take.

    ``seconds``: what they took in this task; what the history says of those before may be more.
    """
    reading = [build.collection for build in fills_of(leader) if _reads(leader, build, sealed)]
    if not reading:
        return seconds
    jobs().start(leader.env.options)
    known = {
        CollectionName(entry.collection): entry.seconds
        for entry in read_history(leader.env)
        if entry.what == FILL and entry.generation == leader.generation and entry.collection is not None and entry.outcome == "done"
    }
    return {name: max(seconds.get(name, 0.0), known.get(name, 0.0)) for name in reading}


def refill_sealed(leader: LeaderWriter, jobs: Jobs, sealed: Collection[ShardId], seconds: Mapping[CollectionName, float]) -> None:
    """Fill again, while writers wait, the tables whose ``sealed`` inputs got rows since. ``seconds``: what fills took before.

    Raises NeverSettles where those together took longer than writers may wait.
    """
    moved = [build for build in fills_of(leader) if any(shard in sealed for shard in _moved(leader, build))]
    took = {build.collection: seconds.get(build.collection, 0.0) for build in moved}
    if (seconds_all := sum(took.values())) > max(0.0, leader.seal_seconds / 2):
        slowest = max(took, key=took.__getitem__)
        raise NeverSettles(collection=slowest, seconds=seconds_all, limit=leader.seal_seconds, tables=len(moved))
    for number, build in enumerate(moved):
        name = build.collection
        leader.listen(Event(FILL, name, number, len(moved), note="again, with the last rows; writers of what it reads wait"))
        result, rows = fill(replace(_filling(leader, jobs), is_sealed=True), build)
        leader.listen(Event(FILL, name, number + 1, len(moved), result.seconds, note=f"{rows:,} rows"))
        leader.results += (result,)
        leader.refresh()
        leader.notes.append(f"{name}: was filled again while writers of what it reads waited, {result.seconds:.1f} s")


def check_filled(leader: LeaderWriter, sealed: Collection[ShardId]) -> None:
    """Check that fills have all rows of their sealed inputs. Note the version up to which rows of others count. Raises SourceTouched."""
    for build in fills_of(leader):
        for shard, version in _moved(leader, build).items():
            source = leader.state.shards[shard].collection
            if shard in sealed:
                raise SourceTouched(collection=source, shard=shard)
            leader.notes.append(f"{build.collection}: has what {source} had at version {version}; rows came to it since")


def close_fills(leader: LeaderWriter) -> Sequence[BuildingShard]:
    """Close the filled shards to every fill that is still to come, and return them as they are now.

    Raises StepAlreadyMade where the rows are of a fill that this process knows nothing of.
    """
    return list(leader.env.each(lambda build: _closed(leader, build), fills_of(leader, with_snapshots=True)))


def check_closed(state: State, closed: Sequence[BuildingShard]) -> None:
    """Raise StepAlreadyMade if another process filled one of the closed shards meanwhile, or began another one."""
    for row in closed:
        if state.replacements.get((row.collection, row.version, row.generation)) != row:
            raise StepAlreadyMade(collection=row.collection, step="another fill")


def _closed(leader: LeaderWriter, build: Build) -> BuildingShard:
    row = _row(leader, build)
    store = table_store(leader.env, leader.state, row.shard)
    put_fence(store, leader.fence(row.shard), leader.tag("fence"), closes=True)
    if last_fill(store) != row.fill_number:
        raise StepAlreadyMade(collection=build.collection, step="another fill")
    return row


def _row(leader: LeaderView, build: Build) -> BuildingShard:
    return row_of(leader.state, leader.deployment, build.collection)


def _moved(leader: LeaderView, build: Build) -> Mapping[ShardId, int]:
    return moved_inputs(leader.env, leader.state, build, _row(leader, build))


def _has_to_begin_anew(leader: LeaderView, build: Build, sealed: Collection[ShardId]) -> bool:
    return _reads(leader, build, sealed) and not takes_fills(leader.env, leader.state, _row(leader, build), leader.epoch)


def _reads(leader: LeaderView, build: Build, shards: Collection[ShardId]) -> bool:
    return not build.snapshot and any(shard in shards for shard in _read_by(leader, build))


def _read_by(leader: LeaderView, build: Build) -> Iterator[ShardId]:
    return (leader.state.objects[source.collection].shard for source in build.inputs)


def _is_readable(leader: LeaderView, build: Build) -> bool:
    read = zip(build.inputs, _read_by(leader, build), strict=True)
    heads = ((source.collection, read_head(table_store(leader.env, leader.state, shard))) for source, shard in read)
    return not any(names_under_way(leader.state, name, head) for name, head in heads)


def _filling(leader: LeaderWriter, jobs: Jobs) -> FillContext:
    return FillContext(leader.env, leader.ledger, leader.deployment, leader.plan, jobs, leader.listen, leader.epoch)
