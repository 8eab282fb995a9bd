"""What others are told that a deployment changed: which collections, from what to what, and where their columns come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.table_changes import DeploymentChanges, TableChange
from tests.support.lake import Lake, make_lake, no_spark
from tests.support.upgrades import claimed, expanded, fingerprints, two_releases

SECOND = Generation(2)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    return found


def changed(lake: Lake, generation: Generation = SECOND) -> DeploymentChanges:
    return commands.table_changes(lake.env, generation)


def by_name(changes: DeploymentChanges) -> dict[str, TableChange]:
    return {str(change.collection): change for change in changes.tables}


def test_a_new_environment_has_created_all(lake: Lake) -> None:
    found = changed(lake, Generation(1))
    assert {name: (change.kind, change.old) for name, change in by_name(found).items()} == dict.fromkeys(
        ("flights", "planes", "stats", "legacy", "untouched"), ("created", None)
    )
    assert (found.source, str(found.target), found.is_rolled_back) == (None, "1.0.0", False)


def test_a_commit_names_what_changed_and_nothing_else(lake: Lake) -> None:
    old = {name: lake.path(name).as_uri() for name in fingerprints(lake)}
    lake.upgrade(lake.second)
    found = by_name(changed(lake))
    assert {name: change.kind for name, change in found.items()} == {
        "flights": "altered",
        "planes": "altered",
        "stats": "replaced",
        "legacy": "removed",
        "airports": "created",
    }
    assert {name: change.fingerprint for name, change in found.items() if change.new} == {
        name: value for name, value in fingerprints(lake).items() if name != "untouched"
    }
    assert (found["flights"].old_uri, found["flights"].uri) == (old["flights"], old["flights"])
    assert (found["stats"].old_uri, found["stats"].uri) == (old["stats"], lake.path("stats").as_uri())
    assert (found["legacy"].old_uri, found["legacy"].uri) == (old["legacy"], None)
    assert found["flights"].table_version == 1


def test_a_rollback_names_the_same_the_other_way_round(lake: Lake) -> None:
    lake.upgrade(lake.second)
    commands.rollback(lake.env, jobs=no_spark, allow_lossy=True)
    found = changed(lake)
    assert (str(found.source), str(found.target), found.is_rolled_back) == ("1.1.0", "1.0.0", True)
    kinds = {name: change.kind for name, change in by_name(found).items()}
    assert (kinds["legacy"], kinds["airports"], kinds["flights"]) == ("created", "removed", "altered")
    assert by_name(found)["stats"].uri == lake.path("stats").as_uri()
    assert [(o.column, o.is_copy) for o in by_name(found)["flights"].origins["dep_delay"]] == [("departure_delay", False)]


def test_table_changes_what_was_not_committed_changed_nothing(lake: Lake) -> None:
    generation = expanded(lake, lake.second)
    assert changed(lake, generation).tables == ()
    commands.rollback(lake.env, jobs=no_spark)
    assert changed(lake, generation).tables == ()
    assert changed(lake, claimed(lake, lake.second)).tables == ()


def test_table_changes_who_approved_it_is_named(lake: Lake) -> None:
    generation = claimed(lake, lake.second)
    commands.promote(lake.env, generation, approved_by="ann")
    assert changed(lake, generation).approved_by == "ann"


def test_columns_of_an_evolution_come_from_what_they_were(lake: Lake) -> None:
    lake.upgrade(lake.second)
    origins = by_name(changed(lake))["flights"].origins
    assert {path: [(o.collection, o.column, o.is_copy) for o in listed] for path, listed in origins.items()} == {
        "id": [("flights", "id", True)],
        "departure_delay": [("flights", "dep_delay", False)],
        "origin": [("flights", "origin", False)],
        "origin.code": [("flights", "origin.code", True)],
        "origin.name": [("flights", "origin.name", True)],
    }


def test_a_renamed_collection_is_one_change(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE b (id BIGINT, n INT);", 'evolution("b", renamed_from="a")')
    lake.upgrade(lake.second)
    (change,) = changed(lake).tables
    assert (change.kind, change.old and change.old.name, change.new and change.new.name) == ("renamed", "a", "b")
    assert change.old_uri == change.uri
    assert [(o.collection, o.column) for o in change.origins["id"]] == [("a", "id")]


def test_comments_and_order_change_no_collection(tmp_path: Path) -> None:
    lake = two_releases(
        tmp_path,
        "CREATE TABLE a (id BIGINT, n INT); CREATE TABLE b (id BIGINT);",
        "CREATE TABLE a (n INT, id BIGINT COMMENT 'of it'); CREATE TABLE b (id BIGINT, n INT);",
        'evolution("b")',
    )
    lake.upgrade(lake.second)
    assert [change.collection for change in changed(lake).tables] == ["b"]


def test_tables_as_they_are(lake: Lake) -> None:
    (found,) = commands.tables_now(lake.env, ["planes", "planes", "gone"])
    assert (found.collection, found.uri, found.table_version) == ("planes", lake.path("planes").as_uri(), 0)
