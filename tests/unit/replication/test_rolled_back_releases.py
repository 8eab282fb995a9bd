"""A release was rolled back at one end, and another one has its number, or comes below it: streams go on, and nothing is a stranger."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.replication.errors import RestoreChangesSchema
from airflow_provider_schemamig.core.replication.model import PauseReason
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.replication.watch import mismatches
from tests.support.lake import Lake
from tests.support.product import Product
from tests.support.replicas import Replicas, make_replicas
from tests.support.upgrades import make_holds_due, releases

FIRST = "CREATE TABLE trips (id BIGINT NOT NULL, a STRING, b STRING, PRIMARY KEY (id));\nCREATE TABLE lines (line STRING, n INT);\n"
SWAPS = 'evolution("trips", rename={"a": "b", "b": "a"})'
SWAPPED = FIRST.replace("a STRING, b STRING", "b STRING, a STRING")
LINES = FIRST.replace("n INT", "n INT, x INT")
WITH_C = FIRST.replace("b STRING", "b STRING, c STRING")
COMMENTED = LINES.replace("a STRING", "a STRING COMMENT 'x'")
ONE, TWO, THREE = ({"id": number, "a": f"a{number}", "b": f"b{number}"} for number in (1, 2, 3))


def made(folder: Path, withdrawn: tuple[str, str], *anew: tuple[str, str], names: str = "ab") -> Replicas:
    """Releases: 1 is 1.0.0, 2 the 1.1.0 that is to be rolled back, 3 the other 1.1.0, 4 its 1.2.0."""
    found = make_replicas(folder, (FIRST, ""), withdrawn, names=names)
    found.folders = [*found.folders, *releases(folder / "anew", (FIRST, ""), *anew)[1:]]
    found.insert("a", ONE)
    return found


def brought(two: Replicas) -> bool:
    state = two.state("a", "b")
    assert state.error is None, state.detail
    return state.pause is None and two.declared_rows("a") == two.declared_rows("b")


def up_and_back(two: Replicas, name: str) -> None:
    two.upgrade(name, to=2, end_hold=False)
    two.rollback(name)


@pytest.mark.parametrize("end", ["a", "b"], ids=["at the origin", "at the target"])
def test_its_number_again_goes_on(tmp_path: Path, end: str) -> None:
    two = made(
        tmp_path, (SWAPPED, SWAPS), (LINES, 'evolution("lines")'), (LINES.replace("b STRING", "b STRING, z STRING"), 'evolution("trips")')
    )
    assert brought(two)
    up_and_back(two, end)
    two.insert("a", TWO)
    assert brought(two)
    two.upgrade("a", "b", to=3)
    two.insert("a", THREE)
    assert brought(two)
    two.upgrade("a", "b", to=4)
    two.insert("a", {"id": 4, "a": "a4", "b": "b4", "z": "z4"})
    assert brought(two)


@pytest.mark.some(2)
@pytest.mark.parametrize("seen", ["never", "before", "between"])
@pytest.mark.parametrize("late", [True, False])
def test_a_column_whose_name_went_back_is_the_same_one_again(tmp_path: Path, seen: str, late: bool) -> None:
    """What came under the release that was taken back is in both environments, once that is there again."""
    two = make_replicas(tmp_path, (FIRST, ""), (FIRST.replace("b STRING", "x STRING, b STRING"), 'evolution("trips", rename={"b": "x"})'))
    two.insert("a", ONE)
    assert brought(two)
    two.upgrade("a", *(() if late else "b"), to=2, end_hold=False)
    two.insert("a", {"id": 2, "a": "a2", "b": "new", "x": "b2"})
    if seen == "before":
        two.bring("a", "b")
    two.rollback("a")
    if seen == "between":
        two.bring("a", "b")
    two.upgrade("a", *("b" if late else ()), to=2, end_hold=False)
    two.insert("a", {"id": 3, "a": "a3", "b": "newer", "x": "b3"})
    assert brought(two)
    assert [row["b"] for row in two.declared_rows("b")] == [None, "new", "newer"]


@pytest.mark.parametrize("withdrawn", [(SWAPPED, SWAPS), (WITH_C, 'evolution("trips")')], ids=["exchanged names", "a column more"])
def test_a_replica_that_is_made_afterwards(tmp_path: Path, withdrawn: tuple[str, str]) -> None:
    """It is no stranger: names that are exchanged later are not brought by name."""
    exchanged = LINES.replace("a STRING, b STRING", "b STRING, a STRING")
    two = made(tmp_path, withdrawn, (LINES, 'evolution("lines")'), (exchanged, SWAPS), names="a")
    up_and_back(two, "a")
    two.upgrade("a", to=3)
    two.lakes["b"] = Lake(Environment.open(str(tmp_path / "b")), two.folders[0], two.folders[-1])
    two.upgrade("b", to=3)
    assert brought(two)
    two.upgrade("a", to=4)
    two.insert("a", {"id": 2, "b": "was a", "a": "was b"})
    assert not brought(two)
    two.upgrade("b", to=4)
    assert brought(two)


def test_a_lower_number_afterwards(tmp_path: Path) -> None:
    """What a release below the one that was rolled back drops is left out of rows from before."""
    two = made(tmp_path, (COMMENTED, 'evolution("lines")'))
    product = Product(tmp_path / "lower")
    product.release("1.0.0", FIRST)
    lower = product.release("1.0.1", FIRST.replace(", b STRING", ""), 'evolution("trips", drop=["b"])')
    assert brought(two)
    up_and_back(two, "b")
    two.insert("a", TWO)
    commands.upgrade(two.env("b"), lower, jobs=two.runner, end_hold=True, hold=timedelta(0))
    state = two.state("a", "b")
    assert (state.error, state.pause) == (None, None)
    assert two.declared_rows("b") == [{"id": 1, "a": "a1"}, {"id": 2, "a": "a2"}]


# --- the first look while the origin keeps values for a way back ----------------------------------------------------------------------

ONLY_B = FIRST.replace("a STRING, ", "")
WITHOUT_B = FIRST.replace(", b STRING", "")


def dropped(folder: Path) -> Replicas:
    two = make_replicas(folder, (FIRST, ""), (WITHOUT_B, 'evolution("trips", drop=["b"])'))
    two.insert("a", ONE)
    two.upgrade("a", to=2, end_hold=False)
    return two


def added_and_back(folder: Path) -> Replicas:
    two = make_replicas(folder, (FIRST, ""), (WITH_C, 'evolution("trips")'))
    two.upgrade("a", "b", to=2, end_hold=False)
    two.insert("a", {**ONE, "c": "c1"})
    two.rollback("a")
    return two


def told(two: Replicas) -> str:
    """Why it waits, by a run and by who asks without one."""
    (before,) = mismatches(two.env("a"), two.env("b"), ["trips"], 1)
    pause = two.state("a", "b").pause
    assert pause is not None
    assert (pause.reason, pause.detail) == (PauseReason.SCHEMA_MISMATCH, before.detail)
    return before.detail


def test_the_first_look_while_a_column_is_hidden(tmp_path: Path) -> None:
    """The target declares it: a copy would leave its values behind, and the origin's way back would show them."""
    two = dropped(tmp_path)
    assert told(two).startswith("b is hidden at the origin")
    two.rollback("a")
    assert brought(two)
    assert two.declared_rows("b") == [ONE]


