"""Every online operation through one harness: start, undo, start, finish, revert; dying at any write; rules broken meanwhile."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.spark.errors import BadValue
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from tests.support.lake import Crash, Lake, rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import change, insert, newest, snapshot
from tests.support.upgrades import two_releases, whole

Row = dict[str, Any]
A = CollectionName("a")


@dataclass(frozen=True)
class Operation:
    """What a release does to collection ``a``. ``before`` and ``after``: its columns; ``given``: rows there before."""

    before: str
    after: str
    given: Sequence[Row]
    #: The rows as they are after the commit.
    made: Sequence[Row]
    #: A row that the rule does not allow.
    bad: Row | None = None

    @property
    def instant(self) -> bool:
        """No element walks."""
        return "CLUSTER BY" in self.before and "CLUSTER BY" not in self.after

    @property
    def stride(self) -> int:
        """Every how many writes it dies in ``make test``: less often where there are many."""
        return 31 if self.after.count(",") < 4 else 61

    def lake(self, folder: Path) -> Lake:
        lake = two_releases(folder, f"CREATE TABLE a ({self.before});", f"CREATE TABLE a ({self.after});", 'evolution("a")')
        for row in self.given:
            insert(lake.path("a"), [row])
        return lake

    def with_row(self, values: Row) -> Operation:
        """The same, with one more row like the first."""
        return replace(self, given=(*self.given, {**self.given[0], **values}), made=(*self.made, {**self.made[0], **values}))


def same(*found: Row) -> dict[str, Sequence[Row]]:
    return {"given": found, "made": found}


OPERATIONS = {
    "check": Operation("id BIGINT", "id BIGINT, CONSTRAINT pos CHECK (id > 0)", **same({"id": 1}, {"id": 2}), bad={"id": -1}),
    "not null": Operation("id BIGINT", "id BIGINT NOT NULL", **same({"id": 1}, {"id": 2}), bad={"id": None}),
    "unique": Operation("id BIGINT, u INT", "id BIGINT, u INT, UNIQUE (u)", **same({"id": 1, "u": 1}), bad={"id": 9, "u": 1}),
    "primary key": Operation("id BIGINT, u INT", "id BIGINT, u INT NOT NULL PRIMARY KEY", **same({"id": 1, "u": 1}), bad={"id": 9, "u": 1}),
    "column with a default": Operation(
        "id BIGINT",
        "id BIGINT, n INT DEFAULT 7",
        given=({"id": 1}, {"id": 2}),
        made=({"id": 1, "n": 7}, {"id": 2, "n": 7}),
    ),
    "column NOT NULL with a default": Operation(
        "id BIGINT",
        "id BIGINT, s STRING NOT NULL DEFAULT 'x'",
        given=({"id": 1}, {"id": 2}),
        made=({"id": 1, "s": "x"}, {"id": 2, "s": "x"}),
    ),
    "a CHECK on a new column": Operation(
        "id BIGINT",
        "id BIGINT, n INT DEFAULT 7, CONSTRAINT few CHECK (n < 9)",
        given=({"id": 1}, {"id": 2}),
        made=({"id": 1, "n": 7}, {"id": 2, "n": 7}),
    ),
    "text to a number": Operation(
        "id BIGINT, s STRING, w INT",
        "id BIGINT, s INT, w INT",
        given=({"id": 1, "s": "007", "w": 1}, {"id": 2, "s": None, "w": 2}),
        made=({"id": 1, "s": 7, "w": 1}, {"id": 2, "s": None, "w": 2}),
    ),
    "a number that is NOT NULL and has a default to text": Operation(
        "id BIGINT, n INT NOT NULL DEFAULT 7",
        "id BIGINT, n STRING NOT NULL DEFAULT 7",
        given=({"id": 1, "n": 1}, {"id": 2, "n": 2}),
        made=({"id": 1, "n": "1"}, {"id": 2, "n": "2"}),
    ),
    "text that a CHECK is about to a number": Operation(
        "id BIGINT, s STRING, CONSTRAINT few CHECK (s < 99 OR S IS NULL)",
        "id BIGINT, s INT, CONSTRAINT few CHECK (s < 99 OR S IS NULL)",
        given=({"id": 1, "s": "007"}, {"id": 2, "s": None}),
        made=({"id": 1, "s": 7}, {"id": 2, "s": None}),
    ),
    "two types, a CHECK over both, one that comes, one that goes": Operation(
        "id BIGINT, s STRING, t STRING, CONSTRAINT up CHECK (s < t), CONSTRAINT gone CHECK (s <> 'x')",
        "id BIGINT, s INT, t INT, CONSTRAINT up CHECK (s < t), CONSTRAINT new CHECK (T < 99)",
        given=({"id": 1, "s": "5", "t": "8"}, {"id": 2, "s": "11", "t": "12"}),
        made=({"id": 1, "s": 5, "t": 8}, {"id": 2, "s": 11, "t": 12}),
    ),
    "types inside a struct, in an array, in a map": Operation(
        "id BIGINT, a STRUCT<b: STRING NOT NULL COMMENT 'it', l: ARRAY<STRUCT<x: STRING>>> NOT NULL, m MAP<STRING, STRING>",
        "id BIGINT, a STRUCT<b: INT NOT NULL COMMENT 'it', l: ARRAY<STRUCT<x: INT>>> NOT NULL, m MAP<STRING, INT>",
        given=(
            {"id": 1, "a": {"b": "007", "l": [{"x": "08"}, {"x": None}, None]}, "m": {"k": "09"}},
            {"id": 2, "a": {"b": "1", "l": None}, "m": None},
        ),
        made=(
            {"id": 1, "a": {"b": 7, "l": [{"x": 8}, {"x": None}, None]}, "m": {"k": 9}},
            {"id": 2, "a": {"b": 1, "l": None}, "m": None},
        ),
    ),
    "types inside a struct, a CHECK on one, NOT NULL on one, a field that is wider": Operation(
        "id BIGINT, a STRUCT<b: STRING, c: STRING, w: INT>, CONSTRAINT few CHECK (CAST(a.b AS INT) < 99)",
        "id BIGINT, a STRUCT<b: INT, c: INT NOT NULL, w: BIGINT>, CONSTRAINT few CHECK (CAST(a.b AS INT) < 99)",
        given=({"id": 1, "a": {"b": "007", "c": "1", "w": 2}}, {"id": 2, "a": {"b": "4", "c": "5", "w": None}}),
        made=(
            {"id": 1, "a": {"b": 7, "c": 1, "w": 2}},
            {"id": 2, "a": {"b": 4, "c": 5, "w": None}},
        ),
    ),
    "two types, NOT NULL on one of them, and more": Operation(
        "id BIGINT, s STRING, t STRING, u INT",
        "k INT DEFAULT 3, id BIGINT, s INT NOT NULL, t BIGINT, u INT, UNIQUE (u)",
        given=({"id": 1, "s": "5", "t": "8", "u": 1}, {"id": 2, "s": "6", "t": None, "u": 2}),
        made=({"k": 3, "id": 1, "s": 5, "t": 8, "u": 1}, {"k": 3, "id": 2, "s": 6, "t": None, "u": 2}),
        bad={"id": 9, "s": None, "u": 9},
    ),
    "clustering": Operation(
        "id BIGINT, u INT",
        "id BIGINT, u INT) CLUSTER BY (u",
        given=({"id": 1, "u": 2}, {"id": 2, "u": 1}),
        made=({"id": 1, "u": 2}, {"id": 2, "u": 1}),
    ),
    "other clustering": Operation(
        "id BIGINT, u INT) CLUSTER BY (u",
        "id BIGINT, u INT) CLUSTER BY (id",
        given=({"id": 1, "u": 2},),
        made=({"id": 1, "u": 2},),
    ),
    "no clustering": Operation(
        "id BIGINT, u INT) CLUSTER BY (u",
        "id BIGINT, u INT",
        given=({"id": 1, "u": 2},),
        made=({"id": 1, "u": 2},),
    ),
    "a unique index": Operation(
        "id BIGINT, u INT",
        "id BIGINT, u INT, UNIQUE (u), CONSTRAINT few CHECK (id < 99)) CLUSTER BY (u",
        **same({"id": 1, "u": 1}),
        bad={"id": 9, "u": 1},
    ),
    "clustering by a new column, another type, a rule": Operation(
        "id BIGINT, s STRING, u INT",
        "id BIGINT, s INT, u INT, n INT DEFAULT 7, CONSTRAINT few CHECK (id < 9)) CLUSTER BY (n, u",
        given=({"id": 1, "s": "5", "u": 2}, {"id": 2, "s": "3", "u": 1}),
        made=({"id": 1, "s": 5, "u": 2, "n": 7}, {"id": 2, "s": 3, "u": 1, "n": 7}),
        bad={"id": 10, "s": "1", "u": 3},
    ),
    "all of them, and a rename": Operation(
        "id BIGINT, v INT",
        "id BIGINT NOT NULL, v BIGINT, n INT NOT NULL DEFAULT 7, m STRING DEFAULT 'm', k INT, UNIQUE (v), CONSTRAINT pos CHECK (id > 0)",
        given=({"id": 1, "v": 5}, {"id": 2, "v": 6}),
        made=({"id": 1, "v": 5, "n": 7, "m": "m", "k": None}, {"id": 2, "v": 6, "n": 7, "m": "m", "k": None}),
        bad={"id": None, "v": 7},
    ),
}
#: What others of the list do, too.
RARELY = ("clustering", "other clustering", "no clustering", "clustering by a new column, another type, a rule")
each = pytest.mark.parametrize(
    "operation", [pytest.param(OPERATIONS[name], id=name, marks=[pytest.mark.soak] if name in RARELY else []) for name in OPERATIONS]
)


def at_target(lake: Lake, operation: Operation) -> None:
    assert lake.version == "1.1.0"
    assert rows(lake.path("a"), *operation.made[0]) == sorted(operation.made, key=repr)
    assert not lake.state.elements
    assert read_head(lake.env.table_store(str(lake.path("a")))).declaration(A).clustered_by == lake.state.entry(A).declared.clustered_by
    whole(lake)


def at_source(lake: Lake, operation: Operation) -> None:
    assert lake.version == "1.0.0"
    assert rows(lake.path("a"), *operation.given[0]) == sorted(operation.given, key=repr)
    assert not lake.state.elements
    assert read_head(lake.env.table_store(str(lake.path("a")))).declaration(A).clustered_by == lake.state.entry(A).declared.clustered_by
    whole(lake)


def changed(lake: Lake, jobs: OnlineJobs) -> Generation:
    """Up to the end of the online changes."""
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=jobs)
    return generation


@pytest.mark.some(3)
@each
def test_start_undo_start_finish_revert(tmp_path: Path, operation: Operation) -> None:
    lake, jobs = operation.lake(tmp_path), OnlineJobs()
    declared = lake.state.entry(A).declared

    changed(lake, jobs)
    elements = lake.state.elements.values()
    retyped = {ElementState.REORG, ElementState.VALIDATE} if any(element.op == "change_type" for element in elements) else set()
    assert {element.state for element in elements} - retyped <= {ElementState.PUBLIC}
    assert bool(elements) is not operation.instant
    commands.rollback(lake.env, jobs=jobs)
    at_source(lake, operation)
    new = {"id": 3} | {name: 30 for name in ("u", "v") if name in operation.given[0]}
    insert(lake.path("a"), [operation.given[0] | new])  # the old writers go on, and know nothing of a column that stayed
    more = operation.with_row(new)

    commands.upgrade(lake.env, lake.second, jobs=jobs)
    at_target(lake, more)
    commands.rollback(lake.env, jobs=jobs)
    at_source(lake, more)
    assert lake.state.entry(A).declared == declared
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    at_target(lake, more)


@pytest.mark.some(3)
@each
def test_twice_is_once(tmp_path: Path, operation: Operation) -> None:
    lake, jobs = operation.lake(tmp_path), OnlineJobs()
    generation = changed(lake, jobs)
    asked, log = len(jobs.asked), sorted((lake.path("a") / "_delta_log").iterdir())
    assert commands.change(lake.env, generation, jobs=jobs).stages == ()
    assert (len(jobs.asked), sorted((lake.path("a") / "_delta_log").iterdir())) == (asked, log)


# --- dying ---------------------------------------------------------------------------------------------------------------------------


WAYS = ("on", "back", "other")


def die(lake: Lake, moment: int) -> bool:
    try:
        commands.upgrade(lake.crashing_at(moment), lake.second, jobs=OnlineJobs())
    except Crash:
        return True
    return False


@pytest.mark.some(3)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
@each
def test_online_dies_anywhere(tmp_path: Path, operation: Operation, every: bool) -> None:
    """Go on, go back, or another generation takes over: all three at every moment, or one after the other."""
    stride = 1 if every else operation.stride
    begun = operation.lake(tmp_path / "begun")
    moment, ended = 0, False
    while not ended:
        for way in WAYS if every else (WAYS[moment // stride % len(WAYS)],):
            folder = tmp_path / f"{moment}-{way}"
            shutil.copytree(begun.env.location.local_path or Path(), folder)
            lake = replace(begun, env=Environment.open(str(folder)))
            ended = not die(lake, moment)
            if ended:
                break
            if way == "back" and lake.state.leader is not None and lake.state.leader.generation > 1:
                commands.rollback(lake.env, jobs=OnlineJobs())
                at_source(lake, operation)
            commands.upgrade(lake.env, lake.second, jobs=OnlineJobs(), claim_id="another" if way == "other" else None)
            at_target(lake, operation)
            shutil.rmtree(folder)
        moment += stride
    assert moment > stride


# --- broken meanwhile ----------------------------------------------------------------------------------------------------------------

BREAKABLE = {name: operation for name, operation in OPERATIONS.items() if operation.bad is not None}


@pytest.mark.some(3)
@pytest.mark.parametrize("operation", BREAKABLE.values(), ids=BREAKABLE)
def test_a_row_that_breaks_the_rule_comes_in_after_preflight(tmp_path: Path, operation: Operation) -> None:
    """Validation finds it and walks back, so nobody is held to a rule that does not come; repaired, the same task goes on."""
    lake, jobs, bad = operation.lake(tmp_path), OnlineJobs(), operation.bad
    assert bad is not None
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    insert(lake.path("a"), [bad])
    commands.expand(lake.env, generation)

    for _ in range(2):
        with pytest.raises((DataViolation, BadValue)) as found:
            commands.change(lake.env, generation, jobs=jobs)
        assert found.value.collection == "a"
        assert not isinstance(found.value, DataViolation) or found.value.count > 0
        assert {element.state for element in lake.state.elements.values()} == {ElementState.ABSENT}
        assert any(re.search("violate|NOT NULL does not hold", element.error or "") for element in lake.state.elements.values())
        assert DeltaTable(str(lake.path("a"))).metadata().configuration.keys().isdisjoint({"delta.constraints.pos"})
    change(lake.path("a"), lambda row: None if row.items() >= bad.items() else row)
    commands.change(lake.env, generation, jobs=jobs)
    commands.cutover(lake.env, generation, jobs=jobs)
    at_target(lake, operation)


# --- rows that come while a key is validated -------------------------------------------------------------------------------------------


def test_a_row_that_comes_during_the_scan_of_a_key(tmp_path: Path) -> None:
    """Nothing on the table stops it: it is looked for before the key is PUBLIC, by the files that came alone."""
    operation = OPERATIONS["unique"]
    lake, jobs, bad = operation.lake(tmp_path), OnlineJobs(), operation.bad
    assert bad is not None
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    late = [{"id": 5, "u": 5}, bad]

    def during(job: str, request: Any) -> None:
        if late:
            insert(lake.path("a"), [late.pop(0)])

    jobs.after = during
    with pytest.raises(DataViolation) as found:
        commands.change(lake.env, generation, jobs=jobs)
    assert (found.value.rule, late) == ("UNIQUE (u)", [])
    scans = [len(check.get("new_files", ())) for request in jobs.jobs("preflight")[1:] for check in request["checks"]]
    assert scans == [0, 1, 1], "all rows, the file of the good row, the file of the bad one"
    assert {element.state for element in lake.state.elements.values()} == {ElementState.ABSENT}


def test_rows_that_come_without_end_do_not_keep_a_key_from_being_public(tmp_path: Path) -> None:
    lake, jobs = OPERATIONS["unique"].lake(tmp_path), OnlineJobs()

    def during(job: str, request: Any) -> None:
        insert(lake.path("a"), [{"id": 1, "u": 100 + newest(lake.path("a"))}])

    jobs.after = during
    changed(lake, jobs)
    (element,) = lake.state.elements.values()
    assert element.state is ElementState.PUBLIC
    assert element.checked_version is not None and element.checked_version < newest(lake.path("a"))


def test_a_row_that_a_new_key_refers_to_goes_during_its_scan(tmp_path: Path) -> None:
    tables = "CREATE TABLE b (u INT PRIMARY KEY); CREATE TABLE a (id BIGINT, u INT{});"
    key = ", FOREIGN KEY (u) REFERENCES b"
    lake, jobs = two_releases(tmp_path, tables.format(""), tables.format(key), 'evolution("a")'), OnlineJobs()
    insert(lake.path("b"), [{"u": 1}])
    insert(lake.path("a"), [{"id": 1, "u": 1}])
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)

    def during(job: str, request: Any) -> None:
        if snapshot(lake.path("b")).rows:
            change(lake.path("b"), lambda row: None)

    jobs.after = during
    with pytest.raises(DataViolation) as found:
        commands.change(lake.env, generation, jobs=jobs)
    assert (found.value.collection, found.value.count) == ("a", 1)
