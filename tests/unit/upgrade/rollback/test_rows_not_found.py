"""The way back of a rewrite where `down` does not give back what a row of before is found by, and that row was changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.spark.errors import SourceVacuumed
from tests.support.lake import Lake
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import Row
from tests.support.upgrades import refused, two_releases, whole

UP, DOWN = "SELECT id, CAST(v AS INT) AS v FROM {t}", "SELECT id, CAST(v AS STRING) AS v FROM {t}"
JOBS = RowJobs({UP: lambda row: [{**row, "v": int(row["v"])}], DOWN: lambda row: [{**row, "v": str(row["v"])}]})


def rewritten(folder: Path, before: str = "", after: str | None = None, rows: Sequence[tuple[int, str]] = ((1, "007"), (2, "8"))) -> Lake:
    """``before``, ``after``: the keys of the two releases; None: the same one."""
    schema = "CREATE TABLE t (id BIGINT NOT NULL, v {} NOT NULL{});"
    first, second = schema.format("STRING", before), schema.format("INT", before if after is None else after)
    lake = two_releases(folder, first, second, f'rewrite("t", up="{UP}", down="{DOWN}")')
    tables.insert(lake.path("t"), [{"id": number, "v": value} for number, value in rows])
    commands.upgrade(lake.env, lake.second, jobs=JOBS)
    return lake


def change(lake: Lake, number: int, value: int | None) -> None:
    def of(row: Row) -> Row | None:
        return row if row["id"] != number else None if value is None else {**row, "v": value}

    tables.change(lake.path("t"), of)


#: What a rollback finds rows by, and how it says so.
FOUND_BY = {"": "by all of their values, as it has no primary key", ", PRIMARY KEY (v)": "by their primary key (v)"}


@pytest.mark.parametrize("key", FOUND_BY)
@pytest.mark.parametrize("value", [9, None], ids=["changed", "deleted"])
def test_it_is_refused_and_said_and_goes_once_the_row_is_as_it_was(tmp_path: Path, value: int | None, key: str) -> None:
    lake = rewritten(tmp_path, key)
    tables.insert(lake.path("t"), [{"id": 3, "v": 3}])
    change(lake, 1, value)
    for lossy in (False, True):
        with refused("rows_not_found", "t") as found:
            commands.rollback(lake.env, jobs=JOBS, allow_lossy=lossy)
        assert "values that these rows had at the commit" in str(found[0].next_action)
        assert FOUND_BY[key] in str(found[0])
    assert lake.version == "1.1.0"
    assert not tables.snapshot(lake.path("t")).sealed
    whole(lake)
    if value is None:
        tables.insert(lake.path("t"), [{"id": 1, "v": 7}])
    else:
        change(lake, 1, 7)
    commands.rollback(lake.env, jobs=JOBS)
    assert sorted(row["v"] for row in tables.snapshot(lake.path("t")).rows) == ["007", "3", "8"]
    whole(lake)


@pytest.mark.parametrize("key", FOUND_BY)
def test_what_down_gives_back_goes_back_beside_a_row_that_it_does_not(tmp_path: Path, key: str) -> None:
    lake = rewritten(tmp_path, key)
    change(lake, 2, 9)
    tables.insert(lake.path("t"), [{"id": 3, "v": 8}])
    commands.rollback(lake.env, jobs=JOBS)
    assert sorted((row["id"], row["v"]) for row in tables.snapshot(lake.path("t")).rows) == [(1, "007"), (2, "9"), (3, "8")]


@pytest.mark.parametrize(("number", "value"), [(1, 9), (2, 9), (1, None), (2, None)])
def test_of_two_rows_of_which_down_makes_one_key_none_is_taken_for_the_other(tmp_path: Path, number: int, value: int | None) -> None:
    lake = rewritten(tmp_path, ", PRIMARY KEY (v)", "", [(1, "7"), (2, "007")])
    change(lake, number, value)
    with refused("rows_not_found", "t"):
        commands.rollback(lake.env, jobs=JOBS)
    assert lake.version == "1.1.0"


ACTIVE_UP = "SELECT id, CAST(v AS INT) AS v FROM {t} WHERE id > 0"
LEFT_OUT = RowJobs({ACTIVE_UP: lambda row: [{**row, "v": int(row["v"])}] if row["id"] > 0 else [], DOWN: JOBS.queries[DOWN]})


@pytest.mark.parametrize("value", [9, None], ids=["changed", "deleted"])
def test_a_row_that_up_left_out_is_not_taken_for_one_whose_key_down_does_not_give_back(tmp_path: Path, value: int | None) -> None:
    schema = "CREATE TABLE t (id BIGINT NOT NULL, v {} NOT NULL, PRIMARY KEY (v));"
    step = f'rewrite("t", up="{ACTIVE_UP}", down="{DOWN}", cardinality="any")'
    lake = two_releases(tmp_path, schema.format("STRING"), schema.format("INT"), step)
    tables.insert(lake.path("t"), [{"id": 1, "v": "007"}, {"id": -7, "v": "7"}, {"id": 2, "v": "8"}])
    commands.upgrade(lake.env, lake.second, jobs=LEFT_OUT)
    change(lake, 1, value)
    with refused("rows_not_found", "t"):
        commands.rollback(lake.env, jobs=LEFT_OUT)
    change(lake, 1, 7)
    if value is None:
        tables.insert(lake.path("t"), [{"id": 1, "v": 7}])
    change(lake, 2, 9)
    commands.rollback(lake.env, jobs=LEFT_OUT)
    assert sorted(row["v"] for row in tables.snapshot(lake.path("t")).rows) == ["007", "7", "9"]


def test_a_row_that_came_does_not_take_the_place_of_one_that_up_left_out(tmp_path: Path) -> None:
    schema = "CREATE TABLE t (id BIGINT NOT NULL, v {} NOT NULL, PRIMARY KEY (v));"
    step = f'rewrite("t", up="{ACTIVE_UP}", down="{DOWN}", cardinality="any")'
    lake = two_releases(tmp_path, schema.format("STRING"), schema.format("INT"), step)
    tables.insert(lake.path("t"), [{"id": 1, "v": "8"}, {"id": -7, "v": "7"}])
    commands.upgrade(lake.env, lake.second, jobs=LEFT_OUT)
    tables.insert(lake.path("t"), [{"id": 2, "v": 7}])
    with refused("keys_taken", "t"):
        commands.rollback(lake.env, jobs=LEFT_OUT)
    whole(lake)
    change(lake, 2, 9)
    commands.rollback(lake.env, jobs=LEFT_OUT)
    assert sorted((row["id"], row["v"]) for row in tables.snapshot(lake.path("t")).rows) == [(-7, "7"), (1, "8"), (2, "9")]


SPLIT = "SELECT a AS id, name FROM {t} LATERAL VIEW explode(array_compact(array(id, alias))) e AS a WHERE merged = 0"
JOINED = "SELECT id, name, CAST(NULL AS STRING) AS alias, CAST(0 AS INT) AS merged FROM {t}"
SEVERAL = RowJobs(
    {
        SPLIT: lambda row: [] if row["merged"] else [{"id": one, "name": row["name"]} for one in (row["id"], row["alias"]) if one],
        JOINED: lambda row: [{**row, "alias": None, "merged": 0}],
    }
)


@pytest.mark.parametrize("value", ["changed", None], ids=["changed", "deleted"])
def test_a_row_that_up_left_out_is_not_taken_for_a_second_one_that_it_makes_of_another(tmp_path: Path, value: str | None) -> None:
    """Both keys come back once, and both of one row."""
    first = "CREATE TABLE t (id STRING NOT NULL, name STRING, alias STRING, merged INT, PRIMARY KEY (id));"
    second = "CREATE TABLE t (id STRING NOT NULL, name STRING, PRIMARY KEY (id));"
    lake = two_releases(tmp_path, first, second, f'rewrite("t", up="{SPLIT}", down="{JOINED}", cardinality="any")')
    rows = [("x", "Xaver", "y", 0), ("y", "Yves", None, 1), ("z", "Zoe", None, 0)]
    tables.insert(lake.path("t"), [dict(zip(("id", "name", "alias", "merged"), row, strict=True)) for row in rows])
    commands.upgrade(lake.env, lake.second, jobs=SEVERAL)
    tables.change(lake.path("t"), lambda row: row if row["id"] == "z" else {**row, "name": value} if value else None)
    with refused("rows_not_found", "t"):
        commands.rollback(lake.env, jobs=SEVERAL)
    whole(lake)


def test_rows_that_a_refused_rollback_brought_back_are_found_by_the_next_one(tmp_path: Path) -> None:
    """What it wrote into the old table was not made by `up`, which would leave it out."""
    schema = "CREATE TABLE a (id BIGINT NOT NULL, v {0} NOT NULL, PRIMARY KEY (v)); CREATE TABLE b (id BIGINT NOT NULL, v {0} NOT NULL{1});"
    steps = f"""rewrite("a", up="{ACTIVE_UP}", down="{DOWN}", cardinality="any"), rewrite("b", up="{UP}", down="{DOWN}")"""
    steps = steps.replace("{t}", "{a}", 2).replace("{t}", "{b}")
    named = {query.replace("{t}", f"{{{name}}}"): made for query, made in LEFT_OUT.queries.items() for name in "ab"}
    jobs = RowJobs({**named, UP.replace("{t}", "{b}"): JOBS.queries[UP]})
    lake = two_releases(tmp_path, schema.format("STRING", ""), schema.format("INT", ""), steps)
    tables.insert(lake.path("a"), [{"id": 1, "v": "1"}, {"id": 2, "v": "2"}])
    tables.insert(lake.path("b"), [{"id": 1, "v": "007"}])
    commands.upgrade(lake.env, lake.second, jobs=jobs)

    def set_id(collection: str, value: int, number: int | None) -> None:
        tables.change(lake.path(collection), lambda row: row if row["v"] != value else None if number is None else {**row, "id": number})

    set_id("a", 1, -1)
    tables.insert(lake.path("a"), [{"id": -5, "v": 5}])
    set_id("b", 7, 9)
    with refused("rows_not_found", "b"):
        commands.rollback(lake.env, jobs=jobs)
    set_id("b", 7, 1)
    set_id("a", 1, 1)
    set_id("a", 5, -6)
    commands.rollback(lake.env, jobs=jobs)
    assert sorted((row["id"], row["v"]) for row in tables.snapshot(lake.path("a")).rows) == [(-6, "5"), (1, "1"), (2, "2")]
    assert [row["v"] for row in tables.snapshot(lake.path("b")).rows] == ["007"]
    whole(lake)


NAMED = "SELECT {k}.n AS w, {r}.q FROM {r} LEFT JOIN {k} ON {k}.x = {r}.v"
NAMES = "SELECT {k}.x AS v, {r}.q FROM {r} LEFT JOIN {k} ON {k}.n = {r}.w"


class LookedUp(RowJobs):
    """Spark's jobs for these two queries."""

    def _query(self, text: str, rows: Sequence[Row]) -> list[Row]:
        known = self.lookups.get("schemamig_k", [])
        if "AS w" in text:
            return [{"w": next(found["n"] for found in known if found["x"] == row["v"]), "q": row["q"]} for row in rows]
        if "AS v" in text:
            return [{"v": next(found["x"] for found in known if found["n"] == row["w"]), "q": row["q"]} for row in rows]
        return super()._query(text, rows)


