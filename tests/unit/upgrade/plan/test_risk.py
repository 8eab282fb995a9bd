"""Which plans the gate ``auto`` lets through, and why it asks about the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.plan.risk import reasons_to_ask
from tests.support.lake import Lake
from tests.support.upgrades import two_releases

OLD = "CREATE TABLE a (id BIGINT NOT NULL, n INT, CONSTRAINT positive CHECK (n > 0)); CREATE TABLE b (id BIGINT);"
EVOLVE = 'evolution("a")'


def planned(folder: Path, new: str, steps: str) -> Lake:
    return two_releases(folder, OLD, new, steps)


def reasons(lake: Lake, **options: bool) -> tuple[str, ...]:
    report = commands.plan(lake.env, lake.second)
    assert not report.refusals
    return reasons_to_ask(report.explained, **{"has_hold": True, **options})


@pytest.mark.parametrize(
    ("new", "steps"),
    [
        (f"{OLD} CREATE TABLE c (id BIGINT);", ""),
        ("CREATE TABLE a (id BIGINT NOT NULL, n INT); CREATE TABLE b (id BIGINT);", EVOLVE),
        (OLD.replace("n INT", "n INT COMMENT 'of it'"), ""),
        (OLD.replace("n INT", "n INT DEFAULT 1"), EVOLVE),
    ],
    ids=["a new collection", "a CHECK less", "a comment", "a default"],
)
def test_plan_risk_what_breaks_nobody_passes(tmp_path: Path, new: str, steps: str, request: pytest.FixtureRequest) -> None:
    found = reasons(planned(tmp_path, new, steps))
    if "default" in request.node.callspec.id:  # a table feature, which stays
        assert all(reason.startswith("a: for good: ") for reason in found) and found
    else:
        assert found == ()


@pytest.mark.parametrize(
    ("new", "steps", "reason"),
    [
        (OLD.replace("n INT", "n INT, x INT"), EVOLVE, "a: positional INSERT"),
        (
            OLD.replace("n INT", "m INT").replace("n >", "m >"),
            'evolution("a", rename={"n": "m"})',
            "a: readers and writers that use the old",
        ),
        (OLD.replace("n INT", "n BIGINT"), EVOLVE, "a: n: readers of 1.0.0 are fenced"),
        (OLD.replace("id BIGINT NOT NULL", "id BIGINT"), EVOLVE, "a: id: readers of 1.0.0 are fenced"),
        (OLD.replace("b (id BIGINT)", "b (id BIGINT NOT NULL)"), 'evolution("b")', "b: "),
        (OLD.partition(" CREATE TABLE b")[0], 'removal("b")', "b: every writer of the old shard is refused"),
        (OLD.replace("b (id BIGINT)", "b (x STRING)"), 'replacement("b")', "b: every writer of the old shard is refused"),
        (OLD.replace("n INT", "n STRING").replace("n > 0", "n <> ''"), EVOLVE, "a: "),
    ],
    ids=["an added column", "a rename", "a widening", "a relaxation", "NOT NULL", "a removal", "a replacement", "another type"],
)
def test_plan_risk_what_breaks_somebody_is_asked_about(tmp_path: Path, new: str, steps: str, reason: str) -> None:
    found = reasons(planned(tmp_path, new, steps))
    assert [text for text in found if text.startswith(reason)], found


def test_added_columns_pass_where_nobody_writes_by_position(tmp_path: Path) -> None:
    lake = planned(tmp_path, OLD.replace("n INT", "n INT, x INT"), EVOLVE)
    assert reasons(lake, added_columns_pass=True) == ()
    assert len(reasons(lake)) == 1


def test_without_a_way_back_somebody_is_asked(tmp_path: Path) -> None:
    lake = planned(tmp_path, f"{OLD} CREATE TABLE c (id BIGINT);", "")
    assert reasons(lake, has_hold=False) == ("there is no way back: the hold is 0",)
