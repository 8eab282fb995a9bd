"""Older rows get their value of a column while everybody goes on: which files are due, and one batch of them (seed 002, data reorg).

A batch is one ``rewrite_files``: one Spark statement over exactly its files and one commit, which says that rows changed. There is no
checkpoint beside the table. Its log, from the metadata commit on that began the backfill, says which files were there before, who wrote
those that came since, and which our own batches wrote; so what is due is the same for whoever asks, after a kill or in another process.

UPDATE would do the same values, but begin again at every append to an unpartitioned table (research/rewrite.md section 4), and could not
tell an explicit NULL of a new writer from the NULL of an old row: only a file's age does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider_schemamig.core.deltalog.actions import Commit, FileId, RawAction, file_id
from airflow_provider_schemamig.core.deltalog.append import Appended
from airflow_provider_schemamig.core.deltalog.features import check_writable
from airflow_provider_schemamig.core.deltalog.fence import Fence
from airflow_provider_schemamig.core.deltalog.files import active_files, cut
from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.log import commits, null_count
from airflow_provider_schemamig.core.deltalog.log_errors import LogTruncated
from airflow_provider_schemamig.core.deltalog.names import physical_name
from airflow_provider_schemamig.core.deltalog.properties import APPEND_ONLY, is_on
from airflow_provider_schemamig.core.deltalog.tag import Tag
from airflow_provider_schemamig.core.elements.backfill_errors import BackfillLogGone, BackfillStarved, CannotBackfill
from airflow_provider_schemamig.core.elements.operation import Files
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, quote
from airflow_provider_schemamig.core.shards.chain import about_of
from airflow_provider_schemamig.core.shards.debt import BRINGS_BACK
from airflow_provider_schemamig.core.shards.file_rewrite import Rewriting, Rewritten, rewrite_files, why_not
from airflow_provider_schemamig.core.shards.some_files import partition_of, rows_in_files
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import ReadStore, Store

_OPERATION = "backfill"
#: What the batches of a clustering say that they are (``Tag.action``).
CLUSTER = "cluster"
#: How often over the files that were due at first may be rewritten before somebody should look: Delta's own guard of this kind has 3, too.
_PATIENCE = 3

FileGroups = tuple[tuple[RawAction, ...], ...]


def action_of(column: str) -> str:
    """What the batches of a column's fills say that they are (``Tag.action``)."""
    return f"{_OPERATION}:{column}"


@dataclass(frozen=True, slots=True)
class Fill:
    """What rows get. ``column``: a top-level column. ``expression``: Spark SQL over the row, of the column's own type.

    ``since``: the version of the metadata commit that it began with.

    ``files`` ALL (the shadow column of a type change): nobody else fills it, nobody keeps it right. Every row gets the expression in every
    file that no batch of this fill wrote.

    ``files`` NEWER (the column of the old type, when the change is taken back): up to ``since`` it was the column in use, so those files
    have its values; since then nobody fills it. Every row gets the expression in every file since then that no batch of this fill wrote.

    ``files`` OLDER (the default of an added column): from ``since`` on writers fill the column themselves (state WRITE).

    - every row gets the expression in files that were there at ``since``, also where a value lies there already: the column was hidden
      then, and the value is one of an earlier attempt;
    - in files that hold copies of such rows (UPDATE, MERGE, DELETE, OPTIMIZE by others since then) rows get it where the column is NULL,
      unless the file's statistics say that it never is;
    - all other files are left alone: a NULL in them is what their writer wanted.
    """

    column: str
    expression: str
    since: int
    files: Files = Files.OLDER

    @property
    def action(self) -> str:
        """What our commits say in their ``Tag``. With ``since`` it tells this fill from all others: one attempt's fills end where the
        next one's metadata commit begins."""
        return action_of(self.column)

    def made(self, commit: Commit) -> bool:
        """True if the commit is a batch of this fill (of the commits after ``since``)."""
        return (about_of(commit) or {}).get("action") == self.action

    @property
    def before(self) -> _Owed:
        """What the files that were there at ``since`` owe."""
        return _Owed.NOTHING if self.files is Files.NEWER else _Owed.EVERY_ROW


@dataclass(frozen=True, slots=True)
class Batch:
    """Files of one batch. ``nulls_only``: rows that have a value keep it."""

    files: tuple[RawAction, ...]
    nulls_only: bool


class _Owed(Enum):
    """What the rows of a file still have to get."""

    EVERY_ROW = "every row"
    NULLS = "nulls"
    #: As its writer wanted it.
    NOTHING = "nothing"
    #: A batch of ours wrote it.
    FILLED = "filled"


