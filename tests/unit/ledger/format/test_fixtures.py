"""Ledgers of every format through everything that today's software does: what each format's own software wrote (``fixtures/make.py``), and
one of a format before the first, that never was, so that there always is an older one (``synthetic``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.codec import decode, encode, row_type_of
from airflow_provider_schemamig.core.ledger.errors import LedgerFormatOld, LedgerInUse, LedgerTooNew
from airflow_provider_schemamig.core.ledger.format import objects_v1
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import (
    BuildingShard,
    Control,
    DeploymentState,
    Hold,
    HoldState,
    IntentKind,
    Leader,
    Progress,
    Shard,
    ShardState,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId, Version
from airflow_provider_schemamig.core.upgrade.context.controls import throttle
from airflow_provider_schemamig.core.upgrade.ledger_format import upgrade_ledger
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree
from tests.support.lake import no_spark
from tests.support.rows.fake_jobs import FakeJobs
from tests.unit.ledger.format.locking import draft
from tests.unit.ledger.format.synthetic.lakes import ARCHIVES, NAMES, OLDER, known_to, older_known, unpack
from tests.unit.ledger.samples import NOW

HELD = [name for name in NAMES if name.startswith("hold_")]
VERSIONS = [OLDER, *(name for name in NAMES if name not in HELD)]
OLD = [name for name in VERSIONS if name != f"v{FORMATS.current}"]
GENERATION = Generation(3)


@dataclass(frozen=True)
class Found:
    """A fixture as it was made: at 1.1.0, generation 3 claimed for 1.2.0."""

    folder: Path

    @property
    def env(self) -> Environment:
        return Environment.open(str(self.folder / "lake"))

    @property
    def state(self) -> State:
        return LedgerReader(self.env).state()

    @property
    def next(self) -> Path:
        return self.folder / "product" / "1.2.0"

    def gates(self, release: str | None) -> list[Any]:
        return [row["gate"] for row in self.env.reader("flights", release).arrow().to_pylist() if row["id"] == 2]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lakes")


@pytest.fixture
def found(tmp_path: Path, request: pytest.FixtureRequest, cache: Path) -> Iterator[Found]:
    unpack(request.param, tmp_path, cache)
    with older_known():
        yield Found(tmp_path)


every = pytest.mark.parametrize("found", VERSIONS, indirect=True)
older = pytest.mark.parametrize("found", OLD, indirect=True)
first = pytest.mark.parametrize("found", [OLDER], indirect=True)


def texts(state: State) -> dict[str, dict[str, str]]:
    """What is seen, without the format's own number."""
    found = {name: dict(state._texts[name]) for name in state._texts if state._texts[name]}
    config = json.loads(found["config"].pop('"environment"'))
    return {**found, "environment": {name: str(value) for name, value in config.items() if name != "format_version"}}


# --- every format --------------------------------------------------------------------------------------------------------------------


def test_there_is_a_fixture_of_every_format() -> None:
    """Archived, unless no version of the package is published with it: what a format's own software wrote, nobody can make later."""
    published = {number for number in range(FORMATS.minimum, FORMATS.current + 1) if number != draft()}
    assert set(ARCHIVES) == {f"{kind}{number}" for number in published for kind in ("v", "hold_v")}
    assert set(VERSIONS) == {f"v{number}" for number in range(FORMATS.minimum, FORMATS.current + 1)} | {OLDER}


@every
def test_every_stored_row_is_one_of_its_format_byte_for_byte(found: Found, request: pytest.FixtureRequest) -> None:
    state = found.state
    assert f"v{state.format}" in request.node.name
    types = FORMATS.types(state.format)
    rows = [(collection, key, value) for collection, some in state.raw.items() for key, value in some.items()]
    for collection, key, value in rows:
        row_type = row_type_of(collection, key, types)
        assert row_type is not None
        assert encode(decode(row_type, key, value)) == (collection, key, value)


@every
def test_looking_changes_no_byte_and_shows_the_newest_format(found: Found) -> None:
    before = tree(found.folder)
    state = found.state
    assert {
        str(entry.release) for entry in map(state.entry, state.objects) if entry.key not in {row.key for row in state.unreleased.values()}
    } <= {
        "1.0.0",
        "1.1.0",
    }
    assert commands.status(found.env).drifted == ()
    assert verify(LedgerReader(found.env)) == ()
    assert found.gates(None) == found.gates("1.1.0") == ["A1"]
    assert tree(found.folder) == before


@every
def test_a_plan_with_its_data_is_the_same_before_and_after_and_writes_nothing(found: Found) -> None:
    before = tree(found.folder)
    report = commands.plan(found.env, found.next, jobs=FakeJobs)
    assert tree(found.folder) == before
    assert report.refusals == ()
    assert any("ledger upgrade" in note for note in report.notes) is not report.view.state.is_current  # type: ignore[union-attr]
    assert report.to_json()["timing"]["checked_seconds"] > 0
    upgrade_ledger(found.env)
    after = commands.plan(found.env, found.next, jobs=FakeJobs)
    assert after.plan.digest == report.plan.digest
    assert not any("ledger upgrade" in note for note in after.notes)


