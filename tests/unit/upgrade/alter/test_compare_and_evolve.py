"""``compare_and_evolve_schema``: its three answers in their order, dying and racing at any write, and the release that has to catch up."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, SchemaId
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.compare_and_evolve import (
    Evolution,
    ExpectedMismatch,
    Incompatible,
    Ok,
    compare_and_evolve_schema,
)
from airflow_provider_schemamig.core.upgrade.errors import ChangeNotInRelease, DeploymentOpen, HoldOpen, UnknownCollection
from airflow_provider_schemamig.exceptions import Conflict
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, append, copy_of
from tests.support.tables import foreign
from tests.support.upgrades import promoted, refused, releases, whole

pytestmark = pytest.mark.some(8, of="compare and evolve")

PLANES = CollectionName("planes")
FIRST = SchemaId(1)
COLUMNS = "tailnum STRING NOT NULL, year INT, maker STRUCT<name: STRING, city: STRING>, tags ARRAY<STRUCT<x: INT>>, spans MAP<STRING, INT>"
OTHER = "CREATE TABLE other (id BIGINT);\n"


def planes(columns: str) -> Declaration:
    return next(item for item in parse_schema(f"CREATE TABLE planes ({columns});", "test.sql"))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.0.0 with a row; 1.1.0 adds ``seats`` and ``crew``."""
    return make(tmp_path, f"CREATE TABLE planes ({COLUMNS}, seats INT, crew INT);\n{OTHER}", 'evolution("planes")')


def make(folder: Path, second: str, steps: str) -> Lake:
    first, later = releases(folder, (f"CREATE TABLE planes ({COLUMNS});\n{OTHER}", ""), (second, steps))
    lake = Lake(Environment.open(str(folder / "lake")), first, later)
    lake.upgrade(first)
    append(
        lake.path("planes"), [{"tailnum": "N1", "year": 1999, "maker": {"name": "B", "city": "S"}, "tags": [{"x": 1}], "spans": [("a", 1)]}]
    )
    return lake


def evolve(lake: Lake, columns: str, expected: SchemaId = FIRST, env: Environment | None = None) -> Evolution:
    return compare_and_evolve_schema(env or lake.env, PLANES, expected, planes(columns))


WITH_SEATS = f"{COLUMNS}, seats INT"


# --- the answers ---------------------------------------------------------------------------------------------------------------------


def test_the_schema_is_changed_in_one_commit_and_the_release_stays(lake: Lake) -> None:
    commits = len(list((lake.path("planes") / "_delta_log").glob("*.json")))
    assert evolve(lake, WITH_SEATS) == Ok(SchemaId(2))
    assert len(list((lake.path("planes") / "_delta_log").glob("*.json"))) == commits + 1
    assert [field["name"] for field in foreign.live_schema(lake.path("planes"))][-1] == "seats"
    assert lake.version == "1.0.0"
    entry = lake.state.entry(PLANES)
    assert (entry.schema_id, entry.declared, entry.since_table_version) == (2, planes(WITH_SEATS), commits)
    whole(lake)
    assert commands.plan(lake.env, lake.first, jobs=None).exit_code == 0, "the release that is deployed is still deployed"


def test_compare_and_evolve_what_is_there_already_is_answered_before_the_expected_id_is_looked_at(lake: Lake) -> None:
    assert evolve(lake, COLUMNS, SchemaId(99)) == Ok(FIRST)
    assert evolve(lake, WITH_SEATS) == Ok(SchemaId(2))
    with unwritten(lake.env):
        assert evolve(lake, WITH_SEATS, FIRST) == Ok(SchemaId(2)), "the answer to the first try may have been lost"


def test_another_schema_than_expected(lake: Lake) -> None:
    with unwritten(lake.env):
        assert evolve(lake, WITH_SEATS, SchemaId(7)) == ExpectedMismatch(FIRST, planes(COLUMNS))
        assert isinstance(evolve(lake, "tailnum INT", SchemaId(7)), ExpectedMismatch), "it is tested before the compatibility"


