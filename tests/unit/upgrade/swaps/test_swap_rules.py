"""A CHECK or NOT NULL over a column that gets another type in the same release: asked before the swap, enforced by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.errors import BadValue
from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.verify.verify import verify
from tests.support.lake import Lake
from tests.support.online import die_after_the_swap
from tests.support.rows.tables import change, insert
from tests.support.upgrades import two_releases, whole
from tests.unit.upgrade.swaps.test_swaps import jobs, ready, served, swapped, table

RULES = {
    "CHECK": (", CONSTRAINT few CHECK (s < 99)", {"id": 9, "s": "100"}),
    "NOT NULL": (" NOT NULL", {"id": 9, "s": None}),
    "CHECK over a column that comes, too": (", n INT DEFAULT 50, CONSTRAINT up CHECK (s < n)", {"id": 9, "s": "51", "n": 50}),
}


def ruled(folder: Path, rule: str) -> Lake:
    lake = two_releases(folder, "CREATE TABLE a (id BIGINT, s STRING);", f"CREATE TABLE a (id BIGINT, s INT{rule});", 'evolution("a")')
    insert(lake.path("a"), [{"id": 1, "s": "007"}])
    return lake


@pytest.mark.parametrize(("rule", "bad"), RULES.values(), ids=RULES)
def test_a_row_that_breaks_a_rule_of_the_new_column_comes_late(tmp_path: Path, rule: str, bad: dict[str, Any]) -> None:
    """After all rows were asked, right before the swap: it is not swapped, and the release before goes on."""
    lake = ruled(tmp_path, rule)
    generation = ready(lake)
    insert(lake.path("a"), [bad])
    with pytest.raises(BadValue, match="does not hold"):
        commands.cutover(lake.env, generation, jobs=jobs())
    assert not swapped(lake, "a") and served(lake, "a") and lake.version == "1.0.0"
    change(lake.path("a"), lambda row: None if row["id"] == 9 else row)
    commands.cutover(lake.env, generation, jobs=jobs())
    assert (lake.version, table(lake, "a")) == ("1.1.0", {1: 7})
    declared = lake.state.entry(CollectionName("a"))
    assert declared.physical.checks == declared.declared.checks
    whole(lake)


@pytest.mark.parametrize("rule", [rule for rule, _ in RULES.values()], ids=RULES)
def test_no_scan_of_a_rule_comes_after_the_swap(tmp_path: Path, rule: str) -> None:
    lake = ruled(tmp_path, rule)
    seen: list[bool] = []
    runner = jobs(before=lambda job, request: seen.append(swapped(lake, "a")))
    commands.upgrade(lake.env, lake.second, jobs=runner)
    assert seen and not any(seen)
    assert (lake.version, table(lake, "a")) == ("1.1.0", {1: 7})
    commands.rollback(lake.env, jobs=jobs())
    assert (lake.version, table(lake, "a")) == ("1.0.0", {1: "007"})
    whole(lake)


# --- what is said meanwhile -----------------------------------------------------------------------------------------------------------


def said(lake: Lake) -> set[tuple[str, str, str]]:
    """Elements, their states, and what is being done; nothing is drift, and nothing wrong."""
    status = commands.status(lake.env)
    assert status.drifted == ()
    assert verify(lake.env, lake.state, jobs()).findings == ()
    return {(item["element"], item["state"], item["phase"]) for item in status.document["elements"]}


def test_what_status_and_verify_say_before_and_after_the_swap(tmp_path: Path) -> None:
    lake = ruled(tmp_path, ", CONSTRAINT few CHECK (s < 99)")
    generation = ready(lake)
    waiting = {("type:s", "reorg", "last step"), ("check:few", "validate", "validation")}
    assert said(lake) == waiting
    die_after_the_swap(lake.env, lake.path("a"), generation, jobs())
    assert swapped(lake, "a") and said(lake) == waiting
    commands.cutover(lake.env, generation, jobs=jobs())
    assert said(lake) == set()


def test_the_plan_says_where_columns_change_places(tmp_path: Path) -> None:
    lake = ruled(tmp_path, ", CONSTRAINT few CHECK (s < 99)")
    report = commands.plan(lake.env, lake.second)
    assert [stage["kind"] for stage in report.to_json()["stages"]] == ["change", "cutover", "commit", "contract"]
    change_stage, cutover = report.explained[:2]
    assert "1 metadata commit(s)" in " ".join(change_stage.lines)
    assert cutover.lines == ("s: the column of its new type takes its place",)
    assert "seal" in " ".join(cutover.breaks)


@pytest.mark.parametrize("say", [controls.pause, controls.postpone])
def test_a_pause_and_a_postponement_hold_the_swap(tmp_path: Path, say: Callable[..., object]) -> None:
    """A process that may not wait ends, and nobody is locked out."""
    lake = ruled(tmp_path, "")
    generation = ready(lake)
    say(lake.env, "a")
    with pytest.raises(Paused):
        commands.cutover(replace(lake.env, waits=False), generation, jobs=jobs())
    assert served(lake, "a") and not swapped(lake, "a")
    controls.resume(lake.env, "a")
    commands.cutover(lake.env, generation, jobs=jobs())
    assert (lake.version, table(lake, "a")) == ("1.1.0", {1: 7})
    whole(lake)
