"""Older rows get their value of a column while everybody goes on: which files are due, and one batch of them.

A batch is one ``rewrite_files``: one Spark statement over exactly its files and one commit, which says that rows changed. There is no
checkpoint beside the table. Its log, from the metadata commit on that began the backfill, says which files were there before, who wrote
those that came since, and which our own batches wrote; so what is due is the same for whoever asks, after a kill or in another process.

UPDATE would do the same values, but begin again at every append to an unpartitioned table, and could not
tell an explicit NULL of a new writer from the NULL of an old row: only a file's age does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.delta.actions import RawAction, file_id, size_bytes
from airflow_provider_schemamig.core.delta.commit.append import Appended
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.files import cut
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.names import physical_name
from airflow_provider_schemamig.core.delta.properties import is_on
from airflow_provider_schemamig.core.names import CollectionName, quote
from airflow_provider_schemamig.core.online.errors import BackfillLogGone, BackfillStarved, CannotBackfill
from airflow_provider_schemamig.core.online.unfilled import ALL_ROWS, BACKFILL, DUE, NOT_KNOWN, OURS, Fill, Replay, Seen, first_look
from airflow_provider_schemamig.core.schema.delta_rules.table_features import APPEND_ONLY
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import ReadStore, Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewriting, Rewritten, rewrite_files, why_not
from airflow_provider_schemamig.core.transfer.file_subset import partition_of, rows_in_files

#: How often over the files that were due at first may be rewritten before somebody should look: Delta's own guard of this kind has 3, too.
_MOST_TIMES = 3

FileGroups = tuple[tuple[RawAction, ...], ...]


@dataclass(frozen=True, slots=True)
class BackfillBatch:
    """Files of one batch. ``nulls_only``: rows that have a value keep it."""

    files: tuple[RawAction, ...]
    nulls_only: bool


@dataclass(frozen=True, slots=True)
class DueFiles:
    """The files to be rewritten at a version, by partition, those that are written to now last.

    If there are none, every row at ``version`` has its value: what builds on that may be committed as exactly ``version + 1``.
    """

    version: int
    every_row: FileGroups
    nulls: FileGroups
    seen: Seen = field(repr=False, compare=False)
    #: Of how many files nobody can tell whether a NULL is what its writer wanted, or a value one of a fill that was given up.
    untold: int = 0

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
        """Return None if the statistics of some file do not say."""
        return rows_in_files(self.all_files)

    @property
    def bytes(self) -> int:
        return _bytes(self.all_files)

    def batches(self, max_files: int, max_bytes: int) -> tuple[BackfillBatch, ...]:
        """Return the batches in the order in which they should be done.

        A partition that fits into a batch is in one; a file larger than ``max_bytes`` is a batch of its own. Each may be done on the same
        head as long as ``fill_batch`` raises nothing.
        """
        every_row = [BackfillBatch(files, nulls_only=False) for files in _batches(self.every_row, max_files, max_bytes)]
        return (*every_row, *(BackfillBatch(files, nulls_only=True) for files in _batches(self.nulls, max_files, max_bytes)))


@dataclass(frozen=True, slots=True)
class Effort:
    """Liveness: what a run has rewritten for the files that were due at its beginning. ``first``, ``rewritten``: files."""

    first: int
    rewritten: int = 0

    def after(self, done: Rewritten) -> Effort:
        return Effort(self.first, self.rewritten + done.files)

    def check(self, fill: Fill, collection: CollectionName) -> None:
        """Raise BackfillStarved if more was rewritten than it should ever take. Ask while something is still due."""
        if self.rewritten > _MOST_TIMES * self.first:
            raise BackfillStarved(collection=collection, column=fill.column, first=self.first, rewritten=self.rewritten)


def check_fillable(head: Head, collection: CollectionName, fill: Fill) -> None:
    """Raise CannotBackfill for tables whose files cannot be filled one by one, UnsupportedFeature, CatalogManagedTable."""
    check_writable(head.protocol, head.location.uri)
    reason = why_not_filled(head) or _why_not_column(head, fill.column)
    if reason is not None:
        raise CannotBackfill(collection=collection, column=fill.column, reason=reason)


def why_not_filled(head: Head) -> str | None:
    """Return why a table's rows cannot get values in any column; None if they can."""
    if is_on(head.metadata, APPEND_ONLY) and head.sealed_for is None:
        return f"the table is append-only ({APPEND_ONLY})"
    return why_not(head)


