"""A release was rolled back, and the next one leaves its tables as they were: nobody gets the shape of what was taken back."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import NeedsSpark, ReaderFenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade.alter import alter
from tests.support.lake import Lake, no_spark
from tests.support.online import OnlineJobs
from tests.support.product import Product
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, whole

T = "CREATE TABLE t (id BIGINT, a STRING, b STRING);"
SWAPPED = "CREATE TABLE t (id BIGINT, b STRING, a STRING);"
SWAPS = 'evolution("t", rename={"a": "b", "b": "a"})'
UP, DOWN = "SELECT id, a, b, a AS z FROM {t}", "SELECT id, a, b FROM {t}"
WITH_E, UP_E = T.replace(");", ", e BIGINT);"), "SELECT id, a, b, e, a AS z FROM {t}"
WITH_Z = "CREATE TABLE t (id BIGINT, a STRING, b STRING, z STRING);"
ROW = {"id": 1, "a": "a1", "b": "b1"}
EXCHANGED = {"id": 1, "b": "a1", "a": "b1"}

Rows = Mapping[str, Any]
QUERIES: dict[str, Callable[[Rows], list[Rows]]] = {
    UP: lambda row: [{**row, "z": row["a"]}],
    DOWN: lambda row: [{name: row[name] for name in ("id", "a", "b")}],
    UP_E: lambda row: [{**row, "z": row["a"]}],
}


@dataclass
class World:
    lake: Lake
    folder: Path

    def up(self, schema: str, version: str, steps: str, beside: str = "", chain: str = "p") -> None:
        """To a release made after 1.0.0, or, of ``chain`` p, after all that were made so before."""
        folder = (self.chains.get(chain) or self.begun(chain)).release(version, f"{schema} CREATE TABLE u (id BIGINT{beside});", steps)
        commands.upgrade(self.lake.env, folder, jobs=self.jobs)

    def __post_init__(self) -> None:
        self.chains: dict[str, Product] = {}
        self.jobs = OnlineJobs(queries=QUERIES)

    def begun(self, chain: str) -> Product:
        product = self.chains[chain] = Product(self.folder / chain)
        product.release("1.0.0", f"{T} CREATE TABLE u (id BIGINT);")
        return product

    def back(self) -> None:
        commands.rollback(self.lake.env, jobs=self.jobs)

    def rows(self, release: str | None) -> list[dict[str, Any]]:
        return sorted(self.lake.env.reader("t", release).arrow().to_pylist(), key=lambda row: int(row["id"]))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """At 1.0.0, with a row."""
    first = Product(tmp_path / "first").release("1.0.0", f"{T} CREATE TABLE u (id BIGINT);")
    found = World(Lake(Environment.open(str(tmp_path / "lake")), first, first), tmp_path)
    found.lake.upgrade(first)
    foreign.write(found.lake.path("t"), [ROW])
    return found


ATTEMPTS = {
    "names that change places": (SWAPPED, SWAPS),
    "a column dropped": ("CREATE TABLE t (id BIGINT, a STRING);", 'evolution("t", drop=["b"])'),
    "another type": ("CREATE TABLE t (id STRING, a STRING, b STRING);", 'evolution("t")'),
    "replaced": ("CREATE TABLE t (id STRING, a STRING, b STRING);", 'replacement("t")'),
    "rewritten": (WITH_Z, f'rewrite("t", up="{UP}", down="{DOWN}")'),
    "removed": ("", 'removal("t")'),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("number", ["1.1.0", "1.1.1"], ids=["the same number", "another number"])
@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_the_next_release_leaves_the_table_as_it_was(world: World, attempt: tuple[str, str], number: str) -> None:
    """Readers and writers of the release where the environment is, named or not, and of the one before."""
    world.up(attempt[0], "1.1.0", attempt[1], chain="withdrawn")
    world.back()
    world.up(T, number, 'evolution("u")', ", x STRING")
    found = []
    for key, release in enumerate((None, "1.0.0", number), start=2):
        row = {"id": key, "a": f"a{key}", "b": f"b{key}"}
        with contextlib.suppress(NeedsSpark):  # column mapping, from the attempt
            world.lake.env.writer("t", release).append(pa.Table.from_pylist([row]))
            found.append(row)
    for release in (None, "1.0.0", number):
        assert world.rows(release) == [ROW, *found], release


def test_fixed_by_a_release_that_takes_it_back(world: World) -> None:
    world.up(SWAPPED, "1.1.0", SWAPS)
    world.back()
    world.up(T, "1.2.0", f'{SWAPS}, evolution("u")', ", x STRING")
    assert [world.rows(release) for release in (None, "1.0.0", "1.2.0")] == [[ROW]] * 3


def test_readers_of_releases_before_a_rewrite(world: World) -> None:
    world.up(SWAPPED, "1.1.0", SWAPS)
    world.back()
    world.up(T, "1.2.0", f'{SWAPS}, evolution("u")', ", x STRING")
    world.up(WITH_Z, "1.3.0", f'rewrite("t", up="{UP}", down="{DOWN}")', ", x STRING")
    assert [world.rows(release) for release in ("1.0.0", "1.2.0")] == [[ROW]] * 2
    assert world.rows("1.3.0") == [{**ROW, "z": "a1"}]


@pytest.mark.parametrize("steps", [f'rewrite("t", up="{UP_E}")', 'replacement("t")'], ids=["rewrite", "replacement"])
def test_a_column_that_was_taken_back_and_came_with_another_table_is_a_fence(world: World, steps: str) -> None:
    world.up(WITH_E, "1.1.0", 'evolution("t")')
    world.back()
    assert world.rows("1.1.0") == [{**ROW, "e": None}], "nobody has written it"
    world.up(WITH_E.replace(");", ", z STRING);"), "1.2.0", steps)
    world.lake.env.writer("t", "1.2.0").append(pa.table({"id": [2], "a": ["a"], "b": ["b"], "e": [354], "z": ["z"]}))
    assert world.rows("1.2.0")[-1]["e"] == 354
    with pytest.raises(ReaderFenced):
        world.rows("1.1.0")


def test_a_change_outside_of_a_release_before_what_was_rolled_back(world: World) -> None:
    alter(world.lake.env, "ALTER TABLE t ADD COLUMN c STRING", jobs=world.jobs)
    world.up("CREATE TABLE t (id BIGINT, b STRING, a STRING, c STRING);", "1.1.0", SWAPS, chain="withdrawn")
    world.back()
    world.up(T.replace("b STRING", "b STRING, c STRING"), "1.1.0", 'evolution("t"), evolution("u")', ", x STRING")
    assert [world.rows(release) for release in (None, "1.1.0")] == [[{**ROW, "c": None}]] * 2
    assert world.rows("1.0.0") == [ROW]


def test_programs_of_what_was_rolled_back_see_its_own_shape(world: World) -> None:
    """As long as no other release took its number."""
    world.up(SWAPPED, "1.1.0", SWAPS, chain="withdrawn")
    world.back()
    assert (world.rows("1.0.0"), world.rows("1.1.0")) == ([ROW], [EXCHANGED])
    world.up(T, "1.1.1", 'evolution("u")', ", x STRING")
    assert (world.rows("1.1.1"), world.rows("1.1.0")) == ([ROW], [EXCHANGED])


# --- programs of a release that left the table alone, and was rolled back -----------------------------------------------------------


def test_programs_of_a_release_upon_another_that_was_rolled_back(world: World) -> None:
    world.up(SWAPPED, "1.0.1", SWAPS)
    world.up(SWAPPED, "1.1.0", 'evolution("u")', ", x STRING")
    for _ in range(2):
        world.back()
        assert [world.rows(release) for release in ("1.1.0", "1.0.1", "1.0.0")] == [[EXCHANGED], [EXCHANGED], [ROW]]


def test_programs_of_a_number_that_was_rolled_back_twice(world: World) -> None:
    """They are of the last one."""
    world.up(SWAPPED, "1.1.0", SWAPS, chain="withdrawn")
    world.back()
    world.up(T, "1.1.0", 'evolution("u")', ", x STRING")
    world.back()
    assert world.rows("1.1.0") == world.rows("1.0.0") == [ROW]


@pytest.mark.parametrize("stands", [True, False], ids=["which stands", "which was rolled back, too"])
def test_programs_of_a_release_upon_a_number_that_is_another_ones_now(world: World, stands: bool) -> None:
    world.up(T, "1.0.1", 'evolution("u")', ", w STRING", chain="withdrawn")
    world.up(T, "1.1.0", 'evolution("u")', ", w STRING, x STRING", chain="withdrawn")
    world.back()
    world.back()
    world.up(SWAPPED, "1.0.1", SWAPS)
    if not stands:
        world.back()
    assert [world.rows(release) for release in ("1.1.0", "1.0.1", "1.0.0")] == [[ROW], [EXCHANGED], [ROW]]


# --- a lower number, or the same, comes afterwards -------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["1.1.0", "1.2.0"])
def test_after_a_release_of_comments_and_order_alone(world: World, last: str) -> None:
    """It is undone with the rest of its release; then 1.0.1 swaps the names."""
    world.up("CREATE TABLE t (id BIGINT, b STRING COMMENT 'hi', a STRING);", "1.1.0", 'evolution("u")', ", x STRING", chain="withdrawn")
    assert list(world.rows("1.1.0")[0]) == ["id", "b", "a"]
    world.back()
    entry = world.lake.state.entry(CollectionName("t"))
    assert [(field.name, field.comment) for field in entry.declared.fields] == [("id", None), ("a", None), ("b", None)]
    assert list(world.rows(None)[0]) == list(world.rows("1.0.0")[0]) == ["id", "a", "b"]
    assert not commands.status(world.lake.env).drifted
    exchanged_below(world, last)


OVER_RESTATED = {
    "restated again": ("CREATE TABLE t (id BIGINT, b STRING COMMENT 'hi', a STRING);", 'evolution("u")', ", x STRING, y STRING"),
    "a column more": ("CREATE TABLE t (id BIGINT, b STRING, a STRING, c STRING);", 'evolution("t")', ", x STRING"),
    "names that change places": ("CREATE TABLE t (id BIGINT, a STRING, b STRING);", SWAPS, ", x STRING"),
    "a column dropped": ("CREATE TABLE t (id BIGINT, a STRING);", 'evolution("t", drop=["b"])', ", x STRING"),
    "another name": ("CREATE TABLE v (id BIGINT, a STRING);", 'evolution("v", renamed_from="t", drop=["b"])', ", x STRING"),
    "replaced": ("CREATE TABLE t (id STRING);", 'replacement("t")', ", x STRING"),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("later", OVER_RESTATED.values(), ids=OVER_RESTATED)
def test_after_another_release_upon_one_of_order_alone(world: World, later: tuple[str, str, str]) -> None:
    """Both are rolled back, one after the other: the order is again that of before, and the columns are."""
    t, before = CollectionName("t"), world.lake.state.entry(CollectionName("t"))
    world.up("CREATE TABLE t (id BIGINT, b STRING, a STRING);", "1.1.0", 'evolution("u")', ", x STRING")
    world.up(later[0], "1.2.0", later[1], later[2])
    world.back()
    assert list(world.rows(None)[0]) == ["id", "b", "a"]
    world.back()
    entry = world.lake.state.entry(t)
    assert (entry.declared, entry.release, entry.rolled_back) == (before.declared, before.release, before.rolled_back)
    assert world.rows(None) == world.rows("1.0.0") == [ROW]
    whole(world.lake)


def test_after_two_rollbacks(world: World) -> None:
    world.up(T, "1.1.0", 'evolution("u")', ", x STRING", chain="withdrawn")
    world.up(T.replace("b STRING", "b STRING, c STRING"), "1.2.0", 'evolution("t")', ", x STRING", chain="withdrawn")
    world.back()
    world.back()
    exchanged_below(world, "1.1.0")


def exchanged_below(world: World, last: str) -> None:
    """1.0.1 swaps the names, ``last`` leaves them."""
    world.up(SWAPPED, "1.0.1", SWAPS)
    world.up(SWAPPED, last, 'evolution("u")', ", x STRING")
    assert [world.rows(release) for release in (None, "1.0.0", "1.0.1", last)] == [[EXCHANGED], [ROW], [EXCHANGED], [EXCHANGED]]


@pytest.mark.parametrize("way", ["alter", "release"])
def test_a_column_of_before_that_was_dropped_since_fences_readers_of_the_rolled_back_release(tmp_path: Path, way: str) -> None:
    """NULL is shown for what that release brought, and for nothing else."""
    product = Product(tmp_path / "product")
    one = product.release("1.0.0", "CREATE TABLE t (id BIGINT, x STRING, z STRING);")
    other = copy.copy(product)
    two = product.release("1.1.0", "CREATE TABLE t (id BIGINT, x STRING, z STRING, y STRING);", 'evolution("t")')
    lake = deployed(tmp_path, one, two)
    tables.insert(lake.path("t"), [{"id": 1, "x": "x", "z": "z"}])
    lake.upgrade(two)
    commands.rollback(lake.env, jobs=no_spark)
    assert lake.env.reader("t", "1.1.0").arrow().to_pylist() == [{"id": 1, "x": "x", "z": "z", "y": None}]
    if way == "alter":
        commands.alter(lake.env, "ALTER TABLE t DROP COLUMN x", jobs=no_spark)
    else:
        lake.upgrade(other.release("1.0.5", "CREATE TABLE t (id BIGINT, z STRING);", 'evolution("t", drop=["x"])'))
        commands.contract(lake.env, at_once=True)
    for release in ("1.0.0", "1.1.0"):
        with pytest.raises(ReaderFenced) as fenced:
            lake.env.reader("t", release).arrow()
        assert (fenced.value.column, fenced.value.reason) == ("x", "was dropped")


@pytest.mark.parametrize("accepted", [False, True], ids=["drift", "accepted"])
def test_a_hidden_column_that_somebody_dropped_fences_readers_of_the_rolled_back_release(tmp_path: Path, accepted: bool) -> None:
    """It stayed for its values, so a NULL there would be nobody's."""
    product = Product(tmp_path / "product")
    one = product.release("1.0.0", "CREATE TABLE t (id BIGINT);")
    lake = deployed(tmp_path, one, product.release("1.1.0", "CREATE TABLE t (id BIGINT, d STRING);", 'evolution("t")'))
    lake.upgrade(lake.second)
    lake.env.writer("t", "1.1.0").append(pa.table({"id": pa.array([1], pa.int64()), "d": ["value"]}))
    commands.rollback(lake.env, jobs=no_spark)
    assert lake.env.reader("t", "1.1.0").arrow().to_pylist() == [{"id": 1, "d": "value"}]
    foreign.drop_column(lake.path("t"), "d")
    if accepted:
        commands.accept(lake.env, one)
    with pytest.raises(ReaderFenced) as fenced:
        lake.env.reader("t", "1.1.0").arrow()
    assert (fenced.value.column, fenced.value.reason) == ("d", "was dropped")
