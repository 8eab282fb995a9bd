"""Somebody drops a column and adds one of its name and type, or gives its name to a new one: by the schema nothing was done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from tests.support.lake import Lake, no_spark, rows
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, make_holds_due, refused, releases, seen, whole

FIRST = "CREATE TABLE t (id BIGINT, z STRING, b STRING);"
SECOND = FIRST.replace("z", "a")
THIRD = SECOND.replace(")", ", k INT)")
BEFORE, SINCE = {"id": 1, "a": "A", "b": "B"}, {"id": 2, "a": "new", "b": "B"}


def lake_of(folder: Path, *, hold: bool = False) -> tuple[Lake, list[Path]]:
    found = releases(folder, (FIRST, ""), (SECOND, 'evolution("t", rename={"z": "a"})'), (THIRD, 'evolution("t")'))
    lake = deployed(folder, found[0], found[1])
    lake.upgrade(found[1])
    if not hold:
        make_holds_due(lake)
        commands.contract(lake.env, None)
    foreign.write(lake.path("t"), [BEFORE])
    return lake, found


def added_again(lake: Lake) -> None:
    foreign.drop_column(lake.path("t"), "a")
    foreign.add_column(lake.path("t"), "a")
    foreign.write(lake.path("t"), [SINCE])


def read(lake: Lake, release: str | None) -> list[dict[str, Any]]:
    return sorted(lake.env.reader("t", release).arrow(["id", "a", "b"]).to_pylist(), key=repr)


def taken(lake: Lake, folder: Path) -> None:
    found = commands.accept(lake.env, folder)
    assert (str(found.version), found.files) == ("1.1.0", ())
    assert found.notes == ("t: a: what was added since is the release's column now",)


def kept(lake: Lake, folder: Path) -> None:
    with refused("lossy_revert", "t"):
        commands.revert(lake.env, "t")
    commands.revert(lake.env, "t", allow_lossy=True)


@pytest.mark.parametrize("way", [taken, kept])
def test_a_column_that_somebody_added_again_is_drift_with_two_ways_on(tmp_path: Path, way: Callable[[Lake, Path], None]) -> None:
    """Its readers are fenced, for it is another column; nothing said so, and no command led on."""
    lake, found = lake_of(tmp_path)
    added_again(lake)
    with pytest.raises(ReaderFenced):
        read(lake, None)
    (text,) = seen(lake, "t")["drift"]
    assert text.startswith("a: expected the column that the data files call z, found one that was added since, col-")
    with refused("drift", "t"):
        lake.upgrade(found[2])
    way(lake, found[1])
    whole(lake)
    assert read(lake, None) == read(lake, "1.1.0") == [{**BEFORE, "a": None}, SINCE]
    with pytest.raises(ReaderFenced):
        lake.env.reader("t", "1.0.0").arrow(["z"])
    lake.upgrade(found[2])
    whole(lake)
    assert rows(lake.path("t"), "id", "a", "b") == [{**BEFORE, "a": None}, SINCE]


def test_dropped_and_added_is_kept_while_the_way_back_is_open(tmp_path: Path) -> None:
    lake, found = lake_of(tmp_path, hold=True)
    added_again(lake)
    with refused("drift", "t"):
        commands.rollback(lake.env, jobs=no_spark)
    with refused("hold_open"):
        commands.accept(lake.env, found[1])
    commands.revert(lake.env, "t", allow_lossy=True)
    commands.rollback(lake.env, jobs=no_spark)
    whole(lake)
    assert rows(lake.path("t"), "id", "z") == [{"id": 1, "z": None}, {"id": 2, "z": "new"}]
    assert lake.env.reader("t", "1.0.0").arrow(["id"]).num_rows == 2


def test_a_column_that_gave_its_name_to_a_new_one_has_it_again(tmp_path: Path) -> None:
    """The new one was taken for it: ``revert`` dropped the one with the values, and ``accept`` wrote it down as added."""
    lake, found = lake_of(tmp_path)
    foreign.rename_column(lake.path("t"), "a", "door")
    foreign.add_column(lake.path("t"), "a")
    foreign.write(lake.path("t"), [{**SINCE, "door": "D"}])
    assert "a: expected the column that the data files call z, found a new one, and that is called door" in seen(lake, "t")["drift"]
    with refused("cannot_accept", "t"):
        commands.accept(lake.env, found[1])
    with refused("lossy_revert", "t") as errors:
        commands.revert(lake.env, "t")
    assert "a: its values are gone" in str(errors[0])
    commands.revert(lake.env, "t", allow_lossy=True)
    whole(lake)
    assert rows(lake.path("t"), "id", "a", "b") == read(lake, "1.1.0") == [BEFORE, {**SINCE, "a": "D"}]


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize(
    ("kind", "rule", "reason"),
    [
        ("STRING NOT NULL", "", "a was NOT NULL, and the column with its values is gone"),
        ("STRING", ", CONSTRAINT c CHECK (length(Z) > 0)", "CHECK c was dropped, and the values of a are gone"),
    ],
)
def test_no_rule_comes_back_over_values_that_are_gone(tmp_path: Path, kind: str, rule: str, reason: str, again: bool) -> None:
    """``revert`` looked for rows that came since: it made NOT NULL what had NULL in every older row, and so with a CHECK."""
    first = FIRST.replace("z STRING", f"z {kind}").replace(");", f"{rule});")
    found = releases(tmp_path, (first, ""), (first.replace("z ", "a ").replace("(Z)", "(a)"), 'evolution("t", rename={"z": "a"})'))
    lake = deployed(tmp_path, *found)
    lake.upgrade(found[1])
    path = lake.path("t")
    foreign.write(path, [BEFORE])
    settings = {key: value for key, value in foreign.metadata(path)["configuration"].items() if not key.startswith("delta.constraints.")}
    foreign.commit(path, {"metaData": foreign.metadata(path) | {"configuration": settings}})
    foreign.drop_column(path, "a")
    if again:
        foreign.add_column(path, "a")
    with refused("cannot_revert", "t") as errors:
        commands.revert(lake.env, "t", allow_lossy=True)
    assert reason in str(errors[0])
    make_holds_due(lake)
    commands.accept(lake.env, found[1])
    whole(lake)


def test_values_of_a_dropped_column_that_a_restore_brought_back_are_not_those_of_a_later_one(tmp_path: Path) -> None:
    """The RESTORE adds no file: all of then are the table's."""
    old = "CREATE TABLE t (id BIGINT, w STRING);"
    new = "CREATE TABLE t (id BIGINT);"
    first, second, third = releases(tmp_path, (old, ""), (new, 'evolution("t", drop=["w"])'), (old, 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    tables.insert(lake.path("t"), [{"id": 1, "w": "dropped"}])
    before = tables.newest(lake.path("t"))
    lake.upgrade(second)
    commands.contract(lake.env, at_once=True)
    tables.restore(lake.path("t"), before)
    with refused("lossy_revert", "t"):
        commands.revert(lake.env, "t")
    commands.revert(lake.env, "t", allow_lossy=True)
    lake.upgrade(third)
    assert rows(lake.path("t")) == [{"id": 1, "w": None}]
    whole(lake)