@pytest.mark.parametrize(
    "columns",
    [
        COLUMNS.replace(" NOT NULL", ""),
        COLUMNS.replace("city: STRING", "city: STRING, zip: STRING"),
        COLUMNS.replace(", city: STRING", ""),
        COLUMNS.replace("STRUCT<x: INT>", "STRUCT<x: INT, y: STRING>"),
        COLUMNS.replace(", year INT", ""),
        COLUMNS.replace("year INT", "year BIGINT"),
        COLUMNS.replace("year INT", "year INT DEFAULT 7"),
        COLUMNS.replace("INT>", "BIGINT>"),
        f"seats INT, {COLUMNS}",
        COLUMNS.replace("year INT", "built INT"),
    ],
    ids=["relax", "add inside", "drop inside", "add in array", "drop", "widen", "default", "widen inside", "add first", "other name"],
)
def test_compare_and_evolve_compatible(lake: Lake, columns: str) -> None:
    assert evolve(lake, columns) == Ok(SchemaId(2))
    whole(lake)


@pytest.mark.parametrize(
    ("columns", "reasons"),
    [
        (COLUMNS.replace("year INT", "year INT NOT NULL"), [("year", "set_not_null")]),
        (COLUMNS.replace("year INT", "year STRING"), [("year", "change_type")]),
        (COLUMNS.replace("year INT", "year SMALLINT"), [("year", "change_type")]),
        (f"{COLUMNS}, seats INT NOT NULL", [("seats", "add_column")]),
        (f"{COLUMNS}, seats INT DEFAULT 4", [("seats", "add_column")]),
        (f"{COLUMNS}, CONSTRAINT c CHECK (year > 0)", [("", "add_check")]),
        (COLUMNS.replace("STRUCT<x: INT>", "STRUCT<x: STRING>"), [("tags.element.x", "change_type")]),
        (
            COLUMNS.replace("year INT", "year STRING").replace("x: INT", "x: DATE"),
            [("tags.element.x", "change_type"), ("year", "change_type")],
        ),
    ],
)
def test_incompatible_says_everything_at_once_and_writes_nothing(lake: Lake, columns: str, reasons: list[tuple[str, str]]) -> None:
    with unwritten(lake.env):
        found = evolve(lake, columns)
    assert isinstance(found, Incompatible)
    assert sorted((reason.path, reason.change) for reason in found.reasons) == reasons
    assert all(reason.words for reason in found.reasons)


def test_compare_and_evolve_what_the_committer_would_refuse_is_an_answer_too(tmp_path: Path) -> None:
    even = "CONSTRAINT even CHECK (year % 2 = 0)"
    (first,) = releases(tmp_path, (f"CREATE TABLE planes ({COLUMNS}, {even});\n{OTHER}", ""))
    lake = Lake(Environment.open(str(tmp_path / "lake")), first, first)
    lake.upgrade(first)
    with unwritten(lake.env):
        found = evolve(lake, f"{COLUMNS.replace('year INT', 'year BIGINT')}, {even}")
    assert isinstance(found, Incompatible)
    assert [(reason.path, reason.change) for reason in found.reasons] == [("year", "column_in_use")]


def test_a_declaration_of_another_collection(lake: Lake) -> None:
    (other,) = parse_schema("CREATE TABLE boats (id INT);", "test.sql")
    found = compare_and_evolve_schema(lake.env, PLANES, FIRST, other)
    assert isinstance(found, Incompatible)
    with pytest.raises(UnknownCollection):
        compare_and_evolve_schema(lake.env, CollectionName("boats"), FIRST, other)


