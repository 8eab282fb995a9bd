"""Streams whose tables are rewritten at one end or both, and rolled back: the checkpoint goes with the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.replication.model import PauseReason
from tests.support import rewritten
from tests.support.replicas import Replicas, make_replicas

COLLECTIONS = ("keyed", "plain")


@pytest.fixture(scope="module")
def born(tmp_path_factory: pytest.TempPathFactory) -> Replicas:
    """The next release rewrites both collections; b has what a has."""
    releases = (rewritten.SCHEMA_1, ""), (rewritten.SCHEMA_2, rewritten.STEPS)
    two = make_replicas(tmp_path_factory.mktemp("born"), *releases)
    two.runner = rewritten.jobs()
    two.insert("a", {"id": 1, "v": "1"}, {"id": 2, "v": "2"}, collection="keyed")
    two.insert("a", {"line": "aa", "n": 1}, {"line": "aa", "n": 1}, collection="plain")
    two.bring("a", "b", *COLLECTIONS)
    return two


@pytest.fixture
def two(born: Replicas, tmp_path: Path) -> Replicas:
    found = born.copy(tmp_path / "lakes")
    found.runner = rewritten.jobs()
    return found


def write(two: Replicas, number: int, *, old: bool) -> None:
    two.insert("a", {"id": number, "v": str(number) if old else number}, collection="keyed")
    two.change("a", lambda row: None if row["id"] == number - 1 else row, "keyed")
    two.insert("a", {"line": "bb", "n": number, **({} if old else {"day": "bb"})}, collection="plain")


def waits(two: Replicas) -> list[PauseReason | None]:
    states = two.bring("a", "b", *COLLECTIONS).states
    assert all(state.error is None for state in states), [state.detail for state in states]
    return [None if state.pause is None else state.pause.reason for state in states]


def equal(two: Replicas) -> None:
    assert waits(two) == [None, None]
    for collection in COLLECTIONS:
        assert two.rows("b", collection) == two.rows("a", collection), collection
    assert not two.bring("a", "b", *COLLECTIONS).moved


def test_the_origin_first(two: Replicas) -> None:
    """The old table is drained; the rest waits for the target's own rewrite, and begins where the origin's ended."""
    write(two, 3, old=True)
    two.upgrade("a", to=2)
    write(two, 5, old=False)
    assert waits(two) == [PauseReason.SCHEMA_MISMATCH] * 2
    assert [row["id"] for row in two.rows("b", "keyed")] == [1, 3], "all of the old table is there"
    two.upgrade("b", to=2)
    equal(two)
    write(two, 7, old=False)
    equal(two)


@pytest.mark.soak
def test_both_at_once_and_rolled_back(two: Replicas) -> None:
    write(two, 3, old=True)
    equal(two)
    two.upgrade("b", to=2)
    two.upgrade("a", to=2)
    write(two, 5, old=False)
    equal(two)
    two.rollback("a")
    write(two, 7, old=True)
    assert waits(two) == [PauseReason.SCHEMA_MISMATCH] * 2
    two.rollback("b")
    equal(two)
    write(two, 9, old=True)
    equal(two)


def test_the_target_alone_goes_there_and_back(two: Replicas) -> None:
    """What it cannot have as it is now waits; the checkpoint goes along both ways."""
    two.upgrade("b", to=2)
    assert waits(two) == [None, None], "nothing to bring; the checkpoint was carried over"
    write(two, 3, old=True)
    assert waits(two) == [PauseReason.SCHEMA_MISMATCH] * 2
    two.rollback("b")
    equal(two)


@pytest.mark.soak
def test_a_rollback_of_an_origin_whose_new_table_was_never_followed(two: Replicas) -> None:
    """Rows came back by commits of the rollback, which are no events: only a restore brings them."""
    two.upgrade("a", to=2)
    write(two, 5, old=False)
    two.rollback("a")
    states = two.bring("a", "b", *COLLECTIONS).states
    assert [state.error for state in states] == ["origin_replaced"] * 2