def _why_not_column(head: Head, column: str) -> str | None:
    if _physical(head, column) is None:
        return f"the table has no column {column}"
    if column in (head.metadata.get("partitionColumns") or ()):
        return "the table is partitioned by it, so rows would have to move"
    return None


def fill_batch(
    env: EnvironmentRoot,
    store: Store,
    collection: CollectionName,
    head: Head,
    batch: BackfillBatch,
    fill: Fill,
    fence: Fence,
    tag: Tag,
    jobs: JobRunner,
) -> tuple[Rewritten, Appended]:
    """Fill one batch of what is due at ``head``; the receipt is for ``storage.store.confirm``. ``tag.action`` is ``fill.action``.

    Raises what ``check_fillable`` and ``rewrite_files`` raise: MetadataMoved and FilesMoved mean that what is due must be looked for again.
    """
    if tag.action != fill.action:
        raise ValueError(f"a commit tagged {tag.action!r} would not be known again: it has to be {fill.action!r}")
    check_fillable(head, collection, fill)
    own = f"(\n{fill.expression}\n)"
    values = {fill.column: f"coalesce({quote(fill.column)}, {own})" if batch.nulls_only else fill.expression}
    parameters = {"column": fill.column, "since": str(fill.since)}
    rewriting = Rewriting(BACKFILL, values, data_change=True, parameters=parameters)
    return rewrite_files(env, store, collection, head, batch.files, rewriting, fence, tag, jobs)


# --- what is due ---------------------------------------------------------------------------------------------------------------------


def due_files(store: ReadStore, head: Head, fill: Fill, before: DueFiles | None = None) -> DueFiles:
    """Return what is due at ``head``.

    ``before``: an earlier answer for the same fill, so that only the commits since then are read (never one from before a CommitLost: it
    may know of the commit that was lost). Raises BackfillLogGone, CannotBackfill (the column is not there), and what ``active_files``
    raises.
    """
    column = _physical(head, fill.column)
    if column is None:
        raise CannotBackfill(column=fill.column, reason=f"the table has no column {fill.column}")
    seen = None if before is None or before.version > head.version else before.seen
    try:
        replay = Replay(fill, column, first_look(store, head, fill, column) if seen is None else seen)
        for commit in commits(store, replay.seen().version, head.version):
            replay.take(commit)
    except LogTruncated as gone:
        raise BackfillLogGone(uri=store.location.uri, column=fill.column, since=fill.since, version=gone.version) from gone
    return _due(replay.seen(), column)


def _due(seen: Seen, column: str) -> DueFiles:
    """Return the due files by partition, ordered by each partition's newest file that is not ours.

    Partitions that are written to now may be done later.
    """
    every_row: dict[str, list[RawAction]] = {}
    nulls: dict[str, list[RawAction]] = {}
    newest: dict[str, int] = {}
    untold = 0
    for file in seen.active.values():
        owed, partition = seen.of(file, column), partition_of(file)
        untold += owed in NOT_KNOWN
        if owed not in OURS:
            newest[partition] = max(_age(file), newest.get(partition, 0))
        if owed in DUE:
            (every_row if owed in ALL_ROWS else nulls).setdefault(partition, []).append(file)
    return DueFiles(seen.version, _in_order(every_row, newest), _in_order(nulls, newest), seen, untold)


def _in_order(by_partition: Mapping[str, Iterable[RawAction]], newest: Mapping[str, int]) -> FileGroups:
    order = sorted(by_partition, key=lambda partition: (newest[partition], partition))
    return tuple(tuple(sorted(by_partition[partition], key=lambda file: (_age(file), file_id(file)))) for partition in order)


def _batches(groups: FileGroups, max_files: int, max_bytes: int) -> Iterator[tuple[RawAction, ...]]:
    """Yield batches of partitions one after the other, as many of them in a batch as fit."""
    batch: tuple[RawAction, ...] = ()
    for piece in (piece for group in groups for piece in cut(group, max_files, max_bytes)):
        if batch and (len(batch) + len(piece) > max_files or _bytes(batch) + _bytes(piece) > max_bytes):
            yield batch
            batch = ()
        batch += piece
    if batch:
        yield batch


def _physical(head: Head, column: str) -> str | None:
    """Return what statistics call a top-level column; None if there is none of that name."""
    return next((physical_name(found) for found in head.schema["fields"] if found["name"] == column), None)


def _age(file: RawAction) -> int:
    """Return when the file was written, ms; the clocks of several writers are near enough to choose an order by."""
    return int(file["modificationTime"])


def _bytes(files: Iterable[RawAction]) -> int:
    return sum(map(size_bytes, files))