def test_ids_go_on_and_an_older_shape_is_a_new_schema(lake: Lake) -> None:
    assert evolve(lake, WITH_SEATS) == Ok(SchemaId(2))
    assert evolve(lake, COLUMNS, SchemaId(2)) == Ok(SchemaId(3))
    assert evolve(lake, WITH_SEATS, SchemaId(3)) == Ok(SchemaId(4)), "a column of the same name, with an identity of its own"
    physical = [field["metadata"]["delta.columnMapping.physicalName"] for field in foreign.live_schema(lake.path("planes"))]
    assert physical[-1] != "seats"
    whole(lake)
    assert [key for key, _ in lake.state.unreleased] == [PLANES], "only what is in force is kept"


# --- when it has to wait -------------------------------------------------------------------------------------------------------------


def test_not_while_a_deployment_is_open(lake: Lake) -> None:
    promoted(lake, lake.second)
    with pytest.raises(DeploymentOpen):
        evolve(lake, WITH_SEATS)
    assert evolve(lake, COLUMNS) == Ok(FIRST), "what writes nothing is answered"


def test_not_while_a_release_can_be_rolled_back(lake: Lake) -> None:
    lake.upgrade(lake.second)
    with pytest.raises(HoldOpen):
        evolve(lake, f"{COLUMNS}, seats INT, crew INT, doors INT", SchemaId(2))
    commands.contract(lake.env, at_once=True)
    assert evolve(lake, f"{COLUMNS}, seats INT, crew INT, doors INT", SchemaId(2)) == Ok(SchemaId(3))


# --- dying and racing ----------------------------------------------------------------------------------------------------------------


def moments(lake: Lake, work: Callable[[Environment], object]) -> int:
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1

    work(replace(lake.env, on_write=hook))
    return count


@pytest.mark.some(8, of="histories at each moment")
def test_it_dies_anywhere_and_is_called_again_or_somebody_else_calls(lake: Lake, tmp_path: Path) -> None:
    count = moments(copy_of(lake, tmp_path / "count"), lambda env: evolve(lake, WITH_SEATS, env=env))
    assert count >= 8
    for moment in range(count):
        dead = copy_of(lake, tmp_path / f"{moment}")
        with pytest.raises(Crash):
            evolve(dead, WITH_SEATS, env=dead.crashing_at(moment))
        other, later = (copy_of(dead, tmp_path / f"{moment}-{name}") for name in ("other", "later"))
        assert evolve(dead, WITH_SEATS) == Ok(SchemaId(2)), moment
        whole(dead)
        answer = evolve(other, f"{COLUMNS}, crew INT")
        if isinstance(answer, ExpectedMismatch):  # the dead one's change was begun: it was finished on the way
            assert answer == ExpectedMismatch(SchemaId(2), planes(WITH_SEATS)), moment
            answer = evolve(other, f"{WITH_SEATS}, crew INT", SchemaId(2))
        assert isinstance(answer, Ok), moment
        whole(other)
        if moment % 2:
            continue
        later.upgrade(later.second, hold=timedelta(0))  # the next release contains it
        assert [field.name for field in later.state.entry(PLANES).declared.fields][-2:] == ["seats", "crew"]
        assert list(later.state.unreleased) == [] or later.state.unreleased_of(PLANES) is None
        whole(later)


def test_of_racing_callers_one_wins_and_the_others_are_told(lake: Lake) -> None:
    wanted = [f"{COLUMNS}, c{number} INT" for number in range(4)]
    barrier = threading.Barrier(len(wanted))

    def call(columns: str) -> Evolution:
        barrier.wait()
        for _ in range(30):
            with contextlib.suppress(Conflict):
                return evolve(lake, columns)
        raise AssertionError("conflicts only")

    with ThreadPoolExecutor(len(wanted)) as pool:
        answers = list(pool.map(call, wanted))
    won = [number for number, answer in enumerate(answers) if isinstance(answer, Ok)]
    assert len(won) == 1
    assert [answer for answer in answers if not isinstance(answer, Ok)] == [ExpectedMismatch(SchemaId(2), planes(wanted[won[0]]))] * 3
    whole(lake)


