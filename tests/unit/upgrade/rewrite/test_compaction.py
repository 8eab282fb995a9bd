"""Compaction without Spark: batches, dying at any write, races with whoever changes the table, and what stays out of its way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import IntentKind
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.transfer.errors import FilesDiffer
from airflow_provider_schemamig.core.upgrade.compact import Compacted, Limits
from airflow_provider_schemamig.core.upgrade.compare_and_evolve import Ok, compare_and_evolve_schema
from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, HoldOpen, UnknownCollection
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, copy_of, no_spark, rows
from tests.support.tables import foreign
from tests.support.upgrades import promoted, releases, whole

pytestmark = pytest.mark.some(4, of="compactions")

EVENTS = CollectionName("events")
COLUMNS = "id BIGINT, n INT, gone STRING"
LATER = "id BIGINT, n INT, late STRING"
PHYSICAL = "delta.columnMapping.physicalName"


@dataclass
class Spark(JobRunner):
    """The fill job by hand. ``meddle`` runs once, when the new files are written and not yet committed."""

    meddle: Callable[[], object] | None = None
    always: bool = False
    lose: int = 0
    runs: list[int] = field(default_factory=list)

    def __call__(self) -> Spark:
        return self

    def run(self, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
        assert job == "fill"
        (source,) = request["inputs"].values()
        found = _scratch_rows(_path(source["uri"]))
        foreign.write(_path(request["shard_uri"]), found[self.lose :])
        self.runs.append(len(found))
        meddle = self.meddle
        self.meddle = meddle if self.always else None
        if meddle is not None:
            meddle()
        return {"rows": len(found) - self.lose, "table_version": 1, "skipped": False}

    def cancel(self) -> None:
        """It runs nothing that could be stopped."""


def _path(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))


def _scratch_rows(scratch: Path) -> list[dict[str, Any]]:
    """The rows of the files that a scratch table lists, by the names its schema gives them."""
    fields = foreign.live_schema(scratch)
    found = []
    for uri in foreign.active_files(scratch):
        for stored in pq.ParquetFile(_path(uri)).read().to_pylist():
            found.append({f["name"]: stored.get(f["metadata"].get(PHYSICAL, f["name"])) for f in fields})
    return found


def declared(columns: str) -> Any:
    (found,) = parse_schema(f"CREATE TABLE events ({columns});", "test.sql")
    return found


def evolve(lake: Lake, columns: str) -> None:
    found = compare_and_evolve_schema(lake.env, EVENTS, lake.state.objects[EVENTS].schema_id, declared(columns))
    assert isinstance(found, Ok), found


def compact(lake: Lake, jobs: Any, env: Environment | None = None, **limits: int) -> Compacted:
    (found,) = commands.compact(env or lake.env, ["events"], limits=Limits(**limits), jobs=jobs).collections
    return found


def owes(lake: Lake) -> dict[int, int]:
    (debt,) = commands.schema_age(lake.env, ["events"])
    return {share.schema_id: share.files for share in debt.shares}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Five files of schema 1, one of schema 2, which lost ``gone`` and got ``late``; 1.1.0 contains that."""
    first, second = releases(
        tmp_path,
        (f"CREATE TABLE events ({COLUMNS});\nCREATE TABLE other (id BIGINT);", ""),
        (f"CREATE TABLE events ({LATER});\nCREATE TABLE other (id BIGINT);", 'evolution("events", drop=["gone"])'),
    )
    lake = Lake(Environment.open(str(tmp_path / "lake")), first, second)
    lake.upgrade(first)
    for number in range(5):
        foreign.write(lake.path("events"), [{"id": number, "n": number % 3, "gone": "x"}, {"id": 10 + number}])
    evolve(lake, LATER)
    foreign.write(lake.path("events"), [{"id": 20, "late": "l"}])
    return lake


def same(lake: Lake, expected: list[dict[str, Any]]) -> None:
    assert rows(lake.path("events"), "id", "n", "late") == expected


# --- debt and batches ----------------------------------------------------------------------------------------------------------------


def test_the_debt_is_shown_and_paid_in_batches(lake: Lake) -> None:
    before = rows(lake.path("events"), "id", "n", "late")
    with unwritten(lake.env):
        (debt, other) = commands.schema_age(lake.env)
    assert [(share.schema_id, share.files, share.rows) for share in debt.shares] == [(1, 5, 10), (2, 1, 1)]
    assert (other.shares, other.old) == ((), ())
    spark = Spark()
    done = compact(lake, spark, max_files=2)
    assert ([batch.files for batch in done.batches], spark.runs) == ([2, 2, 1], [4, 4, 2])
    assert owes(lake) == {2: 4}
    same(lake, before)
    whole(lake)
    with unwritten(lake.env):
        assert compact(lake, no_spark).batches == (), "a second run finds nothing to do, and starts no JVM"


