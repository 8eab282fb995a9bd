"""The fields of a struct that gets another type stand in another order than when that was planned: each value stays in its own field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import Lake, rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert
from tests.support.tables import foreign
from tests.support.tables.adopting import alter
from tests.support.upgrades import deployed, releases

TABLE = "CREATE TABLE t ({}id INT, s STRUCT<{}>, l ARRAY<STRUCT<{}>>);"


def table(fields: str, first: str = "") -> str:
    return TABLE.format(first, fields, fields)


def row(number: int, a: Any, b: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "s": {"a": a, "b": b}, "l": [{"a": a, "b": b}], **more}


def found(lake: Lake) -> list[dict[str, Any]]:
    return rows(lake.path("t"), "id", "s", "l")


def turn(lake: Lake) -> None:
    """As a foreign ``ALTER TABLE t ALTER COLUMN s.b FIRST`` does it, in every struct; that is no drift."""
    columns = foreign.live_schema(lake.path("t"))
    for column in columns:
        inside = column["type"]
        struct = inside if isinstance(inside, dict) and "fields" in inside else inside["elementType"] if isinstance(inside, dict) else None
        if struct is not None:
            struct["fields"].reverse()
    alter(lake.path("t"), columns)


@pytest.mark.parametrize("when", ["before the plan", "before the fill", "in the hold"])
def test_somebody_moves_fields(tmp_path: Path, when: str) -> None:
    made = releases(tmp_path, (table("a: INT, b: INT"), ""), (table("a: STRING, b: STRING"), 'evolution("t")'))
    lake, jobs = deployed(tmp_path, *made), OnlineJobs()
    insert(lake.path("t"), [row(0, 10, 20)])
    if when == "before the plan":
        turn(lake)
    generation = commands.preflight(lake.env, made[1], jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    if when == "before the fill":
        turn(lake)
    commands.change(lake.env, generation, jobs=jobs)
    commands.cutover(lake.env, generation, jobs=jobs)
    if when == "in the hold":
        turn(lake)
    assert found(lake) == [row(0, "10", "20")]
    insert(lake.path("t"), [row(1, "11", "21")])
    commands.rollback(lake.env, jobs=jobs)
    assert found(lake) == [row(0, 10, 20), row(1, 11, 21)]


def test_a_later_release_moves_fields_and_both_are_rolled_back(tmp_path: Path) -> None:
    made = releases(
        tmp_path,
        (table("a: INT, b: INT"), ""),
        (table("a: STRING, b: INT"), 'evolution("t")'),
        (table("b: INT, a: STRING", "x INT, "), 'evolution("t")'),
    )
    lake = deployed(tmp_path, *made[:2])
    insert(lake.path("t"), [row(0, 10, 20)])
    for release in made[1:]:
        commands.upgrade(lake.env, release, jobs=OnlineJobs())
    insert(lake.path("t"), [row(1, "11", 21, x=None)])
    for a in ("11", 11):
        commands.rollback(lake.env, jobs=OnlineJobs())
        assert found(lake)[1] == row(1, a, 21)
    assert found(lake)[0] == row(0, 10, 20)
