"""What a table has and no release may declare: ``accept`` writes no version that ``check`` would refuse, and others go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from tests.support.bytes import unwritten
from tests.support.lake import Lake
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, refused, releases, two_releases

SETTINGS = f"TBLPROPERTIES ('{FILES}' = 'interval 400 hours', '{LOG}' = 'interval 900 hours')"
#: A property, what somebody sets it to, and why a release that declares it is refused.
UNUSABLE = [
    (LOG, "interval 20 hours", "removed files would be kept for longer than the log"),
    ("delta.constraints.c", "id > rand()", "RAND cannot be used"),
]


@pytest.mark.parametrize("key, value, says", UNUSABLE)
def test_unusable_drift_is_not_accepted_and_can_be_reverted(tmp_path: Path, key: str, value: str, says: str) -> None:
    (first,) = releases(tmp_path, (f"CREATE TABLE t (id BIGINT) {SETTINGS};", ""))
    lake, folder = deployed(tmp_path, first, first), tmp_path / "release"
    shutil.copytree(first, folder)
    foreign.set_property(lake.path("t"), key, value)
    with unwritten(lake.env), refused("cannot_accept", "t") as found:
        commands.accept(lake.env, folder, ["t"])
    assert says in str(found[0])
    assert sorted(path.name for path in folder.rglob("*.sql")) == ["1.0.0.sql", "schema.sql"]
    commands.revert(lake.env, "t")
    assert not commands.status(lake.env).drifted


def with_column(path: Path, kind: str, **metadata: str) -> None:
    """Somebody replaces the table by one with a column more."""
    now = tables.snapshot(path)
    column = {"name": "x", "type": kind, "nullable": True, "metadata": metadata}
    schema = json.dumps({"type": "struct", "fields": [*now.fields, column]})
    protocol = {"minReaderVersion": 1, "minWriterVersion": 4}
    foreign.commit(path, {"protocol": protocol}, {"metaData": {**now.metadata, "schemaString": schema}})


def two_tables(tmp_path: Path) -> tuple[Lake, Path]:
    first = "CREATE TABLE t (id BIGINT); CREATE TABLE u (id BIGINT);"
    lake = two_releases(tmp_path, first, first.replace("u (id BIGINT", "u (id BIGINT, y INT"), 'evolution("u")')
    shutil.copytree(lake.first, tmp_path / "release")
    return lake, tmp_path / "release"


@pytest.mark.parametrize("kind", ["variant", "void", "interval day to second"])
def test_unusable_types_are_told_as_drift_of_their_table_alone(tmp_path: Path, kind: str) -> None:
    lake, folder = two_tables(tmp_path)
    with_column(lake.path("t"), kind)
    says = f"column x of the table has the type {kind}, which schemamig does not manage"
    found = commands.status(lake.env)
    assert found.drifted == ("t",)
    item = found.document["collections"]["t"]
    assert item["drift"] == [says]
    assert {way["way"]: way["why_not"] for way in item["ways_on"]} == {"accept": [says], "revert": [says], "unmanage": []}
    (told,) = commands.drift_document(lake.env)["tables"]
    assert (told["collection"], told["differences"], told["since"]) == ("t", [says], None)
    with unwritten(lake.env), refused("drift", "t"):
        lake.upgrade(lake.second)
    with unwritten(lake.env), refused("unknown_delta_type", "t"):
        commands.revert(lake.env, "t")
    foreign.add_column(lake.path("u"), "theirs")
    done = commands.accept(lake.env, folder)
    assert [name for name, _ in done.changes] == ["u"]
    assert done.notes[0].startswith("t is left as it is: ")
    commands.unmanage(lake.env, "t")
    assert not commands.status(lake.env).drifted


@pytest.mark.parametrize("expression", ["id >>> 1", "id MOD 2", "(("])
def test_unusable_expressions_of_a_generated_column_are_shown_and_reverted(tmp_path: Path, expression: str) -> None:
    lake, _ = two_tables(tmp_path)
    with_column(lake.path("t"), "long", **{"delta.generationExpression": expression})
    item = commands.status(lake.env).document["collections"]["t"]
    assert [bool(way["why_not"]) for way in item["ways_on"]] == [True, False, False]
    commands.revert(lake.env, "t", allow_lossy=True)
    assert not commands.status(lake.env).drifted


@pytest.mark.parametrize("keyed", [False, True])
def test_unusable_names_hold_no_other_table_up_also_where_a_key_is(tmp_path: Path, keyed: bool) -> None:
    key = ", FOREIGN KEY (id) REFERENCES u (id)" if keyed else ""
    schema = f"CREATE TABLE u (id BIGINT); CREATE TABLE t (id BIGINT{key});"
    lake = two_releases(tmp_path, schema, schema.replace("u (id BIGINT", "u (id BIGINT, y INT"), 'evolution("u")')
    shutil.copytree(lake.first, tmp_path / "release")
    foreign.set_property(lake.path("t"), "delta.constraints.a b", "id > 0")
    foreign.add_column(lake.path("u"), "theirs")
    done = commands.accept(lake.env, tmp_path / "release")
    assert [name for name, _ in done.changes] == ["u"]
    assert "'a b' is not a valid constraint name" in done.notes[0]
    assert commands.status(lake.env).drifted == ("t",)


@pytest.mark.parametrize("sides", [("t",), ("u",), ("t", "u")])
def test_unusable_types_of_a_foreign_key_are_accepted_on_both_sides_only(tmp_path: Path, sides: tuple[str, ...]) -> None:
    schema = "CREATE TABLE u (id INT); CREATE TABLE t (n INT, FOREIGN KEY (n) REFERENCES u (id)); CREATE TABLE v (id INT);"
    lake = two_releases(tmp_path, schema, schema.replace("v (id INT", "v (id INT, y INT"), 'evolution("v")')
    shutil.copytree(lake.first, tmp_path / "release")
    for name in sides:
        widen(lake.path(name))
    foreign.add_column(lake.path("v"), "theirs")
    ways = {name: commands.status(lake.env).document["collections"][name]["ways_on"][0]["why_not"] for name in sides}
    assert all(why_not == ["FOREIGN KEY (n) REFERENCES u of t: n and id have different types"] for why_not in ways.values())
    done = commands.accept(lake.env, tmp_path / "release")
    assert [name for name, _ in done.changes] == (["t", "u", "v"] if len(sides) == 2 else ["v"])
    assert commands.status(lake.env).drifted == (() if len(sides) == 2 else sides)


@pytest.mark.parametrize("given_back, stays", [("u", "t"), ("t", "u")])
def test_unusable_types_of_a_foreign_key_of_which_one_side_was_given_back(tmp_path: Path, given_back: str, stays: str) -> None:
    """The release declares that side still, with the type of before, so that no version has the new one."""
    schema = "CREATE TABLE u (id INT); CREATE TABLE t (n INT, FOREIGN KEY (n) REFERENCES u (id)); CREATE TABLE v (id INT);"
    lake = two_releases(tmp_path, schema, schema.replace("v (id INT", "v (id INT, y INT"), 'evolution("v")')
    shutil.copytree(lake.first, tmp_path / "release")
    commands.unmanage(lake.env, given_back)
    widen(lake.path(stays))
    foreign.add_column(lake.path("v"), "theirs")
    with unwritten(lake.env), refused("cannot_accept", stays) as found:
        commands.accept(lake.env, tmp_path / "release", [stays])
    assert "n and id have different types" in str(found[0])
    assert f"stop managing the table (`schemamig unmanage --collection {stays}`)" in found[0].next_action
    assert [name for name, _ in commands.accept(lake.env, tmp_path / "release").changes] == ["v"]
    if stays == "t":  # of the other one ``status``, which knows no folder, cannot tell whether a release still declares it
        assert commands.status(lake.env).document["collections"]["t"]["ways_on"][0]["why_not"]
        with refused("cannot_revert", "t") as told:
            commands.revert(lake.env, "t")
        assert "It cannot be accepted either" in told[0].next_action


def widen(path: Path) -> None:
    """Somebody else changes the type of the only column."""
    now = tables.snapshot(path)
    (field_of,) = now.fields
    changed = {**field_of, "type": "long", "metadata": {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}}
    features = ["typeWidening", "appendOnly", "invariants"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features[:1], "writerFeatures": features}
    configuration = {**now.metadata["configuration"], "delta.enableTypeWidening": "true"}
    schema = json.dumps({"type": "struct", "fields": [changed]})
    foreign.commit(path, {"protocol": protocol}, {"metaData": {**now.metadata, "schemaString": schema, "configuration": configuration}})
