"""The audit log: who did what, when, for how long, with what outcome (``_schemamig/history``, append only).

Its columns are plain, so that anyone may query it with Spark or delta-rs. It is a record and not a state: nothing is decided on it,
and an upgrade does not fail because it could not be written.
"""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

import pendulum

from airflow_provider_schemamig.core.ledger import delta_io
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

COLUMNS = (
    delta_io.Column("who", "string"),
    delta_io.Column("what", "string"),
    delta_io.Column("collection", "string", nullable=True),
    delta_io.Column("generation", "bigint", nullable=True),
    delta_io.Column("started_at", "timestamp"),
    delta_io.Column("seconds", "double"),
    delta_io.Column("outcome", "string"),
    delta_io.Column("detail", "string"),
)

TIDY_FILES = 100

_LOG = f"{EnvironmentRoot.SYSTEM_FOLDER}/history/_delta_log"
#: Appends do not depend on each other, so delta-rs may move one to a later version.
_APPEND_RETRIES = 15


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """``who``: claim or user, "" for the one in whose name the environment is worked on; ``what``: the verb or stage; ``outcome``: "done",
    an error's code, "begun" of what writes a second entry at its end, "found_committed" of a cut-over that another run had made."""

    who: str
    what: str
    collection: str | None
    generation: int | None
    started_at: pendulum.DateTime
    seconds: float
    outcome: str
    detail: str = ""

    @classmethod
    def ended(
        cls,
        what: str,
        started: pendulum.DateTime,
        *,
        collection: str | None = None,
        generation: int | None = None,
        outcome: str = "done",
        detail: str = "",
        who: str | None = None,
        at: pendulum.DateTime | None = None,
    ) -> HistoryEntry:
        """Return an entry on what ``who`` (default: the environment's, else this process's user) began at ``started`` and ended ``at``
        (default: now)."""
        seconds = ((at or pendulum.now("UTC")) - started).total_seconds()
        return cls(who or "", what, collection, generation, started, seconds, outcome, detail)


def here() -> str:
    """Return this process's user and machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def detail_of(reached: Version | None) -> str:
    """Return what the end of a cut-over or a rollback says: the release that the environment is at since."""
    return f"to {reached}"


def release_of(entry: HistoryEntry) -> str | None:
    """Return the release that the environment is at since such an end; None of other entries, and of older ones that do not say it."""
    return entry.detail.removeprefix("to ") if entry.detail.startswith("to ") else None


def append_history(env: EnvironmentRoot, *entries: HistoryEntry) -> str | None:
    """Append entries in one commit. None, or the note to show to the user if they could not be written.

    Nobody looks up what was done to an environment that is thrown away.
    """
    if env.options.throwaway:
        return None
    try:
        _append(env, [_row(entry, env.who) for entry in entries])
    except Exception as error:  # noqa: BLE001 - visible as a note: an upgrade that is done is done, whatever its log says
        return f"the audit log at {env.history_uri} could not be written: {env.first_line(error)}"
    return None


def read_history(env: EnvironmentRoot) -> tuple[HistoryEntry, ...]:
    """Return all entries, oldest first; empty if there are none yet. Raises LedgerDamaged."""
    if not env.store().names(_LOG):
        return ()
    try:
        columns = delta_io.read(delta_io.open_table(env.history_uri, env.delta_options), COLUMNS)
    except Exception as error:  # noqa: BLE001 - delta-rs raises plain Exception, too
        raise LedgerDamaged(where=f"the audit log at {env.history_uri}", reason=env.first_line(error)) from None
    found = [_entry(*row) for row in zip(*columns, strict=True)]
    return tuple(sorted(found, key=lambda entry: (entry.started_at, entry.seconds)))  # what began before how it ended


def tidy_history(env: EnvironmentRoot) -> str | None:
    """Write the log's many small files as one, where they are ``TIDY_FILES`` or more. What was done, or the note on why it was not."""
    try:
        if not env.store().names(_LOG):
            return None
        table = delta_io.open_table(env.history_uri, env.delta_options)
        if len(table.file_uris()) < TIDY_FILES:
            return None
        delta_io.compact_files(table)
    except Exception as error:  # noqa: BLE001 - as above: visible, and no reason to fail
        return f"the audit log at {env.history_uri} could not be tidied: {env.first_line(error)}"
    return "wrote the audit log as one file"


def _append(env: EnvironmentRoot, rows: list[tuple[object, ...]]) -> None:
    table = delta_io.arrow(COLUMNS, rows)
    commit_id = uuid4().hex
    env.before_write("history", commit_id)
    if not env.store().names(_LOG):
        try:
            delta_io.write(env.history_uri, table, mode="error", commit_id=commit_id, options=env.delta_options)
        except Exception:
            if not env.store().names(_LOG):
                raise  # not lost against another creator
        else:
            env.after_write("history", commit_id)
            return
    target = delta_io.open_table(env.history_uri, env.delta_options)
    delta_io.write(target, table, mode="append", commit_id=commit_id, options=env.delta_options, retries=_APPEND_RETRIES)
    env.after_write("history", commit_id)


def _entry(who: str, what: str, collection: str | None, generation: int | None, started_at: datetime, *rest: Any) -> HistoryEntry:
    seconds, outcome, detail = rest
    return HistoryEntry(who, what, collection, generation, pendulum.instance(started_at).in_timezone("UTC"), seconds, outcome, detail)


def _row(entry: HistoryEntry, who: str | None) -> tuple[object, ...]:
    started = entry.started_at.int_timestamp * 1_000_000 + entry.started_at.microsecond
    return (
        entry.who or who or here(),
        entry.what,
        entry.collection,
        entry.generation,
        started,
        float(entry.seconds),
        entry.outcome,
        entry.detail,
    )
