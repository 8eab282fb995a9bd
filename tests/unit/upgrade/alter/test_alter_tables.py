"""``alter`` of whole tables outside of a release: CREATE TABLE, ALTER TABLE ... RENAME TO, DROP TABLE."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import NotInRelease, ReaderFenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.upgrade.alter import alter, plan_alter
from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, append, no_spark, rows
from tests.support.rows.tables import insert, newest
from tests.support.upgrades import deployed, fingerprints, make_holds_due, refused, releases, same_as_new, whole

A, B = "CREATE TABLE a (id BIGINT, v INT);", "CREATE TABLE b (id BIGINT, v INT);"
K, N = "CREATE TABLE k (id BIGINT);", "CREATE TABLE n (id BIGINT, w INT);"
LONG = timedelta(hours=1)


@dataclass(frozen=True)
class Case:
    """A statement over the collections a and k; ``schema`` and ``steps`` of a release that contains it, ``after`` its tables' rows."""

    statement: str
    kinds: tuple[str, ...]
    schema: str
    steps: str
    after: Mapping[str, list[dict[str, object]]]


ROW: list[dict[str, object]] = [{"id": 1, "v": 2}]
CASES = {
    "create": Case("CREATE TABLE n (id BIGINT, w INT)", ("create", "commit"), A + K + N, "", {"a": ROW, "k": [], "n": []}),
    "rename": Case("ALTER TABLE a RENAME TO b", ("commit",), B + K, 'evolution("b", renamed_from="a")', {"b": ROW, "k": []}),
    "drop": Case("DROP TABLE a", ("seal", "commit"), K, 'removal("a")', {"k": []}),
}


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def make(folder: Path, schema: str, steps: str) -> Lake:
    """At 1.0.0 with a and k, and a row in a; ``second`` is the release that was asked for."""
    lake = deployed(folder, *releases(folder, (A + K, ""), (schema, steps)))
    insert(lake.path("a"), ROW)
    return lake


@pytest.fixture
def lake(tmp_path: Path, case: Case) -> Lake:
    return make(tmp_path, case.schema, case.steps)


def tables(lake: Lake) -> dict[str, list[dict[str, object]]]:
    return {name: rows(lake.path(name)) for name in lake.state.objects}


def test_alter_tables_a_statement(lake: Lake, case: Case) -> None:
    with unwritten(lake.env):
        report = plan_alter(lake.env, case.statement)
    assert (report.refusals, report.exit_code) == ((), 3)
    released = lake.state.release

    outcome = alter(lake.env, case.statement, hold=LONG, jobs=no_spark)

    assert tuple(stage.kind for stage in outcome.stages) == case.kinds
    assert tables(lake) == case.after
    assert lake.state.release == released
    whole(lake)


def test_the_next_release_has_to_contain_it(lake: Lake, case: Case, tmp_path: Path) -> None:
    alter(lake.env, case.statement, jobs=no_spark)
    _, without = releases(tmp_path / "other", (A + K, ""), (A + K.replace(")", ", w INT)"), 'evolution("k")'))
    with refused("ahead_not_in_release", {"create": "n", "rename": "b", "drop": "a"}[_name(case)]):
        commands.preflight(lake.env, without, jobs=no_spark)
    assert commands.plan(lake.env, lake.first).planned.plan.is_empty, "the release itself is still the one that is deployed"

    lake.upgrade(lake.second)

    assert tables(lake) == case.after
    assert [lake.state.unreleased_of(name) for name in lake.state.objects] == [None] * len(case.after)
    assert not lake.state.dropped
    whole(lake)
    same_as_new(lake, lake.second, tmp_path / "fresh")


def _name(case: Case) -> str:
    return next(name for name, found in CASES.items() if found is case)


def test_rolled_back_while_its_hold_is_open(lake: Lake, case: Case) -> None:
    before, released = fingerprints(lake), lake.state.release
    for _ in range(2):  # what a way back leaves behind does not stand in the way of the next try
        alter(lake.env, case.statement, hold=LONG, jobs=no_spark)
        commands.rollback(lake.env)
        assert (fingerprints(lake), lake.state.release) == (before, released)
        assert tables(lake) == {"a": ROW, "k": []}
        assert not lake.state.dropped
        whole(lake)
    lake.upgrade(lake.second)
    whole(lake)