@every
def test_the_upgrade_stores_what_was_seen(found: Found) -> None:
    seen, stored = texts(found.state), found.state.format
    done = upgrade_ledger(found.env)
    state = found.state
    assert (done.source, done.target, state.format) == (stored, FORMATS.current, FORMATS.current)
    assert texts(state) == seen
    assert verify(LedgerReader(found.env)) == ()
    assert upgrade_ledger(found.env).steps == ()
    remembered = [entry.detail for entry in read_history(found.env) if entry.what == "ledger upgrade"]
    assert len(remembered) == len(done.steps) == FORMATS.current - stored


@every
def test_the_claim_of_before_is_carried_out_after(found: Found) -> None:
    """A claimed deployment keeps what it built; its readers of 1.1.0 still find the gate of 1.1.0 in what 1.2.0 calls a stand."""
    upgrade_ledger(found.env)
    outcome = commands.upgrade(found.env, found.next, jobs=no_spark, claim_id=found.state.deployments[GENERATION].claim_id)
    assert (outcome.generation, str(outcome.target)) == (GENERATION, "1.2.0")
    assert found.gates("1.1.0") == ["A1"]
    assert found.gates("1.2.0") == [None]
    assert verify(LedgerReader(found.env)) == ()
    assert commands.status(found.env).drifted == ()
    commands.rollback(found.env)
    assert found.gates(None) == found.gates("1.1.0") == ["A1"]


# --- on an older format --------------------------------------------------------------------------------------------------------------


def _building(state: State) -> list[Update]:
    """What preflight writes while it builds and copies, of every kind."""
    shard = ShardId("g4-0123456789ab")
    return [
        Put(Shard(shard, CollectionName("flights"), "flights/g4-0123456789ab", "id of g4-0", Generation(4), ShardState.BUILDING)),
        Put(BuildingShard(CollectionName("flights"), Version(1, 2, 0), Generation(4), shard)),
        Put(Progress(CollectionName("flights"), Generation(4), "copy", "files", 1, 2, 3, NOW, NOW)),
    ]


@older
def test_an_upgrade_that_is_given_up_never_locks_older_software_out(found: Found) -> None:
    checked = commands.preflight(found.env, found.next, claim_id="newer", jobs=no_spark)
    assert checked.generation == 4
    commands.approve(found.env, checked.generation, checked.plan_digest)
    LedgerWriter(found.env).transact(_building)
    throttle(found.env, None, rows_per_second=100)
    assert not found.state.is_current
    assert isinstance(found.state.controls["*"], Control)
    commands.cancel(found.env, checked.generation)
    number = found.state.format
    state = LedgerReader(found.env, known_to(number)).state()
    assert state.is_current
    for collection, some in state.raw.items():
        for key, value in some.items():
            row_type = row_type_of(collection, key, FORMATS.types(number))
            assert row_type is not None
            decode(row_type, key, value)
    assert state.deployments[Generation(4)].state is DeploymentState.CANCELLED


REFUSED: dict[str, Callable[[Found], Any]] = {
    "upgrade": lambda found: commands.upgrade(found.env, found.next, jobs=no_spark),
    "promote": lambda found: commands.promote(found.env, GENERATION),
    "expand": lambda found: commands.expand(found.env, GENERATION),
    "change": lambda found: commands.change(found.env, GENERATION, jobs=no_spark),
    "cutover": lambda found: commands.cutover(found.env, GENERATION),
    "cleanup": lambda found: commands.cleanup(found.env, Generation(2)),
    "rollback": lambda found: commands.rollback(found.env),
    "writing it anew": lambda found: compact(LedgerWriter(found.env)),
}


@first
def test_what_changes_the_environment_is_refused_on_an_older_format(found: Found) -> None:
    before = tree(found.folder)
    for what, run in REFUSED.items():
        with pytest.raises(LedgerFormatOld) as caught:
            run(found)
        assert caught.value.what == what
        assert "`schemamig ledger upgrade`" in caught.value.next_action
        assert tree(found.folder) == before, what
    assert commands.upgrade(found.env, found.folder / "product" / "1.1.0", jobs=no_spark).stages == (), "nothing to do is nothing to refuse"
    assert tree(found.folder) == before


@older
def test_older_software_is_refused_after_the_upgrade_and_not_before(found: Found) -> None:
    older = known_to(found.state.format)
    LedgerReader(found.env, older).state()
    upgrade_ledger(found.env)
    before = tree(found.folder)
    with pytest.raises(LedgerTooNew):
        LedgerReader(found.env, older).state()
    with pytest.raises(LedgerTooNew):
        LedgerWriter(found.env, older).transact(lambda state: [])
    assert tree(found.folder) == before


