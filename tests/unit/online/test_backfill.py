"""Which files of a live table are due to be filled, whatever others made of them meanwhile, by the log alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.features import UnsupportedFeature
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.log.listing import commit_key
from airflow_provider_schemamig.core.names import Epoch, Generation
from airflow_provider_schemamig.core.online.backfill import BackfillBatch, Effort, check_fillable, due_files, fill_batch
from airflow_provider_schemamig.core.online.errors import BackfillLogGone, BackfillStarved, CannotBackfill
from airflow_provider_schemamig.core.schema.model import Field
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewritten
from tests.unit.delta.tables import INT, NAME, STRING, add_file, flights, make_table, remove_file, table_store, write
from tests.unit.online.filling import DEFAULT, OUTDATED, SHADOW, SINCE, VECTOR, Step, add, checkpoint, names, ours, play, step, table


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return table(tmp_path / "t")


# --- cases: what happened after the column came, what is due of a default (every row, NULLs), what of a shadow column --------------------

CASES: dict[str, tuple[Sequence[Step], str, str, str]] = {
    "nothing": ((), "ab", "", "ab"),
    "append": ([step(add("n", 3))], "ab", "", "abn"),
    "append without statistics": ([step(add("n"))], "ab", "", "abn"),
    "update copies": ([step(remove_file("a"), add("n", 10))], "b", "n", "bn"),
    "update copies, no statistics": ([step(remove_file("a"), add("n"))], "b", "n", "bn"),
    "update of the column, all rows": ([step(remove_file("a"), add("n", 0))], "b", "", "bn"),
    "copy of a copy": ([step(remove_file("a"), add("n", 10)), step(remove_file("n"), add("m", 9))], "b", "m", "bm"),
    "update of what was appended": ([step(add("n", 3)), step(remove_file("n"), add("m", 4))], "ab", "", "abm"),
    "merge of old and appended": ([step(add("n", 3)), step(remove_file("n"), remove_file("a"), add("m", 9))], "b", "m", "bm"),
    "optimize": ([step(*(remove_file(name, dataChange=False) for name in "ab"), add("n", 20, dataChange=False))], "n", "", "n"),
    "overwrite": ([step(remove_file("a"), remove_file("b"), add("n", 1))], "", "n", "n"),
    "delete of whole files": ([step(remove_file("a"))], "b", "", "b"),
    "truncate": ([step(remove_file("a"), remove_file("b"))], "", "", ""),
    "deletion vector on an old file": ([step(remove_file("a"), add("a", deletionVector=VECTOR))], "ab", "", "ab"),
    "deletion vector on an appended file": (
        [step(add("n", 3)), step(remove_file("n"), add("n", 3, deletionVector=VECTOR))],
        "ab",
        "",
        "abn",
    ),
    "update by deletion vector": ([step(remove_file("a"), add("a", deletionVector=VECTOR), add("n", 1))], "ab", "n", "abn"),
    "our fill": ([ours(remove_file("a"), add("n", 0))], "b", "", "b"),
    "our fill wrote NULLs": ([ours(remove_file("a"), add("n", 10))], "b", "", "b"),
    "our fill of another column": ([ours(remove_file("a"), add("n", 10), column="d")], "bn", "", "bn"),
    "update sets NULL in what we filled": ([ours(remove_file("a"), add("n", 0)), step(remove_file("n"), add("m", 1))], "b", "", "bm"),
    "deletion vector on what we filled": (
        [ours(remove_file("a"), add("n", 0)), step(remove_file("n"), add("n", 0, deletionVector=VECTOR), add("m", 1))],
        "b",
        "",
        "bm",
    ),
    "our fill of a copy": ([step(remove_file("a"), add("n", 10)), ours(remove_file("n"), add("m", 0))], "b", "", "b"),
    "restore of a file we filled": (
        [ours(remove_file("a"), add("n", 0)), step(remove_file("n"), add("a"), operation="RESTORE")],
        "ab",
        "",
        "ab",
    ),
    "restore of what we wrote": (
        [ours(remove_file("a"), add("n", 0)), step(remove_file("n")), step(add("n", 0), operation="RESTORE")],
        "b",
        "",
        "b",
    ),
    "restore of files from before": ([step(add("older"), operation="RESTORE")], "abolder", "", "abolder"),
    "what we wrote is listed again": ([ours(remove_file("a"), add("n", 0)), step(add("n", 0))], "b", "", "b"),
    "statistics are computed": ([step(add("a", dataChange=False), operation="COMPUTE STATS")], "ab", "", "ab"),
    "paths are encoded": ([step(remove_file("%61"), add("n%20", 10))], "b", "n%20", "bn%20"),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "every_row", "nulls", "shadow"), CASES.values(), ids=CASES)
def test_backfill_what_is_due(store: Store, steps: Sequence[Step], every_row: str, nulls: str, shadow: str) -> None:
    head = play(store, steps)
    found = due_files(store, head, DEFAULT)
    assert (found.version, names(found)) == (head.version, (every_row, nulls))
    assert bool(found) is bool(every_row or nulls)
    assert names(due_files(store, head, SHADOW)) == (shadow, "")


SINCE_THEN: dict[str, tuple[Sequence[Step], str, str]] = {
    "nothing": ((), "ab", ""),
    "append": ([step(add("n", 3))], "abn", "n"),
    "update copies": ([step(remove_file("a"), add("n", 10))], "bn", "n"),
    "optimize": ([step(*(remove_file(name, dataChange=False) for name in "ab"), add("n", 20, dataChange=False))], "n", "n"),
    "deletion vector on an old file": ([step(remove_file("a"), add("a", deletionVector=VECTOR), add("n", 1))], "abn", "n"),
    "our fill of what was appended": ([step(add("n")), ours(remove_file("n"), add("m"))], "ab", ""),
    "another fill of an old file": ([ours(remove_file("a"), add("n"), column="d")], "bn", ""),
    "another fill of what was appended": ([step(add("n")), ours(remove_file("n"), add("m"), column="d")], "abm", "m"),
    "another fill of what we filled": ([ours(remove_file("a"), add("n")), ours(remove_file("n"), add("m"), column="d")], "b", ""),
    "update of what we filled": ([ours(remove_file("a"), add("n")), step(remove_file("n"), add("m"))], "bm", "m"),
    "restore of files from before": ([step(add("older"), operation="RESTORE")], "abolder", ""),
}


@pytest.mark.parametrize(("steps", "shadow", "outdated"), SINCE_THEN.values(), ids=SINCE_THEN)
def test_columns_that_nobody_else_fills(store: Store, steps: Sequence[Step], shadow: str, outdated: str) -> None:
    """A shadow lacks values everywhere, a column that stepped aside only in what came since. Another fill changes neither's values."""
    head = play(store, steps)
    assert names(due_files(store, head, SHADOW)) == (shadow, "")
    assert names(due_files(store, head, OUTDATED)) == (outdated, "")


