"""A rollback died when the table that ``down`` looks up had its names of before again: the next one reads it as ``down`` knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import Crash
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import Row, folder_of, insert, snapshot
from tests.support.upgrades import two_releases, whole

FIRST = "CREATE TABLE k (n BIGINT, x STRING, y STRING);\nCREATE TABLE r (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));"
SECOND = FIRST.replace("x STRING, y STRING", "y STRING, x STRING").replace("v STRING", "w BIGINT")
UP = "SELECT {r}.id, {k}.n AS w FROM {r} LEFT JOIN {k} ON {k}.x = {r}.v"
#: y is what x was.
DOWN = "SELECT {r}.id, {k}.y AS v FROM {r} LEFT JOIN {k} ON {k}.n = {r}.w"
STEPS = f'evolution("k", rename={{"x": "y", "y": "x"}}), rewrite("r", up="{UP}", down="{DOWN}", lookups=["k"])'


@dataclass
class Joining(RowJobs):
    """Knows the two queries, and the rows of k that they look up."""

    queries: Mapping[str, Any] = field(default_factory=dict)
    k: Sequence[Row] = ()

    def _apply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._look_up(request["inputs"])
        return super()._apply(request)

    def _view(self, query: str, inputs: Mapping[str, Any]) -> list[Row]:
        self._look_up(inputs)
        return super()._view(query, {view: source for view, source in inputs.items() if view != "schemamig_k"})

    def _look_up(self, inputs: Mapping[str, Any]) -> None:
        found = inputs.get("schemamig_k")
        self.k = () if found is None else snapshot(folder_of(found["uri"]), found["version"]).rows

    def _query(self, text: str, rows: Sequence[Row]) -> list[Row]:
        if "AS w" in text:
            return [{"id": row["id"], "w": next((of["n"] for of in self.k if of["x"] == row["v"]), None)} for row in rows]
        if "AS v" in text:
            return [{"id": row["id"], "v": next((of["y"] for of in self.k if of["n"] == row["w"]), None)} for row in rows]
        return super()._query(text, rows)


def test_a_row_that_came_before_the_second_rollback_sealed_again(tmp_path: Path) -> None:
    lake, jobs = two_releases(tmp_path, FIRST, SECOND, STEPS), Joining()
    insert(lake.path("k"), [{"n": 1, "x": "one", "y": "eins"}, {"n": 2, "x": "two", "y": "zwei"}])
    insert(lake.path("r"), [{"id": 1, "v": "one"}])
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    new, looked_up = lake.path("r"), lake.path("k")
    insert(new, [{"id": 2, "w": 2}])

    def dies(moment: str, what: str, key: str) -> None:
        names = {column["name"]: column["metadata"]["delta.columnMapping.physicalName"] for column in snapshot(looked_up).fields}
        if names["x"] == "x":
            raise Crash

    with pytest.raises(Crash):
        commands.rollback(replace(lake.env, on_write=dies), jobs=jobs)
    came: list[str] = []

    def writes(moment: str, what: str, key: str) -> None:
        if not came and not snapshot(new).sealed:
            came.append(key)
            insert(new, [{"id": 3, "w": 2}])

    commands.rollback(replace(lake.env, on_write=writes), jobs=jobs)
    assert came
    assert {row["id"]: row["v"] for row in snapshot(lake.path("r")).rows} == {1: "one", 2: "two", 3: "two"}
    whole(lake)