def test_the_release_after_it_goes_back_to_it(lake: Lake, case: Case) -> None:
    """Rolling back the release that contains the statement leads to where the statement had led."""
    alter(lake.env, case.statement, jobs=no_spark)
    before, unreleased = lake.state, [lake.state.unreleased_of(name) for name in lake.state.objects]
    lake.upgrade(lake.second)
    if "n" in lake.state.objects:
        append(lake.path("n"), [{"id": 5, "w": 6}])
    commands.rollback(lake.env)
    assert lake.state.release == before.release
    assert set(lake.state.objects) == set(before.objects)
    assert [(row.declared, row.released) for row in lake.state.dropped.values()] == [
        (row.declared, row.released) for row in before.dropped.values()
    ]
    assert [bool(row) for row in unreleased] == [bool(lake.state.unreleased_of(name)) for name in lake.state.objects]
    whole(lake)
    commands.contract(lake.env)
    lake.upgrade(lake.second)
    whole(lake)


def test_dropped_is_sealed_until_its_hold_ends(tmp_path: Path) -> None:
    lake = make(tmp_path, K, 'removal("a")')
    path = lake.path("a")
    alter(lake.env, "DROP TABLE a", hold=LONG, jobs=no_spark)
    (retired,) = commands.status(lake.env).document["retired"]
    assert (retired["collection"], retired["sealed"]) == ("a", True)
    with pytest.raises(ReaderFenced, match=r"removed.*says what was changed outside of the release[.]$"):
        lake.env.reader("a", "1.0.0").arrow()
    make_holds_due(lake)
    commands.contract(lake.env)
    assert not path.exists()
    assert list(lake.state.dropped) == ["a"], "the next release still has to remove it"
    whole(lake)


def test_dropped_at_once_without_a_hold(tmp_path: Path) -> None:
    lake = make(tmp_path, K, 'removal("a")')
    path = lake.path("a")
    alter(lake.env, "DROP TABLE a", jobs=no_spark)
    assert not path.exists()


def test_readers_of_both_names(tmp_path: Path) -> None:
    lake = make(tmp_path, B + K, 'evolution("b", renamed_from="a")')
    alter(lake.env, "ALTER TABLE a RENAME TO b", jobs=no_spark)
    assert lake.env.reader("b").arrow().to_pylist() == ROW
    assert lake.env.reader("a", "1.0.0").arrow().to_pylist() == ROW, "the release still calls it so"
    with pytest.raises(NotInRelease):
        lake.env.reader("b", "1.0.0").arrow()
    with pytest.raises(NotInRelease):
        lake.env.reader("a").arrow()
    lake.upgrade(lake.second)
    for name, release in (("a", "1.0.0"), ("b", "1.1.0"), ("b", None)):
        assert lake.env.reader(name, release).arrow().to_pylist() == ROW


def test_one_after_the_other(tmp_path: Path) -> None:
    """What was created is altered, renamed and dropped like any other; in the end no release has to say anything."""
    lake = make(tmp_path, B.replace("v INT", "v INT, z INT") + K, 'evolution("b", renamed_from="a")')
    released = lake.state.release
    for statement in (
        "CREATE TABLE n (id BIGINT)",
        "ALTER TABLE n ADD COLUMN w INT",
        "ALTER TABLE n RENAME TO m",
        "ALTER TABLE a ADD COLUMN z INT",
        "ALTER TABLE a RENAME TO c",
        "ALTER TABLE c RENAME TO b",
        "DROP TABLE m",
        "DROP TABLE IF EXISTS m",
        "CREATE TABLE IF NOT EXISTS k (id BIGINT)",
    ):
        alter(lake.env, statement, jobs=no_spark)
        whole(lake)
        assert lake.state.release == released
    assert tables(lake) == {"b": [{"id": 1, "v": 2, "z": None}], "k": []}
    assert not lake.state.dropped
    lake.upgrade(lake.second)
    whole(lake)


