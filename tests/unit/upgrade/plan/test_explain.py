"""What a person reads before promotion: every kind of stage and of change, whom it breaks, what stays, what is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Generation, Version
from airflow_provider_schemamig.core.online.operations import operations_of
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.model import Check, Declaration, Field, ForeignKey, Key, Primitive
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.explain import Explanation, explain
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stage_list import OnlineChanges
from tests.support.lake import Lake
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables import foreign
from tests.support.upgrades import deployed, expanded, releases, two_releases

A, PATH = CollectionName("a"), ColumnPath("n")
INT, BIGINT = Primitive("int"), Primitive("bigint")
KEY, CHECK = Key(("n",)), Check("positive", "n > 0")
FOREIGN = ForeignKey(("n",), CollectionName("b"), ("id",))
TABLE = Declaration(A, (Field("n", INT),))

CHANGES: list[c.Change] = [
    c.AddColumn(PATH, Field("n", INT)),
    c.DropColumn(PATH),
    c.RenameColumn(PATH, "m"),
    c.ChangeType(PATH, INT, BIGINT, widening=True, shadowable=True),
    c.Relax(PATH),
    c.SetNotNull(PATH),
    c.SetDefault(PATH, None, "1"),
    c.SetGenerated(PATH, "m", "m + 1"),
    c.SetComment(PATH, None, "said"),
    c.ReorderColumns(ColumnPath(""), ("a", "b"), ("b", "a")),
    c.SetProperty("owned_by", None, "me"),
    c.AddCheck(CHECK),
    c.DropCheck(CHECK),
    c.AddKey(KEY, primary=True),
    c.DropKey(KEY, primary=False),
    c.AddForeignKey(FOREIGN),
    c.DropForeignKey(FOREIGN),
    c.ChangePartitioning((), ("n",)),
    c.ChangeClustering((), ("n",)),
]
RULES: tuple[c.Change, ...] = (c.AddCheck(CHECK), c.SetNotNull(PATH))
ONLINE = {A: OnlineChanges(TABLE, tuple((rule, operations_of(rule, TABLE)) for rule in RULES))}
STAGES: list[s.Stage] = [
    s.Settle((A,)),
    s.EndHold(Generation(2)),
    s.Build(A, TABLE),
    s.Copy(A, A, TABLE, "SELECT n FROM {a}", None, "`n`", no_way_back="the step has no down"),
    s.CreateShard(A, TABLE),
    s.Expand(A, A, tuple(CHANGES)),
    s.Online(A, A, RULES),
    s.Seal(A),
    s.CutOver(A, A, tuple(CHANGES)),
    s.Commit(None, Version(1, 0, 0)),
    s.Contract(A, A, tuple(CHANGES)),
    s.Retire(A),
]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return commands.plan(
        two_releases(tmp_path, "CREATE TABLE a (n INT);", "CREATE TABLE a (n BIGINT);", 'evolution("a")').env, tmp_path / "product/1.1.0"
    ).plan


def test_the_lists_are_closed() -> None:
    assert [type(stage) for stage in STAGES] == list(get_args(s.Stage))
    assert tuple(stage.kind for stage in STAGES) == tuple(kind.kind for kind in get_args(s.Stage))
    assert sorted(stage.kind for stage in STAGES) == sorted(s.PLAN_KINDS)
    assert {type(change) for change in CHANGES} == set(get_args(c.Change))
    assert len(set(s.STAGE_KINDS)) == len(s.STAGE_KINDS)


@pytest.mark.parametrize("stage", STAGES, ids=[stage.kind for stage in STAGES])
def test_every_kind_of_stage_is_explained(plan: Plan, stage: s.Stage) -> None:
    (found,) = explain(replace(plan, stages=(stage,)), {}, ONLINE)
    assert (found.kind, found.collection) == (stage.kind, stage.collection)
    assert found.summary
    assert json.loads(json.dumps(found.to_json()))["kind"] == stage.kind


@pytest.mark.parametrize("change", CHANGES, ids=[change.op for change in CHANGES])
def test_every_kind_of_change_is_explained(plan: Plan, change: c.Change) -> None:
    (found,) = explain(replace(plan, stages=(s.Expand(A, A, (change,)),)), {}, {})
    assert len(found.lines) == 1
    assert found.lines[0]
    assert found.cost is change.cost


# --- whom it breaks, what stays, what is lost ----------------------------------------------------------------------------------------


def explained(tmp_path: Path, before: str, after: str, steps: str) -> dict[str, Explanation]:
    lake = two_releases(tmp_path, before, after, steps)
    report = commands.plan(lake.env, lake.second)
    assert report.refusals == ()
    return {found.kind: found for found in report.explained}


CONSEQUENCES: list[tuple[str, str, str, str, str, str]] = [
    # columns before, columns after, step, kind of stage, where it is said, what
    ("id INT", "id INT, x INT", 'evolution("a")', "expand", "breaks", "positional INSERT"),
    ("id INT", "id INT, x INT", 'evolution("a")', "expand", "breaks", "writers in flight on the table abort once"),
    ("id INT", "id INT, x INT", 'evolution("a")', "expand", "rollback", "x stays as a hidden column if rows carry it"),
    ("id INT", "key INT", 'evolution("a", rename={"id": "key"})', "cutover", "breaks", "use the old name fail"),
    ("id INT", "key INT", 'evolution("a", rename={"id": "key"})', "cutover", "irreversible", "column mapping is switched on"),
    ("id INT, x INT", "id INT", 'evolution("a", drop=["x"])', "contract", "breaks", "readers of the dropped column"),
    ("id INT, x INT", "id INT", 'evolution("a", drop=["x"])', "contract", "irreversible", "x is gone once contract has run"),
    ("id INT, x INT", "id INT", 'evolution("a", drop=["x"])', "contract", "irreversible", "column mapping is switched on"),
    ("id INT", "id BIGINT", 'evolution("a")', "expand", "irreversible", "type widening is switched on"),
    ("id INT", "id BIGINT", 'evolution("a")', "expand", "rollback", "id stays BIGINT"),
    ("id INT", "id INT DEFAULT 1", 'evolution("a")', "expand", "irreversible", "column defaults are switched on"),
    ("id INT NOT NULL", "id INT", 'evolution("a")', "expand", "rollback", "id stays nullable if a NULL came in"),
    ("id INT, CONSTRAINT p CHECK (id > 0)", "id INT", 'evolution("a")', "expand", "rollback", "CHECK p stays dropped if rows came in"),
    ("id INT) CLUSTER BY (id", "id INT", 'evolution("a")', "expand", "rollback", "CLUSTER BY (id) is back"),
    ("id INT", "id DATE", 'replacement("a")', "seal", "breaks", "every writer of the old shard is refused"),
    ("id INT", "id DATE", 'replacement("a")', "seal", "rollback", "done only by order"),
    ("id INT", "id DATE", 'replacement("a")', "retire", "irreversible", "rows are deleted"),
    ("id INT", "id DATE", 'replacement("a", fill="SELECT current_date() AS id FROM {a}")', "build", "summary", "filled on Spark from a"),
]


@pytest.mark.parametrize(("before", "after", "step", "kind", "where", "what"), CONSEQUENCES, ids=[f"{c[3]} {c[5]}" for c in CONSEQUENCES])
def test_explain_consequences(tmp_path: Path, before: str, after: str, step: str, kind: str, where: str, what: str) -> None:
    found = explained(tmp_path, f"CREATE TABLE a ({before});", f"CREATE TABLE a ({after});", step)
    said: Any = getattr(found[kind], where)
    assert what in (said if isinstance(said, str) else "; ".join(said))


def test_explain_removed(tmp_path: Path) -> None:
    found = explained(tmp_path, "CREATE TABLE a (id INT); CREATE TABLE b (id INT);", "CREATE TABLE a (id INT);", 'removal("b")')
    assert "the collection is removed" in found["seal"].breaks[0]
    assert found["seal"].rollback == ()


def test_a_feature_that_is_on_already_is_not_said_again(tmp_path: Path) -> None:
    """Also where the collection gets another name: the table stays."""
    tables = [f"CREATE TABLE {name} ({column} INT);" for name, column in (("a", "x"), ("a", "y"), ("b", "z"))]
    steps = ("", 'evolution("a", rename={"x": "y"})', 'evolution("b", renamed_from="a", rename={"y": "z"})')
    first, second, third = releases(tmp_path, *zip(tables, steps, strict=True))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    report = commands.plan(lake.env, third)
    (cutover,) = [found for found in report.explained if found.kind == "cutover"]
    assert cutover.irreversible == ()


# --- what a run reports --------------------------------------------------------------------------------------------------------------


def test_a_run_reports_kinds_of_the_closed_list(tmp_path: Path) -> None:
    before = "CREATE TABLE a (id INT, x INT); CREATE TABLE b (id INT); CREATE TABLE c (id INT);"
    after = "CREATE TABLE a (key INT, y INT); CREATE TABLE b (id DATE); CREATE TABLE d (id INT);"
    steps = 'evolution("a", rename={"id": "key"}, drop=["x"]), replacement("b", fill="SELECT id FROM {a}"), removal("c")'
    lake = two_releases(tmp_path, before, after, steps)
    jobs = FakeJobs()
    seen = {stage.kind for stage in upgrade_and_back(lake, jobs)}
    assert seen <= set(s.STAGE_KINDS)
    assert seen >= {
        "settle",
        "create",
        "expand",
        "seal",
        "cutover",
        "commit",
        "contract",
        "retire",
        "cleanup",
        "fill",
        "revert",
        "unseal",
        "rollback",
    }


def upgrade_and_back(lake: Lake, jobs: FakeJobs) -> list[Any]:
    commands.preflight(lake.env, lake.second, claim_id="given up", jobs=jobs)
    commands.promote(lake.env, Generation(2))
    commands.expand(lake.env, Generation(2))
    commands.preflight(lake.env, lake.second, claim_id="another", jobs=jobs)
    foreign.write(lake.path("a"), [{"id": 1}])
    outcomes = [commands.upgrade(lake.env, lake.second, claim_id="another", jobs=jobs), commands.rollback(lake.env)]
    outcomes.append(commands.upgrade(lake.env, lake.second, jobs=jobs, hold=timedelta(0)))
    assert all(stage.to_json().keys() == {"kind", "collection", "table_version", "seconds"} for stage in outcomes[0].stages)
    return [stage for outcome in outcomes for stage in outcome.stages]


def test_settling_is_explained_with_its_collections(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id INT);", "CREATE TABLE a (id INT, x INT);", 'evolution("a")')
    expanded(lake, lake.second)
    found = {item.kind: item for item in commands.plan(lake.env, lake.second).explained}
    assert "left open on a" in found["settle"].summary


def test_explain_names_who_is_fenced_from_which_stage_on(tmp_path: Path) -> None:
    old = "CREATE TABLE a (n INT, x FLOAT, m INT NOT NULL);\nCREATE TABLE stats (id BIGINT);\nCREATE TABLE gone (id BIGINT);"
    new = "CREATE TABLE a (n BIGINT, x DOUBLE, m INT);\nCREATE TABLE stats (id STRING);"
    lake = two_releases(tmp_path, old, new, 'evolution("a"), replacement("stats"), removal("gone")')
    found = commands.plan(lake.env, lake.second).to_json(explained=True)["explanations"]
    breaks = {(item["kind"], item["collection"]): item["breaks"] for item in found}
    fenced = "readers of 1.0.0 are fenced from expand on"
    known = "known to fit {}: they came before or by a handle of 1.0.0"
    expand = breaks["expand", "a"]
    stated = f"{known.format('INT')}, or their file's statistics say so"
    assert f"n: {fenced}, also after a rollback, unless all values are {stated}" in expand
    assert f"x: {fenced}, also after a rollback, unless all values are {known.format('FLOAT')}" in expand
    assert f"m: {fenced}, once a NULL has come in" in expand
    for name in ("stats", "gone"):
        assert "handles of 1.0.0 are fenced from the cut-over on, for all of its columns" in breaks["seal", name]