# --- who is at work ------------------------------------------------------------------------------------------------------------------


def _promoted(state: State) -> list[Update]:
    deployment = replace(state.deployments[GENERATION], state=DeploymentState.PROMOTED)
    return [Put(Leader(GENERATION, Epoch(9), NOW)), Put(deployment)]


def _rolling_back(state: State) -> list[Update]:
    return [Put(Hold(Generation(2), Version(1, 0, 0), Version(1, 1, 0), NOW, HoldState.ROLLING_BACK))]


@first
@pytest.mark.parametrize(
    ("begin", "words"),
    [(_promoted, "the upgrade of generation 3"), (_rolling_back, "the rollback of generation 2")],
    ids=["upgrade", "rollback"],
)
def test_format_fixtures_it_does_not_lock_out_who_is_at_work(found: Found, begin: Callable[[State], list[Update]], words: str) -> None:
    LedgerWriter(found.env, known_to(0)).transact(begin)
    before = tree(found.folder)
    with pytest.raises(LedgerInUse, match=words):
        upgrade_ledger(found.env)
    assert tree(found.folder) == before


@first
def test_a_promotion_between_its_look_and_its_append_stops_it(found: Found) -> None:
    writer = LedgerWriter(found.env)

    def meanwhile(state: State) -> None:
        from airflow_provider_schemamig.core.upgrade.ledger_format import check_unused

        check_unused(state)
        LedgerWriter(found.env, known_to(0)).transact(_promoted)

    with pytest.raises(LedgerInUse):
        writer.upgrade_format(meanwhile)
    assert found.state.format == 0


@first
def test_a_leader_of_older_software_in_flight_is_refused_at_its_next_append(found: Found) -> None:
    LedgerWriter(found.env, known_to(0)).transact(lambda state: [Put(Leader(Generation(2), Epoch(2), NOW))])
    older = LedgerWriter(found.env, known_to(0))
    state = older.state()
    upgrade_ledger(found.env)
    before = tree(found.folder)
    with pytest.raises(SchemamigError) as caught:
        older.transact(lambda state: [Put(Leader(Generation(2), Epoch(3), NOW))])
    assert caught.value.code == "ledger_too_new"
    with pytest.raises(SchemamigError) as caught:
        older.compare_and_append(state, [Put(Leader(Generation(2), Epoch(3), NOW))])
    assert caught.value.code == "ledger_conflict"
    assert tree(found.folder) == before


@pytest.mark.parametrize("found", HELD, indirect=True)
def test_the_way_back_that_older_software_left_is_still_there(found: Found) -> None:
    upgrade_ledger(found.env)
    assert found.gates("1.1.0") == ["A1"]
    commands.rollback(found.env)
    for collection, columns in (("flights", {"id", "dep_delay", "hour"}), ("stats", {"origin", "flights"}), ("untouched", {"id"})):
        for release in (None, "1.0.0"):
            assert set(found.env.reader(collection, release).arrow().column_names) == columns
    assert verify(LedgerReader(found.env)) == ()
    assert commands.status(found.env).drifted == ()


# --- what older processes left open --------------------------------------------------------------------------------------------------


def _died(state: State) -> list[Update]:
    """A contract that was killed before it touched ``flights``: it would have dropped the field that the table has as hidden."""
    assert state.leader is not None
    stored = {row["collection"]: row for row in map(json.loads, state.raw["objects"].values())}["flights"]
    key = f'"flights/{stored["schema_id"]}"'
    before = decode(objects_v1.SchemaEntry, key, state.raw["schemas"][key]).physical
    after = replace(before, fields=before.fields[:-1])
    about = {"collection": "flights", "shard": stored["shard"], "generation": 2, "epoch": state.leader.epoch, "base_version": 5}
    return [Put(objects_v1.TransitionIntent(**about, kind=objects_v1.IntentKind.CONTRACT, before=before, after=after))]


@first
def test_an_intent_that_was_left_open_is_carried_over_and_settled(found: Found) -> None:
    LedgerWriter(found.env, known_to(0)).transact(_died)
    seen = texts(found.state)
    (intent,) = found.state.intents.values()
    assert (intent.kind, intent.generation) == (IntentKind.CONTRACT, 2)
    assert verify(LedgerReader(found.env)) == ()
    assert [step.rows for step in upgrade_ledger(found.env).steps] == [3]
    assert texts(found.state) == seen
    assert tuple(found.state.intents.values()) == (intent,)
    commands.upgrade(found.env, found.next, jobs=no_spark)
    assert dict(found.state.intents) == {}
    assert found.gates("1.1.0") == ["A1"]
    assert commands.status(found.env).drifted == ()
    assert verify(LedgerReader(found.env)) == ()