#: statements that went before, one that would take a name of the release's away from it
NAMES = [
    (["DROP TABLE a"], "CREATE TABLE a (id BIGINT)"),
    (["ALTER TABLE a RENAME TO b"], "CREATE TABLE a (id BIGINT)"),
    (["ALTER TABLE a RENAME TO b"], "ALTER TABLE k RENAME TO a"),
]


@pytest.mark.parametrize(("before", "statement"), NAMES)
def test_a_name_of_the_release_s(tmp_path: Path, before: list[str], statement: str) -> None:
    lake = make(tmp_path, K, 'removal("a")')
    for other in before:
        alter(lake.env, other, jobs=no_spark)
    with unwritten(lake.env), refused("name_of_release", "a"):
        alter(lake.env, statement, jobs=no_spark)


def test_the_old_name_may_come_back(tmp_path: Path) -> None:
    lake = make(tmp_path, A + K.replace(")", ", w INT)"), 'evolution("k")')
    alter(lake.env, "ALTER TABLE a RENAME TO b", jobs=no_spark)
    alter(lake.env, "ALTER TABLE b RENAME TO a", jobs=no_spark)
    whole(lake)
    lake.upgrade(lake.second)
    whole(lake)


#: statement, schema and step of a release whose query reads a under its released name
FILL = (A + K.replace(")", ", w INT)"), 'replacement("k", fill="SELECT id, v AS w FROM {a}")')
TEXT = A.replace("v INT", "v STRING") + K
QUERIES = [
    ("ALTER TABLE a RENAME TO b", *FILL),
    ("DROP TABLE a", *FILL),
    ("ALTER TABLE a RENAME TO b", TEXT, 'replacement("a")'),
    (
        "ALTER TABLE a RENAME TO b",
        TEXT,
        'rewrite("a", up="SELECT id, CAST(v AS STRING) AS v FROM {a}", down="SELECT id, CAST(v AS INT) AS v FROM {a}")',
    ),
]


@pytest.mark.parametrize(("statement", "schema", "steps"), QUERIES)
def test_a_release_that_queries_what_moved(tmp_path: Path, statement: str, schema: str, steps: str) -> None:
    lake = make(tmp_path, schema, steps)
    alter(lake.env, statement, jobs=no_spark)
    with unwritten(lake.env), refused("moved_ahead", "a"):
        commands.plan(lake.env, lake.second)


def test_another_table_of_its_new_name_is_not_the_change(tmp_path: Path) -> None:
    lake = make(tmp_path, B + K, 'removal("a")')
    alter(lake.env, "ALTER TABLE a RENAME TO b", jobs=no_spark)
    with refused("ahead_not_in_release", "b"):
        commands.preflight(lake.env, lake.second, jobs=no_spark)


def test_given_back_under_its_new_name(tmp_path: Path) -> None:
    lake = make(tmp_path, K.replace(")", ", w INT)"), 'removal("a"), evolution("k")')
    alter(lake.env, "ALTER TABLE a RENAME TO b", jobs=no_spark)
    version = newest(lake.path("b"))
    path = lake.path("b")
    unmanage(lake.env, "b")
    assert newest(path) == version
    whole(lake)
    lake.upgrade(lake.second)
    whole(lake)


@pytest.mark.parametrize("stride", [41, pytest.param(1, marks=pytest.mark.soak)])
def test_dies_anywhere_and_goes_on_or_back(lake: Lake, case: Case, tmp_path: Path, stride: int) -> None:
    first, moment, ended = fingerprints(lake), 0, False
    while not ended:
        for way in ("on", "back"):
            folder = tmp_path / f"{moment}-{way}"
            shutil.copytree(lake.env.location.local_path or Path(), folder)
            found = replace(lake, env=Environment.open(str(folder)))
            try:
                alter(found.crashing_at(moment), case.statement, hold=LONG, jobs=no_spark)
                ended = True
            except Crash:
                pass
            begun = found.state.leader is not None and found.state.leader.generation > 1
            if way == "back" and begun:
                commands.rollback(found.env)
                assert fingerprints(found) == first
                whole(found)
            if fingerprints(found) == first:
                alter(found.env, case.statement, hold=LONG, jobs=no_spark)
            assert tables(found) == case.after
            whole(found)
        moment += stride
    assert moment > stride
