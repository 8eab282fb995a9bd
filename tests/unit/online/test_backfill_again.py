"""Which files are due of a column that was on the table before its fill begins: by the log, and by what the ledger knows of its past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.delta.log.listing import commit_key
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.online.backfill import due_files
from airflow_provider_schemamig.core.online.unfilled import Past
from tests.unit.delta.tables import remove_file
from tests.unit.online.filling import DEFAULT, VECTOR, Step, add, checkpoint, metadata_of, names, ours, play, step, table

#: A release had it, filled, up to version 4: with files ``a`` and ``b`` from before it, ``n`` (some NULLs) and ``m`` (all NULL).
IN_USE = [step(add("n", 3)), step(add("m", 10))]
USED = Past(((0, 4),), frozenset({Generation(1)}))

#: What came while it was hidden; what is due of every row, of NULLs, and of how many files nobody can tell.
CASES: dict[str, tuple[Sequence[Step], str, str, int]] = {
    "nothing": ((), "", "", 0),
    "append": ([step(add("h", 10))], "h", "", 0),
    "append, some have a value": ([step(add("h", 4))], "", "h", 0),
    "append, all have a value": ([step(add("h", 0))], "", "", 0),
    "append without statistics": ([step(add("h"))], "", "h", 0),
    "update": ([step(remove_file("m"), add("x", 10), operation="UPDATE")], "", "", 0),
    "merge": ([step(remove_file("m"), add("x", 11), operation="MERGE")], "", "x", 1),
    "nobody says what": ([step(remove_file("m"), add("x", 11))], "", "x", 1),
    "optimize": ([step(remove_file("m", dataChange=False), add("x", 10, dataChange=False))], "", "", 0),
    "optimize of both times": (
        [step(add("h", 10)), step(remove_file("m"), remove_file("h"), add("x", 20, dataChange=False))],
        "",
        "x",
        1,
    ),
    "our fill of another column": ([ours(remove_file("m"), add("x", 10), column="d")], "", "", 0),
    "our fill of another column, of what is due": ([step(add("h", 10)), ours(remove_file("h"), add("x", 10), column="d")], "x", "", 0),
    "deletion vector": ([step(remove_file("m"), add("m", 10, deletionVector=VECTOR))], "", "", 0),
    "restore of a file of then": ([step(remove_file("m")), step(add("m", 10), operation="RESTORE")], "", "", 0),
    "restore of a file from before": ([step(add("older", 10), operation="RESTORE")], "", "older", 1),
}


@pytest.mark.parametrize(("steps", "every_row", "nulls", "untold"), CASES.values(), ids=CASES)
def test_backfill_again_what_is_due(tmp_path: Path, steps: Sequence[Step], every_row: str, nulls: str, untold: int) -> None:
    """Asked before the fill begins, and after it began."""
    store = table(tmp_path / "t")
    head = play(store, [*IN_USE, *steps])
    fill = replace(DEFAULT, since=head.version + 1, past=USED)
    found = due_files(store, head, fill)
    assert (names(found), found.untold) == ((every_row, nulls), untold)
    head = play(store, [step({"metaData": head.metadata}), step(add("later", 5))])
    assert names(due_files(store, head, fill)) == (every_row, nulls)
    assert names(due_files(store, head, fill, found)) == (every_row, nulls)


#: Files ``a`` and ``b`` were filled in an upgrade that was given up later: what others made of them meanwhile, or when it was over.
GIVEN_UP: dict[str, tuple[Sequence[Step], str, str, int]] = {
    "nothing": ((), "xy", "", 0),
    "optimize": ([step(remove_file("x"), remove_file("y"), add("z", 0, dataChange=False))], "z", "", 0),
    "delete": ([step(remove_file("x"), add("z", 0), operation="DELETE")], "yz", "", 0),
    "deletion vector": ([step(remove_file("x"), add("x", 0, deletionVector=VECTOR))], "xy", "", 0),
    "update": ([step(remove_file("x"), add("z", 0), operation="UPDATE")], "y", "", 1),
    "update, and compacted": (
        [step(remove_file("x"), add("z", 0), operation="UPDATE"), step(remove_file("z"), remove_file("y"), add("v", 0, dataChange=False))],
        "",
        "",
        1,
    ),
    "update without statistics": ([step(remove_file("x"), add("z"), operation="UPDATE")], "y", "z", 1),
    "merge": ([step(remove_file("x"), add("z", 0), operation="MERGE")], "y", "", 1),
    "nobody says what": ([step(remove_file("x"), add("z", 0))], "y", "", 1),
    "our clustering": ([ours(remove_file("x"), remove_file("y"), add("z", 0), column="d")], "z", "", 0),
}


@pytest.mark.parametrize("hidden", [False, True], ids=["before", "later"])
@pytest.mark.parametrize(("steps", "every_row", "nulls", "untold"), GIVEN_UP.values(), ids=GIVEN_UP)
def test_backfill_again_what_is_due_of_a_fill_that_was_given_up(
    tmp_path: Path, steps: Sequence[Step], every_row: str, nulls: str, untold: int, hidden: bool
) -> None:
    store = table(tmp_path / "t")
    hiding = metadata_of(store, None)
    play(store, [step(metadata_of(store, "5"))])
    filled = [ours(remove_file("a"), add("x", 0)), ours(remove_file("b"), add("y", 0))]
    given_up = [step(hiding)]
    head = play(store, [*filled, *given_up, *steps] if hidden else [*filled, *steps, *given_up])
    found = due_files(store, head, replace(DEFAULT, since=head.version + 1, past=Past((), frozenset({Generation(1)}))))
    assert (names(found), found.untold) == ((every_row, nulls), untold)


@pytest.mark.parametrize(("gone", "due"), [(4, ("", "h")), (5, ("", "abhmn"))])
def test_the_log_is_needed_from_the_rollback_on(tmp_path: Path, gone: int, due: tuple[str, str]) -> None:
    """Without it no row is overwritten. Of statistics a checkpoint tells nothing of NULLs."""
    store = table(tmp_path / "t")
    head = play(store, [*IN_USE, step(add("h", 4)), step()])
    checkpoint(store)
    for version in range(gone + 1):
        (Path(store.location.local_path or "") / commit_key(version)).unlink()
    found = due_files(store, head, replace(DEFAULT, since=head.version + 1, past=USED))
    assert names(found) == due
    assert found.untold == (0 if gone == 4 else 5)


def test_a_null_that_may_not_stay_is_due(tmp_path: Path) -> None:
    store = table(tmp_path / "t")
    head = play(store, [*IN_USE, step(add("full", 0))])
    found = due_files(store, head, replace(DEFAULT, since=head.version + 1, past=replace(USED, takes_nulls=True)))
    assert names(found) == ("", "abmn")
