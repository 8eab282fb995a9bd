"""An upgrade that was tried and cancelled, at this version or another, does not stop the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.names import CollectionName, Generation
from tests.support.lake import Lake, rows
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, expanded, promoted, refused, releases, same_as_new, seen, whole

V1 = "CREATE TABLE a (id BIGINT NOT NULL, n INT); CREATE TABLE b (id BIGINT); CREATE TABLE c (id BIGINT);"
V2 = "CREATE TABLE a (id BIGINT NOT NULL, n BIGINT, x STRING); CREATE TABLE b (id DATE); CREATE TABLE c (id BIGINT);"
V3 = "CREATE TABLE a (id BIGINT, m BIGINT, x STRING); CREATE TABLE b (id BINARY); CREATE TABLE d (id BIGINT);"
V4 = "CREATE TABLE a (m BIGINT, y STRING); CREATE TABLE b (id BINARY, extra STRING); CREATE TABLE e (id BIGINT, z INT);"
STEPS = (
    "",
    'evolution("a"), replacement("b")',
    'evolution("a", rename={"n": "m"}), replacement("b"), removal("c")',
    'evolution("a", rename={"x": "y"}, drop=["id"]), evolution("b"), evolution("e", renamed_from="d")',
)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return releases(tmp_path, *zip((V1, V2, V3, V4), STEPS, strict=True))


@pytest.fixture
def lake(tmp_path: Path, folders: list[Path]) -> Lake:
    """At 1.0.0 with a row in every table."""
    found = deployed(tmp_path, folders[0], folders[1])
    foreign.write(found.path("a"), [{"id": 1, "n": 10}])
    foreign.write(found.path("b"), [{"id": 1}])
    return found


def at_2(lake: Lake, folders: list[Path], folder: Path) -> None:
    assert lake.version == "1.1.0"
    assert rows(lake.path("a")) == [{"id": 1, "n": 10, "x": None}]
    same_as_new(lake, folders[1], folder / "fresh")
    whole(lake)


ABORTED: dict[str, Callable[[Lake, Path], Generation]] = {"after preflight": claimed, "after promotion": promoted, "after expand": expanded}


@pytest.mark.parametrize("moment", ABORTED)
def test_to_a_version_below_the_one_that_was_given_up(tmp_path: Path, folders: list[Path], lake: Lake, moment: str) -> None:
    """An upgrade to 1.2.0 dies; 1.1.0 must still be possible, and 1.2.0 after it."""
    ABORTED[moment](lake, folders[2])
    lake.upgrade(folders[1])
    at_2(lake, folders, tmp_path)
    assert lake.state.deployments[Generation(2)].state is DeploymentState.CANCELLED
    assert not [shard for shard in lake.state.shards.values() if shard.generation == 2], "its shards are cleaned up"
    lake.upgrade(folders[2], end_hold=True)
    same_as_new(lake, folders[2], tmp_path / "fresh-3")
    whole(lake)


@pytest.mark.parametrize("moment", ABORTED)
def test_to_the_same_version_by_another_generation(tmp_path: Path, folders: list[Path], lake: Lake, moment: str) -> None:
    ABORTED[moment](lake, folders[1])
    lake.upgrade(folders[1], claim_id="another")
    at_2(lake, folders, tmp_path)
    assert lake.state.leader is not None
    assert lake.state.leader.generation == 3


@pytest.mark.parametrize("moment", ABORTED)
def test_back_from_what_was_given_up(tmp_path: Path, folders: list[Path], lake: Lake, moment: str) -> None:
    ABORTED[moment](lake, folders[2])
    if moment == "after preflight":
        with refused("nothing_to_roll_back"):
            commands.rollback(lake.env)
    else:
        commands.rollback(lake.env)
    assert rows(lake.path("a")) == [{"id": 1, "n": 10}]
    assert rows(lake.path("b")) == [{"id": 1}]
    same_as_new(lake, folders[0], tmp_path / "fresh")
    whole(lake)


def test_versions_live_side_by_side(lake: Lake, folders: list[Path]) -> None:
    """Three releases are preflighted, one of them twice: each has shards of its own, and none sees another's."""
    generations = [
        claimed(lake, folders[1]),
        claimed(lake, folders[2]),
        claimed(lake, folders[2], claim_id="twin"),
        claimed(lake, folders[3]),
    ]
    assert generations == [2, 3, 4, 5]
    shards = {(row.version.minor, row.generation): row.shard for row in lake.state.replacements.values()}
    assert set(shards) == {(1, 2), (2, 3), (2, 4), (3, 5)}
    assert len(set(shards.values())) == 4
    assert rows(lake.path("a")) == [{"id": 1, "n": 10}]
    for verb in (commands.promote, commands.expand, commands.cutover):
        verb(lake.env, Generation(4))
    assert lake.version == "1.2.0"
    assert lake.state.objects[CollectionName("b")].shard == shards[2, Generation(4)]
    commands.cleanup(lake.env, Generation(4))
    left = {row.generation for row in lake.state.replacements.values()}
    assert left == {4, 5}, "later generations are never touched"
    assert not [shard for shard in lake.state.shards.values() if shard.generation in (2, 3)]
    whole(lake)


