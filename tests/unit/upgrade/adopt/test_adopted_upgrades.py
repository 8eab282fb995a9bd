"""Adopted tables go through upgrades like any other, and their files are never deleted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.admin.backup import backup, restore
from airflow_provider_schemamig.core.ledger.rows import ShardState
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store
from airflow_provider_schemamig.core.upgrade.adopt.errors import MoreThanAdopted
from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import rebuild
from airflow_provider_schemamig.core.upgrade.tables.pins import pin
from tests.support.bytes import tree, unwritten
from tests.support.lake import Crash, rows
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.tables.adopting import Site, field
from tests.support.upgrades import refused
from tests.unit.upgrade.adopt.test_adopt import FUTURE, begin
from tests.unit.upgrade.adopt.test_adopt_crashes import MANY, crashing, moved

FLIGHTS = CollectionName("flights")
WITH_GATE = ("day STRING\n", "day STRING,\n    gate STRING\n")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.adopt(flights=site.table("flights"), planes=site.table("planes"))
    return site


def sealed_for(path: Path) -> str | None:
    return read_head(open_store(Location.parse(str(path)), StorageOptions())).sealed_for


def files(path: Path) -> set[str]:
    return {file.name for file in path.glob("*.parquet")}


def test_changed_where_it_is_and_back(site: Site) -> None:
    table = site.folder / "out" / "flights"
    before = rows(table)
    begin(site, *WITH_GATE, 'evolution("flights")')
    site.upgrade()
    site.check("1.1.0")
    assert site.uri("flights") == f"file://{table}"
    foreign.write(table, [{"id": 3, "day": "c", "gate": "B2"}])
    commands.rollback(site.env)
    site.check("1.0.0")
    assert [row["id"] for row in rows(table)] == [1, 2, 3] and len(before) == 2
    site.upgrade(hold=timedelta(0))
    site.check("1.1.0")
    assert site.state.shard_of(FLIGHTS).adopted


def test_renamed_dropped_and_contracted_where_it_is(site: Site) -> None:
    table = site.folder / "out" / "flights"
    begin(site, "id BIGINT,\n    day STRING", "number BIGINT", 'evolution("flights", rename={"id": "number"}, drop=["day"])')
    site.upgrade()
    commands.rollback(site.env)
    site.check("1.0.0")
    site.upgrade(hold=timedelta(0))
    site.check("1.1.0")
    assert rows(table) == [{"number": 1}, {"number": 2}]


def test_adopt_of_a_table_that_no_release_brings_comes_after_the_upgrade(site: Site) -> None:
    """And not with a version that brings it, for there is none."""
    begin(site, *WITH_GATE, 'evolution("flights")')
    hotels = shutil.copytree(site.folder / "out" / "planes", site.folder / "out" / "hotels")
    with pytest.raises(MoreThanAdopted, match=r"other collections: flights\. Upgrade to 1\.1\.0 first"):
        site.adopt(hotels=hotels)
    site.upgrade(hold=timedelta(0))
    site.adopt(hotels=hotels)


REMOVED = ("CREATE TABLE flights (\n    id BIGINT,\n    day STRING\n);\n", "", 'removal("flights")')
REPLACED = ("day STRING\n", "day DATE\n", 'replacement("flights")')


@pytest.mark.parametrize("step, is_open", [(REMOVED, True), (REPLACED, False)])
def test_adopted_upgrades_never_deleted(site: Site, step: tuple[str, str, str], is_open: bool) -> None:
    table = site.folder / "out" / "flights"
    before, there = rows(table), files(table)
    begin(site, *step)
    (retire,) = [found for found in commands.plan(site.env, site.release).explained if found.kind == "retire"]
    assert retire.summary == "after the hold: leave the old shard where it is, for it was adopted"
    assert retire.irreversible == ()
    site.upgrade()
    assert sealed_for(table) is not None
    done = commands.contract(site.env, at_once=True)
    commands.cleanup(site.env, Generation(2))
    site.check("1.1.0")
    assert (rows(table), files(table)) == (before, there)
    assert (sealed_for(table) is None) == is_open
    assert [shard for shard in site.state.shards.values() if shard.adopted and shard.collection == "flights"] == []
    assert any("was adopted" in note for note in done.notes)
    if is_open:
        foreign.write(table, [{"id": 9}])


@pytest.mark.parametrize("step", [REMOVED, REPLACED], ids=["removed", "replaced"])
def test_adopted_upgrades_a_table_that_was_pinned_is_given_back_with_its_own_settings(site: Site, step: tuple[str, str, str]) -> None:
    table = site.folder / "out" / "flights"
    own = tables.snapshot(table).metadata["configuration"]
    pin(site.env, "flights", "me", 1000)
    begin(site, *step)
    site.upgrade()
    assert tables.snapshot(table).metadata["configuration"] != own
    commands.contract(site.env, at_once=True)
    found = tables.snapshot(table).metadata["configuration"]
    assert {key: found.get(key) for key in (FILES, LOG)} == {key: own.get(key) for key in (FILES, LOG)}
    assert not site.state.pins


NOT_OURS: dict[str, dict[str, object]] = {
    "a feature that we do not know": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["somethingNew", "appendOnly"]},
    "a catalog's": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["catalogManaged"],
        "writerFeatures": ["catalogManaged"],
    },
}


@pytest.mark.parametrize("is_pinned", [False, True], ids=["", "pinned"])
@pytest.mark.parametrize("protocol", NOT_OURS.values(), ids=NOT_OURS)
def test_adopted_upgrades_the_hold_ends_over_a_table_that_is_not_for_us_to_write_any_more(
    site: Site, protocol: dict[str, object], is_pinned: bool
) -> None:
    table = site.folder / "out" / "flights"
    if is_pinned:
        pin(site.env, "flights", "me", 1000)
    begin(site, *REMOVED)
    site.upgrade()
    (table / "_delta_log" / f"{tables.newest(table) + 1:020d}.json").write_text(json.dumps({"protocol": protocol}))
    done = commands.contract(site.env, at_once=True)
    assert any("flights" in note for note in done.notes)
    assert not site.state.pins
    site.check("1.1.0")


def test_a_replaced_one_comes_back_adopted(site: Site) -> None:
    table = site.folder / "out" / "flights"
    begin(site, *REPLACED)
    site.upgrade()
    commands.rollback(site.env)
    site.check("1.0.0")
    found = site.state.shard_of(FLIGHTS)
    assert (found.adopted, found.state, sealed_for(table)) == (True, ShardState.LIVE, None)


def test_giving_it_back_may_be_cut_at_any_write(tmp_path: Path) -> None:
    site = Site(tmp_path / "pristine")
    site.adopt(flights=site.table("flights"), planes=site.table("planes"))
    pin(site.env, "flights", "me", 1000)
    begin(site, *REMOVED)
    site.upgrade()
    pristine = site.folder
    for moment in range(MANY):
        site = moved(pristine, tmp_path)
        try:
            commands.contract(crashing(site.env, moment), at_once=True)
            finished = True
        except Crash:
            finished = False
        commands.contract(site.env, at_once=True)
        site.check("1.1.0")
        assert (sealed_for(site.folder / "out" / "flights"), len(rows(site.folder / "out" / "flights"))) == (None, 2)
        if finished:
            return
    raise AssertionError("more writes than were looked at")


def test_read_by_release_from_where_it_is(site: Site) -> None:
    begin(site, *WITH_GATE, 'evolution("flights")')
    site.upgrade()
    reader = site.env.reader("flights", release="1.0.0")
    assert sorted(reader.arrow().to_pylist(), key=lambda row: row["id"]) == [{"id": 1, "day": "a"}, {"id": 2, "day": "b"}]


#: What 1.1.0 does, and which collection's new table would lie in the folder of an adopted table.
INSIDE = {
    "replaced": ("flights", (*WITH_GATE, 'replacement("flights")'), "flights"),
    "rewritten": ("flights", ("day STRING", "day INT", 'rewrite("flights", up="SELECT id, 1 AS day FROM {flights}")'), "flights"),
    "another of its folder's name": ("planes", (");", ");\nCREATE TABLE planes (id BIGINT);", ""), "planes"),
}


@pytest.mark.parametrize("case", INSIDE)
def test_no_new_table_is_made_in_the_folder_of_another(tmp_path: Path, case: str) -> None:
    """A VACUUM of the table around deletes what is not its own."""
    folder, change, refused_collection = INSIDE[case]
    site = Site(tmp_path)
    site.adopt(flights=site.table(f"../lake/{folder}"))
    begin(site, *change)
    found = commands.plan(site.env, site.release).refusals
    assert [(error.code, error.collection) for error in found] == [("inside_table", refused_collection)]
    with unwritten(site.env), refused("inside_table", refused_collection):
        site.upgrade()


def test_a_table_in_the_root_is_changed_where_it_is(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.adopt(flights=site.table("../lake/flights"))
    begin(site, *WITH_GATE, 'evolution("flights")')
    site.upgrade()
    site.check("1.1.0")


def restored(site: Site) -> None:
    restore(site.env, str(site.folder / "backup"))


def rebuilt(site: Site) -> None:
    rebuild(site.env, site.release, [(name, str(site.folder / "out" / name)) for name in ("future", "plain")])


@pytest.mark.parametrize("brought_back", [restored, rebuilt])
def test_a_table_that_nobody_may_change_is_in_no_ones_way_after_a_lost_ledger(tmp_path: Path, brought_back: Callable[[Site], None]) -> None:
    """The fence that every table gets then was refused there: a deployment stood promoted, and not even a rollback led on."""
    site = Site(tmp_path)
    future = site.by_hand("future", [field("id", "long")], FUTURE)
    site.adopt(future=future, plain=site.table("plain"))
    backup(site.env, str(tmp_path / "backup"))
    shutil.rmtree(tmp_path / "lake" / "_schemamig" / "ledger")
    brought_back(site)
    before = tree(future)
    begin(site, "day STRING\n);", "day STRING,\n    gate STRING\n);", 'evolution("plain")')
    site.upgrade()
    site.check("1.1.0")
    commands.rollback(site.env)
    site.check("1.0.0")
    assert tree(future) == before


@pytest.mark.parametrize("part", ["ledger", "history"])
def test_no_table_of_another_environments_records_is_adopted(site: Site, tmp_path: Path, part: str) -> None:
    """A change of it would be a commit that is no ledger's."""
    other = Site(tmp_path / "another")
    with refused("wrong_place", "t") as found:
        other.adopt(t=site.folder / "lake" / "_schemamig" / part)
    assert "_schemamig alone" in found[0].next_action
