"""Somebody else acts, and may die half-way, between our look at the ledger and our look at the tables.

What they made of the tables is no drift: the ledger that was read before it does not know of it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.documents.drift import drift_document
from airflow_provider_schemamig.core.upgrade.documents.rollback import rollback_document
from airflow_provider_schemamig.core.upgrade.documents.table import table_document
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from airflow_provider_schemamig.exceptions import SchemamigError, refusals_of
from tests.support.bytes import tree
from tests.support.lake import Crash, Lake, append, copy_of, make_lake, no_spark, rows
from tests.support.upgrades import deployed, expanded, releases, whole
from tests.unit.upgrade.leaders.test_crashes import moments

Work = Callable[[Environment], object]
pytestmark = pytest.mark.some(4, of="what comes between two looks")

FLIGHT = {"id": 1, "dep_delay": 5, "hour": 9, "origin": {"code": "JFK", "name": "Kennedy"}}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """At 1.0.0 with a row."""
    lake = make_lake(tmp_path_factory.mktemp("first"))
    lake.upgrade(lake.first)
    append(lake.path("flights"), [FLIGHT])
    return lake


@pytest.fixture(scope="module")
def second(first: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """At 1.1.0 with its hold open."""
    lake = copy_of(first, tmp_path_factory.mktemp("second"))
    lake.upgrade(lake.second)
    return lake


def contract(env: Environment) -> object:
    return commands.contract(env, at_once=True)


def roll_back(env: Environment) -> object:
    return commands.rollback(env, jobs=no_spark)


def drifted_tables(env: Environment) -> object:
    return [*commands.status(env).drifted, *(table["collection"] for table in drift_document(env)["tables"])]


def drift_of_flights(env: Environment) -> object:
    return table_document(env, "flights")["drift"]


def previewed(env: Environment) -> object:
    with contextlib.suppress(SchemamigError):  # nothing to roll back any more
        document = rollback_document(env)
        return [refusal for refusal in document["refusals"] if refusal["code"] == "drift"]
    return []


@contextlib.contextmanager
def after_read(number: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Run ``act`` right after the ``number``-th look at the ledger, on whose state the caller then goes on."""
    reads: list[int] = []
    real = LedgerReader.state

    def state(self: LedgerReader, at: int | None = None) -> State:
        found = real(self, at)
        if not reads or reads[-1] >= 0:  # ``act`` itself reads, too
            reads.append(len(reads) + 1)
            if len(reads) == number:
                reads.append(-1)
                act()
                reads.pop()
        return found

    with mock.patch.object(LedgerReader, "state", state):
        yield reads


def dies_between(lake: Lake, folder: Path, ours: Work, other: Work, stride: int) -> Iterator[tuple[Lake, object]]:
    """Yield what came of ``ours`` for every look at the ledger, with ``other`` dying at every ``stride``-th of its moments after it."""
    last = moments(copy_of(lake, folder / "moments"), other)
    counted = copy_of(lake, folder / "reads")
    with after_read(0, lambda: None) as reads:
        ours(counted.env)
    for read in range(1, len(reads) + 1):
        for moment in (*range(1, last, stride), last + 1):
            there = copy_of(lake, folder / f"{read}-{moment}")

            def act(there: Lake = there, moment: int = moment) -> None:
                with contextlib.suppress(Crash, SchemamigError):
                    other(there.crashing_at(moment))

            with after_read(read, act):
                try:
                    came = ours(Environment.open(str(there.env.location.local_path)))
                except SchemamigError as error:
                    came = error
            codes = [refusal.code for refusal in refusals_of(came)] if isinstance(came, SchemamigError) else []
            assert "drift" not in codes, f"read {read}, moment {moment}: {came}"
            yield there, came


@pytest.mark.parametrize("stride", [pytest.param(5, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)])
def test_contract_beside_a_contract(second: Lake, tmp_path: Path, stride: int) -> None:
    for there, came in dies_between(second, tmp_path, contract, contract, stride):
        assert not isinstance(came, SchemamigError) or came.retryable, came
        contract(there.env)
        assert rows(there.path("flights"), "id", "departure_delay") == [{"id": 1, "departure_delay": 5}]
        whole(there)


LOOKS = [drifted_tables, drift_of_flights, previewed]


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("other", [contract, roll_back])
def test_a_look_beside_what_changes_tables(second: Lake, tmp_path: Path, look: Work, other: Work) -> None:
    for _, found in dies_between(second, tmp_path, look, other, 7):
        assert not found, found


def upgraded(lake: Lake) -> Work:
    return lambda env: commands.upgrade(env, lake.second, jobs=no_spark)


def planned(lake: Lake) -> Work:
    return lambda env: [error for error in commands.plan(env, lake.second).refusals if error.code == "drift"]


def prepared(lake: Lake) -> Work:
    def work(env: Environment) -> None:
        commands.preflight(env, lake.second, jobs=no_spark, claim_id="another")

    return work


def promoted(lake: Lake) -> Work:
    def work(env: Environment) -> None:
        generation = commands.preflight(env, lake.second, jobs=no_spark, claim_id="another").generation
        if generation is not None:
            commands.promote(env, generation)

    return work


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("ours", [planned, prepared, promoted])
def test_an_upgrade_beside_an_upgrade(first: Lake, tmp_path: Path, ours: Callable[[Lake], Work]) -> None:
    for _, found in dies_between(first, tmp_path, ours(first), upgraded(first), 12):
        assert isinstance(found, SchemamigError) or not found, found


