"""The audit log: who did what, when, for how long, with what outcome (``_schemamig/history``, append only).

Its columns are plain, so that anyone may query it with Spark or delta-rs. It is a record and not a state: nothing is decided on it,
and an upgrade does not fail because it could not be written.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pendulum

from airflow_provider_schemamig.core.delta.errors import LogDamaged, LogTruncated, TableMissing
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.own_table import OwnTable
from airflow_provider_schemamig.core.ledger.row_files import Column
from airflow_provider_schemamig.core.names import Generation, Version
from airflow_provider_schemamig.core.storage import ObjectExists
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.user import user_name
from airflow_provider_schemamig.credentials import blank_reason
from airflow_provider_schemamig.exceptions import SchemamigError

COLUMNS = (
    Column("who", "string"),
    Column("what", "string"),
    Column("collection", "string", nullable=True),
    Column("generation", "long", nullable=True),
    Column("started_at", "timestamp"),
    Column("seconds", "double"),
    Column("outcome", "string"),
    Column("detail", "string"),
)

TIDY_FILES = 100
#: In an object store, where each file costs whoever reads the log two requests.
TIDY_REMOTE_FILES = 20

FOLDER = f"{EnvironmentRoot.SYSTEM_FOLDER}/history"
#: Appends do not depend on each other: one that lost a race is made again at the next version.
_APPEND_TRIES = 100


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
        """Return an entry on an action that began at ``started`` and ended ``at`` (default: now).

        ``who``: by default the environment's, else this process's user.
        """
        seconds = ((at or pendulum.now("UTC")) - started).total_seconds()
        return cls(who or "", what, collection, generation, started, seconds, outcome, detail)


def here() -> str:
    """Return this process's user and machine."""
    return f"{user_name()}@{socket.gethostname()}"


def told_reason(reason: str | None) -> str | None:
    """Return a reason that somebody typed as it is kept and shown: one line, without a credential that was pasted along; None for none."""
    return "".join(letter for letter in " ".join(blank_reason(reason or "").split()) if letter.isprintable()) or None


def because(detail: str, reason: str | None) -> str:
    """Return the detail of what somebody did, with why."""
    why = told_reason(reason)
    return detail if why is None else f"{detail}; because: {why}" if detail else f"because: {why}"


_OUTSIDE = "; outside of a release"
_RENAMED = ", columns renamed of "


def is_at(env: EnvironmentRoot, told: HistoryEntry, uri: str) -> bool:
    """Return whether an ``adopt`` or ``unmanage`` was of the table at a shard's ``uri``; the environment may have moved since."""
    place = env.table_location(uri).uri
    return told.detail == place or (place != uri and told.detail.endswith(f"/{uri}"))


def detail_of(reached: Version | None) -> str:
    """Return what the end of a cut-over, a rollback or a rebuild says: the release that the environment is at since."""
    return f"to {reached}"


def detail_of_alter(reached: Version | None, renamed: Iterable[str]) -> str:
    """Return what the end of an ``alter`` says. ``renamed``: all names of the collections of which it has renamed columns."""
    return f"{detail_of(reached)}{_OUTSIDE}{_renamed_of(renamed)}"


def detail_of_accept(taken: str, renamed: Iterable[str]) -> str:
    """Return what the end of an ``accept`` says. ``renamed``: as of an ``alter``."""
    words = _renamed_of(renamed)
    return f"{taken}{_OUTSIDE}{words}" if words else taken


def is_outside_of_release(entry: HistoryEntry) -> bool:
    """Return whether it is the end of an ``alter`` or an ``accept``, which leave the environment at its release."""
    return entry.what == "accept" or (entry.what == "cutover" and _OUTSIDE in entry.detail)


def renamed_in(entry: HistoryEntry) -> frozenset[str]:
    """Return the collections in which columns were renamed, by the end of an ``alter`` or an ``accept``."""
    _, found, names = entry.detail.rpartition(f"{_OUTSIDE}{_RENAMED}")  # the last: before it a column may be called so
    return frozenset(names.split(", ")) if found else frozenset()


