"""The origin rewrote a table, took rows, and was rolled back before a stream followed: the stream says so, however long ago that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows.jobs import RowJobs
from tests.support.upgrades import make_holds_due

FIRST = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));\n"
SECOND = FIRST.replace("v STRING", "v STRING, w STRING")
UP, DOWN = "SELECT id, v, v AS w FROM {trips}", "SELECT id, v FROM {trips}"


def releases_that_rewrite(tmp_path: Path) -> Replicas:
    """Return two environments at the release before the one that rewrites, both with row 1."""
    found = make_replicas(tmp_path, (FIRST, ""), (SECOND, f'rewrite("trips", up="{UP}", down="{DOWN}")'))
    found.runner = RowJobs({UP: lambda row: [{**row, "w": row["v"]}], DOWN: lambda row: [{"id": row["id"], "v": row["v"]}]})
    found.insert("a", {"id": 1, "v": "x"})
    found.bring("a", "b")
    return found


@pytest.fixture
def two(tmp_path: Path) -> Replicas:
    """``a`` got row 2 while it was at the release that rewrites, and is back; ``b`` has row 1."""
    found = releases_that_rewrite(tmp_path)
    found.upgrade("a", to=2, end_hold=False)
    found.insert("a", {"id": 2, "v": "y", "w": "z"})
    found.rollback("a")
    assert [row["id"] for row in found.rows("a")] == [1, 2]
    return found


@pytest.mark.parametrize("is_contracted", [False, True])
def test_rows_that_came_back_are_not_passed_over(two: Replicas, is_contracted: bool) -> None:
    if is_contracted:  # the table from which they came is deleted, and no row of the ledger names it
        make_holds_due(two.lakes["a"])
        commands.contract(two.env("a"))
    two.insert("a", {"id": 3, "v": "later"})
    assert two.state("a", "b").error == "origin_replaced"
    assert [row["id"] for row in two.rows("b")] == [1]


def test_a_followed_table_that_was_rewritten_and_deleted_is_named(tmp_path: Path) -> None:
    two = releases_that_rewrite(tmp_path)
    followed = two.lakes["a"].state.objects[CollectionName("trips")].shard
    two.upgrade("a", "b", to=2, end_hold=False)
    make_holds_due(two.lakes["a"])
    commands.contract(two.env("a"))
    for _ in range(2):  # the second look does not know less than the first
        state = two.state("a", "b")
        assert (state.error, state.shard) == ("origin_replaced", followed) and "deleted" in state.detail
    assert [row["id"] for row in two.rows("b")] == [1]


def test_rows_that_came_back_are_not_passed_over_where_the_table_was_rewritten_again(two: Replicas) -> None:
    two.upgrade("a", "b", to=2, end_hold=False)
    assert two.state("a", "b").error == "origin_replaced"
    assert [row["id"] for row in two.rows("b")] == [1]


def test_rows_that_came_back_and_were_followed_are_no_hindrance(tmp_path: Path) -> None:
    two = releases_that_rewrite(tmp_path)
    two.upgrade("a", "b", to=2, end_hold=False)
    two.insert("a", {"id": 2, "v": "y", "w": "z"})
    two.bring("a", "b")
    two.rollback("a")
    two.rollback("b")
    two.bring("a", "b")
    make_holds_due(two.lakes["a"])
    commands.contract(two.env("a"))
    two.insert("a", {"id": 3, "v": "later"})
    assert two.state("a", "b").error is None
    assert [row["id"] for row in two.rows("b")] == [1, 2, 3]
