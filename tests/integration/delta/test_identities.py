"""Columns dropped, renamed and added again under few names, on real rows: no old value comes back under a new column."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, DropColumn, RenameColumn
from airflow_provider_schemamig.core.schema.model import Field
from tests.support.tables.delta_table import INT, STRING, Table, path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]

NAMES = ("a", "b", "c")
ROUNDS = 7


@dataclass
class Column:
    """``since``: the first row that was written while the column was there."""

    name: str
    kind: Any
    since: int


@dataclass
class Users:
    """What a table's users know of it: columns as they come and go, and the value each row was written with."""

    table: Table
    columns: list[Column] = field(default_factory=list)
    written: dict[tuple[int, int], Any] = field(default_factory=dict)
    rows: int = 0

    def write(self) -> None:
        """One row in a file of its own, with a value in every column that no other row has."""
        values = {column.name: self._value(column) for column in self.columns}
        names = ", ".join(["id", *values])
        self.table.sql(f"INSERT INTO {{t}} ({names}) VALUES ({', '.join([str(self.rows), *map(repr, values.values())])})")
        self.written |= {(self.rows, id(column)): values[column.name] for column in self.columns}
        self.rows += 1

    def _value(self, column: Column) -> Any:
        number = 1000 * self.rows + NAMES.index(column.name)
        return number if column.kind is INT else f"v{number}"

    def change(self, choose: random.Random) -> None:
        """Drop or rename what there is, and add what is free again: several changes in one commit, as a release would."""
        changes: list[Change] = []
        if self.columns:
            gone = choose.choice(self.columns)
            self.columns.remove(gone)
            changes.append(DropColumn(path(gone.name)))
        free = [name for name in NAMES if name not in {column.name for column in self.columns}]
        if self.columns and choose.random() < 0.5:
            column = choose.choice(self.columns)
            name = choose.choice(free)
            changes.append(RenameColumn(path(column.name), name))
            free = [*(other for other in free if other != name), column.name]
            column.name = name
        for name in free[: choose.randint(1, 2)]:
            new = Column(name, choose.choice((INT, STRING)), self.rows)
            changes.append(AddColumn(path(name), Field(name, new.kind)))
            self.columns.append(new)
        self.table.commit(*changes)

    def check(self) -> None:
        expected = [{"id": row} | {column.name: self.written.get((row, id(column))) for column in self.columns} for row in range(self.rows)]
        assert self.table.rows() == expected


def test_no_value_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path / "t")
    table.sql("CREATE TABLE {t} (id BIGINT) USING delta")
    users, choose = Users(table), random.Random(random.random())
    kept: list[Column] = []  # so that no two columns have one ``id``
    highest = 0
    for _ in range(ROUNDS):
        users.write()
        users.change(choose)
        kept += users.columns
        users.check()
        now = int(table.head.properties.get("delta.columnMapping.maxColumnId", 0))
        assert now >= highest
        highest = now
    users.write()
    users.check()
    table.sql("OPTIMIZE {t}")
    users.check()
