"""A table is ahead of its release (``alter``), then somebody changes it: ``accept`` writes the step from the release to what is there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.check import check
from tests.support.lake import Lake, no_spark, rows
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, make_holds_due, refused, releases, two_releases, whole

pytestmark = pytest.mark.some(8, of="accepted ahead")

FIRST = "CREATE TABLE t (id0 BIGINT, a STRING, b STRING);\nCREATE TABLE u (i BIGINT);\n"
SECOND = FIRST.replace("id0", "id")
Change = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """``step``: of the release that ``accept`` writes; None: it writes none, and the table is no longer ahead. ``name``: the table's."""

    name: str
    alters: tuple[str, ...]
    change: Change
    step: str | None
    #: What the release declares then.
    columns: str
    collection: str = "t"


def dropped(*names: str) -> Change:
    def change(path: Path) -> None:
        for name in names:
            foreign.drop_column(path, name)

    return change


def renamed(name: str, to: str) -> Change:
    return lambda path: foreign.rename_column(path, name, to)


def added(name: str, kind: str = "string") -> Change:
    return lambda path: foreign.add_column(path, name, kind)


ADD, DROP, RENAME = "ALTER TABLE t ADD COLUMN x STRING", "ALTER TABLE t DROP COLUMN a", "ALTER TABLE t RENAME COLUMN a TO z"
CASES = [
    Case("added, dropped", (ADD,), dropped("x"), None, "id a b"),
    Case("added, renamed", (ADD,), renamed("x", "y"), 'evolution("t")', "id a b y"),
    Case("added, another renamed", (ADD,), renamed("a", "c"), 'evolution("t", rename={"a": "c"})', "id c b x"),
    Case("added, another dropped", (ADD,), dropped("a"), 'evolution("t", drop=["a"])', "id b x"),
    Case("added, and both dropped", (ADD,), dropped("x", "a"), 'evolution("t", drop=["a"])', "id b"),
    Case("dropped, added", (DROP,), added("a"), None, "id a b"),
    Case("dropped, another renamed to it", (DROP,), renamed("b", "a"), 'evolution("t", rename={"b": "a"}, drop=["a"])', "id a"),
    Case("renamed, renamed back", (RENAME,), renamed("z", "a"), None, "id a b"),
    Case("renamed, renamed on", (RENAME,), renamed("z", "q"), 'evolution("t", rename={"a": "q"})', "id q b"),
    Case("renamed, dropped", (RENAME,), dropped("z"), 'evolution("t", drop=["a"])', "id b"),
    Case("twice", (RENAME, ADD), renamed("z", "q"), 'evolution("t", rename={"a": "q"})', "id q b x"),
    Case("table renamed", ("ALTER TABLE t RENAME TO w",), added("k"), 'evolution("w", renamed_from="t")', "id a b k", "w"),
    Case(
        "table renamed, a column, too", ("ALTER TABLE t RENAME TO w",), renamed("a", "c"),
        'evolution("w", rename={"a": "c"}, renamed_from="t")', "id c b", "w",
    ),
    Case("new table", ("CREATE TABLE k (z INT)",), added("k"), "STEPS = []", "z k", "k"),
]  # fmt: skip