def test_a_rollback_beside_a_rollback(second: Lake, tmp_path: Path) -> None:
    for there, _ in dies_between(second, tmp_path, roll_back, roll_back, 12):
        with contextlib.suppress(SchemamigError):  # nothing to roll back any more
            roll_back(there.env)
        assert there.version == "1.0.0" or there.version is None
        whole(there)


def test_an_accept_beside_an_upgrade_takes_nothing_of_it_for_drift(first: Lake, tmp_path: Path) -> None:
    def accepted(env: Environment) -> object:
        return commands.accept(env, first.second).changes

    for _, found in dies_between(first, tmp_path, accepted, upgraded(first), 12):
        assert not found or (isinstance(found, SchemamigError) and found.code in ("deployment_open", "hold_open")), found


SWAP = (
    ("CREATE TABLE t (id BIGINT, x INT, a STRING, b STRING);", ""),
    (
        "CREATE TABLE t (id BIGINT, y INT, a STRING, b STRING);",
        'evolution("t", rename={"x": "y", "a": "b", "b": "a"})',
    ),
)


@pytest.mark.some(8, of="histories at each moment")
def test_a_cut_over_beside_a_cut_over_that_exchanges_names(tmp_path: Path) -> None:
    found = releases(tmp_path / "releases", *SWAP)
    lake = deployed(tmp_path / "releases", *found)
    append(lake.path("t"), [{"id": 1, "x": 7, "a": "A", "b": "B"}])
    generation = expanded(lake, lake.second)

    def cutover(env: Environment) -> None:
        commands.cutover(env, generation, jobs=no_spark)

    for there, _ in dies_between(lake, tmp_path, cutover, cutover, 4):
        commands.cutover(there.env, generation, jobs=no_spark)
        assert rows(there.path("t"), "a", "b") == [{"a": "B", "b": "A"}]
        whole(there)


RENAMED = [
    ("CREATE TABLE t (id BIGINT, a STRING);", ""),
    ("CREATE TABLE s (id BIGINT, a STRING, b STRING);", 'evolution("s", renamed_from="t")'),
]


def test_a_cut_over_beside_a_cut_over_that_renames_a_collection(tmp_path: Path) -> None:
    lake = deployed(tmp_path / "releases", *releases(tmp_path / "releases", *RENAMED))
    generation = expanded(lake, lake.second)

    def cutover(env: Environment) -> None:
        commands.cutover(env, generation, jobs=no_spark)

    for there, came in dies_between(lake, tmp_path, cutover, cutover, 4):
        assert came is None
        cutover(there.env)
        whole(there)


def test_every_task_of_a_release_that_renames_a_collection_is_done_already_after_its_commit(tmp_path: Path) -> None:
    lake = deployed(tmp_path / "releases", *releases(tmp_path / "releases", *RENAMED))
    generation = expanded(lake, lake.second)
    commands.cutover(lake.env, generation, jobs=no_spark)
    before = rows_of_tables(lake)
    for task in (commands.cutover, commands.expand, commands.change):
        task(lake.env, generation, jobs=no_spark)
    assert rows_of_tables(lake) == before
    whole(lake)


def rows_of_tables(lake: Lake) -> dict[str, tuple[bytes | None, int]]:
    """What lies beside the ledger."""
    return {path: data for path, data in tree(Path(str(lake.env.location.local_path))).items() if "_schemamig" not in path}


@pytest.mark.some(8, of="histories at each moment")
def test_a_revert_beside_a_contract_takes_nothing_of_it_for_drift(second: Lake, tmp_path: Path) -> None:
    def reverted(env: Environment) -> object:
        return commands.revert(env, "flights").changes

    for _, found in dies_between(second, tmp_path, reverted, contract, 5):
        assert not found or (isinstance(found, SchemamigError) and found.code == "collection_in_use"), found


STACKED = [
    ("CREATE TABLE t (id BIGINT, a STRING);", ""),
    ("CREATE TABLE t (id BIGINT, a STRING, b STRING);", 'evolution("t")'),
    ("CREATE TABLE t (id BIGINT, a STRING, b STRING, c STRING);", 'evolution("t")'),
]


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("which", [{"claim_id": "run 1"}, {"generation": Generation(3)}, {}], ids=["claim", "generation", "none"])
def test_a_rollback_that_a_twin_ends_goes_no_release_further(tmp_path: Path, which: dict[str, Any]) -> None:
    """Whenever in the course of our looks at the ledger it ends."""
    found = releases(tmp_path / "releases", *STACKED)
    lake = deployed(tmp_path / "releases", found[0], found[2])
    for release in found[1:]:
        lake.upgrade(release)

    def once(env: Environment) -> None:
        with contextlib.suppress(NothingToRollBack, Fenced):
            commands.rollback(Environment.open(str(env.location.local_path)), jobs=no_spark, **which)

    for read in range(2 if which else 3, 7):  # without a claim, what ends before the first look is another one's
        there = copy_of(lake, tmp_path / str(read))
        with after_read(read, functools.partial(once, there.env)):
            once(there.env)
        assert there.version == "1.1.0", read
        whole(there)
