"""Whether the deployment that last brought a table from one release to another came to its end, as far as the audit log shows it.

A leader commits to the tables first and to the ledger then. Without the ledger nobody can tell from the tables alone whether that append
came: names that change places look right at either release, of two tables of a rewrite either may have the rows, and one that was only
being built looks like any other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pendulum

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, is_at, is_outside_of_release, read_history, release_of, renamed_in
from airflow_provider_schemamig.core.names import CollectionName, ShardId, Version
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.own_places import is_shard_folder
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

#: Commits (``Tag.action``) after which a table is not the one that the release of before had.
_RELEASE_ACTIONS = frozenset({"cutover", "revert", "rollback", "seal", "settle", "take_back", "unseal"})
#: Tasks that end when the ledger knows of all that their generation did to tables. Others (cleanup) say nothing of these.
_ENDS = ("cutover", "rollback")
#: Tasks that tell that a generation led.
_LED = frozenset({"expand", "change", *_ENDS})
#: The first generation of an environment: before its end nobody had rows in its tables.
_FIRST = 1
_SHARD = re.compile(r"g(\d+)-")


@dataclass(frozen=True, slots=True)
class ReleaseCommit:
    """A commit of a leader that brought a table to another release."""

    version: int
    action: str
    generation: int
    at: pendulum.DateTime


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """A log without such a commit: its versions up to ``version`` are gone. ``at``: when the oldest one left was made, if that can be
    told."""

    version: int
    at: pendulum.DateTime | None


@dataclass(frozen=True, slots=True)
class AuditedEnds:
    """What the audit log shows. ``ended_at``: by task and generation, when the ledger knew; ``entries``: all, oldest first."""

    ended_at: Mapping[tuple[str, int], pendulum.DateTime]
    entries: Sequence[HistoryEntry]

    def show(self, commit: ReleaseCommit, collection: CollectionName) -> bool:
        """Return whether a task that makes such commits ended after it. The same process wrote both, so by one clock."""
        found = [self.ended_at.get((task, commit.generation)) for task in _ENDS]
        if commit.action == "revert":  # of drift of this one table
            found += [
                _end_of(entry) for entry in self._done("revert") if (entry.generation, entry.collection) == (commit.generation, collection)
            ]
        return any(ended_at is not None and ended_at >= commit.at for ended_at in found)

    def cover(self, log: CleanedUp) -> bool:
        """Return whether whatever was cleaned up came to its end: nothing that may have made it was left open."""
        if not any(True for _ in self._done("adopt", "ledger rebuild", *_ENDS)):
            return False
        return not any(log.at is None or entry.started_at <= log.at for entry in self.entries if self._is_open(entry))

    def other_release(self, version: Version) -> str | None:
        """Return why the environment may not have been at this release: the last end was that of another one."""
        ends = list(self._done("ledger rebuild", *_ENDS))
        last = release_of(ends[-1]) if ends else None
        if last is None or last == str(version):
            return None
        return f"the audit log shows that the environment came to {last} last: give its folder, this one is that of {version}"

    def renamed_beyond(self, collection: CollectionName) -> str | None:
        """Return why the collection's columns may not have the release's names: an ``alter`` gave them others since, or an ``accept`` took
        over that somebody did."""
        in_force: list[HistoryEntry] = []  # what was not rolled back, the oldest first
        for entry in self._done("ledger rebuild", "accept", *_ENDS):
            if entry.what == "rollback":
                in_force = [other for other in in_force if other.generation != entry.generation]
            else:
                in_force.append(entry)
        # An upgrade contains what was done before it, and of a rebuild somebody has looked at that.
        since = itertools.takewhile(is_outside_of_release, reversed(in_force))
        if not any(collection in renamed_in(entry) for entry in since):
            return None
        return "the audit log shows that `alter` or `accept` has renamed columns since the release: the next would rename them once more"

    def against(self, env: EnvironmentRoot, collection: CollectionName, uri: str) -> str | None:
        """Return why the table at ``uri`` may not have been the collection's in the ledger: it was never cut over to, was given back, or
        another one was adopted since."""
        generation = _generation_of(uri)
        mine = [entry for entry in self._done("adopt", "unmanage") if is_at(env, entry, uri)]
        adopted = [entry for entry in self._done("adopt") if entry.collection == collection]
        if adopted and adopted[-1] not in mine and (adopted[-1].generation or 0) > (generation or 0):
            return f"the audit log shows that the collection's table was adopted after {uri} was made: {adopted[-1].detail}"
        if mine and mine[-1].what == "unmanage":
            lets_go = f"`schemamig unmanage --collection {collection}` lets go of it again"
            return f"the audit log shows that {uri} is unmanaged; if it is taken, {lets_go}"
        if not mine and generation not in (None, _FIRST) and ("cutover", generation) not in self.ended_at:
            return f"generation {generation} made {uri}, and the audit log does not show that it was ever cut over to"
        return None

    def was_named_at(self, uri: str) -> Version | None:
        """Return a release at which the collection of a table of ours had the name of the table's folder: the one it was made for, or that
        of a rebuild since, for which a person has looked. None where the log does not tell."""
        generation = _generation_of(uri)
        told = self._done("cutover", "ledger rebuild")
        ends = [entry for entry in told if entry.generation == generation or entry.what == "ledger rebuild"]
        found = release_of(ends[-1]) if ends else None
        return None if found is None else Version.parse(found)

    def was_given_back(self, env: EnvironmentRoot, uri: str) -> bool:
        """Return whether the table at ``uri`` was ever given back: from then on its files are its owners'."""
        return any(is_at(env, entry, uri) for entry in self._done("unmanage"))

    def _done(self, *tasks: str) -> Iterable[HistoryEntry]:
        return (entry for entry in self.entries if entry.what in tasks and entry.outcome == "done")

    def _is_open(self, entry: HistoryEntry) -> bool:
        """Return whether an entry is of a leader's work that no end came after.

        The end may be of its generation, or of a later one, which settles what earlier ones left.
        """
        if entry.what not in _LED or entry.generation is None:
            return False
        ends = [at for (_, generation), at in self.ended_at.items() if generation >= entry.generation]
        return not any(entry.what != "rollback" or at >= entry.started_at for at in ends)