def unreleased(folder: Path, *alters: str) -> tuple[Lake, Path]:
    folders = releases(folder, (FIRST, ""), (SECOND, 'evolution("t", rename={"id0": "id"})'))
    lake = deployed(folder, *folders)
    lake.upgrade(folders[1])
    make_holds_due(lake)
    commands.contract(lake.env, None)
    for statement in alters:
        commands.alter(lake.env, statement, jobs=no_spark)
        make_holds_due(lake)
        commands.contract(lake.env, None)
    return lake, folders[1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_accepted_from_the_release_on(tmp_path: Path, case: Case) -> None:
    lake, folder = unreleased(tmp_path, *case.alters)
    case.change(lake.path(case.collection))
    status = commands.status(lake.env).document["collections"][case.collection]
    assert status["ways_on"][0]["why_not"] == []

    found = commands.accept(lake.env, folder)

    module = folder / "migrations" / "v1_2_0.py"
    assert (str(found.version), bool(found.files)) == (("1.1.0", False) if case.step is None else ("1.2.0", True))
    assert module.exists() == (case.step is not None)
    assert case.step is None or case.step in module.read_text()
    assert not commands.status(lake.env).drifted
    assert (lake.state.unreleased_of(CollectionName(case.collection)) is None) == (case.step is None)
    assert (case.step is None) == ("no longer ahead" in "; ".join(found.notes))

    lake.upgrade(folder)
    assert lake.version == str(found.version)
    entry = lake.state.entry(CollectionName(case.collection))
    assert " ".join(field.name for field in entry.declared.fields) == case.columns
    assert not commands.status(lake.env).document["collections"][case.collection]["ahead"]
    assert commands.accept(lake.env, folder).version is None
    whole(lake)


NIGHTS = [
    ((added("x"),), (added("y"),), "id a b x y", {"id": 1, "a": "a", "b": "b", "x": None, "y": None}),
    ((renamed("a", "c"),), (added("x"),), "id c b x", {"id": 1, "c": "a", "b": "b", "x": None}),
    ((dropped("a"),), (added("x"), added("y")), "id b x y", {"id": 1, "b": "b", "x": None, "y": None}),
]


@pytest.mark.parametrize(("first", "second", "columns", "row"), NIGHTS)
def test_accepted_on_two_nights_before_the_upgrade(
    tmp_path: Path, first: tuple[Change, ...], second: tuple[Change, ...], columns: str, row: dict[str, object]
) -> None:
    lake, folder = unreleased(tmp_path)
    tables.insert(lake.path("t"), [{"id": 1, "a": "a", "b": "b"}])
    for version, changes in (("1.2.0", first), ("1.3.0", second)):
        for change in changes:
            change(lake.path("t"))
        assert commands.status(lake.env).document["collections"]["t"]["ways_on"][0]["why_not"] == []
        assert str(commands.accept(lake.env, folder).version) == version
        assert check(folder) == ()
    assert commands.accept(lake.env, folder).version is None
    lake.upgrade(folder)
    entry = lake.state.entry(CollectionName("t"))
    assert " ".join(field.name for field in entry.declared.fields) == columns
    assert tables.snapshot(lake.path("t")).rows == [row]
    assert lake.state.unreleased_of(CollectionName("t")) is None
    whole(lake)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((added("x"),), (renamed("x", "y"),)),
        ((dropped("a"),), (added("a"), added("x"))),
        ((renamed("a", "c"),), (renamed("c", "d"),)),
        ((renamed("a", "c"),), (dropped("c"),)),
        ((dropped("a"),), (renamed("b", "a"),)),
    ],
)
def test_accept_ahead_what_no_version_on_top_says_is_refused_until_the_one_below_is_taken_out(
    tmp_path: Path, first: tuple[Change, ...], second: tuple[Change, ...]
) -> None:
    lake, folder = unreleased(tmp_path)
    tables.insert(lake.path("t"), [{"id": 1, "a": "a", "b": "b"}])
    shutil.copytree(folder, tmp_path / "before")
    for change in first:
        change(lake.path("t"))
    commands.accept(lake.env, folder)
    for change in second:
        change(lake.path("t"))
    shown = tables.snapshot(lake.path("t")).rows
    with refused("ahead_not_in_release", "t") as found:
        commands.accept(lake.env, folder)
    assert "Take the versions that are deployed nowhere out of the folder" in found[0].next_action
    commands.accept(lake.env, tmp_path / "before")
    lake.upgrade(tmp_path / "before")
    assert tables.snapshot(lake.path("t")).rows == shown
    whole(lake)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((dropped("a"),), (added("a"),), ("does not have a",)),
        ((dropped("a", "b"),), (added("a"),), ("does not have a",)),
        ((renamed("a", "c"),), (dropped("c"), added("a")), ("does not have a", "has c")),
        ((renamed("a", "c"),), (renamed("c", "a"),), ("does not have a", "has c")),
        ((added("x"), added("y")), (dropped("x"),), ("has x",)),
    ],
)
def test_accept_ahead_what_the_version_below_undoes_is_told(
    tmp_path: Path, first: tuple[Change, ...], second: tuple[Change, ...], said: tuple[str, ...]
) -> None:
    lake, folder = unreleased(tmp_path)
    for change in first:
        change(lake.path("t"))
    commands.accept(lake.env, folder)
    for change in second:
        change(lake.path("t"))
    found = commands.accept(lake.env, folder)
    assert found.files == ()
    notes = [note for note in found.notes if "take the versions up to 1.2.0 out of the folder" in note]
    assert [f"deployed here, {text}" in note for text, note in zip(said, notes, strict=True)] == [True] * len(said)


def test_another_environment_takes_over_both_nights_at_once(tmp_path: Path) -> None:
    """Its folder has both versions already, so it writes none."""
    lake, folder = unreleased(tmp_path / "one")
    other, _ = unreleased(tmp_path / "other")
    for name in ("x", "y"):
        foreign.add_column(lake.path("t"), name)
        commands.accept(lake.env, folder)
        foreign.add_column(other.path("t"), name)
    assert (str(commands.accept(other.env, folder).version), commands.accept(other.env, folder).version) == ("1.3.0", None)
    other.upgrade(folder)
    whole(other)


def test_a_version_on_top_of_one_that_reads_the_table_brings_columns_only(tmp_path: Path) -> None:
    """The query of 1.2.0 names the columns of 1.1.0, which an upgrade to both would not find."""
    lake, folder = unreleased(tmp_path)
    fill = 'replacement("w", fill="SELECT id, a FROM {t}")'
    folder = releases(
        tmp_path / "more", (FIRST, ""), (SECOND, 'evolution("t", rename={"id0": "id"})'),
        (f"{SECOND}\nCREATE TABLE w (id BIGINT, a STRING);\n", fill),
    )[2]  # fmt: skip
    foreign.add_column(lake.path("t"), "x")
    assert str(commands.accept(lake.env, folder).version) == "1.3.0"
    assert commands.plan(lake.env, folder).refusals == ()
    foreign.drop_column(lake.path("t"), "b")
    with refused("ahead_not_in_release", "t"):
        commands.accept(lake.env, folder)