def looked_up(folder: Path) -> Lake:
    schema = "CREATE TABLE k (n BIGINT, x STRING);CREATE TABLE r ({} NOT NULL, q STRING, PRIMARY KEY ({}));"
    step = f'rewrite("r", up="{NAMED}", down="{NAMES}", lookups=["k"])'
    lake = two_releases(folder, schema.format("v STRING", "v"), schema.format("w BIGINT", "w"), step)
    tables.insert(lake.path("k"), [{"n": 1, "x": "A"}, {"n": 2, "x": "B"}])
    tables.insert(lake.path("r"), [{"v": "A", "q": "a"}, {"v": "B", "q": "b"}])
    return lake


@pytest.mark.parametrize("names", [{1: "B", 2: "A"}, {1: "C", 2: "A"}], ids=["exchanged", "given on"])
def test_a_row_is_not_taken_for_the_one_that_a_looked_up_table_names_now(tmp_path: Path, names: dict[int, str]) -> None:
    jobs, lake = LookedUp({}), looked_up(tmp_path)
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    tables.change(lake.path("k"), lambda row: {**row, "x": names[row["n"]]})
    tables.change(lake.path("r"), lambda row: {**row, "q": "changed"} if row["w"] == 2 else row)
    with refused("rows_not_found", "r"):
        commands.rollback(lake.env, jobs=jobs)
    tables.change(lake.path("k"), lambda row: {**row, "x": {1: "A", 2: "B"}[row["n"]]})
    commands.rollback(lake.env, jobs=jobs)
    assert {row["v"]: row["q"] for row in tables.snapshot(lake.path("r")).rows} == {"A": "a", "B": "changed"}


