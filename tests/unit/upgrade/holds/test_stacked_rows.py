"""Holds on top of each other where rows are made anew: another type of a column, and a rewrite, each with a later release over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from tests.support.lake import Lake, rows
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import DOWN_KEYED, QUERIES, UP_KEYED
from tests.support.upgrades import deployed, make_holds_due, refused, releases, same_as_new, seen, whole

TEXT = "CREATE TABLE a (id BIGINT, s STRING);"
NUMBER = "CREATE TABLE a (id BIGINT, s INT);"
#: What a later release does with the table.
LATER = {
    "adds a column": ("CREATE TABLE a (id BIGINT, s INT, y INT);", 'evolution("a")', "s"),
    "renames the column": ("CREATE TABLE a (id BIGINT, n INT);", 'evolution("a", rename={"s": "n"})', "n"),
    "drops the column": ("CREATE TABLE a (id BIGINT, y INT);", 'evolution("a", drop=["s"])', None),
}


@pytest.fixture(params=LATER)
def typed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lake, list[Path], str]:
    """At 1.2.0, with rows of each release."""
    third, step, column = LATER[request.param]
    found = releases(tmp_path, (TEXT, ""), (NUMBER, 'evolution("a")'), (third, step))
    lake = deployed(tmp_path, found[0], found[1])
    tables.insert(lake.path("a"), [{"id": 1, "s": "007"}])
    commands.upgrade(lake.env, found[1], jobs=OnlineJobs())
    tables.insert(lake.path("a"), [{"id": 2, "s": 2}])
    commands.upgrade(lake.env, found[2], jobs=OnlineJobs())
    tables.insert(lake.path("a"), [{"id": 3, **({column: 3} if column else {})}])
    return lake, found, "3" if column else ""


def test_another_type_with_a_release_over_it(typed: tuple[Lake, list[Path], str], tmp_path: Path) -> None:
    lake, found, last = typed
    whole(lake)
    commands.rollback(lake.env, jobs=OnlineJobs())
    whole(lake)
    same_as_new(lake, found[1], tmp_path / "fresh-1")
    assert [row["s"] for row in rows(lake.path("a"), "id", "s")] == [7, 2, int(last) if last else None]
    commands.rollback(lake.env, jobs=OnlineJobs())
    whole(lake)
    same_as_new(lake, found[0], tmp_path / "fresh-0")
    assert [row["s"] for row in rows(lake.path("a"), "id", "s")] == ["007", "2", last or None]


def test_the_hold_of_another_type_ends_under_a_later_one(typed: tuple[Lake, list[Path], str], tmp_path: Path) -> None:
    lake, found, last = typed
    make_holds_due(lake)
    commands.contract(lake.env, Generation(2))
    whole(lake)
    assert not any("schemamig_old" in name for name in seen(lake, "a")["hidden"])
    commands.rollback(lake.env, jobs=OnlineJobs())
    whole(lake)
    same_as_new(lake, found[1], tmp_path / "fresh-1")
    assert [row["s"] for row in rows(lake.path("a"), "id", "s")] == [7, 2, int(last) if last else None]
    with refused("nothing_to_roll_back"):
        commands.rollback(lake.env)


def test_a_type_is_not_changed_again_over_it(tmp_path: Path) -> None:
    found = releases(tmp_path, (TEXT, ""), (NUMBER, 'evolution("a")'), ("CREATE TABLE a (id BIGINT, s BIGINT);", 'evolution("a")'))
    lake = deployed(tmp_path, found[0], found[1])
    tables.insert(lake.path("a"), [{"id": 1, "s": "007"}])
    commands.upgrade(lake.env, found[1], jobs=OnlineJobs())
    with refused("hold_open", "a"):
        commands.preflight(lake.env, found[2], jobs=OnlineJobs())


# --- a rewrite -----------------------------------------------------------------------------------------------------------------------

KEYED = "CREATE TABLE keyed (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));"
MADE = "CREATE TABLE keyed (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id));"
OVER = {
    "renames a column": (
        "CREATE TABLE keyed (id BIGINT NOT NULL, w BIGINT, PRIMARY KEY (id));", 'evolution("keyed", rename={"v": "w"})', "keyed", "w",
    ),
    "renames the table": (
        "CREATE TABLE other (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id));", 'evolution("other", renamed_from="keyed")', "other", "v",
    ),
    "adds a column": (
        "CREATE TABLE keyed (id BIGINT NOT NULL, v BIGINT, y INT, PRIMARY KEY (id));", 'evolution("keyed")', "keyed", "v",
    ),
}  # fmt: skip


@pytest.mark.parametrize("feed", [False, True], ids=["files", "change data feed"])
@pytest.mark.parametrize("name", OVER)
def test_a_rewrite_with_a_release_over_it(tmp_path: Path, name: str, feed: bool) -> None:
    """Rows of all three releases go back through ``down``, under the names that the rewrite gave them."""
    third, step, collection, column = OVER[name]
    found = releases(tmp_path, (KEYED, ""), (MADE, f'rewrite("keyed", up="{UP_KEYED}", down="{DOWN_KEYED}")'), (third, step))
    lake = deployed(tmp_path, found[0], found[1])
    jobs = RowJobs(QUERIES)
    tables.insert(lake.path("keyed"), [{"id": 1, "v": "1"}, {"id": 2, "v": "2"}])
    commands.upgrade(lake.env, found[1], jobs=lambda: jobs)
    if feed:
        tables.enable_change_data(lake.path("keyed"))
    tables.insert(lake.path("keyed"), [{"id": 3, "v": 3}])
    tables.change(lake.path("keyed"), lambda row: {**row, "v": 20} if row["id"] == 2 else row)
    commands.upgrade(lake.env, found[2], jobs=lambda: jobs)
    path = lake.path(collection)
    tables.insert(path, [{"id": 4, column: 4}])
    tables.change(path, lambda row: {**row, column: 30} if row["id"] == 3 else row)
    tables.change(path, lambda row: None if row["id"] == 1 else row)
    commands.rollback(lake.env, jobs=lambda: jobs)
    assert lake.version == "1.1.0"
    tables.insert(lake.path("keyed"), [{"id": 5, "v": 5}])
    commands.rollback(lake.env, jobs=lambda: jobs)
    assert lake.version == "1.0.0"
    assert _rows(lake) == [{"id": 2, "v": "20"}, {"id": 3, "v": "30"}, {"id": 4, "v": "4"}, {"id": 5, "v": "5"}]
    whole(lake)


def _rows(lake: Lake) -> list[dict[str, Any]]:
    return sorted(rows(lake.path("keyed"), "id", "v"), key=lambda row: int(row["id"]))
