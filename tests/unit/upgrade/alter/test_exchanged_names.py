"""Columns that ``alter`` gave each other's names, and what a release makes of them: they are known by their names in the data files."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from tests.support.bytes import unwritten
from tests.support.lake import Lake, no_spark, rows
from tests.support.rows import tables
from tests.support.upgrades import claimed, deployed, make_holds_due, refused, releases, whole

FIRST = "CREATE TABLE t (id BIGINT, a STRING, b STRING);"
OTHER = "CREATE TABLE n (id BIGINT, a STRING);"
NAMES = "ALTER TABLE t RENAME COLUMN {} TO {}"
EXCHANGED = tuple(NAMES.format(*pair) for pair in (("a", "q"), ("b", "a"), ("q", "b")))
MOVED_ON = tuple(NAMES.format(*pair) for pair in (("a", "z"), ("b", "a")))
NEW_A = (NAMES.format("a", "z"), "ALTER TABLE t ADD COLUMN a STRING")
IN_ITS_PLACE = ("ALTER TABLE t DROP COLUMN a", NAMES.format("b", "a"))
#: What is done, the release with the same in it, and where the values of a and b are then.
DECLARED: dict[str, tuple[tuple[str, ...], str, str, dict[str, str | None]]] = {
    "exchanged": (EXCHANGED, "b STRING, a STRING", 'evolution("t", rename={"a": "b", "b": "a"})', {"b": "A", "a": "B"}),
    "moved on": (MOVED_ON, "z STRING, a STRING", 'evolution("t", rename={"a": "z", "b": "a"})', {"z": "A", "a": "B"}),
    "a new one": (NEW_A, "z STRING, b STRING, a STRING", 'evolution("t", rename={"a": "z"})', {"z": "A", "b": "B", "a": None}),
    "in its place": (IN_ITS_PLACE, "a STRING", 'evolution("t", rename={"b": "a"}, drop=["a"])', {"a": "B"}),
}
QUERIES = {
    "rewrite": (FIRST.replace(")", ", k INT)"), 'rewrite("t", up="SELECT id, a, b, 1 AS k FROM {t}", down="SELECT id, a, b FROM {t}")'),
    "fill": (FIRST + OTHER, 'replacement("n", fill="SELECT id, a FROM {t}")'),
}


def altered(folder: Path, statements: tuple[str, ...], schema: str, steps: str) -> Lake:
    lake = deployed(folder, *releases(folder, (FIRST, ""), (schema, steps)))
    tables.insert(lake.path("t"), [{"id": 1, "a": "A", "b": "B"}])
    for statement in statements:
        commands.alter(lake.env, statement, jobs=no_spark)
        make_holds_due(lake)
        commands.contract(lake.env, None)
    return lake


@pytest.mark.some(2)
@pytest.mark.parametrize("case", DECLARED)
def test_a_release_with_the_same_finds_it_done(tmp_path: Path, case: str) -> None:
    statements, columns, step, wanted = DECLARED[case]
    lake = altered(tmp_path, statements, f"CREATE TABLE t (id BIGINT, {columns});", step)
    for _ in range(2):
        commands.upgrade(lake.env, lake.second, jobs=no_spark)
        whole(lake)
        assert rows(lake.path("t"), *wanted) == [wanted]
        assert lake.env.reader("t", "1.1.0").arrow(list(wanted)).to_pylist() == [wanted]
        commands.rollback(lake.env, jobs=no_spark)
        whole(lake)
        assert rows(lake.path("t"), *wanted) == [wanted]


@pytest.mark.parametrize("case", DECLARED)
def test_a_reader_of_the_release_before_it_is_deployed(tmp_path: Path, case: str) -> None:
    statements, columns, step, wanted = DECLARED[case]
    lake = altered(tmp_path, statements, f"CREATE TABLE t (id BIGINT, {columns});", step)
    claimed(lake, lake.second)
    assert lake.env.reader("t", "1.1.0").arrow(list(wanted)).to_pylist() == [wanted]


def test_a_reader_over_a_name_in_the_files_that_no_release_has(tmp_path: Path) -> None:
    """The column came when names were mapped, so the files have another name for it than any declaration."""
    first, second = FIRST.replace("a STRING, ", ""), FIRST.replace("a STRING, ", "").replace("b ", "c ")
    third = second.replace(")", ", x STRING)")
    fourth = third.replace("x STRING", "y STRING, n INT")
    steps = ("", 'evolution("t", rename={"b": "c"})', 'evolution("t")', 'evolution("t", rename={"x": "y"})')
    found = releases(tmp_path, *zip((first, second, third, fourth), steps, strict=True))
    lake = deployed(tmp_path, found[0], found[3])
    for release in found[1:3]:
        lake.upgrade(release)
    tables.insert(lake.path("t"), [{"id": 1, "c": "C", "x": "X"}])
    make_holds_due(lake)
    commands.contract(lake.env, None)
    commands.alter(lake.env, NAMES.format("x", "y"), jobs=no_spark)
    claimed(lake, lake.second)
    assert lake.env.reader("t", "1.3.0").arrow(["c", "y", "n"]).to_pylist() == [{"c": "C", "y": "X", "n": None}]


@pytest.mark.some(3)
@pytest.mark.parametrize("statements", [EXCHANGED, MOVED_ON, NEW_A, IN_ITS_PLACE], ids=DECLARED)
@pytest.mark.parametrize("query", QUERIES)
def test_a_release_that_reads_them_by_their_names(tmp_path: Path, query: str, statements: tuple[str, ...]) -> None:
    lake = altered(tmp_path, statements, *QUERIES[query])
    with unwritten(lake.env), refused("moved_ahead", "t"):
        commands.plan(lake.env, lake.second)


def test_a_release_that_says_nothing_of_it(tmp_path: Path) -> None:
    lake = altered(tmp_path, EXCHANGED, FIRST + OTHER, "")
    with unwritten(lake.env), refused("ahead_not_in_release", "t") as found:
        commands.preflight(lake.env, lake.second, jobs=no_spark)
    assert "the rename of a to b" in str(found[0])


def test_a_reader_of_the_release_before_goes_on(tmp_path: Path) -> None:
    lake = altered(tmp_path, EXCHANGED, FIRST + OTHER, "")
    assert lake.env.reader("t", "1.0.0").arrow(["a", "b"]).to_pylist() == [{"a": "A", "b": "B"}]
    lake = altered(tmp_path / "dropped", IN_ITS_PLACE, FIRST + OTHER, "")
    assert lake.env.reader("t", "1.0.0").arrow(["b"]).to_pylist() == [{"b": "B"}]
    with pytest.raises(ReaderFenced):
        lake.env.reader("t", "1.0.0").arrow(["a"])