def test_statistics_have_physical_names(tmp_path: Path) -> None:
    store = table(tmp_path / "t", physical="col-1")
    other, own = ({"numRecords": 10, "nullCount": {name: 0}} for name in ("c", "col-1"))
    head = play(store, [step(remove_file("a"), add_file("n", stats=other)), step(remove_file("b"), add_file("m", stats=own))])
    assert names(due_files(store, head, DEFAULT)) == ("", "n")


def test_a_checkpoint_hides_nothing(store: Store) -> None:
    """Of the log only what came since the backfill began is needed."""
    head = play(store, [step(remove_file("a"), add("n", 10)), ours(remove_file("b"), add("m", 0))])
    checkpoint(store)
    for version in range(SINCE + 1):
        (Path(store.location.local_path or "") / commit_key(version)).unlink()
    assert names(due_files(store, head, DEFAULT)) == ("", "n")


def test_a_log_that_is_gone_says_so(store: Store) -> None:
    head = play(store, [step(add("n")), step(add("m"))])
    checkpoint(store)
    (Path(store.location.local_path or "") / commit_key(SINCE + 1)).unlink()
    with pytest.raises(BackfillLogGone) as caught:
        due_files(store, head, DEFAULT)
    assert (caught.value.since, caught.value.version, caught.value.retryable) == (SINCE, SINCE + 1, False)
    assert "schemamig rollback" in caught.value.next_action


def test_an_earlier_answer_saves_reading(store: Store) -> None:
    first = play(store, [step(remove_file("a"), add("n", 10))])
    before = due_files(store, first, DEFAULT)
    head = play(store, [ours(remove_file("b"), add("m", 0))])
    (Path(store.location.local_path or "") / commit_key(SINCE + 1)).unlink()
    after = due_files(store, head, DEFAULT, before)
    assert (after.version, names(after), names(before)) == (head.version, ("", "n"), ("b", "n"))


def test_an_answer_of_a_later_version_is_no_help(store: Store) -> None:
    first = play(store, [step(remove_file("a"), add("n", 10))])
    after = due_files(store, play(store, [ours(remove_file("b"), add("m", 0))]), DEFAULT)
    assert due_files(store, first, DEFAULT, after) == due_files(store, first, DEFAULT)


# --- order, batches, totals -------------------------------------------------------------------------------------------------------------


def dated(name: str, written: int, p: str | None = None, **more: Any) -> dict[str, Any]:
    return add(name, partition={} if p is None else {"p": p}, modificationTime=written, **more)


def paths(batches: Sequence[BackfillBatch]) -> list[str]:
    return ["".join(file["path"] for file in batch.files) for batch in batches]


