"""What somebody set on a table by hand, which is no drift, is there again after a rollback, also where the release declares the same."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from tests.support.lake import Crash, Lake
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, expanded, make_holds_due, refused, releases, two_releases

PLAIN = "CREATE TABLE t (id BIGINT, a INT);"

RETAINED = f"{PLAIN[:-1]} TBLPROPERTIES ('{LOG}' = 'interval 60 days');"
#: What somebody sets -> what the release declares, and its step.
DECLARED: dict[str, tuple[dict[str, str], str, str]] = {
    "the same property": (
        {LOG: "interval 60 days"},
        f"CREATE TABLE t (id BIGINT, a INT) TBLPROPERTIES ('{LOG}' = 'interval 60 days');",
        "",
    ),
    "a longer retention": (
        {LOG: "interval 50 days"},
        f"CREATE TABLE t (id BIGINT, a INT) TBLPROPERTIES ('{LOG}' = 'interval 60 days');",
        "",
    ),
    "a shorter retention": (
        {LOG: "interval 70 days"},
        f"CREATE TABLE t (id BIGINT, a INT) TBLPROPERTIES ('{LOG}' = 'interval 60 days');",
        "",
    ),
    "beside a column": ({"x.y": "mine"}, "CREATE TABLE t (id BIGINT, a INT, b INT) TBLPROPERTIES ('x.y' = 'mine');", ""),
    "beside a rename": ({"x.y": "mine"}, "CREATE TABLE t (id BIGINT, b INT) TBLPROPERTIES ('x.y' = 'mine');", ', rename={"a": "b"}'),
    "a comment": ({}, "CREATE TABLE t (id BIGINT, b INT COMMENT 'ours') COMMENT 'ours too';", ', rename={"a": "b"}'),
}


def by_hand(lake: Lake, properties: dict[str, str]) -> dict[str, Any]:
    """Somebody sets properties and comments on the table; return what it has then."""
    metadata = foreign.metadata(lake.path("t"))
    schema = json.loads(metadata["schemaString"])
    schema["fields"][1]["metadata"] |= {"comment": "mine"}
    changed = {"description": "mine too", "schemaString": json.dumps(schema), "configuration": metadata["configuration"] | properties}
    foreign.commit(lake.path("t"), {"metaData": metadata | changed})
    return own(lake, properties)


def own(lake: Lake, properties: dict[str, str]) -> dict[str, Any]:
    found = foreign.metadata(lake.path("t"))
    comments = {field["name"]: field["metadata"].get("comment") for field in json.loads(found["schemaString"])["fields"]}
    return {
        "table": found.get("description"),
        "columns": comments,
        "properties": {key: found["configuration"].get(key) for key in (*properties, LOG)},
    }


@pytest.mark.some(6)
@pytest.mark.parametrize("way", ["rollback", "cancel", "killed anywhere"])
@pytest.mark.parametrize("name", DECLARED)
def test_undeclared_settings_are_back_after_a_rollback(tmp_path: Path, name: str, way: str) -> None:
    properties, declared, step = DECLARED[name]
    lake = two_releases(tmp_path, PLAIN, declared, f'evolution("t"{step})')
    before = by_hand(lake, properties)
    assert not commands.status(lake.env).drifted
    if way == "cancel":
        commands.cancel(lake.env, expanded(lake, lake.second))
    else:
        lake.upgrade(lake.second)
        for at in range(40):
            if way == "rollback" or at == 39:
                commands.rollback(lake.env)
                break
            try:
                commands.rollback(lake.crashing_at(at))
                break
            except Crash:
                if lake.version == "1.0.0":
                    break
    after = own(lake, properties)
    assert {**after, "columns": {**before["columns"], **after["columns"]}} == before  # a column more stays where files carry it
    assert not commands.status(lake.env).drifted
    lake.upgrade(lake.second)
    assert not commands.status(lake.env).drifted


def test_a_property_by_hand_beside_an_online_change_hides_no_rows_of_it(tmp_path: Path) -> None:
    """The expand has nothing to do: the deployment's first commit is that of the online change, and its column has come since."""
    online = "CREATE TABLE t (id BIGINT, a INT, n INT DEFAULT 7) TBLPROPERTIES ('x.y' = 'mine');"
    lake, jobs = two_releases(tmp_path, PLAIN, online, 'evolution("t")'), OnlineJobs()
    tables.insert(lake.path("t"), [{"id": 1}])
    foreign.set_property(lake.path("t"), "x.y", "mine")
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=jobs)
    tables.insert(lake.path("t"), [{"id": 2, "n": 99}, {"id": 3, "n": None}])
    commands.cutover(lake.env, generation, jobs=jobs)
    commands.rollback(lake.env, jobs=jobs)
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert {row["id"]: row["n"] for row in tables.snapshot(lake.path("t")).rows} == {1: 7, 2: 99, 3: None}


