"""FOREIGN KEY as an online change: what it asks, when it is refused, and what a finished one asks of writers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import KeyViolated
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.keys import Reference, keys_in_force
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from tests.support.lake import Lake, append, rows
from tests.support.online import OnlineJobs
from tests.support.upgrades import deployed, releases, two_releases, whole

PLANES = "CREATE TABLE planes (tail STRING NOT NULL PRIMARY KEY);\nCREATE TABLE years (n INT NOT NULL PRIMARY KEY);\n"
FLIGHTS = "CREATE TABLE flights (id BIGINT, plane STRING, n INT"
KEYS = ", FOREIGN KEY (plane) REFERENCES planes, FOREIGN KEY (n) REFERENCES years"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = two_releases(tmp_path, f"{PLANES}{FLIGHTS});", f"{PLANES}{FLIGHTS}{KEYS});", 'evolution("flights")')
    append(lake.path("planes"), [{"tail": "N1"}])
    append(lake.path("flights"), [{"id": 1, "plane": "N1", "n": None}])
    return lake


def flight(plane: str | None) -> pa.Table:
    return pa.table({"id": [9], "plane": pa.array([plane], pa.string())})


def test_foreign_keys_it_is_asked_twice_and_then_kept_by_our_writers(lake: Lake) -> None:
    jobs = OnlineJobs()
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    whole(lake)
    asked = [check for _, request in jobs.asked for check in request["checks"]]
    assert {check["kind"] for check in asked} == {"orphans"}
    assert len(asked) == 4, "two keys, before anything is written and again"
    keys = keys_in_force(lake.state, CollectionName("flights")).references
    assert keys == (Reference(("n",), CollectionName("years"), ("n",)), Reference(("plane",), CollectionName("planes"), ("tail",)))
    with pytest.raises(KeyViolated, match=r"1 row\(s\) would break FOREIGN KEY \(plane\) REFERENCES planes \(tail\): \(N9\)"):
        lake.env.writer("flights").append(flight("N9"))
    lake.env.writer("flights").append(flight("N1"))
    commands.rollback(lake.env)
    lake.env.writer("flights").append(flight("N9"))
    assert len(rows(lake.path("flights"))) == 3


def test_rows_that_refer_to_nothing_stop_it_before_anything_is_written(lake: Lake) -> None:
    append(lake.path("flights"), [{"id": 2, "plane": "N9", "n": None}])
    version = lake.state.version
    with pytest.raises(DataViolation):
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert all(element.state is ElementState.ABSENT for element in lake.state.elements.values())
    assert lake.version == "1.0.0" and lake.state.version >= version


def test_a_row_that_comes_before_the_scan_takes_all_keys_back(lake: Lake) -> None:
    jobs = OnlineJobs()
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    append(lake.path("flights"), [{"id": 2, "plane": "N9", "n": None}])
    with pytest.raises(DataViolation):
        commands.change(lake.env, generation, jobs=jobs)
    assert [element.state for element in lake.state.elements.values()] == [ElementState.ABSENT] * 2
    lake.env.writer("flights").append(flight("N8"))


def test_a_table_that_comes_with_the_same_release_is_not_referred_to(tmp_path: Path) -> None:
    lake = two_releases(
        tmp_path,
        f"{FLIGHTS});",
        f"{PLANES}{FLIGHTS}, FOREIGN KEY (plane) REFERENCES planes);",
        'evolution("flights")',
    )
    report = commands.plan(lake.env, lake.second)
    (refusal,) = report.refusals
    assert (refusal.code, refusal.collection) == ("not_online", "flights")
    assert "planes gets its table at the cut-over" in str(refusal)
    assert refusal.next_action == "Leave the key out of this release, and add it in the next one."


T, REFERS = "CREATE TABLE t (ref BIGINT);", "CREATE TABLE t (ref BIGINT, FOREIGN KEY (ref) REFERENCES {});"
Z = "CREATE TABLE z (id BIGINT NOT NULL, w BIGINT NOT NULL, CONSTRAINT u UNIQUE (w), PRIMARY KEY (id));"
WIDER = Z.replace("w BIGINT NOT NULL", "w BIGINT NOT NULL, e INT")
#: What becomes of z beside a new FOREIGN KEY -> its declaration, the key's target, the step of z, and why the key is refused.
NOT_THERE = {
    "replaced": (WIDER, "z", 'replacement("z")', "z gets another table at the cut-over"),
    "rewritten": (WIDER, "z", 'rewrite("z", up="SELECT id, w, 1 AS e FROM {z}")', "z gets another table at the cut-over"),
    "renamed": (Z.replace("z", "y"), "y", 'evolution("y", renamed_from="z")', "y is called z until the cut-over"),
    "its key renamed": (Z.replace("id", "pk"), "z", 'evolution("z", rename={"id": "pk"})', "z.pk is called id until the cut-over"),
    "its columns exchanged": (
        "CREATE TABLE z (w BIGINT NOT NULL, id BIGINT NOT NULL, CONSTRAINT u UNIQUE (id), PRIMARY KEY (w));",
        "z (w)",
        'evolution("z", rename={"id": "w", "w": "id"})',
        "z.w is called id until the cut-over",
    ),
    "with a new column": (
        Z.replace("w BIGINT NOT NULL", "w BIGINT NOT NULL, n BIGINT DEFAULT 5").replace(", PRIMARY", ", CONSTRAINT v UNIQUE (n), PRIMARY"),
        "z (n)",
        'evolution("z")',
        "z.n comes with the same release",
    ),
}


@pytest.mark.parametrize("case", NOT_THERE)
def test_foreign_keys_to_what_is_another_one_after_the_cut_over_are_refused_in_the_same_release(tmp_path: Path, case: str) -> None:
    after, target, step, reason = NOT_THERE[case]
    first, second, third = releases(tmp_path, (T + Z, ""), (T + after, step), (REFERS.format(target) + after, 'evolution("t")'))
    at_once = two_releases(tmp_path / "at once", T + Z, REFERS.format(target) + after, f'evolution("t"), {step}')
    (refusal,) = commands.plan(at_once.env, at_once.second).refusals
    assert (refusal.code, refusal.collection) == ("not_online", "t")
    assert reason in str(refusal) and "add it in the next one" in refusal.next_action

    lake = deployed(tmp_path, first, third)
    (refusal,) = commands.plan(lake.env, third).refusals
    assert reason in str(refusal) and refusal.next_action.startswith("Upgrade to 1.1.0 first")
    for release in (second, third):
        commands.upgrade(lake.env, release, jobs=OnlineJobs(), end_hold=True)
    assert keys_in_force(lake.state, CollectionName("t")).references
    whole(lake)


def test_a_table_refers_to_its_own_renamed_columns(tmp_path: Path) -> None:
    first = "CREATE TABLE t (id BIGINT NOT NULL, ref BIGINT, PRIMARY KEY (id));"
    second = "CREATE TABLE t (pk BIGINT NOT NULL, up BIGINT, PRIMARY KEY (pk), FOREIGN KEY (up) REFERENCES t);"
    lake = two_releases(tmp_path, first, second, 'evolution("t", rename={"id": "pk", "ref": "up"})')
    append(lake.path("t"), [{"id": 1, "ref": None}, {"id": 2, "ref": 1}])
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert keys_in_force(lake.state, CollectionName("t")).references == (Reference(("up",), CollectionName("t"), ("pk",)),)
    whole(lake)


def test_not_null_that_a_release_between_prepares_names_that_release(tmp_path: Path) -> None:
    found = ("CREATE TABLE t (id BIGINT);", ""), ("CREATE TABLE t (id BIGINT, a INT);", 'evolution("t")')
    first, _, third = releases(tmp_path, *found, ("CREATE TABLE t (id BIGINT, a INT NOT NULL);", 'evolution("t")'))
    lake = deployed(tmp_path, first, third)
    (refusal,) = commands.plan(lake.env, third).refusals
    assert (refusal.code, refusal.next_action[:23]) == ("not_online", "Upgrade to 1.1.0 first ")
