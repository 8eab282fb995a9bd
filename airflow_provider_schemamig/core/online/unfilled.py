"""What the rows of each file still have to get in a column of a fill, by the log of their writers.

A column may have been on the table before: a rollback leaves it there, hidden, when files carry it. What rows got while a release had it,
or while they were written with its default, is theirs; what a fill gave that was given up before anybody saw it is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_schemamig.core.delta.actions import REARRANGING, FileId, LogCommit, RawAction, file_id
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits, null_count
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.delta.names import stored_field
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.online.operation import Files
from airflow_provider_schemamig.core.schema.delta_rules.table_features import DEFAULT_KEY
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.transfer.file_subset import rows_in_files

#: What the batches of a fill say that they are, before the column.
BACKFILL = "backfill"
#: What the batches of a clustering say that they are (``Tag.action``).
CLUSTER = "cluster"
#: Statements whose new files hold rows of those that they removed, and no others.
_COPYING = REARRANGING | {"UPDATE", "DELETE"}


def action_of(column: str) -> str:
    """Return the ``Tag.action`` of the batches of a column's fills."""
    return f"{BACKFILL}:{column}"


class Owed(Enum):
    """What the rows of a file still have to get."""

    EVERY_ROW = "every row"
    #: As ``EVERY_ROW``; of its rows some have a value that a batch of ours gave.
    REPLACED = "replaced"
    NULLS = "nulls"
    #: As ``NULLS``, but nobody can tell whether one of them is what its writer wanted, or a value is one of a fill that was given up.
    UNTOLD = "untold"
    #: As ``UNTOLD``, and no row is NULL: nothing is due.
    STAYS = "stays"
    #: As its writer wanted it.
    NOTHING = "nothing"
    #: A batch of ours gave every row its value, and nobody brought one since.
    FILLED = "filled"
    #: Of its values some are those that a batch of ours gave, others those of other writers.
    COMPLETED = "completed"


ALL_ROWS = frozenset({Owed.EVERY_ROW, Owed.REPLACED})
IN_NULLS = frozenset({Owed.NULLS, Owed.UNTOLD})
DUE = IN_NULLS | ALL_ROWS
OURS = frozenset({Owed.FILLED, Owed.COMPLETED})
NOT_KNOWN = frozenset({Owed.UNTOLD, Owed.STAYS})
#: Of files in which a batch of ours may have given values.
_GIVEN = OURS | {Owed.REPLACED, Owed.UNTOLD}


@dataclass(frozen=True, slots=True)
class Past:
    """What the ledger knows of a column's time on the table before a fill of it.

    ``uses``: the spans of versions, after the first of each up to the second, in which a release had it that was rolled back. A span after
    version 0: rows from before it had their values, too.

    ``attempts``: the generations that the ledger knows; of what another one filled nobody can say whether a release ever had it.
    ``takes_nulls``: it may not be NULL any more, and might be then.
    """

    uses: tuple[tuple[int, int], ...] = ()
    attempts: frozenset[Generation] = frozenset()
    takes_nulls: bool = False

    @property
    def all_filled_at(self) -> int | None:
        """Return the newest version at which every row had its value."""
        return max((upto for after, upto in self.uses if after == 0), default=None)

    def before(self, version: int) -> Owed:
        """Return what rows owe if at ``version`` they had no values but ours. What readers of a release saw in them later stays."""
        return Owed.NULLS if any(upto > version for _, upto in self.uses) else Owed.EVERY_ROW

    def is_used_at(self, version: int) -> bool:
        return any(after < version <= upto for after, upto in self.uses)


@dataclass(frozen=True, slots=True)
class Fill:
    """What rows get. ``column``: a top-level column. ``expression``: Spark SQL over the row, of the column's own type.

    ``since``: the version of the metadata commit that it began with.

    ``files`` ALL (the shadow column of a type change): nobody else fills it, nobody keeps it right. Every row gets the expression in every
    file that no batch of this fill wrote.

    ``files`` NEWER (the column of the old type, when the change is taken back): up to ``since`` it was the column in use, so those files
    have its values; since then nobody fills it. Every row gets the expression in every file since then that no batch of this fill wrote.

    ``files`` OLDER (the default of an added column): from ``since`` on writers fill the column themselves (state WRITE).

    - every row gets the expression in files that were there when the column came to the table, or that a batch of a fill wrote which was
      given up before its release was committed, and in files that others made of nothing but their rows (DELETE, OPTIMIZE);
    - rows get it where the column is NULL in files that came while the column was hidden, and in files that hold copies of such rows or of
      rows from before (UPDATE, MERGE by others, OPTIMIZE of several kinds), unless the file's statistics say that it never is. Where nobody
      knows when a file came, because the log was cleaned up since, its rows get it so, too;
    - all other files are left alone: they came while a release had the column, or its default was on the table, and a NULL in them is what
      their writer wanted.

    ``past``: of such a column, what is known from before ``since``; None: it came to the table with that very commit.
    """

    column: str
    expression: str
    since: int
    files: Files = Files.OLDER
    past: Past | None = None

    @property
    def action(self) -> str:
        """Return what our commits say in their ``Tag``.

        With ``since`` it tells this fill from all others: one attempt's fills end where the next one's metadata commit begins.
        """
        return action_of(self.column)

    def made(self, commit: LogCommit) -> bool:
        """Return whether the commit is a batch of a fill of this column; of the commits after ``since``: of this fill."""
        return (commit.about or {}).get("action") == self.action