def test_partitions_that_are_written_to_come_last(tmp_path: Path) -> None:
    store = table_store(tmp_path / "t")
    make_table(store, flights(Field("c", INT), Field("p", STRING), partitioned_by=("p",)))
    write(store, 1, dated("a", 1, "hot"), dated("b", 5, "cold"), dated("c", 2, "cold"), dated("d", 7, "warm"), dated("e", 3, "warm"))
    write(store, 2, dated("n", 100, "hot"), dated("m", 20, "warm"))
    write(store, 3, remove_file("e"), dated("x", 30, "warm"))
    found = due_files(store, read_head(store), replace(DEFAULT, since=1))
    assert paths(found.batches(1, 10**9)) == ["c", "b", "d", "a", "x"], "oldest first; copies of rows are where writers are, too"
    assert paths(found.batches(2, 10**9)) == ["cb", "da", "x"]
    assert paths(found.batches(3, 10**9)) == ["cbd", "a", "x"]
    assert [batch.nulls_only for batch in found.batches(9, 10**9)] == [False, True]
    assert (found.files, found.rows, found.bytes) == (5, 50, 5)


def test_our_own_files_make_no_partition_hot(tmp_path: Path) -> None:
    store = table_store(tmp_path / "t")
    make_table(store, flights(Field("c", INT), Field("p", STRING), partitioned_by=("p",)))
    write(store, 1, dated("a", 1, "half"), dated("b", 2, "half"), dated("c", 3, "other"))
    actions, info = ours(remove_file("a"), dated("n", 100, "half"))
    write(store, 2, *actions, **info)
    found = due_files(store, read_head(store), replace(DEFAULT, since=1))
    assert paths(found.batches(1, 10**9)) == ["b", "c"]


def test_a_partition_that_fits_is_in_one_batch(tmp_path: Path) -> None:
    store = table_store(tmp_path / "t")
    make_table(store, flights(Field("c", INT), Field("p", STRING), partitioned_by=("p",)))
    sizes = {"1": [4, 4], "2": [5, 5], "3": [30, 1], "4": [1]}
    files = [dated(f"{p}{n}", int(p), p, size=size) for p, found in sizes.items() for n, size in enumerate(found)]
    write(store, 1, *files)
    found = due_files(store, read_head(store), replace(DEFAULT, since=1))
    assert paths(found.batches(100, 10)) == ["1011", "2021", "30", "3140"]
    assert paths(found.batches(3, 1000)) == ["1011", "2021", "303140"]
    assert found.batches(100, 1000)[0].files == found.all_files


def test_rows_are_not_known_if_a_file_does_not_say(store: Store) -> None:
    head = play(store, [step(remove_file("a"), add_file("n"))])
    assert due_files(store, head, DEFAULT).rows is None


# --- what cannot be filled --------------------------------------------------------------------------------------------------------------


def with_properties(head: Head, **more: str) -> Head:
    return replace(head, metadata={**head.metadata, "configuration": {key.replace("__", "."): value for key, value in more.items()}})


REFUSED: dict[str, tuple[Callable[[Head], Head], str, str]] = {
    "no such column": (lambda head: head, "gone", "no column gone"),
    "partition column": (lambda head: replace(head, metadata={**head.metadata, "partitionColumns": ["c"]}), "c", "partitioned by it"),
    "append-only": (lambda head: with_properties(head, delta__appendOnly="true"), "c", "append-only"),
    "sealed": (lambda head: with_properties(head, delta__constraints__schemamig_moved_to_g2="1 = 0"), "c", "sealed"),
    "row tracking": (
        lambda head: replace(head, protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}),
        "c",
        "rowTracking",
    ),
}


@pytest.mark.parametrize(("change", "column", "why"), REFUSED.values(), ids=REFUSED)
def test_tables_that_cannot_be_filled(store: Store, change: Callable[[Head], Head], column: str, why: str) -> None:
    with pytest.raises(CannotBackfill) as caught:
        check_fillable(change(read_head(store)), NAME, replace(DEFAULT, column=column))
    assert why in caught.value.reason
    assert caught.value.collection == NAME


def test_tables_we_do_not_understand(store: Store) -> None:
    head = replace(read_head(store), protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["news"]})
    with pytest.raises(UnsupportedFeature):
        check_fillable(head, NAME, DEFAULT)
    check_fillable(read_head(store), NAME, DEFAULT)


def test_a_batch_is_tagged_so_that_it_is_known_again(store: Store) -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match="backfill:c"):
        fill_batch(
            nothing,
            store,
            NAME,
            read_head(store),
            BackfillBatch((), False),
            DEFAULT,
            nothing,
            Tag(Generation(1), Epoch(1), "change"),
            nothing,
        )


# --- liveness ---------------------------------------------------------------------------------------------------------------------------


def test_backfill_effort() -> None:
    """Three times what was due at first is allowed, also if that was next to nothing."""
    effort = Effort(2)
    for _ in range(3):
        effort = effort.after(Rewritten(2, 0, 0, 7))
        effort.check(DEFAULT, NAME)
    with pytest.raises(BackfillStarved) as caught:
        effort.after(Rewritten(1, 0, 0, 8)).check(DEFAULT, NAME)
    assert (caught.value.first, caught.value.rewritten, caught.value.retryable) == (2, 7, True)
    Effort(0).check(DEFAULT, NAME)
