"""The plan: one document for preflight, promotion and every task after it; its digest; and that reading never writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.objects.plan_store import digest as digest_of
from airflow_provider_schemamig.core.ledger.objects.plan_store import read_plan
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stages import PLAN_KINDS
from airflow_provider_schemamig.core.upgrade.prepare.preflight import PlanReport
from tests.support.bytes import tree, unwritten
from tests.support.lake import Lake, make_lake
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, expanded, heartbeat, promoted, releases, two_releases

A = "CREATE TABLE a (id BIGINT, n INT);"
FILLED = 'replacement("b", fill="SELECT id FROM {a}")'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.0.0 of two releases that hold every kind of step."""
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    return found


def plan_of(lake: Lake, release: Path | None = None) -> Plan:
    return commands.plan(lake.env, release or lake.second).plan


# --- the document --------------------------------------------------------------------------------------------------------------------


def test_a_plan_is_its_document(lake: Lake) -> None:
    plan = plan_of(lake)
    text = json.dumps(json.loads(plan.text))
    again = Plan.from_document(json.loads(text))
    assert again == plan
    assert again.digest == plan.digest == digest_of(canonical(json.loads(text)))


def test_stages_come_in_the_order_they_run(lake: Lake) -> None:
    kinds = [stage.kind for stage in plan_of(lake).stages]
    assert kinds == sorted(kinds, key=PLAN_KINDS.index)
    assert [kind for kind in PLAN_KINDS if kind in kinds] == [
        "build",
        "create",
        "expand",
        "seal",
        "cutover",
        "commit",
        "contract",
        "retire",
    ]


def test_plan_the_report(lake: Lake) -> None:
    document = commands.plan(lake.env, lake.second).to_json()
    assert set(document) >= {"from", "to", "plan_digest", "stages", "pending", "refusals"}
    assert (document["from"], document["to"], document["refusals"], document["pending"]) == ("1.0.0", "1.1.0", [], [])
    (cutover,) = [stage for stage in document["stages"] if (stage["kind"], stage["collection"]) == ("cutover", "flights")]
    assert [(change["op"], change["path"]) for change in cutover["changes"]] == [("rename_column", "dep_delay")]


def test_preflight_stores_what_it_printed(lake: Lake) -> None:
    checked = commands.preflight(lake.env, lake.second, jobs=lambda: pytest.fail("no Spark"))
    assert checked.report_uri is not None
    report = json.loads(Path(checked.report_uri.removeprefix("file://")).read_text())
    assert report == checked.to_json()["plan"]
    assert Plan.from_document(read_plan(lake.env, checked.plan_digest)) == plan_of(lake)


EXIT_CODES: dict[str, tuple[Callable[[Lake], object], str, int]] = {
    "nothing to do": (lambda lake: lake.upgrade(lake.second, hold=timedelta(0)), "second", 0),
    "nothing to do but a hold that is not due": (lambda lake: lake.upgrade(lake.second), "second", 0),
    "differences": (lambda lake: None, "second", 3),
    "refused": (lambda lake: foreign.add_column(lake.path("planes"), "sneaked"), "second", 1),
}


@pytest.mark.parametrize("case", EXIT_CODES)
def test_plan_exit_code(lake: Lake, case: str) -> None:
    before, release, code = EXIT_CODES[case]
    before(lake)
    assert commands.plan(lake.env, getattr(lake, release)).exit_code == code


def test_a_hold_that_is_due_is_something_to_do(lake: Lake) -> None:
    heartbeat(lake.env, "1.0.0")
    (note,) = lake.upgrade(lake.second, hold=timedelta(0)).notes
    assert "hold_in_use" in note
    report = commands.plan(lake.env, lake.second)
    assert (report.plan.is_empty, report.due_holds, report.exit_code) == (True, (2,), 3)


# --- the digest ----------------------------------------------------------------------------------------------------------------------