def test_a_batch_is_cut_by_bytes_too(lake: Lake) -> None:
    spark = Spark()
    compact(lake, spark, max_bytes=1)
    assert spark.runs == [2, 2, 2, 2, 2]


def test_the_commit_says_that_no_rows_changed(lake: Lake) -> None:
    version = len(list((lake.path("events") / "_delta_log").glob("*.json")))
    compact(lake, Spark())
    lines = (lake.path("events") / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    assert actions[0]["commitInfo"]["operation"] == "SCHEMAMIG COMPACT"
    assert not actions[0]["commitInfo"]["isBlindAppend"]
    files = [next(iter(action.values())) for action in actions[1:]]
    assert len(files) == 6 and not any(file["dataChange"] for file in files)
    assert {kind for action in actions[1:] for kind in action} == {"add", "remove"}, "no metadata, no protocol: writers go on"


def test_a_schema_that_came_back_is_no_debt(tmp_path: Path) -> None:
    first, second = releases(
        tmp_path, ("CREATE TABLE events (id BIGINT);", ""), ("CREATE TABLE events (id BIGINT, n INT);", 'evolution("events")')
    )
    lake = Lake(Environment.open(str(tmp_path / "lake")), first, second)
    lake.upgrade(first)
    foreign.write(lake.path("events"), [{"id": 1}])
    lake.upgrade(second)
    commands.rollback(lake.env)
    assert lake.state.objects[EVENTS].schema_id == 3
    assert owes(lake) == {1: 1}
    assert compact(lake, no_spark).batches == ()


def test_files_put_back_are_as_old_as_they_are(lake: Lake) -> None:
    """A deletion vector and a RESTORE add a file again, a truncated log says nothing: none of it makes an old file new."""
    path = lake.path("events")
    name = foreign.active_files(path)[0]
    added = next(action["add"] for action in foreign._actions(path) if action.get("add", {}).get("path") == name)
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    foreign.commit(path, {"remove": {"path": name, "dataChange": True}}, {"add": {**added, "deletionVector": vector}})
    assert owes(lake) == {1: 5, 2: 1}
    (debt,) = commands.schema_age(lake.env, ["events"])
    assert debt.shares[0].rows == 9
    log = path / "_delta_log"
    again = foreign.commit(path, {"remove": {"path": name, "dataChange": True, "deletionVector": vector}}, {"add": added})
    assert again == len(list(log.glob("*.json"))) - 1
    assert owes(lake) == {1: 5, 2: 1}


def test_an_unknown_collection(lake: Lake) -> None:
    with pytest.raises(UnknownCollection):
        commands.compact(lake.env, ["boats"], jobs=no_spark)


# --- whoever else is at work ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        lambda lake: evolve(lake, f"{LATER}, more INT"),
        lambda lake: foreign.write(lake.path("events"), [{"id": 99}]),
        lambda lake: foreign.commit(
            lake.path("events"), {"remove": {"path": foreign.active_files(lake.path("events"))[1], "dataChange": True}}
        ),
        lambda lake: compact(lake, Spark()),
        lambda lake: evolve(lake, "id BIGINT, late STRING"),
    ],
    ids=["add column", "append", "delete", "another compaction", "drop column"],
)
def test_compaction_what_happens_meanwhile_stays(lake: Lake, event: Callable[[Lake], object], tmp_path: Path) -> None:
    alone = replace(lake, env=Environment.open(str(tmp_path / "alone")))
    shutil.copytree(tmp_path / "lake", tmp_path / "alone")
    event(alone)
    compact(lake, Spark(meddle=lambda: event(lake)))
    names = [f["name"] for f in foreign.live_schema(alone.path("events"))]
    assert [f["name"] for f in foreign.live_schema(lake.path("events"))] == names
    assert rows(lake.path("events"), *names) == rows(alone.path("events"), *names)
    assert len(owes(lake)) == 1, "it was planned again until nothing was left"
    whole(lake)
    assert len({*foreign.active_files(lake.path("events"))} & {path.name for path in lake.path("events").glob("*.parquet")}) <= 2


