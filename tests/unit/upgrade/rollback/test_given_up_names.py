"""A release adds a column under a name that the data files have for another one, and is given up when rows have come: the column stays,
hidden, under a name of its own in the files, and no table is taken for drifted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from tests.support.lake import Lake
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import deployed, make_holds_due, releases, whole

T = "CREATE TABLE t (id BIGINT NOT NULL, %s);"


class Release(NamedTuple):
    columns: str
    step: str = 'evolution("t")'


class History(NamedTuple):
    first: Release
    second: Release
    third: Release
    row: dict[str, Any]
    #: What the row has at last.
    found: dict[str, Any]
    is_changed: bool = False


RENAMED = History(
    Release("a INT"), Release("b INT", 'evolution("t", rename={"a": "b"})'), Release("b INT, a INT"), {"a": 1}, {"b": 1, "a": None}
)
HISTORIES = {
    "a renamed column": RENAMED,
    "a default": RENAMED._replace(third=Release("b INT, a INT DEFAULT 7"), found={"b": 1, "a": 7}),
    "a renamed field": History(
        Release("s STRUCT<a: INT>"),
        Release("s STRUCT<b: INT>", 'evolution("t", rename={"s.a": "b"})'),
        Release("s STRUCT<b: INT, a: INT>"),
        {"s": {"a": 1}},
        {"s": {"b": 1, "a": None}},
    ),
    "another type, and the first one again": History(
        Release("v STRING"), Release("v BIGINT"), Release("v STRING, w INT"), {"v": "1"}, {"v": "1", "w": None}, is_changed=True
    ),
}
WAYS: dict[str, Callable[[Lake, Generation], object]] = {
    "cancel": lambda lake, generation: commands.cancel(lake.env, generation, jobs=OnlineJobs()),
    "rollback": lambda lake, generation: commands.rollback(lake.env, jobs=OnlineJobs()),
    "another upgrade": lambda lake, generation: None,
}


#: An open hold of a change of type lets no other one begin.
HELD = [(name, is_held) for name, history in HISTORIES.items() for is_held in (False, True) if not (history.is_changed and is_held)]


@pytest.mark.some(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "is_held"), HELD)
def test_given_up_names_are_no_drift(tmp_path: Path, name: str, way: str, is_held: bool) -> None:
    history = HISTORIES[name]
    folders = releases(tmp_path, *((T % release.columns, release.step) for release in history[:3]))
    edited = releases(
        tmp_path / "edited", *((T % r.columns, r.step) for r in history[:2]), (T % f"{history.third.columns}, z INT", 'evolution("t")')
    )
    lake = deployed(tmp_path, folders[0], folders[2])
    tables.insert(lake.path("t"), [{"id": 1, **history.row}])
    commands.upgrade(lake.env, folders[1], jobs=OnlineJobs())
    if not is_held:
        make_holds_due(lake)
        commands.contract(lake.env)
    generation = commands.preflight(lake.env, folders[2], jobs=OnlineJobs()).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation, jobs=OnlineJobs())
    if history.is_changed:
        commands.change(lake.env, generation, jobs=OnlineJobs())
    tables.insert(lake.path("t"), [{**{field["name"]: None for field in tables.snapshot(lake.path("t")).fields}, "id": 2}])

    WAYS[way](lake, generation)

    assert not commands.status(lake.env).drifted
    commands.upgrade(lake.env, edited[2] if way == "another upgrade" else folders[2], jobs=OnlineJobs())
    (row,) = (row for row in tables.snapshot(lake.path("t")).rows if row["id"] == 1)
    assert {column: row[column] for column in history.found} == history.found
    whole(lake)