def shown_ends(env: EnvironmentRoot) -> AuditedEnds:
    """Return what the audit log shows; of one that is lost or damaged, nothing."""
    found: dict[tuple[str, int], pendulum.DateTime] = {}
    try:
        entries = read_history(env)
    except SchemamigError:
        entries = ()
    for entry in entries:
        if entry.generation is not None and entry.what in _ENDS and entry.outcome == "done":
            key = (entry.what, entry.generation)
            found[key] = max(_end_of(entry), found.get(key, _end_of(entry)))
    return AuditedEnds(found, entries)


def last_release_commit(store: ReadStore, head: Head) -> ReleaseCommit | CleanedUp | None:
    """Return the newest such commit of a table; None where it never had one."""
    oldest: pendulum.DateTime | None = None
    for version in range(head.version, -1, -1):
        try:
            commit = read_commit(store, version)
        except LogTruncated:
            return CleanedUp(version, oldest)
        oldest = _time_of(commit)
        about = commit.about or {}
        if about.get("action") in _RELEASE_ACTIONS:
            return ReleaseCommit(version, str(about["action"]), int(about["generation"]), oldest or pendulum.now("UTC"))
    return None


def _time_of(commit: LogCommit) -> pendulum.DateTime | None:
    return None if commit.milliseconds is None else pendulum.from_timestamp(commit.milliseconds / 1000)


def _end_of(entry: HistoryEntry) -> pendulum.DateTime:
    return entry.started_at + timedelta(seconds=entry.seconds)


def _generation_of(uri: str) -> int | None:
    """Return which made a table, by its folder; None of one that has none of our names."""
    name = uri.rpartition("/")[2]
    found = _SHARD.match(name)
    return int(found[1]) if found is not None and is_shard_folder(uri, ShardId(name)) else None
