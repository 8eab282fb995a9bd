"""Whether the deployment that last turned a table from one release to another came to its end, as far as the audit log shows it.

A leader commits to the tables first and to the ledger then. Without the ledger nobody can tell from the tables alone whether that append
came: names that change places look right at either release, and of two tables of a rewrite either may have the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import pendulum

from airflow_provider_schemamig.core.delta.actions import Commit
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.exactly_once import about_of
from airflow_provider_schemamig.exceptions import SchemamigError

#: Commits (``Tag.action``) after which a table is not the one that the release of before had.
_TURNS = frozenset({"cutover", "revert", "seal", "settle", "undo", "unseal"})
#: Tasks that end after the ledger knows of all that they did to tables. Others of the same generation (clean-up) say nothing of these.
_ENDS = frozenset({"cutover", "revert", "rollback"})


@dataclass(frozen=True, slots=True)
class Turn:
    """A commit of a leader that turned a table to another release."""

    version: int
    action: str
    generation: int
    at: pendulum.DateTime


@dataclass(frozen=True, slots=True)
class Ends:
    """By generation and task: when it came to its end."""

    ended_at: Mapping[tuple[int, str], pendulum.DateTime]

    def show(self, turn: Turn) -> bool:
        """Return whether a task that makes such turns ended after it. The same process wrote both, so by one clock."""
        tasks = _ENDS - {"cutover"} if turn.action == "revert" else _ENDS
        found = (self.ended_at.get((turn.generation, task)) for task in tasks)
        return any(ended_at is not None and ended_at >= turn.at for ended_at in found)


def shown_ends(env: EnvironmentRoot) -> Ends:
    """Return what the audit log shows; of one that is lost or damaged, nothing."""
    found: dict[tuple[int, str], pendulum.DateTime] = {}
    try:
        entries = read_history(env)
    except SchemamigError:
        entries = ()
    for entry in entries:
        if entry.generation is not None and entry.what in _ENDS and entry.outcome == "done":
            ended_at = entry.started_at + timedelta(seconds=entry.seconds)
            key = (entry.generation, entry.what)
            found[key] = max(ended_at, found.get(key, ended_at))
    return Ends(found)


def last_turn(store: ReadStore, head: Head) -> Turn | None:
    """Return the newest turn of a table; None where it has none, or one from before the log was cleaned up."""
    for version in range(head.version, -1, -1):
        try:
            commit = read_commit(store, version)
        except LogTruncated:
            return None
        about = about_of(commit) or {}
        if about.get("action") in _TURNS:
            return Turn(version, str(about["action"]), int(about["generation"]), _time_of(commit))
    return None


def _time_of(commit: Commit) -> pendulum.DateTime:
    return pendulum.from_timestamp(int(commit.info.get("timestamp", 0)) / 1000)
