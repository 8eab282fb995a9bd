"""Giving a collection back: the ledger forgets it, the table does not notice, and the release has to follow."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import Control, Object, Shard
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.upgrade.compare_and_evolve import compare_and_evolve_schema
from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
from airflow_provider_schemamig.core.upgrade.tables.pins import pin, unpin
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree
from tests.support.lake import no_spark
from tests.support.tables import foreign
from tests.support.tables.adopting import Site
from tests.support.upgrades import refused as refusal
from tests.support.upgrades import two_releases
from tests.unit.upgrade.adopt.test_adopt import begin
from tests.unit.upgrade.adopt.test_adopted_upgrades import REMOVED, WITH_GATE

FLIGHTS = CollectionName("flights")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.adopt(flights=site.table("flights"), planes=site.table("planes"))
    return site


def refused(site: Site, collection: str = "flights") -> SchemamigError:
    before = tree(site.folder)
    with pytest.raises(SchemamigError) as caught:
        unmanage(site.env, collection)
    assert tree(site.folder) == before
    return caught.value


def test_the_ledger_forgets_and_the_table_stays(site: Site) -> None:
    LedgerWriter(site.env).transact(lambda state: [Put(Control("flights", paused=True))])
    before = tree(site.folder / "out")
    done = unmanage(site.env, "flights")
    assert (done.uri, done.notes) == (f"file://{site.folder}/out/flights", ("its pause or limit is forgotten, too",))
    assert tree(site.folder / "out") == before
    state = site.state
    assert FLIGHTS not in state.objects and "flights" not in state.controls
    assert [shard.collection for shard in state.shards.values()] == ["planes"]
    site.check("1.0.0")
    foreign.add_column(site.folder / "out" / "flights", "gate")
    site.check("1.0.0")  # nobody's business any more


def test_done_already_is_no_error_and_a_strange_name_is(site: Site) -> None:
    unmanage(site.env, "flights")
    before = tree(site.folder)
    assert unmanage(site.env, "flights").uri is None
    assert tree(site.folder) == before
    assert refused(site, "hotels").code == "unknown_collection"


def test_a_table_of_our_own_may_go_too_and_come_back(site: Site) -> None:
    begin(site, *REMOVED[:2], REMOVED[2])
    schema = site.release / "schema.sql"
    schema.write_text(schema.read_text() + "\nCREATE TABLE made (id BIGINT);\n")
    from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot

    snapshot(site.release)
    site.upgrade(hold=timedelta(0))
    path = Path(site.uri("made").removeprefix("file://"))
    unmanage(site.env, "made")
    for generation in (Generation(2),):
        commands.cleanup(site.env, generation)
    assert (path / "_delta_log").exists()
    site.adopt(made=path)
    found = site.state.shard_of(CollectionName("made"))
    assert (found.adopted, found.uri) == (True, str(path.relative_to(site.folder / "lake")))
    site.check("1.1.0")


def test_unmanage_what_it_waits_for(site: Site) -> None:
    pin(site.env, "flights", "ana's job", 400)
    assert """unpin --collection flights --holder 'ana'"'"'s job'`""" in refused(site).next_action
    unpin(site.env, "flights", "ana's job")
    begin(site, *WITH_GATE, 'evolution("flights")')
    generation = commands.preflight(site.env, site.release, jobs=no_spark).generation
    assert generation is not None
    found = refused(site)
    assert (found.code, f"cancel --generation {generation}" in found.next_action) == ("collection_in_use", True)
    commands.promote(site.env, generation)
    assert refused(site).code == "deployment_open"
    commands.expand(site.env, generation)
    commands.cutover(site.env, generation)
    assert refused(site).code == "hold_open"
    commands.contract(site.env, at_once=True)
    unmanage(site.env, "flights")
    site.check("1.1.0")


def test_a_claim_of_before_is_for_other_tables_than_there_are(site: Site) -> None:
    """It has no step for what was given back, but its release declares it: somebody has to decide."""
    begin(site, *WITH_GATE, 'evolution("flights")')
    generation = commands.preflight(site.env, site.release, jobs=no_spark).generation
    assert generation is not None
    unmanage(site.env, "planes")
    with pytest.raises(SchemamigError) as caught:
        commands.promote(site.env, generation)
    assert caught.value.code == "plan_changed"
    with pytest.raises(SchemamigError) as caught:
        site.upgrade()
    assert (caught.value.code, caught.value.collection) == ("unmanaged", "planes")
    site.check("1.0.0")


def test_ahead_of_its_release_or_not(site: Site) -> None:
    entry = site.state.entry(FLIGHTS)
    from dataclasses import replace

    from airflow_provider_schemamig.core.schema.model import Field, Primitive

    wanted = replace(entry.declared, fields=(*entry.declared.fields, Field("gate", Primitive("string"))))
    compare_and_evolve_schema(site.env, FLIGHTS, entry.schema_id, wanted)
    unmanage(site.env, "flights")
    assert list(site.state.unreleased) == []
    site.check("1.0.0")


# --- the release that follows --------------------------------------------------------------------------------------------------------


def test_at_its_own_release_there_is_nothing_to_do(site: Site) -> None:
    unmanage(site.env, "flights")
    report = commands.plan(site.env, site.release)
    assert (report.exit_code, report.plan.notes) == (0, ("flights: given back by `unmanage`; nothing is done about it",))
    assert site.upgrade().generation is None


def test_an_edited_release_is_still_found(site: Site) -> None:
    """A collection that was never here is not one that was given back."""
    unmanage(site.env, "flights")
    schema = site.release / "schema.sql"
    schema.write_text(schema.read_text() + "\nCREATE TABLE fresh (id BIGINT);\n")
    from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot

    snapshot(site.release)
    with pytest.raises(SchemamigError) as caught:
        commands.plan(site.env, site.release)
    assert caught.value.code == "release_changed"


@pytest.mark.parametrize(
    "old, new, steps",
    [
        (*WITH_GATE, 'evolution("flights")'),
        ("CREATE TABLE planes (\n    id BIGINT", "CREATE TABLE planes (\n    seats INT,\n    id BIGINT", 'evolution("planes")'),
        ("CREATE TABLE flights", "CREATE TABLE trips", 'evolution("trips", renamed_from="flights")'),
        ("day STRING\n", "day DATE\n", 'replacement("flights")'),
    ],
)
def test_a_later_release_has_to_decide(site: Site, old: str, new: str, steps: str) -> None:
    unmanage(site.env, "flights")
    begin(site, old, new, steps)
    with pytest.raises(SchemamigError) as caught:
        commands.plan(site.env, site.release)
    assert (caught.value.code, caught.value.collection) == ("unmanaged", "flights")


def test_a_removal_removes_nothing_of_it(site: Site) -> None:
    unmanage(site.env, "flights")
    before = tree(site.folder / "out" / "flights")
    begin(site, *REMOVED)
    site.upgrade(hold=timedelta(0))
    site.check("1.1.0")
    assert tree(site.folder / "out" / "flights") == before
    assert commands.plan(site.env, site.release).plan.is_empty


def test_adopted_again_at_the_release_that_declares_it(site: Site) -> None:
    unmanage(site.env, "flights")
    begin(site, *WITH_GATE, 'evolution("flights")')
    done = site.adopt(flights=site.folder / "out" / "flights")  # the folder is further; the environment is where it was
    assert (str(done.version), done.files) == ("1.0.0", ())
    site.check("1.0.0")
    assert site.state.objects[FLIGHTS].schema_id == 2
    site.upgrade()
    site.check("1.1.0")


def test_a_fill_does_not_read_what_is_not_here(site: Site) -> None:
    unmanage(site.env, "flights")
    schema = (site.release / "schema.sql").read_text()
    fill = "SELECT id, day, 1 AS n FROM {flights}"
    begin(
        site, schema, "CREATE TABLE planes (id BIGINT, day STRING, n INT);\n", f'removal("flights"), replacement("planes", fill="{fill}")'
    )
    with pytest.raises(SchemamigError) as caught:
        commands.plan(site.env, site.release)
    assert (caught.value.code, caught.value.collection) == ("unmanaged", "flights")


def test_rows_of_the_ledger(site: Site) -> None:
    unmanage(site.env, "planes")
    unmanage(site.env, "flights")
    assert [len(site.state.rows(kind, str)) for kind in (Object, Shard)] == [0, 0]
    assert len(site.state.schemas) == 2  # ids are never used again
    site.check("1.0.0")


def test_unmanage_waits_for_the_release_that_has_names_which_an_alter_exchanged(tmp_path: Path) -> None:
    """Adopted again at the release of before, each column would be taken for the other one."""
    table = "CREATE TABLE t (id BIGINT, a STRING, b STRING);"
    lake = two_releases(tmp_path, table, table, 'evolution("t", rename={"a": "b", "b": "a"})')
    for change in ("a TO z", "b TO a", "z TO b"):
        commands.alter(lake.env, f"ALTER TABLE t RENAME COLUMN {change}", jobs=no_spark)
    with refusal("collection_in_use", "t"):
        unmanage(lake.env, "t")
    lake.upgrade(lake.second, hold=timedelta(0))
    unmanage(lake.env, "t")
    assert "t" not in lake.state.objects


@pytest.mark.parametrize("statement", ["CREATE TABLE p (id BIGINT)", "ALTER TABLE t RENAME TO p"])
@pytest.mark.parametrize("way", ["renamed", "given back"])
def test_unmanaged_names_that_an_alter_gave_to_another_table(tmp_path: Path, statement: str, way: str) -> None:
    """The release is refused, and says what to do: that works."""
    both = "CREATE TABLE p (id BIGINT); CREATE TABLE t (id BIGINT);"
    lake = two_releases(tmp_path, both, both.replace("t (id BIGINT", "t (id BIGINT, x INT"), 'evolution("t")')
    table, t = lake.path("p"), lake.path("t")
    unmanage(lake.env, "p")
    commands.alter(lake.env, statement, jobs=no_spark, hold=timedelta(0))
    with refusal("unmanaged", "p") as found:
        lake.upgrade(lake.second)
    assert "Another table got its name here since" in str(found[0])
    if way == "given back":
        unmanage(lake.env, "p")
        given = [("p", str(table)), *([("t", str(t))] if "RENAME" in statement else [])]
    else:
        name = "t" if "RENAME" in statement else "other"
        commands.alter(lake.env, f"ALTER TABLE p RENAME TO {name}", jobs=no_spark, hold=timedelta(0))
        if name == "other":
            commands.alter(lake.env, "DROP TABLE other", jobs=no_spark, hold=timedelta(0))
        given = [("p", str(table))]
    commands.adopt(lake.env, lake.first, given)
    lake.upgrade(lake.second)
    assert lake.version == "1.1.0"
    assert (lake.path("p"), lake.path("t")) == (table, t)


def test_unmanaged_and_adopted_again_a_table_that_a_key_refers_to_is_told_of(tmp_path: Path) -> None:
    keyed = "CREATE TABLE p (id BIGINT); CREATE TABLE t (id BIGINT, FOREIGN KEY (id) REFERENCES p (id));"
    lake = two_releases(tmp_path, keyed, keyed.replace("t (id BIGINT,", "t (id BIGINT, x INT,"), 'evolution("t")')
    table = lake.path("p")
    unmanage(lake.env, "p")
    done = commands.adopt(lake.env, lake.first, [("p", str(table))])
    assert done.notes == ("p: no row is asked for FOREIGN KEY (id) REFERENCES p of t; `schemamig verify` asks all",)


def test_unmanaged_what_a_key_refers_to_lets_drift_of_the_others_be_accepted(tmp_path: Path) -> None:
    keyed = "CREATE TABLE p (id BIGINT); CREATE TABLE t (id BIGINT, FOREIGN KEY (id) REFERENCES p (id));"
    lake = two_releases(tmp_path, keyed, keyed.replace("t (id BIGINT,", "t (id BIGINT, x INT,"), 'evolution("t")')
    unmanage(lake.env, "p")
    foreign.add_column(lake.path("t"), "x", "integer")
    shutil.copytree(lake.first, tmp_path / "release")
    commands.accept(lake.env, tmp_path / "release")
    assert not commands.status(lake.env).drifted


def test_unmanaged_by_somebody_while_its_adoption_ends_it_is_not_told_of(tmp_path: Path) -> None:
    keyed = "CREATE TABLE p (id BIGINT); CREATE TABLE t (id BIGINT, FOREIGN KEY (id) REFERENCES p (id));"
    lake = two_releases(tmp_path, keyed, keyed.replace("t (id BIGINT,", "t (id BIGINT, x INT,"), 'evolution("t")')
    table = lake.path("p")
    unmanage(lake.env, "p")

    def hook(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("after", "ledger"):
            unmanage(lake.env, "p")

    done = commands.adopt(replace(lake.env, on_write=hook), lake.first, [("p", str(table))])
    assert (len(done.tables), done.notes) == (1, ())