def test_a_version_that_never_ran(tmp_path: Path, folders: list[Path], lake: Lake) -> None:
    lake.upgrade(folders[2])
    assert rows(lake.path("a")) == [{"id": 1, "m": 10, "x": None}]
    same_as_new(lake, folders[2], tmp_path / "fresh")
    whole(lake)


@pytest.mark.parametrize("source", [0, 1, 2])
def test_several_releases_in_one_step_are_what_step_by_step_gives(tmp_path: Path, folders: list[Path], lake: Lake, source: int) -> None:
    for folder in folders[1 : source + 1]:
        lake.upgrade(folder, end_hold=True)
    lake.upgrade(folders[3], end_hold=True)
    assert rows(lake.path("a"), "m", "y") == [{"m": 10, "y": None}]
    same_as_new(lake, folders[3], tmp_path / "fresh")
    commands.contract(lake.env, at_once=True)
    assert all(not seen(lake, name)["hidden"] for name in lake.state.objects)
    whole(lake)


def test_and_back_again_over_several_releases(tmp_path: Path, folders: list[Path], lake: Lake) -> None:
    lake.upgrade(folders[3])
    foreign.write(lake.path("a"), [{"m": 20, "y": "new"}])
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"
    assert rows(lake.path("a"), "id", "n") == [{"id": 1, "n": 10}, {"id": None, "n": 20}]
    assert rows(lake.path("b")) == [{"id": 1}]
    whole(lake)
    same_as_new(lake, folders[0], tmp_path / "fresh-1")
    lake.upgrade(folders[3])
    assert rows(lake.path("a"), "m", "y") == [{"m": 10, "y": None}, {"m": 20, "y": "new"}]
    whole(lake)


# --- claims --------------------------------------------------------------------------------------------------------------------------


def test_a_repeated_preflight_finds_its_claim(lake: Lake, folders: list[Path]) -> None:
    first = claimed(lake, folders[1], claim_id="run-1")
    shards = dict(lake.state.shards)
    assert claimed(lake, folders[1], claim_id="run-1") == first
    assert claimed(lake, folders[1]) == first, "without an id, the newest open one of the same plan"
    assert dict(lake.state.shards) == shards
    assert claimed(lake, folders[1], claim_id="run-2") == first + 1
    assert claimed(lake, folders[1], claim_id="run-1") == first


def test_a_claim_is_of_one_plan(tmp_path: Path, lake: Lake, folders: list[Path]) -> None:
    """The head of a release may be edited until it is deployed. What was built for the earlier text is not taken for the new one."""
    first = claimed(lake, folders[1], claim_id="run-1")
    _, edited = releases(tmp_path / "edited", (V1, ""), (V2.replace("b (id DATE)", "b (id DATE, more STRING)"), STEPS[1]))
    second = claimed(lake, edited, claim_id="run-1")
    for verb in (commands.promote, commands.expand, commands.cutover):
        verb(lake.env, second)
    whole(lake)
    assert [field["name"] for field in foreign.live_schema(lake.path("b"))] == ["id", "more"]
    with refused("fenced"):
        commands.promote(lake.env, first)


def test_a_claim_that_was_given_up_for_another_is_not_promoted_by_accident(tmp_path: Path, lake: Lake, folders: list[Path]) -> None:
    first = claimed(lake, folders[1], claim_id="run-1")
    _, edited = releases(tmp_path / "edited", (V1, ""), (V2.replace("x STRING", "x BINARY"), STEPS[1]))
    assert claimed(lake, edited, claim_id="run-1") != first
    with refused("wrong_state") as found:
        commands.promote(lake.env, first)
    assert "cancelled" in found[0].message