def test_files_with_the_schema_of_before_are_thrown_away(lake: Lake) -> None:
    """They could be read, but would count as files of a schema they do not have: a compaction never takes a schema back."""
    spark = Spark(meddle=lambda: evolve(lake, f"{LATER}, more INT"))
    done = compact(lake, spark)
    assert spark.runs == [10, 11], "written anew, and what the change made old with it"
    assert [batch.rows for batch in done.batches] == [11]
    (name,) = foreign.active_files(lake.path("events"))
    assert len(pq.read_schema(lake.path("events") / name)) == len(foreign.live_schema(lake.path("events"))) == 4
    assert len(list(lake.path("events").glob("schemamig-compact-*/*.parquet"))) == 1


def test_compaction_who_is_slower_each_time_gives_up_and_nothing_is_lost(lake: Lake) -> None:
    before = rows(lake.path("events"), "id", "n", "late")
    columns = [LATER]

    def change() -> None:
        columns.append(f"{columns[-1]}, c{len(columns)} INT")
        evolve(lake, columns[-1])

    with pytest.raises(MetadataMoved):
        compact(lake, Spark(meddle=change, always=True))
    same(lake, before)
    assert not list(lake.path("events").glob("schemamig-compact-*/*.parquet"))
    compact(lake, Spark())
    same(lake, before)
    whole(lake)


def test_fewer_rows_than_before_are_not_committed(lake: Lake) -> None:
    before = rows(lake.path("events"), "id", "n", "late")
    with pytest.raises(FilesDiffer):
        compact(lake, Spark(lose=1))
    same(lake, before)
    assert not list(lake.path("events").glob("schemamig-compact-*/*.parquet"))


def test_a_leader_of_before_commits_nothing(lake: Lake) -> None:
    """Its files were written, then another deployment was promoted and settled: the fence is on the table."""
    before = owes(lake)

    def deploy() -> None:
        commands.expand(lake.env, promoted(lake, lake.second))

    with pytest.raises(Fenced):
        compact(lake, Spark(meddle=deploy))
    assert owes(lake) == before
    commands.cutover(lake.env, lake.state.leader.generation if lake.state.leader else 0)  # type: ignore[arg-type]
    commands.contract(lake.env, at_once=True)
    compact(lake, Spark())
    whole(lake)


def test_not_while_a_deployment_is_open(lake: Lake) -> None:
    promoted(lake, lake.second)
    with pytest.raises(DeploymentOpen):
        compact(lake, no_spark)


def test_not_while_a_release_can_be_rolled_back(lake: Lake) -> None:
    """Files that came since decide what a rollback can undo."""
    lake.upgrade(lake.second)
    with pytest.raises(HoldOpen):
        compact(lake, no_spark)
    commands.contract(lake.env, at_once=True)
    assert len(compact(lake, Spark()).batches) == 1


def test_a_killed_compaction_is_no_reason_to_deploy(lake: Lake) -> None:
    def die() -> None:
        raise Crash

    with pytest.raises(Crash):
        compact(lake, Spark(meddle=die))
    assert [kind for _, kind, _ in lake.state.intents] == [IntentKind.COMPACT]
    assert commands.plan(lake.env, lake.first, jobs=None).exit_code == 0
    lake.upgrade(lake.second, hold=timedelta(0))
    whole(lake)


def test_tables_that_cannot_be_rewritten_are_said_and_left(lake: Lake) -> None:
    path = lake.path("events")
    foreign.commit(
        path,
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["columnMapping"],
                "writerFeatures": ["appendOnly", "columnMapping", "domainMetadata", "invariants", "rowTracking"],
            }
        },
    )
    found = commands.compact(lake.env, jobs=no_spark)
    assert ["rowTracking" in (item.why_not or "") for item in found.collections if item.age.collection == EVENTS] == [True]
    assert any("rowTracking" in note for note in found.outcome.notes)
    assert list(lake.state.intents) == []


# --- killed --------------------------------------------------------------------------------------------------------------------------


def test_compaction_killed_anywhere(lake: Lake, tmp_path: Path) -> None:
    before = rows(lake.path("events"), "id", "n", "late")
    moments = 0

    def counting(moment: str, what: str, key: str) -> None:
        nonlocal moments
        moments += 1

    counted = copy_of(lake, tmp_path / "count")
    compact(counted, Spark(), env=replace(counted.env, on_write=counting), max_files=3)
    assert moments > 20
    for moment in range(moments):
        found = copy_of(lake, tmp_path / str(moment))
        with pytest.raises(Crash):
            compact(found, Spark(), env=found.crashing_at(moment), max_files=3)
        same(found, before)
        compact(found, Spark(), max_files=3)
        same(found, before)
        assert set(owes(found)) == {2}, moment
        whole(found)