def test_the_first_look_goes_on_once_the_target_has_dropped_it_too(tmp_path: Path) -> None:
    two = dropped(tmp_path)
    told(two)
    two.upgrade("b", to=2)
    assert brought(two)


def test_the_first_look_goes_on_once_the_column_is_gone(tmp_path: Path) -> None:
    two = dropped(tmp_path)
    make_holds_due(two.lakes["a"])
    commands.contract(two.env("a"), Generation(2))
    state = two.state("a", "b")
    assert (state.error, state.pause) == (None, None)
    assert two.declared_rows("b") == [{**ONE, "b": None}]


def test_the_first_look_after_a_rollback_that_hides_a_column(tmp_path: Path) -> None:
    two = added_and_back(tmp_path)
    assert told(two).startswith("c is hidden at the origin")
    with pytest.raises(RestoreChangesSchema, match="c is hidden"):
        restore(two.env("a"), two.env("b"), CollectionName("trips"), jobs=two.runner)
    restore(two.env("a"), two.env("b"), CollectionName("trips"), allow_schema_change=True, jobs=two.runner)
    assert two.declared_rows("b") == [{**ONE, "c": None}]


def test_the_first_look_at_another_column_of_the_name(tmp_path: Path) -> None:
    """The target declares the one that the origin has now."""
    two = make_replicas(tmp_path, (FIRST, ""), (ONLY_B, 'evolution("trips", rename={"a": "b"}, drop=["b"])'))
    two.insert("a", ONE)
    two.upgrade("a", "b", to=2, end_hold=False)
    assert brought(two)


def test_rows_of_a_release_that_the_origin_took_back_wait_for_their_columns(tmp_path: Path) -> None:
    """The column stays hidden at the origin, and has its values again with the release: an event that left them out would lose them."""
    two = made(tmp_path, (WITH_C, 'evolution("trips")'))
    assert brought(two)
    two.upgrade("a", to=2, end_hold=False)
    two.insert("a", TWO | {"c": "c2"})
    two.rollback("a")
    assert not brought(two)
    two.insert("a", THREE)
    two.upgrade("a", "b", to=2)
    assert brought(two)
    assert {row["c"] for row in two.declared_rows("b")} == {None, "c2"}


@pytest.mark.parametrize("target", ["is ahead", "is behind"])
def test_rows_of_a_release_that_dropped_a_column_and_was_taken_back_keep_its_new_one(tmp_path: Path, target: str) -> None:
    """What the release dropped is on the table again, and says nothing of the rows that it wrote."""
    first = FIRST.replace("b STRING", "b STRING, x INT")
    two = make_replicas(tmp_path, (first, ""), (first.replace("x INT", "d INT"), 'evolution("trips", drop=["x"])'))
    two.insert("a", ONE | {"x": 1})
    assert brought(two)
    two.upgrade(*("ab" if target == "is ahead" else "a"), to=2, end_hold=False)
    two.insert("a", TWO | {"d": 9})
    two.rollback("a")
    assert (two.state("a", "b").pause is None) is (target == "is ahead")
    two.insert("a", THREE | {"x": 3})
    two.upgrade("a", to=2, end_hold=False)
    if target == "is behind":
        two.upgrade("b", to=2, end_hold=False)
    assert brought(two)
    assert {row["id"]: row["d"] for row in two.declared_rows("b")} == {1: None, 2: 9, 3: None}
