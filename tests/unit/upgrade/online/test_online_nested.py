"""Another type inside a column: in a struct, of an element, of a map's value. The whole column gets a shadow."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from airflow_provider_schemamig.core.delta.names import fields_in
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.errors import BadValue
from airflow_provider_schemamig.core.upgrade.rollback.errors import LossyRollback
from tests.support.lake import Lake, rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import change, insert, snapshot
from tests.support.upgrades import fingerprints, refused, same_as_new, two_releases, whole
from tests.unit.upgrade.online.test_online_types import STRIDE, die, swapped, upgraded

A = CollectionName("a")
OLD = "id BIGINT, a STRUCT<b: STRING NOT NULL COMMENT 'it', l: ARRAY<STRUCT<x: STRING, y: INT>>> NOT NULL, m MAP<STRING, STRING>"
NEW = "id BIGINT, a STRUCT<b: INT NOT NULL COMMENT 'it', l: ARRAY<STRUCT<x: INT, y: INT>>> NOT NULL, m MAP<STRING, INT>"


def lake_of(folder: Path, old: str = OLD, new: str = NEW, step: str = 'evolution("a")') -> Lake:
    return two_releases(folder, f"CREATE TABLE a ({old});", f"CREATE TABLE a ({new});", step)


def row(number: int, b: Any, x: Any, k: Any) -> dict[str, Any]:
    return {"id": number, "a": {"b": b, "l": [{"x": x, "y": 1}]}, "m": {"k": k}}


def filled(folder: Path) -> Lake:
    lake = lake_of(folder)
    insert(lake.path("a"), [row(1, "007", "08", "09"), {"id": 2, "a": {"b": "2", "l": None}, "m": None}])
    return lake


def found(lake: Lake) -> list[dict[str, Any]]:
    return rows(lake.path("a"), "id", "a", "m")


def test_online_nested_there_and_back_while_others_write(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    declared = fingerprints(lake)
    upgraded(lake)
    lake.env.reader("a", release="1.1.0").pin()
    assert found(lake) == [row(1, 7, 8, 9), {"id": 2, "a": {"b": 2, "l": None}, "m": None}]
    same_as_new(lake, lake.second, tmp_path / "fresh")
    entry = lake.state.entry(A)
    assert [entry.physical.field(name) for name in "am"] == [entry.declared.field(name) for name in "am"]

    insert(lake.path("a"), [row(3, 33, 34, 35)])
    change(lake.path("a"), lambda item: item | {"m": {"k": 99}} if item["id"] == 2 else item)
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert found(lake) == [row(1, "007", "08", "09"), {"id": 2, "a": {"b": "2", "l": None}, "m": {"k": "99"}}, row(3, "33", "34", "35")]
    entry = lake.state.entry(A)
    assert [entry.physical.field(name) for name in "am"] == [entry.declared.field(name) for name in "am"]
    assert fingerprints(lake) == declared
    whole(lake)

    insert(lake.path("a"), [row(4, "4", "4", "4")])
    upgraded(lake)
    commands.contract(lake.env, at_once=True)
    assert found(lake)[2:] == [row(3, 33, 34, 35), row(4, 4, 4, 4)]
    whole(lake)


def test_every_field_has_an_id_of_its_own(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    seen: dict[int, str] = {}
    for step in (upgraded, lambda lake: commands.rollback(lake.env, jobs=OnlineJobs()), upgraded):
        step(lake)
        schema = json.loads(snapshot(lake.path("a")).metadata["schemaString"])
        ids = [
            (item["metadata"]["delta.columnMapping.id"], item["metadata"]["delta.columnMapping.physicalName"])
            for _, item in fields_in(schema)
        ]
        assert len({number for number, _ in ids}) == len(ids)
        assert all(seen.setdefault(number, name) == name for number, name in ids)


def test_writers_of_the_old_shape_go_on_until_the_swap(tmp_path: Path) -> None:
    """The shadow asks nothing of them, nor does afterwards the column that stepped aside."""
    lake, jobs, late = filled(tmp_path), OnlineJobs(), [row(5, "05", "5", "5"), row(6, "6", "6", "6")]

    def write(job: str, request: object) -> None:
        if job == "fill" and late:
            insert(lake.path("a"), [late.pop()])

    jobs.before = write
    swapped(lake, jobs)
    insert(lake.path("a"), [row(7, 7, 7, 7)])
    assert [item["a"]["b"] for item in found(lake)] == [7, 2, 5, 6, 7]
    with pytest.raises(ReaderFenced, match=r"\ba\b"):
        lake.env.reader("a", release="1.0.0").pin()
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert [item["a"]["b"] for item in found(lake)] == ["007", "2", "05", "6", "7"]
    whole(lake)


def test_a_value_inside_that_does_not_fit(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    insert(lake.path("a"), [row(5, "5", "five", "5")])
    with refused("data_violation", "a") as violations:
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert "1 row(s) violate a.l.element.x as INT" in violations[0].message
    change(lake.path("a"), lambda item: None if item["id"] == 5 else item)
    generation = commands.preflight(lake.env, lake.second, jobs=OnlineJobs()).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    insert(lake.path("a"), [row(5, "5", "5", "five")])
    with pytest.raises(BadValue, match="five"):
        commands.change(lake.env, generation, jobs=OnlineJobs())
    assert found(lake)[0] == row(1, "007", "08", "09")
    change(lake.path("a"), lambda item: None if item["id"] == 5 else item)
    commands.change(lake.env, generation, jobs=OnlineJobs())
    commands.cutover(lake.env, generation, jobs=OnlineJobs())
    assert found(lake)[0] == row(1, 7, 8, 9)
    whole(lake)


def test_online_nested_only_the_part_that_does_not_go_back_is_lost(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "id BIGINT, a STRUCT<b: INT, c: INT>", "id BIGINT, a STRUCT<b: STRING, c: INT>")
    insert(lake.path("a"), [{"id": 1, "a": {"b": 1, "c": 1}}, {"id": 2, "a": None}])
    upgraded(lake)
    insert(lake.path("a"), [{"id": 3, "a": {"b": "three", "c": 3}}, {"id": 4, "a": {"b": "4", "c": None}}])
    with pytest.raises(LossyRollback, match="1 row"):
        commands.rollback(lake.env, jobs=OnlineJobs())
    commands.rollback(lake.env, jobs=OnlineJobs(), allow_lossy=True)
    values = [{"b": 1, "c": 1}, None, {"b": None, "c": 3}, {"b": 4, "c": None}]
    assert [item["a"] for item in rows(lake.path("a"), "id", "a")] == values
    whole(lake)


def test_beside_a_field_that_comes_and_one_that_goes(tmp_path: Path) -> None:
    old = "id BIGINT, a STRUCT<b: STRING, g: INT NOT NULL, w: INT>, CONSTRAINT c CHECK (CAST(a.b AS INT) < 99)"
    new = "id BIGINT, z STRUCT<b: INT, w: BIGINT, n: INT COMMENT 'new'>, CONSTRAINT c CHECK (CAST(z.b AS INT) < 99)"
    lake = lake_of(tmp_path, old, new, 'evolution("a", rename={"a": "z"}, drop=["a.g"])')
    insert(lake.path("a"), [{"id": 1, "a": {"b": "01", "g": 5, "w": 6}}])
    upgraded(lake)
    assert rows(lake.path("a"), "z") == [{"z": {"b": 1, "g": 5, "w": 6, "n": None}}]
    insert(lake.path("a"), [{"id": 2, "z": {"b": 2, "g": None, "w": 2, "n": 2}}])
    commands.rollback(lake.env, jobs=OnlineJobs())
    expected = [{"b": "01", "g": 5, "w": 6, "n": None}, {"b": "2", "g": None, "w": 2, "n": 2}]
    assert (lake.version, [item["a"] for item in rows(lake.path("a"), "id", "a")]) == ("1.0.0", expected)
    whole(lake)
    insert(lake.path("a"), [{"id": 3, "a": {"b": "3", "g": 3, "w": 3, "n": None}}])
    upgraded(lake)
    commands.contract(lake.env, at_once=True)
    assert [item["z"] for item in rows(lake.path("a"), "id", "z")] == [
        {"b": 1, "w": 6, "n": None},
        {"b": 2, "w": 2, "n": 2},
        {"b": 3, "w": 3, "n": None},
    ]
    whole(lake)


@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=pytest.mark.soak)])
def test_a_rollback_that_dies_anywhere(tmp_path: Path, stride: int) -> None:
    begun = upgraded(filled(tmp_path / "begun"))
    insert(begun.path("a"), [row(3, 33, 34, 35)])
    moment, ended = 0, False
    while not ended:
        lake = replace(begun, env=Environment.open(str(tmp_path / str(moment))))
        shutil.copytree(begun.env.location.local_path or Path(), tmp_path / str(moment))
        ended = not die(lake, moment)
        back = isinstance(found(lake)[0]["a"]["b"], str)
        insert(lake.path("a"), [row(6, "6", "6", "6") if back else row(6, 6, 6, 6)])
        if lake.version == "1.1.0":
            commands.rollback(lake.env, jobs=OnlineJobs())
        old = [row(1, "007", "08", "09"), {"id": 2, "a": {"b": "2", "l": None}, "m": None}, row(3, "33", "34", "35"), row(6, "6", "6", "6")]
        assert (lake.version, found(lake)) == ("1.0.0", old)
        whole(lake)
        moment += stride
    assert moment > 2 * stride


REFUSED = {
    "renames fields in it": ("a STRUCT<b: STRING, c: INT>", "a STRUCT<b: INT, d: INT>", 'rename={"a.c": "d"}'),
    "in another order": ("a STRUCT<b: STRING, c: INT>", "z STRUCT<n: INT, b: INT, c: INT>", 'rename={"a": "z"}'),
}


@pytest.mark.parametrize(("reason", "old", "new", "how"), [(reason, *item) for reason, item in REFUSED.items()], ids=REFUSED)
def test_online_nested_what_is_refused(tmp_path: Path, reason: str, old: str, new: str, how: str) -> None:
    lake = lake_of(tmp_path, f"id BIGINT, {old}", f"id BIGINT, {new}", f'evolution("a", {how})')
    with refused("not_online", "a") as items:
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert reason in items[0].message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m MAP<STRING, INT>", "m MAP<INT, INT>"),
        ("a STRUCT<b: INT>", "a STRUCT<b: ARRAY<INT>>"),
        ("a STRUCT<b: STRING>) CLUSTER BY (a.b", "a STRUCT<b: INT>) CLUSTER BY (a.b"),
    ],
)
def test_online_nested_what_only_a_rewrite_does(tmp_path: Path, old: str, new: str) -> None:
    lake = lake_of(tmp_path, f"id BIGINT, {old}", f"id BIGINT, {new}")
    with refused("needs_rewrite", "a"):
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