def test_racing_callers_who_want_the_same_all_get_it(lake: Lake) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: evolve(lake, WITH_SEATS), range(3))) == [Ok(SchemaId(2))] * 3
    whole(lake)


def test_a_new_leader_undoes_what_was_half_done_and_it_can_be_done_again(lake: Lake, tmp_path: Path) -> None:
    count = moments(copy_of(lake, tmp_path / "count"), lambda env: evolve(lake, f"{COLUMNS}, crew INT", env=env))
    for moment in range(2, count - 4):  # the last four: the one append, and the audit
        found = copy_of(lake, tmp_path / str(moment))
        with pytest.raises(Crash):
            evolve(found, f"{COLUMNS}, crew INT", env=found.crashing_at(moment))
        promoted(found, found.second)
        commands.rollback(found.env)
        assert found.version == "1.0.0"
        answer = evolve(found, f"{COLUMNS}, doors INT")
        assert isinstance(answer, Ok), (moment, answer)
        assert found.state.entry(PLANES).declared == planes(f"{COLUMNS}, doors INT")
        whole(found)


# --- the next release ----------------------------------------------------------------------------------------------------------------


def test_the_next_release_has_to_contain_it(lake: Lake) -> None:
    evolve(lake, f"{COLUMNS}, doors INT")
    with refused("ahead_not_in_release", "planes") as found:
        lake.upgrade(lake.second)
    assert isinstance(found[0], ChangeNotInRelease)
    assert list(found[0].changes) == ["add doors INT"]
    assert lake.version == "1.0.0"


@pytest.mark.parametrize(
    ("unreleased", "release", "steps"),
    [
        (WITH_SEATS, f"{COLUMNS}, seats INT, crew INT", 'evolution("planes")'),
        (COLUMNS.replace(", year INT", ""), COLUMNS.replace(", year INT", ""), 'evolution("planes", drop=["year"])'),
        (COLUMNS.replace(" NOT NULL", ""), COLUMNS.replace(" NOT NULL", "") + ", crew INT", 'evolution("planes")'),
        (
            COLUMNS.replace("year INT", "year BIGINT"),
            COLUMNS.replace("year INT", "built BIGINT"),
            'evolution("planes", rename={"year": "built"})',
        ),
        (COLUMNS.replace("year INT", "year BIGINT"), COLUMNS.replace(", year INT", ""), 'evolution("planes", drop=["year"])'),
        (COLUMNS.replace(", city: STRING", ""), COLUMNS.replace(", city: STRING", ""), 'evolution("planes", drop=["maker.city"])'),
    ],
    ids=["add", "drop", "relax", "widen and rename", "widened and dropped", "drop inside"],
)
def test_a_release_that_contains_it_there_and_back(tmp_path: Path, unreleased: str, release: str, steps: str) -> None:
    lake = make(tmp_path, f"CREATE TABLE planes ({release});\n{OTHER}", steps)
    assert isinstance(evolve(lake, unreleased), Ok)
    lake.upgrade(lake.second)
    assert lake.version == "1.1.0"
    assert lake.state.entry(PLANES).declared == planes(release)
    assert lake.state.unreleased_of(PLANES) is None
    whole(lake)
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"
    assert lake.state.entry(PLANES).declared == planes(unreleased), "back to what it was, the change outside of a release included"
    assert lake.state.unreleased_of(PLANES) is not None
    whole(lake)
    assert commands.plan(lake.env, lake.first, jobs=None).exit_code == 0
    lake.upgrade(lake.second, hold=timedelta(0))
    assert lake.state.unreleased_of(PLANES) is None
    whole(lake)


def test_a_release_that_removes_the_collection(tmp_path: Path) -> None:
    lake = make(tmp_path, OTHER, 'removal("planes")')
    evolve(lake, WITH_SEATS)
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    assert lake.state.unreleased_of(PLANES) is not None
    whole(lake)
