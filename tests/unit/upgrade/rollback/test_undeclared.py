"""What somebody set on a table by hand, which is no drift, is there again after a rollback, also where the release declares the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from tests.support.lake import Crash, Lake
from tests.support.tables import foreign
from tests.support.upgrades import expanded, refused, two_releases

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


@pytest.mark.parametrize("first, second", [(90, 7), (7, 90)])
def test_a_shorter_retention_is_on_the_table_after_a_release_and_after_a_rollback(tmp_path: Path, first: int, second: int) -> None:
    def declared(days: int) -> str:
        return f"{PLAIN[:-1]} TBLPROPERTIES ('{FILES}' = 'interval {days} days', '{LOG}' = 'interval 200 days');"

    lake = two_releases(tmp_path, declared(first), declared(second), 'evolution("t")')
    lake.upgrade(lake.second)
    assert foreign.metadata(lake.path("t"))["configuration"][FILES] == f"interval {second} days"
    commands.rollback(lake.env)
    assert foreign.metadata(lake.path("t"))["configuration"][FILES] == f"interval {first} days"
