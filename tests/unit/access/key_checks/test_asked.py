"""What is asked of which write, by the keys that are in force."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.access.errors import NeedsSpark, RowsReferredTo, UnknownColumn, WriterFenced
from airflow_provider_schemamig.core.access.key_checks.guard import SingleMatchCheck, UniqueCheck, checks_of
from airflow_provider_schemamig.core.access.read_mapping import Unfit, bare
from airflow_provider_schemamig.core.access.resolved_table import look
from airflow_provider_schemamig.core.access.write_mapping import Mode, fit_writer
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.element_states import ElementState
from tests.support.lake import Lake
from tests.support.tables import foreign
from tests.support.upgrades import two_releases
from tests.unit.access.key_checks.support import PLANES, T, element, lake_of

KEYED = f"""{PLANES}CREATE TABLE t (id BIGINT PRIMARY KEY, day DATE, plane STRING, n INT DEFAULT 7, UNIQUE (day, plane), UNIQUE (n),
    FOREIGN KEY (plane) REFERENCES planes);"""


def asked(lake: Lake, mode: Mode, columns: Sequence[str], on: Sequence[str] = ()) -> dict[str, Any]:
    """By key: whether the table is read for it."""
    seen = look(lake.env, LedgerReader(lake.env), T, None)
    assert seen.place is not None
    fields = bare(tuple(field for field in seen.declared.shape.fields if field.name in columns))
    fit = fit_writer(fields, seen.declared.shape, seen.place.live, is_later=False)
    found: dict[str, Any] = {}
    for check in checks_of(lake.env, seen.place, fit, mode, on):
        if isinstance(check, SingleMatchCheck):
            continue
        found[check.rule.split(" REF")[0]] = check.in_table
        if isinstance(check, UniqueCheck):
            assert check.changes == (mode is Mode.MERGE and not set(check.columns) <= set(on))
    return found


ALL = ("id", "day", "plane", "n")
ID, PAIR, N, FK = "PRIMARY KEY (id)", "UNIQUE (day, plane)", "UNIQUE (n)", "FOREIGN KEY (plane)"
WRITES: tuple[tuple[Mode, Sequence[str], Sequence[str], dict[str, bool] | str], ...] = (
    (Mode.APPEND, ALL, (), {ID: True, PAIR: True, N: True, FK: True}),
    (Mode.APPEND, ("id", "day", "n"), (), {ID: True, N: True}),
    (Mode.APPEND, ("id", "plane"), (), "n is left to its DEFAULT"),
    (Mode.OVERWRITE, ALL, (), {ID: False, PAIR: False, N: False, FK: True}),
    (Mode.MERGE, ALL, ("id",), {ID: False, PAIR: True, N: True, FK: True}),
    (Mode.MERGE, ALL, ("plane", "day"), {ID: True, PAIR: False, N: True, FK: True}),
    (Mode.MERGE, ALL, ("id", "day"), {ID: True, PAIR: True, N: True, FK: True}),
    (Mode.MERGE, ("id", "n", "day"), ("id",), "plane is not among the columns of the rows, and other columns"),
    (Mode.MERGE, ("id", "n", "day"), ("id", "day"), {ID: True, N: True}),
)


@pytest.mark.parametrize(("mode", "columns", "on", "expected"), WRITES)
def test_keys_what_a_write_is_asked(tmp_path: Path, mode: Mode, columns: Sequence[str], on: Sequence[str], expected: Any) -> None:
    lake = lake_of(tmp_path, KEYED)
    if isinstance(expected, dict):
        assert asked(lake, mode, columns, on) == expected
    else:
        with pytest.raises(Unfit) as unfit:
            asked(lake, mode, columns, on)
        assert f"{unfit.value.path} {unfit.value.reason}".startswith(expected)


REFERRED: dict[str, tuple[str, Mode, Sequence[str], str | None]] = {
    "append": ("planes", Mode.APPEND, (), None),
    "overwrite": ("planes", Mode.OVERWRITE, (), "an overwrite could take rows away that t refers to by FOREIGN KEY (plane)"),
    "merge on what is referred to": ("planes", Mode.MERGE, ("tail",), None),
    "merge on something else": ("planes", Mode.MERGE, ("n",), "a merge that updates tail could take rows away that t refers to by"),
    "overwrite of those that refer": ("t", Mode.OVERWRITE, (), None),
    "overwrite of a table that refers to itself": ("staff", Mode.OVERWRITE, (), None),
    "merge of a table that refers to itself": ("staff", Mode.MERGE, ("id",), None),
    "update of a table that refers to itself": ("staff", Mode.MERGE, ("boss",), "a merge that updates id could take rows away that staff"),
}


@pytest.mark.parametrize(("collection", "mode", "on", "refused"), REFERRED.values(), ids=REFERRED)
def test_rows_that_others_refer_to_stay(tmp_path: Path, collection: str, mode: Mode, on: Sequence[str], refused: str | None) -> None:
    """From CHECK on. Whether a row does refer to them is not asked: one could come at any moment."""
    staff = "CREATE TABLE staff (id BIGINT PRIMARY KEY, boss BIGINT, FOREIGN KEY (boss) REFERENCES staff (id));"
    lake = lake_of(tmp_path, f"{PLANES}{staff}CREATE TABLE t (id BIGINT, plane STRING);")
    if collection != "staff":
        checked(lake, collection, mode, on)  # nobody refers to planes yet
    refers = {"refers": CollectionName("planes"), "refers_columns": (ColumnPath("tail"),), "columns": (ColumnPath("plane"),)}
    key = element(lake, ElementState.CHECK, name="foreign_key:plane", op="add_foreign_key", **refers)
    LedgerWriter(lake.env).transact(lambda state: [Put(key)])
    if refused is None:
        checked(lake, collection, mode, on)
        return
    with pytest.raises(RowsReferredTo, match=re.escape(refused)) as stopped:
        checked(lake, collection, mode, on)
    assert (stopped.value.collection, stopped.value.retryable) == (collection, False)


@pytest.mark.parametrize(("columns", "on", "is_refused"), [(("ts", "n"), ("n",), True), (("ts", "n"), ("ts",), False)])
def test_columns_that_a_generated_one_which_others_refer_to_reads_stay(
    tmp_path: Path, columns: Sequence[str], on: Sequence[str], is_refused: bool
) -> None:
    days = "CREATE TABLE days (ts TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), n INT);"
    lake = lake_of(tmp_path, f"{days}CREATE TABLE t (day DATE, FOREIGN KEY (day) REFERENCES days (day));")
    if is_refused:
        with pytest.raises(RowsReferredTo, match="a merge that updates day could take rows away that t refers to"):
            checked(lake, "days", Mode.MERGE, on, columns)
    else:
        checked(lake, "days", Mode.MERGE, on, columns)


def checked(lake: Lake, collection: str, mode: Mode, on: Sequence[str], columns: Sequence[str] | None = None) -> tuple[Any, ...]:
    """A write of these columns, or of all."""
    seen = look(lake.env, LedgerReader(lake.env), CollectionName(collection), None)
    assert seen.place is not None
    given = [field for field in seen.declared.shape.fields if columns is None or field.name in columns]
    fit = fit_writer(bare(given), seen.declared.shape, seen.place.live, is_later=False)
    return checks_of(lake.env, seen.place, fit, mode, on)


def test_keys_of_a_merge_that_the_rows_lack_are_said_to_be_lacking(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT, x INT);")
    seen, writer = look(lake.env, LedgerReader(lake.env), T, None), lake.env.writer("t")
    assert seen.place is not None
    fit = fit_writer(bare(seen.declared.shape.fields[:1]), seen.declared.shape, seen.place.live, is_later=False)
    with pytest.raises(WriterFenced, match="column x is what the merge is on, and not among the columns of the rows"):
        writer._keys(seen, seen.place, fit, ["x"])
    with pytest.raises(UnknownColumn, match="'nope'"):
        writer._keys(seen, seen.place, fit, ["nope"])


def test_a_renamed_key_is_the_same_key(tmp_path: Path) -> None:
    """Between the table's own commit and the ledger's append, and for a writer of either release."""
    first, second = (f"CREATE TABLE t ({name} BIGINT PRIMARY KEY, x INT);" for name in ("id", "number"))
    lake = two_releases(tmp_path, first, second, 'evolution("t", rename={"id": "number"})')
    found = set()

    def columns() -> tuple[str, ...]:
        seen = look(lake.env, LedgerReader(lake.env), T, None)
        assert seen.place is not None
        fit = fit_writer(bare(seen.declared.shape.fields), seen.declared.shape, seen.place.live, is_later=False)
        (check,) = checks_of(lake.env, seen.place, fit, Mode.APPEND, ())
        assert check.columns == (seen.place.live.fields[0].name,)
        return check.columns

    def hook(*_: Any) -> None:
        found.add(columns())

    Lake(replace(lake.env, on_write=hook), lake.first, lake.second).upgrade(lake.second)
    assert found == {("id",), ("number",)}
    with pytest.raises(NeedsSpark):
        lake.env.writer("t", "1.0.0").append(pa.table({"id": [1]}))


def test_a_key_whose_column_is_gone_stops_its_writers(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT, n INT, UNIQUE (n));")
    foreign.drop_column(lake.path("t"), "n")
    with pytest.raises(WriterFenced, match=r"belongs to UNIQUE \(n\), and is not in the table"):
        lake.env.writer("t").append(pa.table({"id": [2]}))
