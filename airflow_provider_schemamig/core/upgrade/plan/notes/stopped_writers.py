"""Who writes to a table without schemamig's handles, and will be stopped by a seal: as the table's log tells (``commitInfo``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pendulum

from airflow_provider_schemamig.core.delta.actions import LogCommit, json_object
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.planner import View
from airflow_provider_schemamig.visible import visible

_DAYS = 30
#: Each commit is a request to the store: of a table with more of them, the newest are looked at.
_MOST_COMMITS = 1_000
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class ForeignWriter:
    """``engine`` and ``user`` as its commits say, "" where they do not."""

    engine: str
    user: str

    def __str__(self) -> str:
        return " by ".join(part for part in (self.engine or "an unknown engine", self.user) if part)


@dataclass(frozen=True, slots=True)
class WriterTrace:
    """What a writer did: its operations, how many commits it made, the newest."""

    operations: tuple[str, ...]
    commits: int
    last: pendulum.DateTime

    def __str__(self) -> str:
        last = self.last.in_timezone("UTC").format("YYYY-MM-DD HH:mm [UTC]")
        return f"{', '.join(self.operations)}; {self.commits} commit(s), the last at {last}"


def stopped_writers(env: EnvironmentRoot, view: View, plan: Plan) -> tuple[str, ...]:
    """Return a note for each table that the plan seals, or may seal for a moment, and others wrote to.

    Reads the logs of these tables.
    """
    state, found = view.state, []
    sealed = [(name, how, head) for name, how in sorted(_sealed(plan).items()) if (head := view.heads.get(name)) is not None]
    if state is None:
        return ()

    def writers_of(item: tuple[CollectionName, str, Head]) -> Mapping[ForeignWriter, WriterTrace]:
        store = table_store(env, state, state.objects[item[0]].shard)
        return foreign_writers(store, item[2].version, view.now.subtract(days=_DAYS))

    for (collection, how, _), writers in zip(sealed, env.each(writers_of, sealed), strict=True):
        if writers:
            named = "; ".join(f"{writer} ({trace})" for writer, trace in writers.items())
            found.append(f"{collection}: {how} its writers without schemamig's handles; of the last {_DAYS} days: {named}")
    return tuple(found)


def _sealed(plan: Plan) -> Mapping[CollectionName, str]:
    swapped = {stage.source: "a seal may stop for a moment" for stage in plan.of_kind(s.CutOver) if stage.swaps}
    return {**swapped, **{stage.collection: "the seal stops" for stage in plan.of_kind(s.Seal)}}


def foreign_writers(store: ReadStore, version: int, since: pendulum.DateTime) -> Mapping[ForeignWriter, WriterTrace]:
    """Return who changed rows after ``since``, the last one first, as far back as the log goes."""
    found: dict[ForeignWriter, list[LogCommit]] = {}
    for commit in _backwards(store, version):
        if time_of(commit, since) < since:
            break
        if commit.changes_rows and not _is_ours(commit):
            found.setdefault(writer_of(commit), []).append(commit)
    return {writer: _trace(made, since) for writer, made in found.items()}


def writer_of(commit: LogCommit) -> ForeignWriter:
    """Return who made a commit, as it says itself."""
    return ForeignWriter(_text(commit, "engineInfo", "clientVersion"), _text(commit, "userName", "userId"))


def _trace(made: list[LogCommit], since: pendulum.DateTime) -> WriterTrace:
    operations = dict.fromkeys(_text(commit, "operation") or "an unknown operation" for commit in made)
    return WriterTrace(tuple(sorted(operations)), len(made), time_of(made[0], since))


def _backwards(store: ReadStore, version: int) -> Iterator[LogCommit]:
    for number in range(version, max(version - _MOST_COMMITS, -1), -1):
        try:
            yield read_commit(store, number)
        except LogTruncated:
            return


def _is_ours(commit: LogCommit) -> bool:
    """Return whether a commit is a stage's or a handle's. A handle waits behind a seal."""
    if commit.about is not None:
        return True
    stamp = json_object(commit.info.get("userMetadata"))
    return stamp is not None and {"schema_hash", "release", "origin"} <= stamp.keys()


def time_of(commit: LogCommit, unknown: pendulum.DateTime) -> pendulum.DateTime:
    """Return when a commit was made, as it says itself; ``unknown`` where it does not."""
    return unknown if commit.milliseconds is None else pendulum.from_timestamp(commit.milliseconds / 1000)


def _text(commit: LogCommit, *keys: str) -> str:
    """Return the first of these that the commit has. Others wrote it: no control characters, and not too much of it."""
    found = next((str(commit.info[key]) for key in keys if commit.info.get(key)), "")
    return visible(found)[:_LONGEST]