@dataclass(frozen=True, slots=True)
class Seen:
    """What the log says up to ``version``: the files of the table, and by path what those that came since it is read owe.

    ``others``: what all others owe.
    """

    version: int
    active: Mapping[FileId, RawAction]
    owed: Mapping[str, Owed]
    others: Owed

    def of(self, file: RawAction, column: str) -> Owed:
        """Return what a file owes; ``column``: as statistics call it."""
        found = self.owed.get(file_id(file)[0], self.others)
        if found not in IN_NULLS or null_count(file, (column,)) != 0:
            return found
        return Owed.STAYS if found is Owed.UNTOLD else Owed.NOTHING


def first_look(store: ReadStore, head: Head, fill: Fill, column: str) -> Seen:
    """Return what is known at ``fill.since``, or at ``head`` if it is earlier (the fill has not begun).

    ``column``: as statistics call it. Raises LogTruncated, and as ``active_files``.
    """
    active, upto = active_files(store, head.version), min(fill.since, head.version)
    if fill.past is None or fill.files is not Files.OLDER:
        return Seen(upto, active, {}, Owed.NOTHING if fill.files is Files.NEWER else Owed.EVERY_ROW)
    start, others = _beginning(store, fill, fill.past, column, upto)
    # To replay on the head's files the commits that made them changes nothing.
    replay = Replay(fill, column, Seen(start, active, {}, others))
    for commit in commits(store, start, upto):
        replay.take(commit)
    return replay.ended()


def _beginning(store: ReadStore, fill: Fill, past: Past, column: str, upto: int) -> tuple[int, Owed]:
    """Return the version to read the log from, and what the files of then owe."""
    try:
        if stored_field(read_head(store, fill.since - 1).schema, column) is None:
            return upto, Owed.EVERY_ROW
    except LogTruncated:
        pass
    all_filled_at = past.all_filled_at
    stop = -1 if all_filled_at is None else min(all_filled_at, upto)
    for version in range(upto, stop, -1):
        try:
            metadata = read_commit(store, version).metadata
        except LogTruncated:
            return version, Owed.UNTOLD
        if metadata is not None and version < fill.since and stored_field(json.loads(metadata["schemaString"]), column) is None:
            return version, past.before(version)
    return (stop, Owed.NOTHING) if stop >= 0 else (-1, past.before(-1))


class _Column(Enum):
    """What the table says of the column before the fill begins."""

    ABSENT = "absent"
    #: Nobody is asked for a value. Unless a release has it (``Past.uses``) nobody knows of it either.
    PLAIN = "plain"
    #: With its default: it is being filled, or was.
    DEFAULT = "default"


