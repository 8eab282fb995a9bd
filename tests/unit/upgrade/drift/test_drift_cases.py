"""Drift in particular cases: who was faster, what the log still tells, other environments, other work that is open."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.bytes import tree
from tests.support.lake import no_spark, rows
from tests.support.tables import foreign
from tests.support.tables.adopting import Site, alter, field, mapped
from tests.unit.upgrade.adopt.test_adopt import begin, second
from tests.unit.upgrade.drift.test_drift_ways import FIELDS, PROTOCOL, SETTINGS, WAYS, fields, state_of, table_of, watched


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return watched(tmp_path)


def test_a_null_keeps_not_null_from_coming_back(site: Site) -> None:
    WAYS["relax"].drift(table_of(site))
    foreign.write(table_of(site), [{"id": None}])
    with pytest.raises(SchemamigError) as caught:
        revert(site.env, "flights")
    assert caught.value.code == "cannot_revert" and "a NULL may have come in" in caught.value.message


def test_a_column_that_came_with_rows_carries_values(site: Site) -> None:
    """mergeSchema: the column and its first values in one commit."""
    table = table_of(site)
    found = foreign.metadata(table) | {"schemaString": json.dumps({"type": "struct", "fields": fields(new=mapped("new", 7))})}
    add = {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    foreign.commit(table, {"metaData": found}, {"add": add})
    with pytest.raises(SchemamigError) as caught:
        revert(site.env, "flights")
    assert caught.value.code == "lossy_revert"


def test_rows_that_come_in_while_it_is_undone(site: Site) -> None:
    WAYS["add"].drift(table_of(site))
    done: list[bool] = []

    def hook(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "put_if_absent") and not done:
            done.append(True)
            foreign.write(table_of(site), [{"id": 2, "new": "x"}])

    with pytest.raises(SchemamigError) as caught:
        revert(replace(site.env, on_write=hook), "flights")
    assert (caught.value.code, caught.value.retryable) == ("files_arrived", True)
    with pytest.raises(SchemamigError) as caught:
        revert(site.env, "flights")
    assert caught.value.code == "lossy_revert"
    assert list(site.state.intents) == []
    accept(site.env, site.release)
    site.check("1.0.0")


def test_without_its_log_nothing_is_taken_for_harmless(site: Site) -> None:
    from deltalake import DeltaTable

    plain = site.table("plain")
    site.adopt(plain=plain)
    foreign.add_column(plain, "gate")
    DeltaTable(str(plain)).create_checkpoint()
    for entry in (plain / "_delta_log").glob("*.json"):
        entry.unlink()
    with pytest.raises(SchemamigError) as caught:
        revert(site.env, "plain")
    assert caught.value.code == "lossy_revert"
    done = accept(site.env, site.release, ["plain"])
    assert "some time ago" in (site.release / done.files[0]).read_text()
    site.check("1.1.0")


def test_a_table_without_column_mapping(site: Site) -> None:
    """Undoing an added column nobody wrote to needs none; one with values does, and the notes say what that asks of others."""
    plain = site.table("plain")
    site.adopt(plain=plain)
    foreign.add_column(plain, "gate")
    assert revert(site.env, "plain").notes == ()
    foreign.add_column(plain, "gate")
    foreign.write(plain, [{"id": 3, "gate": "x"}])
    done = revert(site.env, "plain", allow_lossy=True)
    assert done.notes == ("the table needs more of its readers and writers now: columnMapping",)
    assert [row["id"] for row in rows(plain)] == [1, 2, 3]
    site.check("1.1.0")


def test_no_drift_is_nothing_to_do(site: Site) -> None:
    before = tree(site.folder)
    assert accept(site.env, site.release).version is None
    assert revert(site.env, "flights").table_version is None
    assert tree(site.folder) == before


def test_names_that_nobody_knows(site: Site) -> None:
    for call in (lambda: accept(site.env, site.release, ["hotels"]), lambda: revert(site.env, "hotels")):
        with pytest.raises(SchemamigError) as caught:
            call()
        assert (caught.value.code, caught.value.collection) == ("unknown_collection", "hotels")


def test_a_table_that_is_gone(site: Site) -> None:
    table_of(site).rename(site.folder / "elsewhere")
    assert [way["way"] for way in state_of(site)[1]["ways_on"]] == ["unmanage"]
    for call in (lambda: accept(site.env, site.release, ["flights"]), lambda: revert(site.env, "flights")):
        with pytest.raises(SchemamigError) as caught:
            call()
        assert caught.value.code == "shard_missing"
    unmanage(site.env, "flights")
    site.check("1.0.0")


def test_all_that_drifted_become_one_version(site: Site) -> None:
    plain, other = site.table("plain"), site.table("other")
    site.adopt(plain=plain, other=other)
    foreign.add_column(plain, "gate")
    WAYS["rename"].drift(table_of(site))
    done = accept(site.env, site.release)
    assert [name for name, _ in done.changes] == ["flights", "plain"]
    site.check("1.1.0")
    site.upgrade()
    site.check("1.2.0")


def test_one_that_cannot_be_taken_over_holds_others_up_only_by_name(site: Site) -> None:
    plain = site.table("plain")
    site.adopt(plain=plain)
    foreign.add_column(plain, "gate")
    WAYS["convert"].drift(table_of(site))
    before = tree(site.folder)
    with pytest.raises(SchemamigError) as caught:
        accept(site.env, site.release, ["plain", "flights"])
    assert caught.value.code == "cannot_accept"
    assert tree(site.folder) == before
    found = accept(site.env, site.release)
    assert [name for name, _ in found.changes] == ["plain"]
    assert found.notes[0].startswith("flights is left as it is: the change of the table cannot be taken into the release")
    assert commands.status(site.env).drifted == ("flights",)


def test_another_environment_with_the_same_folder(site: Site, tmp_path: Path) -> None:
    other = second(site, tmp_path)
    table = other.by_hand("flights", FIELDS, PROTOCOL, **SETTINGS)
    other.adopt(flights=table)
    WAYS["rename"].drift(table_of(site))
    accept(site.env, site.release)
    shutil.rmtree(other.release)
    shutil.copytree(site.release, other.release)
    before = tree(other.release)
    WAYS["add"].drift(table)  # another change than the folder has
    with pytest.raises(SchemamigError) as caught:
        accept(other.env, other.release)
    assert caught.value.code == "ahead_not_in_release"
    revert(other.env, "flights")
    alter(table, fields(gate=mapped("door", 2, "gate")))
    assert accept(other.env, other.release).files == ()
    assert tree(other.release) == before
    other.upgrade()
    other.check("1.1.0")


def test_while_a_release_can_be_rolled_back(site: Site) -> None:
    begin(site, "gate STRING", "gate STRING,\n    more STRING", 'evolution("flights")')
    site.upgrade()
    alter(table_of(site), owned_by="somebody")
    with pytest.raises(SchemamigError) as caught:
        accept(site.env, site.release)
    assert caught.value.code == "hold_open"
    revert(site.env, "flights")
    commands.rollback(site.env)
    site.check("1.0.0")


def test_while_a_deployment_is_open(site: Site) -> None:
    begin(site, "gate STRING", "gate STRING,\n    more STRING", 'evolution("flights")')
    generation = commands.preflight(site.env, site.release, jobs=no_spark).generation
    assert generation is not None
    commands.promote(site.env, Generation(generation))
    alter(table_of(site), owned_by="somebody")
    calls = (lambda: accept(site.env, site.release), lambda: revert(site.env, "flights"), lambda: unmanage(site.env, "flights"))
    for call in calls:
        with pytest.raises(SchemamigError) as caught:
            call()
        assert caught.value.code == "deployment_open"


def test_a_table_of_unknown_features_is_not_brought_back(site: Site) -> None:
    future = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timeTravel"], "writerFeatures": ["timeTravel"]}
    table = site.by_hand("future", [field("id", "long")], future)
    site.adopt(future=table)
    foreign.add_column(table, "x")
    with pytest.raises(SchemamigError) as caught:
        revert(site.env, "future")
    assert caught.value.code == "unsupported_feature"
    accept(site.env, site.release)
    site.check("1.1.0")


def test_drift_cases_what_the_author_adds_to_the_version(site: Site) -> None:
    """More than what was taken over, in the same version: the rename is made already, the new column is not."""
    WAYS["rename"].drift(table_of(site))
    accept(site.env, site.release)
    schema = site.release / "schema.sql"
    schema.write_text(schema.read_text().replace("door STRING", "door STRING,\n    more STRING"))
    snapshot(site.release)
    site.upgrade()
    site.check("1.1.0")
    assert "more" in [item["name"] for item in foreign.live_schema(table_of(site))]
    commands.rollback(site.env)
    site.check("1.0.0")


def test_a_release_without_it_is_refused(site: Site) -> None:
    WAYS["rename"].drift(table_of(site))
    kept = tree(site.release)
    accept(site.env, site.release)
    shutil.rmtree(site.release / "migrations")
    for name, (content, _) in kept.items():
        if content is not None:
            (site.release / name).write_bytes(content)
    (site.release / "snapshots" / "1.1.0.sql").unlink()
    begin(site, "seats INT", "seats INT,\n    more STRING", 'evolution("flights")')
    with pytest.raises((SchemamigError, Refused)) as caught:
        site.upgrade()
    assert caught.value.code == "ahead_not_in_release"
