"""How a release's columns are found in a table and shown: the rules one by one, and any chain of instant changes with real values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.access.arrow.read import show
from airflow_provider_schemamig.core.access.field_ids import Shape, match_fields
from airflow_provider_schemamig.core.access.read_mapping import Unfit, fit_reader, only
from airflow_provider_schemamig.core.access.select import select
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.model import Declaration, Field, Primitive, Struct, walk

T = CollectionName("t")


@dataclass(frozen=True)
class Told:
    """Evidence as the test says it."""

    full: bool = False
    fits: bool = False

    def no_null(self, path: ColumnPath) -> bool:
        return self.full

    def within(self, path: ColumnPath, narrow: Primitive, limits: tuple[int, int] | None) -> bool:
        return self.fits


def shape(columns: str, **stored: str) -> Shape:
    [declaration] = parse_schema(f"CREATE TABLE t ({columns});", "schema.sql")
    return Shape(declaration, {ColumnPath(path.replace("__", ".")): name for path, name in stored.items()})


def shown(live: Shape, wanted: Shape, evidence: Told = Told(), *, is_later: bool = False) -> str:
    try:
        return select(fit_reader(live, wanted, evidence, is_later=is_later), "t")
    except Unfit as unfit:
        return f"{unfit.path} {unfit.reason}"


@pytest.mark.parametrize(
    ("live", "wanted", "told", "expected"),
    [
        ("x INT, y INT", "y INT, x INT", Told(), "SELECT `y`, `x` FROM t"),
        ("x INT", "x INT, y INT", Told(), "y was dropped"),
        ("x INT", "x INT NOT NULL", Told(), "x is NOT NULL for it, and may hold NULL in the table"),
        ("x INT", "x INT NOT NULL", Told(full=True), "SELECT `x` FROM t"),
        ("x INT NOT NULL", "x INT", Told(), "SELECT `x` FROM t"),
        ("x BIGINT", "x INT", Told(), "x is INT for it, and BIGINT in the table, whose values may not fit"),
        ("x BIGINT", "x INT", Told(fits=True), "SELECT CAST(`x` AS INT) AS `x` FROM (SELECT `x` FROM t)"),
        ("x DECIMAL(12,2)", "x DECIMAL(6,2)", Told(fits=True), "SELECT CAST(`x` AS DECIMAL(6,2)) AS `x` FROM (SELECT `x` FROM t)"),
        ("x DECIMAL(12,4)", "x DECIMAL(6,2)", Told(), "x is DECIMAL(6,2) for it, and DECIMAL(12,4) in the table, whose values may not fit"),
        ("x DECIMAL(12,4)", "x DECIMAL(6,2)", Told(fits=True), "SELECT CAST(`x` AS DECIMAL(6,2)) AS `x` FROM (SELECT `x` FROM t)"),
        ("x DECIMAL(20,0)", "x INT", Told(fits=True), "SELECT CAST(`x` AS INT) AS `x` FROM (SELECT `x` FROM t)"),
        ("x DOUBLE", "x INT", Told(fits=True), "SELECT CAST(`x` AS INT) AS `x` FROM (SELECT `x` FROM t)"),
        ("x DOUBLE", "x FLOAT", Told(), "x is FLOAT for it, and DOUBLE in the table, whose values may not fit"),
        (
            "x DOUBLE",
            "x FLOAT",
            Told(fits=True),
            "SELECT IF((abs(CAST(`x` AS FLOAT)) = FLOAT('Infinity') AND abs(`x`) < DOUBLE('Infinity')), raise_error('column x is FLOAT: a "
            "finite DOUBLE is beyond FLOAT, which goes from -3.4028235e38 to 3.4028235e38'), CAST(`x` AS FLOAT)) AS `x` "
            "FROM (SELECT `x` FROM t)",
        ),
        ("x TIMESTAMP_NTZ", "x DATE", Told(fits=True), "SELECT CAST(`x` AS DATE) AS `x` FROM (SELECT `x` FROM t)"),
        ("x STRING", "x INT", Told(True, True), "x is INT for it, and STRING in the table, which does not go back"),
        ("x STRUCT<a: INT>", "x INT", Told(True, True), "x is INT for it, and STRUCT<`a`: INT> in the table"),
        ("x STRING", "x VARCHAR(3)", Told(), "SELECT `x` FROM t"),
        ("x INT", "x BIGINT", Told(), "SELECT CAST(`x` AS BIGINT) AS `x` FROM t"),
        ("x ARRAY<BIGINT>", "x ARRAY<INT>", Told(fits=True), "SELECT CAST(`x` AS ARRAY<INT>) AS `x` FROM (SELECT `x` FROM t)"),
        ("s STRUCT<a: INT, b: INT>", "s STRUCT<b: INT>", Told(), "SELECT IF(`s` IS NULL, NULL, NAMED_STRUCT('b', `s`.`b`)) AS `s` FROM t"),
        ("s STRUCT<a: INT>", "s STRUCT<a: INT, b: INT>", Told(), "s.b was dropped"),
        (
            "s STRUCT<b: INT, a: INT>",
            "s STRUCT<a: INT, b: INT>",
            Told(),
            "SELECT IF(`s` IS NULL, NULL, NAMED_STRUCT('a', `s`.`a`, 'b', `s`.`b`)) AS `s` FROM t",
        ),
        (
            "s STRUCT<b: BIGINT, a: INT>",
            "s STRUCT<a: INT, b: INT>",
            Told(fits=True),
            "SELECT CAST(`s` AS STRUCT<`a`: INT, `b`: INT>) AS `s` "
            "FROM (SELECT IF(`s` IS NULL, NULL, NAMED_STRUCT('a', `s`.`a`, 'b', `s`.`b`)) AS `s` FROM t)",
        ),
        (
            "l ARRAY<STRUCT<b: INT, a: INT>>",
            "l ARRAY<STRUCT<a: INT, b: INT>>",
            Told(),
            "SELECT TRANSFORM(`l`, x1 -> IF(x1 IS NULL, NULL, NAMED_STRUCT('a', x1.`a`, 'b', x1.`b`))) AS `l` FROM t",
        ),
    ],
)
def test_fit_the_rules(live: str, wanted: str, told: Told, expected: str) -> None:
    assert shown(shape(live), shape(wanted), told).startswith(expected)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("x INT, y BIGINT", "SELECT `x`, CAST(NULL AS BIGINT) AS `y` FROM t"),
        ("x INT, y BIGINT NOT NULL", "y is NOT NULL, and the table does not have it yet"),
        ("x INT, y BIGINT DEFAULT 5", "y gets its DEFAULT 5 in older rows"),
        ("x INT NOT NULL", "x is NOT NULL for it"),
    ],
)
def test_a_release_that_is_ahead_gets_null_or_nothing(wanted: str, expected: str) -> None:
    assert shown(shape("x INT"), shape(wanted), Told(True, True), is_later=True).startswith(expected)


def test_columns_are_known_by_their_names_in_the_files() -> None:
    live = shape("y INT, x INT, s STRUCT<b: INT, a: INT>", y="x", x="col-1", s__b="a", s__a="col-2")
    wanted = shape("x INT, s STRUCT<a: INT>")
    assert match_fields(live, wanted) == {"x": "y", "s": "s", "s.a": "s.b"}
    assert shown(live, wanted) == "SELECT `y` AS `x`, IF(`s` IS NULL, NULL, NAMED_STRUCT('a', `s`.`b`)) AS `s` FROM t"
    gone = shape("x INT", x="col-1")
    assert shown(gone, wanted).startswith("x was dropped"), "the table's x is another column"


def test_a_field_that_nobody_knows_yet_goes_by_its_name_unless_it_is_taken() -> None:
    live = shape("y INT, z INT, hidden STRING", y="x")
    wanted = replace(shape("x INT, y INT, z INT, hidden STRING"), new=frozenset({ColumnPath("y"), ColumnPath("hidden")}))
    assert match_fields(live, wanted) == {"x": "y", "z": "z", "hidden": "hidden"}


def test_reading_fit_only_the_columns_asked_for_in_their_order() -> None:
    found = only(shape("x INT, y INT, z INT"), ["z", "x"])
    assert [f.name for f in found.fields] == ["z", "x"]
    for unknown in ("s.a", "nope", "X"):
        with pytest.raises(KeyError):
            only(shape("x INT, s STRUCT<a: INT>"), [unknown])


# --- any chain of instant changes ----------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
INT, BIGINT = Primitive("int"), Primitive("bigint")


@dataclass
class Column:
    """A column of a table under change, with all its values. ``stored`` is its name in the files, for ever."""

    name: str
    stored: str
    type: Primitive
    nullable: bool
    values: list[int | None]


@dataclass
class Table:
    """Columns, and those of a struct ``s`` beside them; what happens to it as upgrades and writers go on."""

    columns: dict[str, list[Column]] = field(default_factory=dict)
    mapped: bool = False
    made: int = 0

    def add(self, level: str, name: str, rows: int, *, nullable: bool = True) -> None:
        if all(c.name != name for c in self.columns[level]):
            self.made += 1
            stored = f"col-{self.made}" if self.mapped else name
            values: list[int | None] = [None if nullable else self.made * 10 + row for row in range(rows)]
            self.columns[level].append(Column(name, stored, INT, nullable, values))

    def change(self, what: str, level: str, number: int, name: str) -> None:
        columns = self.columns[level]
        if what == "add":
            self.add(level, name, 3)
            return
        column = columns[number % len(columns)]
        match what:
            case "drop" if len(columns) > 1:
                self.mapped = True
                columns.remove(column)
            case "rename" if all(c.name != name for c in columns):
                self.mapped = True
                column.name = name
            case "swap":
                self.mapped = True
                other = columns[(number + 1) % len(columns)]
                column.name, other.name = other.name, column.name
            case "reorder":
                columns.append(columns.pop(number % len(columns)))
            case "widen":
                column.type = BIGINT
            case "relax":
                column.nullable = True
            case "null" if column.nullable:
                column.values[1] = None
            case "big" if column.type == BIGINT:
                column.values[2] = 2**40

    @property
    def shape(self) -> Shape:
        inner = Field("s", Struct(self._fields("s")), False)
        stored = {ColumnPath(f"s.{c.name}" if level else c.name): c.stored for level, found in self.columns.items() for c in found}
        return Shape(Declaration(T, (*self._fields(""), inner)), {p: n for p, n in stored.items() if n != p.rpartition(".")[2]})

    def _fields(self, level: str) -> tuple[Field, ...]:
        return tuple(Field(c.name, c.type, c.nullable) for c in self.columns[level])

    @property
    def rows(self) -> pa.Table:
        found = {c.name: _array(c) for c in self.columns[""]}
        inner = self.columns["s"]
        return pa.table({**found, "s": pa.StructArray.from_arrays([_array(c) for c in inner], [c.name for c in inner])})

    # -- evidence: of these very values ------------------------------------------------------------------------------------------------

    def no_null(self, path: ColumnPath) -> bool:
        return None not in self._at(path).values

    def within(self, path: ColumnPath, narrow: Primitive, limits: tuple[int, int] | None) -> bool:
        assert limits is not None
        low, high = limits
        return all(value is None or low <= value <= high for value in self._at(path).values)

    def _at(self, path: str) -> Column:
        level, _, name = path.rpartition(".")
        return next(c for c in self.columns[level] if c.name == name)


def _array(column: Column) -> pa.Array:
    return pa.array(column.values, pa.int32() if column.type == INT else pa.int64())


CHANGES = st.tuples(
    st.sampled_from(["add", "drop", "rename", "swap", "reorder", "widen", "relax", "null", "big"]),
    st.sampled_from(["", "s"]),
    st.integers(0, 3),
    st.sampled_from(NAMES),
)


@given(before=st.lists(CHANGES, max_size=4), after=st.lists(CHANGES, max_size=12))
def test_an_old_reader_gets_its_own_columns_or_a_fence(before: list[Any], after: list[Any]) -> None:
    table = Table({"": [], "s": []})
    for level in ("", "s"):
        table.add(level, "a", 3, nullable=False)
        table.add(level, "b", 3)
    for change in before:
        table.change(*change)
    wanted = table.shape
    columns = [(level, replace(c), c) for level, found in table.columns.items() for c in found]
    for change in after:
        table.change(*change)

    def fences(then: Column, now: Column) -> bool:
        taken_back = not then.nullable and None in now.values
        return taken_back or (then.type == INT and any(value is not None and value > 2**31 for value in now.values))

    alive = {id(c) for found in table.columns.values() for c in found}
    fenced = any(id(now) not in alive or fences(then, now) for _, then, now in columns)
    if fenced:
        with pytest.raises(Unfit):
            fit_reader(table.shape, wanted, table, is_later=False)
        return
    fit = fit_reader(table.shape, wanted, table, is_later=False)
    found = show(table.rows, fit)
    assert found.column_names == [f.name for f in wanted.fields]
    for level, then, now in columns:
        array = found["s"].combine_chunks().field(then.name) if level else found[then.name]
        assert (array.to_pylist(), array.type) == (now.values, _array(then).type)
    assert [path for path, _ in walk(fit.target.fields)] == [path for path, _ in walk(wanted.fields)]