def _renamed_of(names: Iterable[str]) -> str:
    told = ", ".join(sorted(names))
    return f"{_RENAMED}{told}" if told else ""


_HOLD_OF = "the hold of generation"


def detail_of_ends(generations: Iterable[Generation]) -> str:
    """Return what the end of holds says."""
    return ", ".join(f"{_HOLD_OF} {generation}" for generation in generations)


def ended_in(detail: str) -> frozenset[Generation]:
    """Return the generations whose holds ended, by ``detail_of_ends``."""
    return frozenset(Generation(int(found)) for found in re.findall(rf"{_HOLD_OF} (\d+)", detail))


def release_of(entry: HistoryEntry) -> str | None:
    """Return the release that the environment is at since such an end; None of other entries, and of older ones that do not say it."""
    return entry.detail.removeprefix("to ").partition("; ")[0] if entry.detail.startswith("to ") else None


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
    try:
        columns = _HistoryTable(env).read()
        found = [_entry(*row) for row in zip(*columns, strict=True)]
    except TableMissing:
        return ()
    except (LogDamaged, LogTruncated) as error:
        reason = error.reason if isinstance(error, LogDamaged) else error.message
        raise LedgerDamaged(where=f"the audit log at {env.history_uri}", reason=reason) from None
    return tuple(sorted(found, key=lambda entry: (entry.started_at, entry.seconds)))  # what began before how it ended


def tidy_history(env: EnvironmentRoot) -> str | None:
    """Write the log's many small files as one, where they are many. What was done, or the note on why it was not."""
    table = env.opened.get(_HistoryTable) or env.opened.keep(_HistoryTable(env))
    try:
        table.refresh()
        if len(table.files()) < (TIDY_FILES if env.location.local_path is not None else TIDY_REMOTE_FILES):
            return None
        table.commit(list(zip(*table.read(), strict=True)), uuid4().hex, "overwrite")
        table.checkpoint()
    except (TableMissing, ObjectExists):  # nothing is there, or somebody appends: the next one tidies
        return None
    except SchemamigError as error:  # visible, and no reason to fail
        return f"the audit log at {env.history_uri} could not be tidied: {env.first_line(error)}"
    return "wrote the audit log as one file"


class _HistoryTable(OwnTable):
    def __init__(self, env: EnvironmentRoot) -> None:
        super().__init__(env, FOLDER, COLUMNS)

    def append(self, rows: Sequence[tuple[object, ...]], commit_id: str) -> None:
        """Commit after what is the newest version now.

        Raises ObjectExists where somebody else was faster, LogDamaged where the last commit is no longer there as it was seen.
        """
        try:
            self.refresh()
        except TableMissing:
            self.create(rows, commit_id)
        else:
            self.commit(rows, commit_id, "append")


def _append(env: EnvironmentRoot, rows: Sequence[tuple[object, ...]]) -> None:
    commit_id, was_damaged = uuid4().hex, False
    env.before_write("history", commit_id)
    for tries in range(1, _APPEND_TRIES + 1):
        table = env.opened.get(_HistoryTable) or env.opened.keep(_HistoryTable(env))
        try:
            table.append(rows, commit_id)
            break
        except (LogTruncated, LogDamaged):
            env.opened.forget(_HistoryTable)  # it may be the log of another history, which lay there before
            if was_damaged or tries == _APPEND_TRIES:
                raise
            was_damaged = True
        except ObjectExists:
            if tries == _APPEND_TRIES:
                raise
    env.after_write("history", commit_id)


def _entry(who: str, what: str, collection: str | None, generation: int | None, started_at: int, *rest: Any) -> HistoryEntry:
    seconds, outcome, detail = rest
    started = pendulum.from_timestamp(started_at // 1_000_000).add(microseconds=started_at % 1_000_000)
    return HistoryEntry(who, what, collection, generation, started, seconds, outcome, detail)


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