_DUE = (_Owed.EVERY_ROW, _Owed.NULLS)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the log says up to ``version``: the files of the table, and by path what those that came after ``since`` owe."""

    version: int
    active: Mapping[FileId, RawAction]
    owed: Mapping[str, _Owed]


@dataclass(frozen=True, slots=True)
class DueFiles:
    """The files to be rewritten at a version, by partition, those that are written to now last.

    If there are none, every row at ``version`` has its value: what builds on that may be committed as exactly ``version + 1``.
    """

    version: int
    every_row: FileGroups
    nulls: FileGroups
    seen: _Seen = field(repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.every_row or self.nulls)

    @property
    def all_files(self) -> tuple[RawAction, ...]:
        return tuple(file for group in (*self.every_row, *self.nulls) for file in group)

    @property
    def files(self) -> int:
        return len(self.all_files)

    @property
    def rows(self) -> int | None:
        """None if the statistics of some file do not say."""
        return rows_in_files(self.all_files)

    @property
    def bytes(self) -> int:
        return _bytes(self.all_files)

    def batches(self, max_files: int, max_bytes: int) -> tuple[Batch, ...]:
        """In the order in which they should be done. A partition that fits into a batch is in one; a file larger than ``max_bytes`` is a
        batch of its own. Each may be done on the same head as long as ``fill_batch`` raises nothing."""
        every_row = [Batch(files, nulls_only=False) for files in _batches(self.every_row, max_files, max_bytes)]
        return (*every_row, *(Batch(files, nulls_only=True) for files in _batches(self.nulls, max_files, max_bytes)))


@dataclass(frozen=True, slots=True)
class Effort:
    """Liveness: what a run has rewritten for the files that were due at its beginning. ``first``, ``rewritten``: files."""

    first: int
    rewritten: int = 0

    def after(self, done: Rewritten) -> Effort:
        return Effort(self.first, self.rewritten + done.files)

    def check(self, fill: Fill, collection: CollectionName) -> None:
        """Raises BackfillStarved if more was rewritten than it should ever take. To be asked while something is still due."""
        if self.rewritten > _PATIENCE * self.first:
            raise BackfillStarved(collection=collection, column=fill.column, first=self.first, rewritten=self.rewritten)


def check_fillable(head: Head, collection: CollectionName, fill: Fill) -> None:
    """Raises CannotBackfill for tables whose files cannot be filled one by one, UnsupportedFeature, CatalogManagedTable."""
    check_writable(head.protocol, head.location.uri)
    reason = why_not(head) or _why_not_filled(head, fill.column)
    if reason is not None:
        raise CannotBackfill(collection=collection, column=fill.column, reason=reason)


def _why_not_filled(head: Head, column: str) -> str | None:
    if _physical(head, column) is None:
        return f"the table has no column {column}"
    if column in (head.metadata.get("partitionColumns") or ()):
        return "the table is partitioned by it, so rows would have to move"
    if is_on(head.metadata, APPEND_ONLY):
        return f"the table is append-only ({APPEND_ONLY})"
    return None


def fill_batch(
    env: Environment,
    store: Store,
    collection: CollectionName,
    head: Head,
    batch: Batch,
    fill: Fill,
    fence: Fence,
    tag: Tag,
    jobs: JobRunner,
) -> tuple[Rewritten, Appended]:
    """Fill one batch of what is due at ``head``; the receipt is for ``storage.confirm``. ``tag.action`` is ``fill.action``.

    Raises what ``check_fillable`` and ``rewrite_files`` raise: MetadataMoved and FilesMoved mean that what is due must be looked for again.
    """
    if tag.action != fill.action:
        raise ValueError(f"a commit tagged {tag.action!r} would not be known again: it has to be {fill.action!r}")
    check_fillable(head, collection, fill)
    own = f"(\n{fill.expression}\n)"
    values = {fill.column: f"coalesce({quote(fill.column)}, {own})" if batch.nulls_only else fill.expression}
    parameters = {"column": fill.column, "since": str(fill.since)}
    rewriting = Rewriting(_OPERATION, values, data_change=True, parameters=parameters)
    return rewrite_files(env, store, collection, head, batch.files, rewriting, fence, tag, jobs)


# --- what is due ---------------------------------------------------------------------------------------------------------------------


def due_files(store: ReadStore, head: Head, fill: Fill, before: DueFiles | None = None) -> DueFiles:
    """What is due at ``head``. ``before``: an earlier answer for the same fill, so that only the commits since then are read (never one
    from before a CommitLost: it may know of the commit that was lost).

    Raises BackfillLogGone, CannotBackfill (the column is not there), and what ``active_files`` raises.
    """
    column = _physical(head, fill.column)
    if column is None:
        raise CannotBackfill(column=fill.column, reason=f"the table has no column {fill.column}")
    seen = None if before is None or before.version > head.version else before.seen
    if seen is None:  # to replay on the head's files the commits that made them changes nothing
        seen = _Seen(fill.since, active_files(store, head.version), {})
    active, owed = dict(seen.active), dict(seen.owed)
    try:
        for commit in commits(store, seen.version, head.version):
            _take(commit, fill, column, active, owed)
    except LogTruncated as gone:
        raise BackfillLogGone(uri=store.location.uri, column=fill.column, since=fill.since, version=gone.version) from gone
    return _due(_Seen(head.version, active, owed), fill)


def _take(commit: Commit, fill: Fill, column: str, active: dict[FileId, RawAction], owed: dict[str, _Owed]) -> None:
    """One more commit: what its files owe follows from what the files owed that it removed. ``owed`` has no files from ``since``."""
    removes = [file_id(remove) for remove in commit.removes]
    gone = {path for path, _ in removes}
    copies = any(owed.get(path, fill.before) in _DUE for path in gone)
    keeps = _fills(commit) or _lays_out(commit)
    ours, brings_back = fill.made(commit) or (keeps and not copies), commit.info.get("operation") in BRINGS_BACK
    for identity in removes:
        active.pop(identity, None)
    for add in commit.adds:
        path = file_id(add)[0]
        active[file_id(add)] = add
        # Files that were the table's before, their rows as old as they were: with another deletion vector, brought back, or listed once
        # more (for statistics, for row ids).
        again = path in owed or path in gone or brings_back or not (removes or add.get("dataChange", True))
        if not again:
            owed[path] = _Owed.FILLED if ours else _owed_by(add, fill, column, copies=copies)


def _fills(commit: Commit) -> bool:
    """A batch of some fill: it gives its rows values of its own column and leaves all others as they are."""
    return str((about_of(commit) or {}).get("action")).startswith(f"{_OPERATION}:")


def _lays_out(commit: Commit) -> bool:
    """A batch of ours that clusters: its rows are those of the files that it took."""
    return (about_of(commit) or {}).get("action") == CLUSTER


def _owed_by(add: RawAction, fill: Fill, column: str, *, copies: bool) -> _Owed:
    """A new file of somebody else's. ``copies``: rows that are due may be among its own."""
    if fill.files is not Files.OLDER:
        return _Owed.EVERY_ROW
    return _Owed.NULLS if copies and null_count(add, (column,)) != 0 else _Owed.NOTHING


