"""Fills of replacements that are run again, where rows came to what they read.

Before the seals as often as the tasks look; under them once more for what is sealed with the commit (the table that is replaced, one that
goes): its users' last rows are to be in the new table. What else a fill reads is written to all the time, so the outcome says up to which
version its rows count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.transfer.errors import NeverSettles
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import SourceTouched
from airflow_provider_schemamig.core.upgrade.plan.stages import Build
from airflow_provider_schemamig.core.upgrade.prepare.build import moved_inputs, replacement_key, stale_fills
from airflow_provider_schemamig.core.upgrade.prepare.fill import Filling, Jobs, fill, fill_all


def fills_of(leader: LeaderView) -> Sequence[Build]:
    """Return the builds whose fill runs again if rows come to what it reads."""
    return [build for build in leader.plan.of_kind(Build) if build.fill is not None and not build.snapshot]


def refill_stale(leader: LeaderWriter, jobs: Jobs, collections: Collection[str] | None = None) -> Mapping[CollectionName, float]:
    """Fill again what went stale (of ``collections``, if they are named); returns for how many seconds each took."""
    stale = stale_fills(leader.env, leader.state, leader.deployment, leader.plan)
    done = fill_all(_filling(leader, jobs), [name for name in stale if collections is None or name in collections])
    leader.results += done
    if done:
        leader.refresh()
    return {CollectionName(result.collection): result.seconds for result in done if result.collection is not None}


def warm_up(leader: LeaderView, sealed: Collection[ShardId], jobs: Callable[[], JobRunner]) -> None:
    """Start Spark before writers wait for it, if a fill may have to be run again under the seals."""
    if any(shard in sealed for build in fills_of(leader) for shard in _read_by(leader, build)):
        jobs().start(leader.env.options)


def refill_sealed(leader: LeaderWriter, jobs: Jobs, sealed: Collection[ShardId], seconds: Mapping[CollectionName, float]) -> None:
    """Fill again, while writers wait, what reads one of the ``sealed`` shards that got rows since. ``seconds``: what fills took before.

    Raises NeverSettles where that took longer than writers may wait.
    """
    for build in fills_of(leader):
        if not any(shard in sealed for shard in _moved(leader, build)):
            continue
        name, took = build.collection, seconds.get(build.collection, 0.0)
        if took > leader.seal_seconds / 2:
            raise NeverSettles(collection=name, seconds=took, limit=leader.seal_seconds)
        leader.listen(Event("fill", name, 0, 1, note="again, with the last rows; its writers wait"))
        result, rows = fill(_filling(leader, jobs), build)
        leader.listen(Event("fill", name, 1, 1, result.seconds, note=f"{rows:,} rows"))
        leader.results += (result,)
        leader.refresh()
        leader.notes.append(f"{name}: was filled again while its writers waited, {result.seconds:.1f} s")


def check_filled(leader: LeaderWriter, sealed: Collection[ShardId]) -> None:
    """Check that fills have all rows of what is sealed, and note up to where those of the other inputs count. Raises SourceTouched."""
    for build in fills_of(leader):
        for shard, version in _moved(leader, build).items():
            source = leader.state.shards[shard].collection
            if shard in sealed:
                raise SourceTouched(collection=source, shard=shard)
            leader.notes.append(f"{build.collection}: has what {source} had at version {version}; rows came to it since")


def _moved(leader: LeaderView, build: Build) -> Mapping[ShardId, int]:
    row = leader.state.replacements[replacement_key(build.collection, leader.deployment)]
    return moved_inputs(leader.env, leader.state, build, row)


def _read_by(leader: LeaderView, build: Build) -> Iterator[ShardId]:
    return (leader.state.objects[source.collection].shard for source in build.inputs)


def _filling(leader: LeaderWriter, jobs: Jobs) -> Filling:
    return Filling(leader.env, leader.ledger, leader.deployment, leader.plan, jobs, leader.listen, leader.epoch)
