"""One hash, and not the same columns: names exchanged, a column dropped and added again, a rewrite and its way back, releases left out."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from airflow_provider_schemamig.cli.render.schema import cluster_view
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.replication.cluster.consistency import ClusterVerdict
from airflow_provider_schemamig.core.replication.cluster.status import cluster_status
from airflow_provider_schemamig.core.replication.errors import RestoreChangesSchema
from airflow_provider_schemamig.core.replication.model import StreamSettings
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.replication.stream.lineage import ReleaseMark, are_alike
from airflow_provider_schemamig.core.replication.watch import mismatches
from airflow_provider_schemamig.core.upgrade.alter import alter as make
from tests.support.lake import Lake
from tests.support.replicas import EAGER, EVOLVE, Replicas, make_replicas
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import Row
from tests.support.upgrades import releases
from tests.unit.replication.samples import NOW

TRIPS = CollectionName("trips")
FIRST = "CREATE TABLE trips (id BIGINT NOT NULL, a STRING, b STRING, PRIMARY KEY (id));\n"
SWAPPED = (FIRST.replace("a STRING, b STRING", "b STRING, a STRING"), 'evolution("trips", rename={"a": "b", "b": "a"})')
WITHOUT = FIRST.replace(", b STRING", "")
DROPPED = (WITHOUT, 'evolution("trips", drop=["b"])')
MORE = FIRST.replace("b STRING,", "b STRING, c STRING,")
#: A rewrite of b and a column more, which the next release drops: the hash of the first schema comes again.
UP, DOWN = "SELECT id, a, b || '!' AS b, a AS c FROM {trips}", "SELECT id, a, b FROM {trips}"
REWRITTEN = (MORE, f'rewrite("trips", up="{UP}", down="{DOWN}")')
QUERIES: dict[str, Callable[[Row], list[Row]]] = {
    UP: lambda row: [{"id": row["id"], "a": row["a"], "b": f"{row['b']}!", "c": row["a"]}],
    DOWN: lambda row: [{name: row[name] for name in ("id", "a", "b")}],
}
ONE, TWO = {"id": 1, "a": "a1", "b": "b1"}, {"id": 2, "a": "a2", "b": "b2"}


def made(folder: Path, *steps: tuple[str, str]) -> Replicas:
    """``a`` and ``b`` at the first release, with a row that came from the one to the other."""
    two = make_replicas(folder, (FIRST, ""), *steps)
    two.runner = RowJobs(QUERIES)
    two.insert("a", ONE)
    assert waits(two) == ""
    return two


def waits(two: Replicas, depth: int = 1) -> str:
    """Why; empty if all was brought."""
    state = two.state("a", "b", settings=StreamSettings(depth=depth, retry=EAGER.retry, recompute=EAGER.recompute))
    assert state.error is None, state.detail
    found = mismatches(two.env("a"), two.env("b"), ["trips"], depth)
    assert state.pause is None or found, "who asks before a run is told the same"
    return "" if state.pause is None else state.pause.detail


def equal(two: Replicas) -> bool:
    return two.declared_rows("b") == two.declared_rows("a")


def verdict(two: Replicas) -> ClusterVerdict:
    """As both tell it."""
    (found,) = {cluster_status(two.env(name), NOW).verdict for name in "ab"}
    return found


# --- exchanged names -----------------------------------------------------------------------------------------------------------------


def test_the_origin_exchanges_names_first(tmp_path: Path) -> None:
    two = made(tmp_path, SWAPPED)
    two.upgrade("a", to=2)
    two.insert("a", TWO)
    assert waits(two) == "b is another column in the target; a is another column in the target"
    assert verdict(two) is ClusterVerdict.ROLLING_UPGRADE
    two.upgrade("b", to=2)
    assert waits(two) == ""
    assert equal(two)
    assert two.declared_rows("b")[0] == {"id": 1, "a": "b1", "b": "a1"}
    assert verdict(two) is ClusterVerdict.CONSISTENT


def test_the_target_exchanges_names_first(tmp_path: Path) -> None:
    """An event of before is of the schema before: by identity, through the renames. Further back than that it waits."""
    two = made(tmp_path, SWAPPED)
    two.upgrade("b", to=2)
    two.insert("a", TWO)
    assert "1 schemas ago" in waits(two, depth=0)
    assert waits(two) == ""
    assert two.declared_rows("b") == [{"id": 1, "b": "a1", "a": "b1"}, {"id": 2, "b": "a2", "a": "b2"}]
    assert verdict(two) is ClusterVerdict.ROLLING_UPGRADE
    two.upgrade("a", to=2)
    two.insert("a", {"id": 3, "a": "a3", "b": "b3"})
    assert waits(two) == ""
    assert equal(two)


@pytest.mark.parametrize("first", "ab")
def test_names_exchanged_and_back(first: str, tmp_path: Path) -> None:
    """Who goes to the third release at once has never exchanged them, and cannot tell what an event of who has is: a restore can."""
    two = made(tmp_path, SWAPPED, (FIRST, SWAPPED[1]))
    two.upgrade(first, to=2)
    two.upgrade("b" if first == "a" else "a", to=3)
    two.insert("a", TWO)
    assert ("another column" in waits(two)) is (first == "a")
    two.upgrade(first, to=3)
    assert ("another column" in waits(two)) is (first == "a")
    if first == "a":
        restore(two.env("a"), two.env("b"), TRIPS, jobs=two.runner)
    two.insert("a", {"id": 3, "a": "a3", "b": "b3"})
    assert waits(two) == ""
    assert equal(two)


def test_a_column_that_takes_the_name_of_one_that_went(tmp_path: Path) -> None:
    """Its schema is one that the target never had, and each of its columns has a name there."""
    taken = WITHOUT.replace("a STRING", "b STRING"), 'evolution("trips", drop=["b"], rename={"a": "b"})'
    two = made(tmp_path, taken)
    two.upgrade("a", to=2)
    two.insert("a", {"id": 2, "b": "a2"})
    assert waits(two) == "b is another column in the target"
    two.upgrade("b", to=2)
    assert waits(two) == ""
    assert equal(two)


# --- dropped and added again ---------------------------------------------------------------------------------------------------------


def test_the_target_dropped_a_column_and_added_another_one(tmp_path: Path) -> None:
    two = made(tmp_path, DROPPED, (FIRST, EVOLVE))
    two.upgrade("b", to=2)
    two.upgrade("b", to=3)
    two.insert("a", TWO)
    assert "2 schemas ago" in waits(two)
    assert waits(two, depth=2) != "", "the old b has no place any more, and its name is another one's"
    assert two.declared_rows("b") == [{"id": 1, "a": "a1", "b": None}]
    assert verdict(two) is ClusterVerdict.DIVERGED


def test_the_origin_dropped_a_column_and_added_another_one(tmp_path: Path) -> None:
    two = made(tmp_path, DROPPED, (FIRST, EVOLVE))
    two.upgrade("a", to=2)
    two.upgrade("a", to=3)
    two.insert("a", TWO)
    assert waits(two) == "b is another column in the target"
    two.upgrade("b", to=2)
    two.upgrade("b", to=3)
    assert waits(two) == ""
    assert equal(two)


# --- rewrites ------------------------------------------------------------------------------------------------------------------------


def test_the_target_went_through_a_rewrite_and_has_the_hash_again(tmp_path: Path) -> None:
    two = made(tmp_path, REWRITTEN, (FIRST, 'evolution("trips", drop=["c"])'))
    two.upgrade("b", to=2)
    two.insert("a", TWO)
    assert "was rewritten or replaced since" in waits(two)
    two.upgrade("b", to=3)
    assert "2 schemas ago" in waits(two)
    assert "was rewritten or replaced since" in waits(two, depth=2)
    assert two.declared_rows("b") == [{"id": 1, "a": "a1", "b": "b1!"}]
    assert verdict(two) is ClusterVerdict.DIVERGED
    with pytest.raises(RestoreChangesSchema, match="was rewritten or replaced since"):
        restore(two.env("a"), two.env("b"), TRIPS, allow_schema_change=True, allow_lossy=True, jobs=two.runner)


def test_the_origin_went_through_a_rewrite_and_has_the_hash_again(tmp_path: Path) -> None:
    """Its old table is gone with the hold, so the rows can only be restored; which is for a target that went there, too."""
    two = made(tmp_path, REWRITTEN, (FIRST, 'evolution("trips", drop=["c"])'))
    two.upgrade("a", to=2)
    two.upgrade("a", to=3)
    two.insert("a", TWO)
    with pytest.raises(RestoreChangesSchema, match="b is another column in the target"):
        restore(two.env("a"), two.env("b"), TRIPS, allow_schema_change=True, allow_lossy=True, jobs=two.runner)
    assert two.declared_rows("b") == [ONE]
    two.upgrade("b", to=2)
    two.upgrade("b", to=3)
    with pytest.raises(RestoreChangesSchema, match="c is kept at the target"):
        restore(two.env("a"), two.env("b"), TRIPS, jobs=two.runner)
    commands.contract(two.env("b"), at_once=True)
    restore(two.env("a"), two.env("b"), TRIPS, jobs=two.runner)
    assert equal(two)
    two.insert("a", {"id": 3, "a": "a3", "b": "b3"})
    assert waits(two) == ""
    assert equal(two)


# --- the ways there ------------------------------------------------------------------------------------------------------------------


def test_lineage_who_leaves_a_release_out_waits_for_columns_that_no_common_release_has(tmp_path: Path) -> None:
    """c was made by the second release, or by the third one anew: the target has the sum of both. Once the origin is there, it is clear."""
    two = made(tmp_path, (MORE, EVOLVE), (MORE + "CREATE TABLE other (id INT);\n", ""))
    two.upgrade("a", to=2)
    two.insert("a", {**TWO, "c": "c2"})
    two.upgrade("b", to=3)
    assert waits(two).startswith("c is younger than the last release that both environments were at")
    two.upgrade("a", to=3)
    assert waits(two) == ""
    assert equal(two)


@pytest.fixture
def apart(tmp_path: Path) -> Replicas:
    """``a`` at the first release, ``b`` made at the second, which exchanged names: neither was where the other is."""
    folders = releases(tmp_path, (FIRST, ""), SWAPPED)
    lakes = {name: Lake(Environment.open(str(tmp_path / name)), folders[0], folders[1]) for name in "ab"}
    two = Replicas(folders, lakes)
    two.upgrade("a", to=1)
    two.upgrade("b", to=2)
    two.insert("a", ONE)
    return two


def test_no_release_in_common_waits_until_there_is_one(apart: Replicas) -> None:
    assert "younger than the last release that both" in waits(apart)
    assert verdict_after_a_run(apart) is ClusterVerdict.DIVERGED
    apart.upgrade("a", to=2)
    assert waits(apart) == ""
    assert equal(apart)
    apart.insert("a", TWO)
    assert waits(apart) == ""
    assert equal(apart)
    assert verdict_after_a_run(apart) is ClusterVerdict.CONSISTENT


def verdict_after_a_run(two: Replicas) -> ClusterVerdict:
    two.bring("a", "b")
    return verdict(two)


def test_a_restore_may_be_told_to_go_by_names(apart: Replicas) -> None:
    with pytest.raises(RestoreChangesSchema, match="younger than the last release"):
        restore(apart.env("a"), apart.env("b"), TRIPS, jobs=apart.runner)
    restore(apart.env("a"), apart.env("b"), TRIPS, allow_schema_change=True, jobs=apart.runner)
    assert apart.declared_rows("b") == apart.declared_rows("a")


def test_lineage_what_was_rolled_back_and_made_again(tmp_path: Path) -> None:
    """The same release twice is one; events of either time are its."""
    two = made(tmp_path, SWAPPED)
    two.upgrade("a", to=2)
    two.insert("a", TWO)
    two.rollback("a")
    two.insert("a", {"id": 3, "a": "a3", "b": "b3"})
    assert "another column" in waits(two), "the event is of a release that the target was never at"
    two.upgrade("b", to=2)
    assert waits(two) == ""
    two.rollback("b")
    two.insert("a", {"id": 4, "a": "a4", "b": "b4"})
    assert waits(two) == ""
    assert equal(two)
    two.upgrade("a", to=2)
    two.upgrade("b", to=2)
    two.insert("a", {"id": 5, "a": "a5", "b": "b5"})
    assert waits(two) == ""
    assert equal(two)


def test_a_change_outside_of_releases_goes_by_its_name(tmp_path: Path) -> None:
    """No release knows the column, at either end; what releases know of the others still counts."""
    two = made(tmp_path, (MORE, EVOLVE))
    for name in "ab":
        alter(two, name, "ALTER TABLE trips ADD COLUMN c STRING")
    two.insert("a", {**TWO, "c": "c2"})
    assert waits(two) == ""
    assert equal(two)
    two.upgrade("b", to=2)
    two.insert("a", {"id": 3, "a": "a3", "b": "b3", "c": "c3"})
    assert waits(two) == ""
    two.upgrade("a", to=2)
    assert waits(two) == ""
    assert equal(two)
    assert verdict(two) is ClusterVerdict.CONSISTENT


def test_names_exchanged_outside_of_releases(tmp_path: Path) -> None:
    two = made(tmp_path)
    for sql in ("RENAME COLUMN a TO x", "RENAME COLUMN b TO a", "RENAME COLUMN x TO b"):
        alter(two, "a", f"ALTER TABLE trips {sql}")
    two.insert("a", TWO)
    assert waits(two) == "b is another column in the target; a is another column in the target"


def alter(two: Replicas, name: str, sql: str) -> None:
    make(two.env(name), sql, jobs=two.runner)


# --- what others are told ------------------------------------------------------------------------------------------------------------


def mark(columns: str, *minors: int, whole: bool = True, declares: str = "d") -> ReleaseMark:
    return ReleaseMark(declares, tuple(Version(1, minor, 0) for minor in minors), columns, whole)


ALIKE: dict[str, tuple[list[ReleaseMark], list[ReleaseMark], bool]] = {
    "says nothing": ([], [mark("x", 0)], True),
    "one way": ([mark("x", 0, 1)], [mark("x", 1, 2)], True),
    "exchanged": ([mark("x", 0)], [mark("y", 0)], False),
    "exchanged before, whatever a number says that was used twice": ([mark("x", 0), mark("z", 1)], [mark("y", 0), mark("z", 1)], False),
    "dropped and added again": ([mark("x", 0)], [mark("y", 0, whole=False), mark("z", 2)], False),
    "added at one release": ([mark("x", 0, whole=False), mark("z", 1)], [mark("x", 0, whole=False), mark("z", 1)], True),
    "added at one release or another": ([mark("x", 0, whole=False), mark("z", 1)], [mark("x", 0, whole=False), mark("z", 2)], False),
    "added by no release": ([mark("x", 0)], [mark("x", 0, whole=False)], True),
    "nowhere both were": ([mark("x", 0)], [mark("x", 1)], False),
    "of another product": ([mark("x", 0)], [mark("y", 0, declares="other")], True),
}


@pytest.mark.parametrize("case", ALIKE)
def test_stream_lineage_marks(case: str) -> None:
    one, other, expected = ALIKE[case]
    assert are_alike(one, other) is are_alike(other, one) is expected


def test_a_screen_says_that_other_columns_go_by_the_names(tmp_path: Path) -> None:
    two = made(tmp_path, SWAPPED)
    two.upgrade("a", to=2)
    two.bring("a", "b")
    found = cluster_status(two.env("b"), NOW)
    own, other = found.differing[TRIPS]
    assert own.hash == other.hash
    assert (own.current, own.previous) == ((found.local.node.env_id,), other.current), "a had b's schema before"
    console = Console(file=io.StringIO(), width=200)
    console.print(cluster_view(found.to_json()))
    assert isinstance(console.file, io.StringIO)
    assert "the same names, but other columns go by them" in console.file.getvalue()