class Replay:
    """Commit by commit: what a new file owes follows from who wrote it, when, and what the files owed that it took."""

    def __init__(self, fill: Fill, column: str, seen: Seen) -> None:
        self._fill = fill
        self._past = fill.past or Past()
        self._column = column
        self._active = dict(seen.active)
        self._owed = dict(seen.owed)
        self._others = seen.others
        self._version = seen.version
        came_later = seen.version < fill.since and seen.others in (Owed.EVERY_ROW, Owed.NULLS)
        self._column_now = _Column.ABSENT if came_later else _Column.PLAIN

    def seen(self) -> Seen:
        return Seen(self._version, self._active, self._owed, self._others)

    def ended(self) -> Seen:
        """Return what is seen at the end of the past: NULLs that may not stay are due."""
        if self._past.takes_nulls:
            self._others = Owed.NULLS if self._others is Owed.NOTHING else self._others
            self._owed = {path: Owed.NULLS if owed in (Owed.NOTHING, *OURS) else owed for path, owed in self._owed.items()}
        return self.seen()

    def take(self, commit: LogCommit) -> None:
        self._version = commit.version
        if commit.metadata is not None and self._is_past(commit):
            self._take_schema(commit.version, json.loads(commit.metadata["schemaString"]))
        removes = [file_id(remove) for remove in commit.removes]
        gone = {path for path, _ in removes}
        for identity in removes:
            self._active.pop(identity, None)
            self._owed.setdefault(identity[0], self._others)
        took = frozenset(self._owed[path] for path in gone)
        restores = commit.restores
        for add in commit.adds:
            path = file_id(add)[0]
            self._active[file_id(add)] = add
            # Files that were the table's before, their rows as old as they were: with another deletion vector, brought back, or listed once
            # more (for statistics, for row ids).
            again = path in self._owed or restores or not (removes or add.get("dataChange", True))
            if not again:
                self._owed[path] = self._owed_by(commit, add, took)
            elif restores and self._fill.files is Files.OLDER and (self._others is Owed.NOTHING or self._fill.past is not None):
                self._owed.setdefault(path, Owed.UNTOLD)  # from before what is read

    def _is_past(self, commit: LogCommit) -> bool:
        return commit.version <= self._fill.since

    def _take_schema(self, version: int, schema: Mapping[str, Any]) -> None:
        field = stored_field(schema, self._column)
        if field is None:
            self._column_now = _Column.ABSENT
        else:
            self._column_now = _Column.DEFAULT if DEFAULT_KEY in (field.get("metadata") or {}) else _Column.PLAIN
        if self._column_now is not _Column.DEFAULT or version == self._fill.since:  # a fill that was given up, or its release rolled back
            was_seen = self._past.before(version - 1) is Owed.NULLS
            ended = {Owed.FILLED: Owed.NULLS} if was_seen else {Owed.FILLED: Owed.REPLACED, Owed.COMPLETED: Owed.UNTOLD}
            self._owed = {path: ended.get(owed, owed) for path, owed in self._owed.items()}

    def _owed_by(self, commit: LogCommit, add: RawAction, took: frozenset[Owed]) -> Owed:
        """Return what a new file owes. ``took``: what those owed that were removed for it."""
        keeps = filled_column(commit) is not None or lays_out(commit)
        if self._fill.made(commit):
            return Owed.FILLED if took <= ALL_ROWS | {Owed.FILLED} and self._knows(commit) else Owed.COMPLETED
        if self._fill.files is not Files.OLDER:
            return _of_all(took) if keeps and not took & DUE else Owed.EVERY_ROW
        operation, nulls = commit.info.get("operation"), null_count(add, (self._column,))
        if took and (keeps or operation == "DELETE" or not add.get("dataChange", True)):
            found = _of_all(took)
            return Owed.NOTHING if found in IN_NULLS and nulls == 0 and not took & _GIVEN else found
        if self._column_now is _Column.ABSENT:
            return self._others
        # Among values that a statement may have brought, those that a fill gave cannot be told any more.
        if not took & DUE and (nulls == 0 or self._is_written(commit) or (took and operation in _COPYING)):
            return Owed.COMPLETED if took & _GIVEN else Owed.NOTHING
        if took & _GIVEN:
            return Owed.UNTOLD
        if nulls == 0:
            return Owed.NOTHING
        if self._is_past(commit) and took - DUE:
            return Owed.UNTOLD
        return Owed.EVERY_ROW if self._is_past(commit) and self._is_empty(add) else Owed.NULLS

    def _is_empty(self, add: RawAction) -> bool:
        rows = rows_in_files([add])
        return rows is not None and null_count(add, (self._column,)) == rows

    def _is_written(self, commit: LogCommit) -> bool:
        """Return whether those who write rows give the column its values."""
        return not self._is_past(commit) or self._column_now is _Column.DEFAULT or self._past.is_used_at(commit.version)

    def _knows(self, commit: LogCommit) -> bool:
        return not self._is_past(commit) or (commit.about or {}).get("generation") in self._past.attempts


def _of_all(took: frozenset[Owed]) -> Owed:
    """Return what a file owes if it holds nothing but rows of other files. ``took``: what those owed.

    The rows are as old as before, and have the same values.
    """
    if len(took) <= 1:
        return next(iter(took), Owed.FILLED)
    if took <= ALL_ROWS | {Owed.FILLED}:
        return Owed.REPLACED
    if took & DUE:
        return Owed.UNTOLD if took & _GIVEN or took - DUE else Owed.NULLS
    return Owed.COMPLETED


def filled_column(commit: LogCommit) -> str | None:
    """Return the column that a batch of a fill of ours filled, as the table called it then; None of any other commit."""
    return column_filled(str((commit.about or {}).get("action")))


def column_filled(action: str) -> str | None:
    """Return the column of an action that ``action_of`` made; None for all others."""
    kind, _, column = action.partition(":")
    return column if kind == BACKFILL else None


def lays_out(commit: LogCommit) -> bool:
    """Return whether a commit is a batch of ours that clusters: its rows are those of the files that it took."""
    return (commit.about or {}).get("action") == CLUSTER
