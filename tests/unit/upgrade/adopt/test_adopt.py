"""Existing tables come under management: what is written, what is not, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.features import UnsupportedFeature
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.check import check
from airflow_provider_schemamig.core.upgrade.adopt.adopt import adopt
from airflow_provider_schemamig.core.upgrade.adopt.errors import WrongPlace
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.bytes import tree
from tests.support.lake import no_spark
from tests.support.tables import foreign
from tests.support.tables.adopting import ROWS, Site, alter, field, mapped

FLIGHTS = CollectionName("flights")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


RICH = [
    field("id", "long", nullable=False, comment="one per departure"),
    field("carrier", "string", CURRENT_DEFAULT="'AA'"),
    field("code", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(3)"),
    field("price", "decimal(12,2)"),
    field("origin", {"type": "struct", "fields": [field("code", nullable=False), field("order", "integer")]}),
    field("tags", {"type": "array", "elementType": "string", "containsNull": False}),
    field("days", {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True}),
    field("year", "integer") | {"metadata": {"delta.generationExpression": "YEAR(at)"}},
    field("at", "timestamp"),
    field("local", "timestamp_ntz"),
]
RICH_SQL = """\
CREATE TABLE flights (
    id BIGINT NOT NULL COMMENT 'one per departure',
    carrier STRING DEFAULT 'AA',
    code VARCHAR(3),
    price DECIMAL(12,2),
    origin STRUCT<code: STRING NOT NULL, `order`: INT>,
    tags ARRAY<STRING>,
    days MAP<STRING, DATE>,
    year INT GENERATED ALWAYS AS (YEAR(AT)),
    `at` TIMESTAMP,
    local TIMESTAMP_NTZ,
    CONSTRAINT dear CHECK (price > 0)
) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'owned_by' = 'ops')
"""
RICH_FEATURES = ["allowColumnDefaults", "changeDataFeed", "checkConstraints", "generatedColumns", "timestampNtz"]


def rich(site: Site, name: str = "flights") -> Path:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"], "writerFeatures": RICH_FEATURES}
    settings = {
        "delta__constraints__Dear": "price > 0",
        "delta__enableChangeDataFeed": "true",
        "delta__minReaderVersion": "3",
        "owned_by": "ops",
    }
    return site.by_hand(name, RICH, protocol, **settings)


def test_a_table_with_everything_is_declared_and_not_touched(site: Site) -> None:
    table = rich(site)
    before = tree(site.folder / "out")
    done = site.adopt(flights=table)
    assert tree(site.folder / "out") == before
    assert (site.release / "schema.sql").read_text() == RICH_SQL.rstrip("\n") + ";\n"
    assert check(site.release) == ()
    assert (str(done.version), done.generation, done.tables[0].read_only) == ("1.0.0", 1, False)
    assert done.notes == ()
    assert site.uri("flights") == f"file://{table}"
    site.check("1.0.0")
    assert commands.plan(site.env, site.release).plan.is_empty
    item = commands.status(site.env).document["collections"]["flights"]
    assert (item["adopted"], item["hidden"], item["table_version"]) == (True, [], 0)


def test_layout_and_names_in_the_files(site: Site) -> None:
    parts = site.table("parts", partition_by=["day"], description="of a day")
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"]}
    protocol["writerFeatures"] = ["clustering", "columnMapping", "domainMetadata"]
    inner = {"type": "struct", "fields": [mapped("code", 3, "c-3")]}
    settings = {"delta__columnMapping__mode": "name", "delta__columnMapping__maxColumnId": "3"}
    clustered = site.by_hand("clustered", [mapped("id", 1, "c-1", "long"), mapped("s", 2, "c-2", inner)], protocol, **settings)
    domain = {"domain": "delta.clustering", "configuration": json.dumps({"clusteringColumns": [["c-2", "c-3"]]}), "removed": False}
    foreign.commit(clustered, {"domainMetadata": domain})
    site.adopt(parts=parts, clustered=clustered)
    text = (site.release / "schema.sql").read_text()
    assert ") PARTITIONED BY (day)\nCOMMENT 'of a day';" in text
    assert ") CLUSTER BY (s.code);" in text
    assert site.state.entry(CollectionName("clustered")).stored_names == (("id", "c-1"), ("s", "c-2"), ("s.code", "c-3"))
    site.check("1.0.0")


def test_a_log_that_is_only_a_checkpoint_any_more(site: Site) -> None:
    from deltalake import DeltaTable

    table = site.table("flights")
    foreign.write(table, [{"id": 3}])
    DeltaTable(str(table)).create_checkpoint()
    for entry in (table / "_delta_log").glob("*0.json"):
        entry.unlink()
    site.adopt(flights=table)
    site.check("1.0.0")


def test_tables_below_the_root_move_with_it(site: Site) -> None:
    shutil.copytree(site.table("flights"), site.folder / "lake" / "old" / "flights")
    site.adopt(flights=site.folder / "lake" / "old" / "flights")
    assert site.state.shard_of(FLIGHTS).uri == "old/flights"
    (site.folder / "lake").rename(site.folder / "moved")
    found = commands.status(type(site.env).open(str(site.folder / "moved")))
    assert found.drifted == ()


# --- features ------------------------------------------------------------------------------------------------------------------------

FUTURE = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timeTravel"], "writerFeatures": ["timeTravel"]}


def test_a_table_with_features_nobody_knows_is_watched_and_never_changed(site: Site) -> None:
    future, plain = site.by_hand("future", [field("id", "long")], FUTURE), site.table("plain")
    done = site.adopt(future=future, plain=plain)
    assert [table.read_only for table in done.tables] == [True, False]
    assert "future: the table has features that schemamig does not know (timeTravel): it is read, never changed" in done.notes
    site.check("1.0.0")
    begin(site, "id BIGINT\n);", "id BIGINT,\n    gate STRING\n);", 'evolution("future")')
    (refusal,) = commands.plan(site.env, site.release).refusals
    assert isinstance(refusal, UnsupportedFeature)
    assert (refusal.collection, refusal.features, refusal.uri) == ("future", ("timeTravel",), f"file://{future}")
    before = tree(future)
    with pytest.raises(UnsupportedFeature):
        site.upgrade()
    assert tree(future) == before


def test_adopt_what_others_need_does_not_wait_for_it(site: Site) -> None:
    site.adopt(future=site.by_hand("future", [field("id", "long")], FUTURE), plain=site.table("plain"))
    begin(site, "day STRING\n);", "day STRING,\n    gate STRING\n);", 'evolution("plain")')
    site.upgrade()
    site.check("1.1.0")


def begin(site: Site, old: str, new: str, steps: str, version: str = "1.1.0") -> None:
    """The next version of the release folder, as its author writes it."""
    from tests.support.product import module

    schema = site.release / "schema.sql"
    text = schema.read_text()
    assert old in text
    schema.write_text(text.replace(old, new, 1))
    (site.release / "release.toml").write_text(f'name = "release"\nversion = "{version}"\nmin_version = "1.0.0"\n')
    (site.release / "migrations").mkdir(exist_ok=True)
    (site.release / "migrations" / f"v{version.replace('.', '_')}.py").write_text(module(steps, "Next.\n\nWhy: to test."))
    from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot

    snapshot(site.release)


# --- refusals ------------------------------------------------------------------------------------------------------------------------


def catalog(site: Site) -> Path:
    features = {"readerFeatures": ["catalogManaged"], "writerFeatures": ["catalogManaged", "inCommitTimestamp"]}
    return site.by_hand("flights", [field("id", "long")], {"minReaderVersion": 3, "minWriterVersion": 7, **features})


def sealed(site: Site) -> Path:
    return site.by_hand("flights", [field("id", "long")], None, delta__constraints__schemamig_moved_to_g2="1 = 0")


REFUSED: dict[str, tuple[Callable[[Site], Any], str, str]] = {
    "no table": (lambda site: site.folder / "out" / "nothing", "table_missing", "there is no Delta table at file://"),
    "a type": (
        lambda site: site.by_hand("flights", [field("v", "variant")]),
        "unknown_delta_type",
        "column v of the table has the type variant",
    ),
    "char": (
        lambda site: site.by_hand("flights", [field("c", __CHAR_VARCHAR_TYPE_STRING="char(3)")]),
        "unknown_delta_type",
        "column c of the table has the type char(3)",
    ),
    "a column's name": (
        lambda site: site.by_hand("flights", [mapped("a b", 1, "c-1")]),
        "invalid_name",
        "'a b' is not a valid column name",
    ),
    "a check": (
        lambda site: site.by_hand("flights", [field("id", "long")], None, delta__constraints__c="id >"),
        "not_declarable",
        "no valid expression",
    ),
    "a catalog's": (catalog, "catalog_managed", "managed by a catalog"),
    "a seal": (sealed, "table_sealed", "its rows moved to the shard g2"),
    "the environment inside": (lambda site: site.folder, "wrong_place", "the environment lies inside"),
    "the ledger": (lambda site: site.folder / "lake" / "_schemamig" / "ledger", "wrong_place", "an environment's own records"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_is_written(site: Site, case: str) -> None:
    make, code, says = REFUSED[case]
    table = make(site)
    before = tree(site.folder)
    with pytest.raises(SchemamigError) as caught:
        site.adopt(flights=table)
    assert (caught.value.code, caught.value.collection) == (code, "flights")
    assert says in caught.value.message
    assert tree(site.folder) == before


def test_every_reason_at_once(site: Site) -> None:
    before = tree(site.folder)
    with pytest.raises(Refused) as caught:
        site.adopt(flights=site.folder / "out" / "a", planes=site.folder / "out" / "b")
    assert [(found.code, found.collection) for found in caught.value.refusals] == [
        ("table_missing", "flights"),
        ("table_missing", "planes"),
    ]
    assert tree(site.folder) == before


def test_names_and_tables_are_told_apart(site: Site) -> None:
    table = site.table("flights")
    (site.folder / "link").symlink_to(table)
    given = [("flights", str(table)), ("Planes", str(table)), ("again", str(site.folder / "link")), ("flights", str(site.folder / "x"))]
    with pytest.raises(Refused) as caught:
        adopt(site.env, site.release, given, create=True)
    assert [found.code for found in caught.value.refusals] == ["invalid_name", "same_table", "name_twice"]


def test_a_table_or_a_name_that_is_managed_already(site: Site) -> None:
    flights, planes = site.table("flights"), site.table("planes")
    site.adopt(flights=flights)
    for name, path in (("again", flights), ("flights", planes)):
        with pytest.raises(SchemamigError) as caught:
            adopt(site.env, site.release, [(name, str(path))])
        assert (caught.value.code, getattr(caught.value, "owner", None)) == ("already_managed", "flights")


def test_a_table_inside_another_ones_folder_is_refused(site: Site) -> None:
    flights = site.table("flights")
    inner = shutil.copytree(flights, flights / "old" / "planes")
    for given in ([("flights", flights), ("planes", inner)], [("planes", inner), ("flights", flights)]):
        with pytest.raises(Refused) as caught:
            adopt(site.env, site.release, [(name, str(path)) for name, path in given], create=True)
        assert [found.code for found in caught.value.refusals] == ["wrong_place", "wrong_place"]
    site.adopt(flights=flights)
    with pytest.raises(WrongPlace, match="it lies inside of the folder of flights") as caught_one:
        adopt(site.env, site.release, [("planes", str(inner))])
    assert caught_one.value.remedy == "Move the inner table to a folder of its own."


def test_a_folder_with_other_files_is_not_written_into(site: Site) -> None:
    site.release.mkdir()
    (site.release / "notes.txt").write_text("mine")
    with pytest.raises(SchemamigError) as caught:
        site.adopt(flights=site.table("flights"))
    assert caught.value.code == "folder_not_empty"
    assert not (site.folder / "lake").exists()


# --- which release -------------------------------------------------------------------------------------------------------------------


def second(site: Site, folder: Path) -> Site:
    """Another environment with the same release folder."""
    other = Site(folder / "second")
    other.folder.mkdir()
    shutil.copytree(site.release, other.release)
    return other


def test_a_second_environment_is_held_against_the_folder(site: Site, tmp_path: Path) -> None:
    site.adopt(flights=site.table("flights"), planes=site.table("planes"))
    other = second(site, tmp_path)
    before = tree(other.release)
    flights, planes = other.table("flights"), other.table("planes")
    with pytest.raises(SchemamigError) as missing:
        other.adopt(flights=flights)
    assert (missing.value.code, getattr(missing.value, "names", None)) == ("tables_missing", ["planes"])
    foreign.add_column(planes, "seats", "integer")
    with pytest.raises(SchemamigError) as differs:
        other.adopt(flights=flights, planes=planes)
    assert (differs.value.code, differs.value.collection) == ("table_differs", "planes")
    assert "seats: expected nothing, found INT" in differs.value.message
    foreign.drop_column(planes, "seats")
    done = other.adopt(flights=flights, planes=planes)
    assert (str(done.version), done.files) == ("1.0.0", ())
    assert tree(other.release) == before
    other.check("1.0.0")


def test_order_comments_and_undeclared_properties_are_no_difference(site: Site, tmp_path: Path) -> None:
    site.adopt(flights=site.table("flights"))
    other = second(site, tmp_path)
    table = other.table("flights")
    alter(table, [field("day", comment="other"), field("id", "long")], owned_by="ops")
    other.adopt(flights=table)
    other.check("1.0.0")
    begin(other, "day STRING\n", "day STRING,\n    gate STRING\n", 'evolution("flights")')
    other.upgrade()
    other.check("1.1.0")


def test_a_declared_key_is_no_fact_of_a_table(site: Site) -> None:
    from airflow_provider_schemamig.core.release.authoring.scaffold import init, snapshot

    init(site.release, "release")
    (site.release / "schema.sql").write_text("CREATE TABLE flights (id BIGINT NOT NULL, PRIMARY KEY (id)) CLUSTER BY (id);\n")
    snapshot(site.release)
    with pytest.raises(SchemamigError) as caught:
        site.adopt(flights=site.by_hand("flights", [field("id", "long", nullable=False)]))
    assert caught.value.code == "table_differs"
    assert "key (id): expected it" in caught.value.message and "clustering: expected id, found nothing" in caught.value.message


def test_more_tables_become_the_next_version(site: Site, tmp_path: Path) -> None:
    site.adopt(flights=site.table("flights"))
    other = second(site, tmp_path)
    other.adopt(flights=other.table("flights"))
    before = site.state.version
    done = site.adopt(flights=site.folder / "out" / "flights", planes=site.table("planes"))
    assert [table.collection for table in done.tables] == ["planes"]
    assert site.state.version == before + 1  # one append
    assert check(site.release) == ()
    site.check("1.1.0")
    shutil.rmtree(other.release)
    shutil.copytree(site.release, other.release)
    other.adopt(planes=other.table("planes"))
    other.check("1.1.0")


def test_what_else_the_release_changes_comes_by_upgrade(site: Site, tmp_path: Path) -> None:
    site.adopt(flights=site.table("flights"))
    other = second(site, tmp_path)
    other.adopt(flights=other.table("flights"))
    begin(site, "day STRING\n", "day STRING,\n    gate STRING\n", 'evolution("flights")')
    site.upgrade()
    commands.contract(site.env, at_once=True)
    site.adopt(planes=site.table("planes"))
    site.check("1.2.0")
    shutil.rmtree(other.release)
    shutil.copytree(site.release, other.release)
    with pytest.raises(SchemamigError) as caught:
        other.adopt(planes=other.table("planes"))
    assert (caught.value.code, getattr(caught.value, "others", None)) == ("more_than_adopted", ["flights"])
    other.check("1.0.0")


def test_not_while_something_is_open(site: Site) -> None:
    site.adopt(flights=site.table("flights"))
    begin(site, "day STRING\n", "day STRING,\n    gate STRING\n", 'evolution("flights")')
    generation = commands.preflight(site.env, site.release, jobs=no_spark).generation
    assert generation is not None
    commands.promote(site.env, generation)
    planes = site.table("planes")
    for code, retryable in (("deployment_open", True), ("hold_open", False)):
        before = tree(site.folder)
        with pytest.raises(SchemamigError) as caught:
            site.adopt(planes=planes)
        assert (caught.value.code, caught.value.retryable) == (code, retryable)
        assert tree(site.folder) == before
        commands.expand(site.env, generation)
        commands.cutover(site.env, generation)
    commands.contract(site.env, at_once=True)
    site.adopt(planes=planes)
    site.check("1.2.0")


def test_an_environment_needs_the_folder_of_its_release(site: Site) -> None:
    site.adopt(flights=site.table("flights"))
    shutil.rmtree(site.release)
    with pytest.raises(SchemamigError) as caught:
        site.adopt(planes=site.table("planes"))
    assert caught.value.code == "unreadable_file"
    assert not site.release.exists()


def test_rows_are_whatever_they_are(site: Site) -> None:
    """Not one data file is opened: what they hold is nobody's business here."""
    table = site.table("flights")
    for file in table.glob("*.parquet"):
        file.write_bytes(b"not parquet")
    site.adopt(flights=table, planes=site.table("planes", {**ROWS, "x": pa.array([1.5, None])}))
    site.check("1.0.0")