def test_where_vacuum_took_what_was_looked_up_the_way_back_is_gone_and_no_new_copy_is_asked_for(tmp_path: Path) -> None:
    def vacuumed(job: str, request: object) -> None:
        if job == "apply":
            raise SourceVacuumed(condition="DELTA_FILE_NOT_FOUND", detail="k: version 1")

    lake = looked_up(tmp_path)
    commands.upgrade(lake.env, lake.second, jobs=LookedUp({}))
    tables.change(lake.path("r"), lambda row: {**row, "q": "changed"})
    with refused("way_back_gone", "r") as found:
        commands.rollback(lake.env, jobs=LookedUp({}, before=vacuumed))
    assert "k: version 1" in str(found[0]) and "preflight" not in str(found[0])
    whole(lake)


def test_the_plan_says_how_long_what_a_rollback_looks_up_is_kept(tmp_path: Path) -> None:
    def notes(days: int) -> list[str]:
        lake = looked_up(tmp_path / str(days))
        found = commands.preflight(lake.env, lake.second, hold=timedelta(days=days), jobs=LookedUp({})).report.notes
        return [note for note in found if "look its rows up" in note]

    (note,) = notes(8)
    assert note.startswith("r: a rollback may look its rows up in k as that is at the copy, whose files are kept for 168 hours; past that")
    assert not notes(7)


