"""Random histories over four releases: upgrades over open holds, rows at each release, rollbacks, ends of holds, in any order.

No row is lost, and no value of a column that was declared when it was written and still, or again, is, as long as no end of a hold came
in between that took it; no value comes up in a column that it was not written to.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.lake import no_spark, rows
from tests.support.rows import tables
from tests.support.upgrades import deployed, make_holds_due, releases, whole

RELEASES = (
    ("CREATE TABLE t (id BIGINT, a STRING, b STRING, c INT);", ""),
    ("CREATE TABLE t (id BIGINT, a2 STRING, c BIGINT, d STRING);", 'evolution("t", rename={"a": "a2"}, drop=["b"])'),
    ("CREATE TABLE t (id BIGINT, x STRING, e STRING, d STRING);", 'evolution("t", rename={"a2": "x"}, drop=["c"])'),
    ("CREATE TABLE t (d STRING, id BIGINT, y STRING, x STRING, c2 INT);", 'evolution("t", rename={"e": "y"})'),
)
#: Of each release: name -> which column it is, whatever it is called.
COLUMNS = (
    {"a": "A", "b": "B", "c": "C"},
    {"a2": "A", "c": "C", "d": "D"},
    {"x": "A", "e": "E", "d": "D"},
    {"d": "D", "y": "E", "x": "A", "c2": "F"},
)
STEPS = 14
#: Of columns that a release drops: the release that does.
DROPPED = {"B": 1, "C": 2}


class History:
    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folders = releases(folder, *RELEASES)
        self.lake = deployed(folder, self.folders[0], self.folders[1])
        #: The releases that there is a way back to.
        self.ways: list[int] = []
        self.at = 0
        self.wanted: dict[int, dict[str, Any]] = {}
        self.ended: set[str] = set()
        self.told: list[str] = []

    def step(self) -> None:
        what = self.random.choice(["write", "write", "up", "up", "far up", "back", "back", "end the oldest", "end all"])
        self.told.append(f"{what} at {self.at}")
        if what == "write":
            self.write()
        elif what in ("up", "far up"):
            self.up(min(3, self.at + (2 if what == "far up" else 1)))
        elif what == "back" and self.ways:
            commands.rollback(self.lake.env, jobs=no_spark)
            before, self.at = self.at, self.ways.pop()
            # What the release had added is hidden now, and another way up may give it another name.
            self.ended |= set(COLUMNS[before].values()) - set(COLUMNS[self.at].values())
        elif what.startswith("end") and self.ways:
            make_holds_due(self.lake)
            generation = min(g for g, hold in self.lake.state.holds.items() if hold.state == "open")
            commands.contract(self.lake.env, generation if what == "end the oldest" else None)
            first = self.ways.pop(0)
            to = self.ways[0] if self.ways and what == "end the oldest" else self.at
            self.ways = self.ways if what == "end the oldest" else []
            self.ended |= {column for column, number in DROPPED.items() if first < number <= to}
        self.check()

    def write(self) -> None:
        number = len(self.wanted)
        values = {name: number if column in "CF" else f"{column}{number}" for name, column in COLUMNS[self.at].items()}
        given = {name: value for name, value in values.items() if self.random.random() < 0.8}
        tables.insert(self.lake.path("t"), [{"id": number, **given}])
        self.wanted[number] = {COLUMNS[self.at][name]: value for name, value in given.items()}

    def up(self, to: int) -> None:
        if to == self.at:
            return
        try:
            commands.upgrade(self.lake.env, self.folders[to], jobs=no_spark)
        except SchemamigError as error:
            codes = {item.code for item in (error.refusals if isinstance(error, Refused) else (error,))}
            if not codes <= {"hold_open", "hidden_conflict"}:
                raise
            return
        self.ways.append(self.at)
        self.at = to

    def check(self) -> None:
        whole(self.lake)
        declared = COLUMNS[self.at]
        found = {row["id"]: row for row in rows(self.lake.path("t"), "id", *declared)}
        assert found.keys() == self.wanted.keys(), self.told
        for number, values in self.wanted.items():
            for name, column in declared.items():
                wanted = values.get(column)
                allowed = {wanted, None} if column in self.ended else {wanted}
                assert found[number][name] in allowed, (self.told, number, name, wanted, found[number][name])


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(4, 100))])
def test_hold_histories_history(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for _ in range(STEPS):
        history.step()
