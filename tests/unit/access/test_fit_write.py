"""How rows go into a table: by the release's names first, then by identity."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.access.arrow.read import show
from airflow_provider_schemamig.core.access.read_mapping import Unfit
from airflow_provider_schemamig.core.access.select import updates
from airflow_provider_schemamig.core.access.statement import statement
from airflow_provider_schemamig.core.access.write_mapping import Mode, WriteFit, fit_writer
from airflow_provider_schemamig.core.spark.errors import BadValue
from tests.unit.access.test_fit import shape


def fitted(given: str, wanted: str, live: str, *, is_later: bool = False, **stored: str) -> WriteFit:
    return fit_writer(shape(given).fields, shape(wanted), shape(live, **stored), is_later=is_later)


@pytest.mark.parametrize(
    ("given", "wanted", "live", "columns"),
    [
        ("y INT, x INT", "x INT, y INT", "x INT, y INT", ("y", "x")),
        ("x INT", "x INT, y INT", "x INT, y INT, z INT", ("x",)),
        ("x INT", "x INT, y INT NOT NULL DEFAULT 1", "x INT, y INT NOT NULL DEFAULT 1", ("x",)),
        ("x INT", "x INT", "x BIGINT", ("x",)),
        ("x BIGINT", "x INT", "x INT", ("x",)),
        ("x DOUBLE", "x FLOAT", "x DOUBLE", ("x",)),
        ("x INT", "x INT NOT NULL", "x INT", ("x",)),
        ("x INT", "x INT", "x INT NOT NULL", ("x",)),
        ("s STRUCT<a: INT>", "s STRUCT<a: INT, b: INT>", "s STRUCT<c: INT, b: INT, a: BIGINT>", ("s",)),
        ("l ARRAY<STRUCT<a: INT>>", "l ARRAY<STRUCT<a: INT>>", "l ARRAY<STRUCT<b: INT, a: INT>>", ("l",)),
        ("m MAP<STRING, INT>", "m MAP<STRING, INT>", "m MAP<STRING, BIGINT>", ("m",)),
    ],
)
def test_fit_write_what_fits(given: str, wanted: str, live: str, columns: tuple[str, ...]) -> None:
    assert fitted(given, wanted, live).columns == columns


@pytest.mark.parametrize(
    ("given", "wanted", "live", "reason"),
    [
        ("z INT", "x INT", "x INT", "z is none of the release's columns"),
        ("x INT", "x INT, y INT NOT NULL", "x INT, y INT NOT NULL", "y is NOT NULL, and not among the columns of the rows"),
        ("x INT", "x INT", "x INT, y INT NOT NULL", "y is NOT NULL in the table, and the rows have nothing for it"),
        ("x INT, y INT", "x INT, y INT", "x INT", "y was dropped"),
        ("x STRING", "x INT", "x INT", "x is STRING in the rows, and INT in the release"),
        ("x BIGINT", "x BIGINT", "x INT", "x is BIGINT in the release, and INT in the table, which is no wider"),
        ("x DECIMAL(10,2)", "x DECIMAL(10,2)", "x DECIMAL(10,1)", "x is DECIMAL(10,2) in the release"),
        ("s STRUCT<a: INT, b: INT>", "s STRUCT<a: INT>", "s STRUCT<a: INT>", "s.b is none of the release's fields"),
        ("s STRUCT<a: INT>", "s STRUCT<a: INT>", "s STRUCT<a: INT, b: INT NOT NULL>", "s.b is NOT NULL in the table"),
        ("s STRUCT<a: INT>", "s STRUCT<a: INT, b: INT NOT NULL>", "s STRUCT<a: INT>", "s.b is NOT NULL, and not among the fields"),
        ("s STRUCT<a: INT>", "s STRUCT<a: INT>", "s STRUCT<b: INT>", "s.a was dropped"),
    ],
)
def test_writing_fit_what_does_not(given: str, wanted: str, live: str, reason: str) -> None:
    with pytest.raises(Unfit) as unfit:
        fitted(given, wanted, live)
    assert f"{unfit.value.path} {unfit.value.reason}".startswith(reason)


def test_a_column_of_the_release_ahead_has_no_place_yet() -> None:
    with pytest.raises(Unfit, match="is not in the table yet"):
        fitted("y INT", "x INT, y INT", "x INT", is_later=True)


def test_rows_go_into_columns_by_identity() -> None:
    fit = fitted("x INT, y INT", "x INT, y INT", "y BIGINT, x INT", y="x", x="y")
    assert (fit.columns, fit.column_of("x"), fit.column_of("z")) == (("y", "x"), "y", None)
    rows = show(show(pa.table({"y": pa.array([2], pa.int32()), "x": pa.array([1], pa.int32())}), fit.given), fit.into)
    assert rows.to_pylist() == [{"y": 1, "x": 2}]
    assert rows.schema.field("y").type == pa.int64()


def test_a_value_that_does_not_fit_is_an_error() -> None:
    fit = fitted("x BIGINT", "x INT", "x INT")
    with pytest.raises(BadValue, match=r"column x is INT: .*not in range: -2147483648 to 2147483647"):
        show(pa.table({"x": pa.array([2**31])}), fit.given)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.APPEND, "INSERT INTO t (`a`, `b`) SELECT 1"),
        (Mode.OVERWRITE, "INSERT OVERWRITE t (`a`, `b`) SELECT 1"),
        (
            Mode.MERGE,
            "MERGE INTO t AS t USING (SELECT 1) AS s ON t.`a` <=> s.`a` WHEN MATCHED THEN UPDATE SET t.`b` = s.`b` "
            "WHEN NOT MATCHED THEN INSERT (`a`, `b`) VALUES (s.`a`, s.`b`)",
        ),
    ],
)
def test_statements_name_their_columns(mode: Mode, expected: str) -> None:
    assert statement("t", "SELECT 1", mode, {"a": "s.`a`", "b": "s.`b`"}, ("a",)) == expected


def test_a_merge_on_a_generated_column_gives_it_to_rows_that_are_there_too() -> None:
    """Else Delta computes it from what is written beside it, and nobody compares the two."""
    written = statement("t", "SELECT 1", Mode.MERGE, {"a": "s.`a`", "b": "s.`b`"}, ("a",), computed=["a"])
    assert "WHEN MATCHED THEN UPDATE SET t.`a` = s.`a`, t.`b` = s.`b` WHEN" in written


@pytest.mark.parametrize(
    ("written", "live", "left_out", "value"),
    [
        ("c STRUCT<a: INT>", "c STRUCT<a: INT>", (), "s.`c`"),
        (
            "c STRUCT<a: INT>",
            "c STRUCT<b: INT, a: INT>",
            ("c.b",),
            "IF(s.`c` IS NULL, NULL, NAMED_STRUCT('b', t.`c`.`b`, 'a', s.`c`.`a`))",
        ),
        (
            "c STRUCT<a: STRUCT<x: INT>, l: ARRAY<STRUCT<x: INT>>>",
            "c STRUCT<a: STRUCT<x: INT, y: INT>, l: ARRAY<STRUCT<x: INT, y: INT>>, b: STRUCT<x: INT>>",
            ("c.a.y", "c.l.element.y", "c.b"),
            "IF(s.`c` IS NULL, NULL, NAMED_STRUCT('a', IF(s.`c`.`a` IS NULL, NULL, NAMED_STRUCT('x', s.`c`.`a`.`x`, 'y', t.`c`.`a`.`y`)), "
            "'l', s.`c`.`l`, 'b', t.`c`.`b`))",
        ),
        (
            "c STRUCT<a: INT, l: ARRAY<STRUCT<x: INT>>>",
            "c STRUCT<a: INT, l: ARRAY<STRUCT<x: INT, y: INT>>>",
            ("c.l.element.y",),
            "s.`c`",
        ),
        ("c MAP<INT, STRUCT<x: INT>>", "c MAP<INT, STRUCT<x: INT, y: INT>>", ("c.value.y",), "s.`c`"),
    ],
)
def test_an_updated_row_keeps_the_fields_that_the_release_does_not_have(
    written: str, live: str, left_out: tuple[str, ...], value: str
) -> None:
    fit = fitted(written, written, live)
    assert (fit.left_out, updates(fit, "s", "t")) == (left_out, {"c": value})


def test_a_field_that_the_rows_leave_out_and_the_release_has_is_none_that_is_kept() -> None:
    fit = fitted("c STRUCT<a: INT>", "c STRUCT<a: INT, b: INT>, d STRUCT<a: INT>", "c STRUCT<a: INT, b: INT>, d STRUCT<a: INT, b: INT>")
    assert updates(fit, "s", "t") == {"c": "s.`c`"}


def test_a_kept_field_goes_by_the_names_of_the_table() -> None:
    fit = fitted("c STRUCT<a: INT>", "c STRUCT<a: INT>", "d STRUCT<e: INT, b: INT>", d="c", d__b="a")
    assert updates(fit, "s", "t") == {"d": "IF(s.`d` IS NULL, NULL, NAMED_STRUCT('e', t.`d`.`e`, 'b', s.`d`.`b`))"}