@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "PRIMARY KEY (v)"])
def test_nobody_looks_at_all_keys_where_they_are_only_copied(tmp_path: Path, key: str) -> None:
    lake = rewritten(tmp_path, f", {key}")
    change(lake, 2, 9)
    JOBS.asked.clear()
    commands.rollback(lake.env, jobs=JOBS)
    (request,) = JOBS.jobs("apply")
    assert (request["must_match"], request["forward"] is None) == (True, "id" in key)


def test_with_a_key_it_is_found(tmp_path: Path) -> None:
    lake = rewritten(tmp_path, ", PRIMARY KEY (id)")
    change(lake, 1, 9)
    commands.rollback(lake.env, jobs=JOBS)
    assert {row["id"]: row["v"] for row in tables.snapshot(lake.path("t")).rows} == {1: "9", 2: "8"}


@pytest.mark.parametrize(("key", "said"), [("", "by value"), (", PRIMARY KEY (id)", None), (", PRIMARY KEY (v)", "by their primary key")])
def test_the_plan_says_so(tmp_path: Path, key: str, said: str | None) -> None:
    schema = f"CREATE TABLE t (id BIGINT NOT NULL, v {{}} NOT NULL{key});"
    lake = two_releases(tmp_path, schema.format("STRING"), schema.format("INT"), f'rewrite("t", up="{UP}", down="{DOWN}")')
    told = [line for stage in commands.plan(lake.env, lake.second).explained for line in stage.rollback if "rows_not_found" in line]
    assert len(told) == (said is not None)
    assert said is None or said in told[0]