def test_undeclared_clustering_is_back_after_a_rollback(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, f"{PLAIN[:-1]} CLUSTER BY (a);", f"{PLAIN[:-1]} CLUSTER BY (id);", 'evolution("t")')
    foreign.cluster_by(lake.path("t"), "id")
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    assert foreign.clustered_by(lake.path("t")) == ["id"]


def test_a_property_with_another_value_than_the_release_declares_is_refused_in_words(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, PLAIN, f"{PLAIN[:-1]} TBLPROPERTIES ('x.y' = 'ours');", 'evolution("t")')
    foreign.set_property(lake.path("t"), "x.y", "mine")
    with refused("unsupported_property", "t") as found:
        lake.upgrade(lake.second)
    assert "somebody has set it to 'mine' on the table" in found[0].message
    assert "ALTER TABLE" in found[0].next_action
    foreign.set_property(lake.path("t"), "x.y", "ours")
    lake.upgrade(lake.second)


@pytest.mark.parametrize("first, second", [(90, 7), (7, 90), (None, 3), (3, None), (None, 90)])
def test_a_shorter_retention_is_on_the_table_after_a_release_and_after_a_rollback(
    tmp_path: Path, first: int | None, second: int | None
) -> None:
    def text(days: int | None) -> str | None:
        return None if days is None else f"interval {days} days"

    def declared(days: int | None) -> str:
        files = "" if days is None else f"'{FILES}' = '{text(days)}', "
        return f"{PLAIN[:-1]} TBLPROPERTIES ({files}'{LOG}' = 'interval 200 days');"

    lake = two_releases(tmp_path, declared(first), declared(second), 'evolution("t")')
    lake.upgrade(lake.second)
    assert foreign.metadata(lake.path("t"))["configuration"].get(FILES) == text(second)
    commands.rollback(lake.env)
    assert foreign.metadata(lake.path("t"))["configuration"].get(FILES) == text(first)


TWO = ("CREATE TABLE a (id BIGINT, v INT) TBLPROPERTIES ('x.y' = 'ours'); CREATE TABLE z (id BIGINT);", "")
TWO_LATER = ("CREATE TABLE a (id BIGINT, v INT, w INT); CREATE TABLE z (id STRING);", 'evolution("a"), replacement("z")')


def killed_with_a_seal(folder: Path) -> tuple[Lake, Path]:
    """The cut-over has sealed ``z``, and stands still before it changes ``a``, which sorts before it."""
    lake = deployed(folder, *releases(folder, TWO, TWO_LATER))
    path, generation = lake.path("z"), expanded(lake, lake.second)
    for at in range(40):
        with contextlib.suppress(Crash):
            commands.cutover(lake.crashing_at(at), generation)
        if tables.snapshot(path).sealed:
            return lake, path
    raise AssertionError("nothing was sealed")


def test_a_way_back_takes_what_somebody_set_of_a_property_that_the_release_ended(tmp_path: Path) -> None:
    lake, sealed = killed_with_a_seal(tmp_path)
    foreign.set_property(lake.path("a"), "x.y", "other")
    commands.rollback(lake.env)
    assert foreign.metadata(lake.path("a"))["configuration"]["x.y"] == "ours"
    assert not tables.snapshot(sealed).sealed
    assert not commands.status(lake.env).drifted