def _due(seen: _Seen, fill: Fill) -> DueFiles:
    """Partitions by their newest file that is not ours: where writers are at work now they may be done when we come to it."""
    due: dict[_Owed, dict[str, list[RawAction]]] = {owed: {} for owed in _DUE}
    newest: dict[str, int] = {}
    for file in seen.active.values():
        owed, partition = seen.owed.get(file_id(file)[0], fill.before), partition_of(file)
        if owed is not _Owed.FILLED:
            newest[partition] = max(_age(file), newest.get(partition, 0))
        if owed in _DUE:
            due[owed].setdefault(partition, []).append(file)
    every_row, nulls = (_in_order(due[owed], newest) for owed in _DUE)
    return DueFiles(seen.version, every_row, nulls, seen)


def _in_order(by_partition: Mapping[str, Iterable[RawAction]], newest: Mapping[str, int]) -> FileGroups:
    order = sorted(by_partition, key=lambda partition: (newest[partition], partition))
    return tuple(tuple(sorted(by_partition[partition], key=lambda file: (_age(file), file_id(file)))) for partition in order)


def _batches(groups: FileGroups, max_files: int, max_bytes: int) -> Iterator[tuple[RawAction, ...]]:
    """Partitions one after the other, as many of them in a batch as fit."""
    batch: tuple[RawAction, ...] = ()
    for piece in (piece for group in groups for piece in cut(group, max_files, max_bytes)):
        if batch and (len(batch) + len(piece) > max_files or _bytes(batch) + _bytes(piece) > max_bytes):
            yield batch
            batch = ()
        batch += piece
    if batch:
        yield batch


def _physical(head: Head, column: str) -> str | None:
    """What statistics call a top-level column; None if there is none of that name."""
    return next((physical_name(found) for found in head.schema["fields"] if found["name"] == column), None)


def _age(file: RawAction) -> int:
    """When the file was written, ms; the clocks of several writers are near enough to choose an order by."""
    return int(file["modificationTime"])


def _bytes(files: Iterable[RawAction]) -> int:
    return sum(int(file.get("size") or 0) for file in files)