def test_the_digest_is_the_same_in_another_process(lake: Lake) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from airflow_provider_schemamig.core.environment import Environment\n"
        "from airflow_provider_schemamig.core import commands\n"
        "print(commands.plan(Environment.open(sys.argv[1]), Path(sys.argv[2])).plan.digest)"
    )
    command = [sys.executable, "-c", script, lake.env.location.uri, str(lake.second)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7", "PATH": ""})
    assert found.stdout.strip() == plan_of(lake).digest


def test_the_digest_knows_no_generation_and_no_place(lake: Lake, tmp_path: Path) -> None:
    before = plan_of(lake).digest
    first, second = claimed(lake, lake.second, claim_id="one"), claimed(lake, lake.second, claim_id="two")
    assert first != second
    assert {lake.state.deployments[generation].plan_digest for generation in (first, second)} == {before}
    elsewhere = Lake(Environment.open(str(tmp_path / "elsewhere")), lake.first, lake.second)
    elsewhere.upgrade(elsewhere.first)
    assert plan_of(elsewhere).digest == before


def test_rows_do_not_count(lake: Lake) -> None:
    before = plan_of(lake).digest
    foreign.write(lake.path("planes"), [{"tailnum": "N1"}])
    assert plan_of(lake).digest == before


def test_plan_what_is_left_over_from_before_does_not_count(tmp_path: Path) -> None:
    """Neither an open hold nor what a dead leader has to have settled."""
    first, second, third = releases(
        tmp_path,
        (A, ""),
        (A + "CREATE TABLE b (id BIGINT);", ""),
        ("CREATE TABLE a (id BIGINT, n BIGINT, x INT);", 'evolution("a"), removal("b")'),
    )
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    held = plan_of(lake, third)
    assert "end_hold" not in [stage.kind for stage in held.stages]
    commands.contract(lake.env, at_once=True)
    free = plan_of(lake, third)
    expanded(lake, third)
    unsettled = plan_of(lake, third)
    assert "settle" in [stage.kind for stage in unsettled.stages]
    assert held.digest == free.digest == unsettled.digest


CHANGED = {
    "another column": ("CREATE TABLE a (id BIGINT, n INT, y INT);", 'evolution("a")'),
    "another type": ("CREATE TABLE a (id BIGINT, n INT, x STRING);", 'evolution("a")'),
    "another comment": ("CREATE TABLE a (id BIGINT, n INT, x INT COMMENT 'new');", 'evolution("a")'),
    "another order": ("CREATE TABLE a (id BIGINT, x INT, n INT);", 'evolution("a")'),
    "another default": ("CREATE TABLE a (id BIGINT, n INT DEFAULT 1, x INT);", 'evolution("a")'),
    "another property": ("CREATE TABLE a (id BIGINT, n INT, x INT) TBLPROPERTIES ('owned_by' = 'me');", 'evolution("a")'),
    "a rename instead": ("CREATE TABLE a (id BIGINT, x INT);", 'evolution("a", rename={"n": "x"})'),
    "one more collection": ("CREATE TABLE a (id BIGINT, n INT, x INT); CREATE TABLE b (id BIGINT);", 'evolution("a")'),
    "replaced instead": ("CREATE TABLE a (id BIGINT, n INT, x INT);", 'replacement("a")'),
    "filled": ("CREATE TABLE a (id BIGINT, n INT, x INT);", 'replacement("a", fill="SELECT id, n, 1 AS x FROM {a}")'),
    "another fill": ("CREATE TABLE a (id BIGINT, n INT, x INT);", 'replacement("a", fill="SELECT id, n, 2 AS x FROM {a}")'),
    "filled once": ("CREATE TABLE a (id BIGINT, n INT, x INT);", 'replacement("a", fill="SELECT id, n, 1 AS x FROM {a}", snapshot=True)'),
}


def test_everything_that_changes_tables_changes_the_digest(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, "CREATE TABLE a (id BIGINT, n INT, x INT);", 'evolution("a")')
    digests = {"as it is": plan_of(lake).digest}
    for name, (schema, steps) in CHANGED.items():
        _, release = releases(tmp_path / name.replace(" ", "_"), (A, ""), (schema, steps))
        digests[name] = plan_of(lake, release).digest
    assert len(set(digests.values())) == len(digests)


def test_another_version_is_another_plan(tmp_path: Path) -> None:
    wider = ("CREATE TABLE a (id BIGINT, n INT, x INT);", 'evolution("a")')
    first, second, third = releases(tmp_path, (A, ""), wider, (wider[0], ""))
    lake = deployed(tmp_path, first, second)
    assert plan_of(lake, second).digest != plan_of(lake, third).digest


def test_a_hidden_column_changes_the_digest(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, "CREATE TABLE a (id BIGINT, n INT, x INT);", 'evolution("a")')
    before = plan_of(lake).digest
    lake.upgrade(lake.second)
    foreign.write(lake.path("a"), [{"id": 1, "x": 2}])
    commands.rollback(lake.env)
    assert plan_of(lake).digest != before


# --- reading changes no byte ---------------------------------------------------------------------------------------------------------


def situations(lake: Lake) -> dict[str, Callable[[], object]]:
    """Each goes on from where the one before left the lake."""
    return {
        "at the source": lambda: None,
        "claimed": lambda: claimed(lake, lake.second),
        "promoted": lambda: promoted(lake, lake.second),
        "expanded": lambda: expanded(lake, lake.second),
        "committed": lambda: lake.upgrade(lake.second),
        "contracted": lambda: commands.contract(lake.env, at_once=True),
        "drifted": lambda: foreign.add_column(lake.path("planes"), "sneaked"),
    }


def test_reading_changes_no_byte_at_any_moment(lake: Lake) -> None:
    for name, come_there in situations(lake).items():
        come_there()
        with unwritten(lake.env):
            assert isinstance(commands.plan(lake.env, lake.second), PlanReport), name
            commands.plan(lake.env, lake.second, end_hold=True).to_json(explained=True)
            commands.status(lake.env)
            if lake.version == "1.0.0":
                commands.plan(lake.env, lake.first)
        for generation in lake.state.deployments:
            with unwritten(lake.env):
                commands.approved(lake.env, generation)
                if lake.version == "1.0.0" and generation > 1:
                    commands.to_change(lake.env, generation)


def test_planning_for_nothing_makes_nothing(tmp_path: Path) -> None:
    product, nothing = make_lake(tmp_path), tmp_path / "lake"
    report = commands.plan(product.env, product.second, jobs=FakeJobs())
    assert (report.plan.target.source, report.exit_code) == (None, 3)
    assert {stage.kind for stage in report.plan.stages} == {"create", "commit"}
    assert not nothing.exists()
    nothing.mkdir()
    commands.plan(product.env, product.second)
    assert tree(nothing) == {}


def test_preflight_writes_nothing_that_a_reader_of_the_lake_sees(lake: Lake) -> None:
    root = lake.env.location.local_path or Path()
    before = {name: content for name, content in tree(root).items() if not name.startswith("_schemamig")}
    claimed(lake, lake.second)
    after = tree(root)
    assert {name: after[name] for name in before if before[name][0] is not None} == {n: c for n, c in before.items() if c[0] is not None}
    new = {name for name in after if name not in before and not name.startswith("_schemamig")}
    shards = {row.shard for row in lake.state.replacements.values()}
    assert {name.split("/")[1] for name in new} == shards, "replacement shards, and nothing else"


def test_plan_nothing_to_do_claims_nothing(lake: Lake) -> None:
    lake.upgrade(lake.second)
    with unwritten(lake.env):
        checked = commands.preflight(lake.env, lake.second, jobs=FakeJobs())
        assert (checked.generation, checked.report_uri, checked.fills) == (None, None, ())
        outcome = lake.upgrade(lake.second)
    assert (outcome.generation, outcome.stages) == (None, ())
    assert [hold["generation"] for hold in outcome.pending] == [2]