@pytest.mark.parametrize("way", ["rollback", "cancel"])
def test_a_seal_is_lifted_whatever_is_refused_of_another_table(tmp_path: Path, way: str) -> None:
    """Somebody gives ``a`` a feature that nobody here knows."""
    lake, sealed = killed_with_a_seal(tmp_path)
    unknown = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants", "dances"]}
    foreign.commit(lake.path("a"), {"protocol": foreign.protocol(lake.path("a")) | unknown})
    with refused("unsupported_feature"):
        if way == "rollback":
            commands.rollback(lake.env)
        else:
            commands.cancel(lake.env, Generation(2))
    assert not tables.snapshot(sealed).sealed


def test_a_comment_is_back_where_a_column_stays_behind(tmp_path: Path) -> None:
    """Nothing but the comment is left to give back: rows came, so the column stays, hidden."""
    old, new = "CREATE TABLE t (id BIGINT, a INT COMMENT 'old');", "CREATE TABLE t (id BIGINT, a INT COMMENT 'ours', c INT);"
    lake = two_releases(tmp_path, old, new, 'evolution("t")')
    lake.upgrade(lake.second)
    tables.insert(lake.path("t"), [{"id": 1, "a": 1, "c": 1}])
    commands.rollback(lake.env)
    assert [field["metadata"].get("comment") for field in foreign.live_schema(lake.path("t"))] == [None, "old", None]


def test_a_hold_whose_dropped_column_somebody_clustered_by_says_what_to_do(tmp_path: Path) -> None:
    """Clustering is no drift. Until it is mended, the way back is open, and nothing of the hold goes."""
    old = "CREATE TABLE t (id BIGINT, a INT) CLUSTER BY (id); CREATE TABLE v (id BIGINT);"
    new = "CREATE TABLE t (id BIGINT) CLUSTER BY (id); CREATE TABLE v (id STRING);"
    lake = two_releases(tmp_path, old, new, 'evolution("t", drop=["a"]), replacement("v")')
    replaced = lake.path("v")
    lake.upgrade(lake.second)
    foreign.cluster_by(lake.path("t"), "a")
    make_holds_due(lake)
    for _ in range(2):
        with refused("dropped_in_use", "t") as found:
            commands.contract(lake.env)
        assert "CLUSTER BY" in found[0].next_action
        assert replaced.exists()
    foreign.cluster_by(lake.path("t"), "id")
    commands.contract(lake.env)
    assert not replaced.exists()
    assert [field["name"] for field in foreign.live_schema(lake.path("t"))] == ["id"]


@pytest.mark.parametrize("way", ["rollback", "cancel"])
def test_a_new_column_that_somebody_clustered_by_stays_behind(tmp_path: Path, way: str) -> None:
    lake = two_releases(
        tmp_path, f"{PLAIN[:-1]} CLUSTER BY (id);", "CREATE TABLE t (id BIGINT, a INT, n INT) CLUSTER BY (id);", 'evolution("t")'
    )
    generation = expanded(lake, lake.second)
    if way == "rollback":
        commands.cutover(lake.env, generation)
    foreign.cluster_by(lake.path("t"), "n")
    outcome = commands.rollback(lake.env) if way == "rollback" else commands.cancel(lake.env, generation)
    assert "stays as a hidden column, because the table is clustered by n" in " ".join(outcome.notes)
    assert not commands.status(lake.env).drifted
    lake.upgrade(lake.second)
    assert not commands.status(lake.env).drifted


def test_a_new_column_that_the_release_clustered_by_goes_with_it(tmp_path: Path) -> None:
    """The way back clusters the table as before, and drops the column then; another type may come in its place."""
    plain = "CREATE TABLE t (id BIGINT) CLUSTER BY (id);"
    found = releases(tmp_path, (plain, ""), ("CREATE TABLE t (id BIGINT, n INT) CLUSTER BY (n);", 'evolution("t")'))
    lake = deployed(tmp_path, found[0], found[1])
    commands.upgrade(lake.env, found[1], jobs=OnlineJobs())
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert [field["name"] for field in foreign.live_schema(lake.path("t"))] == ["id"]
    assert foreign.clustered_by(lake.path("t")) == ["id"]
