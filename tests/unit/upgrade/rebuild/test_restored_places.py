"""What a restore tells of tables that were taken or given back since the backup, and what it lets nobody delete of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import backup, restore
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade.adopt.adopt import adopt
from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import rebuild
from tests.support.lake import append, rows
from tests.support.tables.adopting import Site
from tests.support.upgrades import brought_back, deployed, make_holds_due, releases

FLIGHTS = CollectionName("flights")
KEEP = "CREATE TABLE keep (id BIGINT);"


def test_a_table_that_was_given_back_since_the_backup_is_named_and_never_deleted(tmp_path: Path) -> None:
    first, second = releases(tmp_path, (f"CREATE TABLE flights (id BIGINT); {KEEP}", ""), (KEEP, 'removal("flights")'))
    lake = deployed(tmp_path, first, second)
    path = lake.path(FLIGHTS)
    append(path, [{"id": 1}])
    backup(lake.env, str(tmp_path / "backup"))
    unmanage(lake.env, FLIGHTS)
    append(path, [{"id": 2}])

    lake, notes = brought_back(lake, tmp_path)
    assert "unmanage of flights" in " ".join(notes)
    lake.upgrade(second)
    make_holds_due(lake)
    done = commands.contract(lake.env)
    assert "given back (`unmanage`)" in " ".join(done.notes)
    assert sorted(row["id"] for row in rows(path)) == [1, 2]


def test_a_table_that_was_taken_since_the_backup_is_named(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.adopt(flights=site.table("flights"))
    backup(site.env, str(tmp_path / "backup"))
    site.adopt(planes=site.table("planes", {"id": pa.array([7], pa.int64())}))
    (tmp_path / "lake" / "_schemamig" / "ledger").rename(tmp_path / "lost")
    assert "adopt of planes" in " ".join(restore(site.env, str(tmp_path / "backup")).notes)


def test_a_table_that_was_given_back_and_taken_again_before_the_backup_is_not_named(tmp_path: Path) -> None:
    site = Site(tmp_path)
    place = site.table("flights")
    site.adopt(flights=place)
    unmanage(site.env, FLIGHTS)
    site.adopt(flights=place)
    backup(site.env, str(tmp_path / "backup"))
    (tmp_path / "lake" / "_schemamig" / "ledger").rename(tmp_path / "lost")
    assert restore(site.env, str(tmp_path / "backup")).notes == ()


def test_a_table_of_ours_that_was_given_back_and_taken_again_is_its_owners_after_a_rebuild(tmp_path: Path) -> None:
    first, second = releases(tmp_path, (f"CREATE TABLE flights (id BIGINT); {KEEP}", ""), (KEEP, 'removal("flights")'))
    lake = deployed(tmp_path, first, second)
    path = lake.path(FLIGHTS)
    append(path, [{"id": 1}])
    unmanage(lake.env, FLIGHTS)
    adopt(lake.env, first, [(FLIGHTS, str(path))])
    (tmp_path / "lake" / "_schemamig" / "ledger").rename(tmp_path / "lost")
    lake = replace(lake, env=Environment.open(str(tmp_path / "lake")))
    made = rebuild(lake.env, first)
    assert {shard.collection: shard.adopted for shard in made.tables} == {FLIGHTS: True, "keep": False}
    lake.upgrade(second)
    make_holds_due(lake)
    commands.contract(lake.env)
    assert rows(path) == [{"id": 1}]