def test_accept_over_a_head_that_cannot_be_reached_from_here(tmp_path: Path) -> None:
    """Neither that nor the release before it would take the change, so what leads on is said by ``accept``, not by the upgrade."""
    first, other = "CREATE TABLE t (id BIGINT, a INT);", "CREATE TABLE u (i BIGINT);"
    second, third = first.replace("a INT", "a INT NOT NULL"), first.replace("a INT", "a STRING NOT NULL")
    up = 'rewrite("t", up="SELECT id, CAST(a AS STRING) AS a FROM {t}", down="SELECT id, CAST(a AS INT) AS a FROM {t}")'
    found = releases(tmp_path, (first + other, ""), (second + other, 'evolution("t")'), (third + other, up))
    lake = deployed(tmp_path, found[0], found[2])
    foreign.add_column(lake.path("u"), "x")
    with refused("cannot_accept", "u") as told:
        commands.accept(lake.env, found[2])
    assert "the upgrade from here to 1.2.0 would be refused as it is (t: " in str(told[0])
    assert "Revert it" in told[0].next_action


REFUSED = [
    (RENAME, added("a"), "another column has its name"),
    (DROP, added("a", "integer"), "came again with another type"),
]


@pytest.mark.parametrize(("statement", "change", "why"), REFUSED)
def test_accept_ahead_what_no_step_says_is_refused_and_holds_nothing_else_up(
    tmp_path: Path, statement: str, change: Change, why: str
) -> None:
    lake, folder = unreleased(tmp_path, statement)
    change(lake.path("t"))
    (found,) = commands.status(lake.env).document["collections"]["t"]["ways_on"][0]["why_not"]
    assert why in found
    with refused("cannot_accept", "t"):
        commands.accept(lake.env, folder)
    foreign.add_column(lake.path("u"), "k")
    with refused("cannot_accept", "t"):
        commands.accept(lake.env, folder, ["t", "u"])

    taken = commands.accept(lake.env, folder)

    assert [name for name, _ in taken.changes] == ["u"]
    assert any(why in note and note.startswith("t is left as it is") for note in taken.notes)
    assert commands.status(lake.env).drifted == ("t",)


def test_a_column_that_came_again_is_the_releases_column(tmp_path: Path) -> None:
    lake, folder = unreleased(tmp_path, DROP)
    foreign.add_column(lake.path("t"), "a")
    commands.accept(lake.env, folder)
    lake.upgrade(folder)
    foreign.write(lake.path("t"), [{"id": 1, "a": "new", "b": "b"}])
    assert rows(lake.path("t"), "id", "a") == [{"id": 1, "a": "new"}]


def test_two_rollbacks_after_an_accept_leave_the_collection_ahead_as_it_was(tmp_path: Path) -> None:
    """The release that contains the change, another one upon it, and both ways back."""
    one = "CREATE TABLE t (id BIGINT, a INT);"
    lake = two_releases(tmp_path, one, one, "")
    folder = tmp_path / "folder"
    shutil.copytree(lake.first, folder)
    tables.add_column(lake.path("t"), "x")
    commands.accept(lake.env, folder)
    lake.upgrade(folder)
    schema = folder / "schema.sql"
    schema.write_text(schema.read_text().replace("x STRING", "x STRING, y INT"))
    commands.new_release(folder, "Bring y")
    (module,) = (folder / "migrations").glob("v1_2_0.py")
    module.write_text(re.sub(r"Why: .*", "Why: a test.", module.read_text()))
    commands.snapshot_release(folder)
    lake.upgrade(folder)
    commands.rollback(lake.env, jobs=no_spark)
    commands.rollback(lake.env, jobs=no_spark)
    assert commands.status(lake.env).to_json()["collections"]["t"]["ahead"]
    lake.upgrade(folder)
    assert lake.version == "1.2.0"


UNDONE: dict[str, tuple[Change, Change, str]] = {
    "a CHECK": (
        lambda path: tables.set_property(path, "delta.constraints.pos", "id > 0"),
        lambda path: tables.set_property(path, "delta.constraints.pos", None),
        "does again what was taken back: add CHECK pos (id > 0)",
    ),
    "a column": (added("more"), dropped("more"), "has more, and the upgrade to it adds it"),
}


@pytest.mark.parametrize("name", UNDONE)
def test_accept_tells_what_the_folders_next_version_does_again_of_what_was_undone(tmp_path: Path, name: str) -> None:
    lake, folder = unreleased(tmp_path)
    does, undoes, told = UNDONE[name]
    does(lake.path("t"))
    assert commands.accept(lake.env, folder).notes == ()
    undoes(lake.path("t"))
    (note,) = (note for note in commands.accept(lake.env, folder).notes if "not deployed here" in note)
    assert told in note and "take the versions up to 1.2.0 out of the folder" in note
