"""A lost ledger is made anew: what tells that a table was a collection's, and at which release, and who is asked where nothing does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot
from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
from airflow_provider_schemamig.core.upgrade.rebuild import errors as e
from airflow_provider_schemamig.core.upgrade.rebuild.ends import AuditedEnds, ReleaseCommit
from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import rebuild
from tests.support.bytes import tree
from tests.support.lake import Crash, Lake, append, no_spark
from tests.support.tables import foreign
from tests.support.tables.adopting import Site
from tests.support.upgrades import deployed, releases
from tests.unit.ledger.samples import elsewhere
from tests.unit.upgrade.adopt.test_adopt import begin
from tests.unit.upgrade.plan.test_cleaned_logs import clean
from tests.unit.upgrade.rebuild.test_rebuild import ROWS as SWAPPED_ROWS
from tests.unit.upgrade.rebuild.test_rebuild import SWAP, SWAPPED, SWAPS, killed_at, lose, refusals, renamed, rows_of


def unknown(lake: Lake, release: Path) -> dict[str | None, str]:
    """The collections that a rebuild asks about, each with its reasons; nothing else stands against it."""
    found = refusals(lambda: rebuild(elsewhere(lake.env), release))
    assert {type(error) for error in found} == {e.EndUnknown}
    return {name: " ".join(error.message for error in found if error.collection == name) for name in {error.collection for error in found}}


# --- which table is the collection's --------------------------------------------------------------------------------------------------


def cut_off(folder: Path) -> Path:
    """The release without what led to it, as the rule about old versions advises."""
    version = load_checked(folder).version
    settings = folder / "release.toml"
    settings.write_text(re.sub(r'min_version = ".*"', f'min_version = "{version}"', settings.read_text()))
    shutil.rmtree(folder / "migrations")
    for old in (folder / "snapshots").glob("*.sql"):
        if old.stem != str(version):
            old.unlink()
    snapshot(folder)
    return folder


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_names_that_went_around_are_asked_about(tmp_path: Path, is_cut_off: bool) -> None:
    """Every step is legal, and each table ends in the folder that bears the other one's name."""

    def pair(one: str, two: str) -> str:
        return f"CREATE TABLE {one} (id BIGINT); CREATE TABLE {two} (id BIGINT);"

    def moved(to: str, source: str) -> str:
        return f'evolution("{to}", renamed_from="{source}")'

    made = releases(
        tmp_path,
        (pair("t", "u"), ""),
        (pair("v", "u"), moved("v", "t")),
        (pair("v", "t"), moved("t", "u")),
        (pair("t", "u"), moved("u", "v")),
    )
    lake = deployed(tmp_path, made[0], made[1])
    places = {name: str(lake.path(name)) for name in ("t", "u")}
    for release in made[1:]:
        lake.upgrade(release)
    assert {name: str(lake.path(name)) for name in ("t", "u")} == {"t": places["u"], "u": places["t"]}
    lose(lake)
    release = cut_off(made[-1]) if is_cut_off else made[-1]
    assert set(unknown(lake, release)) == {"t", "u"}
    rebuild(lake.env, release, [("t", places["u"]), ("u", places["t"])])
    assert {name: str(lake.path(name)) for name in ("t", "u")} == {"t": places["u"], "u": places["t"]}


FLIGHTS = "CREATE TABLE flights (id BIGINT, a INT);"
TRIPS = "CREATE TABLE trips (id BIGINT, a INT);"
WITH_N = "CREATE TABLE trips (id BIGINT, a INT, n INT);"


def test_an_attempt_is_not_taken_for_the_table_of_a_renamed_collection(tmp_path: Path) -> None:
    moved = 'evolution("trips", renamed_from="flights")'
    first, second, third = releases(tmp_path, (FLIGHTS, ""), (TRIPS, moved), (WITH_N, 'replacement("trips")'))
    lake = deployed(tmp_path, first, second)
    own = lake.path("flights")
    append(own, [{"id": 1, "a": 7}])
    lake.upgrade(second)
    commands.preflight(lake.env, third, jobs=no_spark)
    lose(lake)
    assert "generation 3 made trips/g3-" in unknown(lake, second)["trips"]
    rebuild(elsewhere(lake.env), second, [("trips", str(own))])
    assert elsewhere(lake.env).reader("trips").arrow().to_pylist() == [{"id": 1, "a": 7}]


def lake_of(site: Site) -> Lake:
    return Lake(site.env, site.release, site.release)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    found = Site(tmp_path)
    found.adopt(flights=found.table("flights"), planes=found.table("planes"))
    return found


def test_an_attempt_is_not_taken_for_an_adopted_table(site: Site) -> None:
    begin(site, "day STRING\n", "day DATE\n", 'replacement("flights")')
    commands.preflight(site.env, site.release, jobs=no_spark)
    planes = ("planes", f"{site.folder}/out/planes")
    lose(lake_of(site))
    (found,) = refusals(lambda: rebuild(elsewhere(site.env), site.release, [planes]))
    assert isinstance(found, e.EndUnknown)
    assert "generation 2 made flights/g2-" in found.message


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.0.0 with one table of its own."""
    found = deployed(tmp_path, *releases(tmp_path, (FLIGHTS, ""), (FLIGHTS + TRIPS, "")))
    append(found.path("flights"), [{"id": 1, "a": 7}])
    return found


def test_a_table_that_was_given_back_is_asked_about(lake: Lake) -> None:
    unmanage(lake.env, "flights")
    lose(lake)
    assert "is unmanaged" in unknown(lake, lake.first)["flights"]
    rebuild(elsewhere(lake.env), lake.first, (), ["flights"])


@pytest.mark.parametrize("same", [False, True])
def test_the_table_that_was_adopted_last_counts(lake: Lake, tmp_path: Path, same: bool) -> None:
    own = lake.path("flights")
    unmanage(lake.env, "flights")
    other = own if same else foreign_table(tmp_path / "other")
    commands.adopt(elsewhere(lake.env), lake.first, [("flights", str(other))])
    lose(lake)
    if same:
        rebuild(elsewhere(lake.env), lake.first)
    else:
        assert other.as_uri() in unknown(lake, lake.first)["flights"]
        rebuild(elsewhere(lake.env), lake.first, [("flights", str(other))])
    rows = elsewhere(lake.env).reader("flights").arrow().to_pylist()
    assert rows == ([{"id": 1, "a": 7}] if same else [])


def foreign_table(path: Path) -> Path:
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(path), pa.table({"id": pa.array([], pa.int64()), "a": pa.array([], pa.int32())}))
    return path


# --- at which release it is -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def swapping(tmp_path: Path) -> Lake:
    found = deployed(tmp_path, *releases(tmp_path, (SWAP, ""), (SWAPPED, SWAPS)))
    append(found.path("t"), [{"id": 1, "p": 111, "q": 222}])
    append(found.path("r"), [{"id": 5}])
    return found


def dying_rollback(lake: Lake, reached: Callable[[], bool]) -> None:
    """Kill a rollback at its first append to the ledger at which something holds of the tables."""

    def dies(moment: str, what: str, key: str) -> None:
        if what == "ledger" and moment == "before" and reached():
            raise Crash

    with pytest.raises(Crash):
        commands.rollback(replace(lake.env, on_write=dies), allow_lossy=True)


def test_a_cut_over_that_found_itself_done_ends_no_rollback(tmp_path: Path) -> None:
    first, second = releases(tmp_path, ("CREATE TABLE r (id BIGINT, n INT);", ""), ("CREATE TABLE r (id BIGINT);", 'replacement("r")'))
    lake = deployed(tmp_path, first, second)
    old = lake.path("r")
    lake.upgrade(second)
    dying_rollback(lake, lambda: "delta.appendOnly" not in foreign.metadata(old)["configuration"])
    commands.cutover(elsewhere(lake.env), Generation(2))
    assert replace(lake, env=elsewhere(lake.env)).version == "1.1.0"
    lose(lake)
    assert "unseal of generation 2" in unknown(lake, second)["r"]


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("back", [False, True], ids=["upgrade", "rollback"])
def test_names_that_changed_places_before_the_log_was_cleaned_up_are_asked_about(swapping: Lake, back: bool, cleaned: bool) -> None:
    path = swapping.path("t")
    if back:
        swapping.upgrade(swapping.second)
        dying_rollback(swapping, lambda: not renamed(path))
    else:
        killed_at(swapping, lambda: renamed(path))
    foreign.commit(path, {"txn": {"appId": "x", "version": 1}})
    if cleaned:
        clean(path)
    lose(swapping)
    assert ("cleaned up" in unknown(swapping, swapping.second if back else swapping.first)["t"]) is cleaned


@pytest.mark.parametrize("back", [False, True], ids=["upgrade", "rollback"])
def test_logs_that_were_cleaned_up_after_a_good_end_are_no_question(swapping: Lake, back: bool) -> None:
    swapping.upgrade(swapping.second)
    path = swapping.path("t")
    if back:
        commands.rollback(swapping.env, allow_lossy=True)
    for name in ("t", "r"):
        clean(replace(swapping, env=elsewhere(swapping.env)).path(name))
    lose(swapping)
    rebuild(elsewhere(swapping.env), swapping.first if back else swapping.second)
    assert rows_of(swapping) == SWAPPED_ROWS["1.0.0" if back else "1.1.0"]
    assert renamed(path) is not back


def test_an_attempt_that_began_after_what_is_left_of_a_log_says_nothing_of_it(swapping: Lake) -> None:
    own = swapping.path("r")
    clean(own)
    commands.expand(swapping.env, promoted_to(swapping))
    lose(swapping)
    rebuild(elsewhere(swapping.env), swapping.first, [("r", str(own))])
    assert rows_of(swapping) == SWAPPED_ROWS["1.0.0"]


def promoted_to(lake: Lake) -> Generation:
    generation = commands.preflight(lake.env, lake.second, jobs=no_spark).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    return generation


def test_a_cleaned_up_log_without_an_audit_log_is_asked_about(lake: Lake) -> None:
    clean(lake.path("flights"))
    lose(lake)
    assert lake.env.location.local_path is not None
    (lake.env.location.local_path / "_schemamig" / "history").rename(lake.env.location.local_path / "gone")
    assert "cleaned up" in unknown(lake, lake.first)["flights"]


@pytest.mark.parametrize(
    ("action", "collection", "is_shown"), [("revert", "t", True), ("revert", "r", False), ("unseal", "t", False)], ids=str
)
def test_a_revert_of_drift_ends_nothing_but_itself(action: str, collection: str, is_shown: bool) -> None:
    """A rollback's commits have the same name."""
    at = pendulum.datetime(2026, 1, 1)
    ends = AuditedEnds({}, [HistoryEntry("me", "revert", "t", 2, at, 1.0, "done")])
    assert ends.show(ReleaseCommit(3, action, 2, at), CollectionName(collection)) is is_shown


# --- what binds writers ---------------------------------------------------------------------------------------------------------------


BINDING = {
    "a CHECK": ("delta.constraints.pos", "a > 0", "CHECK pos: expected nothing, found a > 0"),
    "transactions that are forgotten": (FORGETS, "interval 1 days", f"property {FORGETS}"),
}


@pytest.mark.parametrize(("key", "value", "shown"), BINDING.values(), ids=BINDING.keys())
def test_rebuild_evidence_what_only_the_table_has_and_binds_writers_is_refused(lake: Lake, key: str, value: str, shown: str) -> None:
    """An upgrade that died left it: the next one would take it for made, and for looked at."""
    foreign.set_property(lake.path("flights"), key, value)
    lose(lake)
    (found,) = refusals(lambda: rebuild(elsewhere(lake.env), lake.first))
    assert isinstance(found, e.NotAsDeclared)
    assert shown in found.message
    assert "DROP CONSTRAINT" in found.next_action


def test_a_spare_column_is_told_whatever_it_is_called(lake: Lake) -> None:
    foreign.add_column(lake.path("flights"), "CHECK in")
    lose(lake)
    assert any("CHECK in" in note for note in rebuild(elsewhere(lake.env), lake.first).notes)


@pytest.mark.parametrize("way", ["up", "back"])
def test_the_folder_of_another_release_is_asked_about(tmp_path: Path, way: str) -> None:
    """Names that changed places look the same at both; the release that the audit log shows last is the one."""
    table = "CREATE TABLE t (id BIGINT, a INT, b INT);"
    lake = deployed(tmp_path, *releases(tmp_path, (table, ""), (table, 'evolution("t", rename={"a": "b", "b": "a"})')))
    lake.upgrade(lake.second)
    if way == "back":
        commands.rollback(lake.env)
    right, wrong = (lake.second, lake.first) if way == "up" else (lake.first, lake.second)
    at = lake.version
    lose(lake)
    (reason,) = unknown(lake, wrong).values()
    assert f"the environment came to {at} last" in reason
    assert str(rebuild(elsewhere(lake.env), right).version) == at


def test_the_folder_of_another_release_is_asked_about_after_a_rebuild_too(tmp_path: Path) -> None:
    table = "CREATE TABLE t (id BIGINT, a INT, b INT);"
    lake = deployed(tmp_path, *releases(tmp_path, (table, ""), (table, 'evolution("t", rename={"a": "b", "b": "a"})')))
    lake.upgrade(lake.second)
    for _ in range(2):
        lose(lake)
        (reason,) = unknown(lake, lake.first).values()
        assert "the environment came to 1.1.0 last" in reason
        assert str(rebuild(elsewhere(lake.env), lake.second).version) == "1.1.0"


EXCHANGED = ["t RENAME COLUMN a TO z", "t RENAME COLUMN b TO a", "t RENAME COLUMN z TO b"]
ALTERED: dict[str, list[str]] = {
    "exchanged": EXCHANGED,
    "exchanged, then a column": [*EXCHANGED, "t ADD COLUMN w INT"],
    "exchanged, then another table": [*EXCHANGED, "k ADD COLUMN w INT"],
    "the table renamed before": ["t RENAME TO u", *(change.replace("t ", "u ", 1) for change in EXCHANGED), "u RENAME TO t"],
}


@pytest.mark.some(3)
@pytest.mark.parametrize("is_released", [False, True], ids=["", "a release there and back"])
@pytest.mark.parametrize("name", ALTERED)
def test_names_that_an_alter_exchanged_are_asked_about(tmp_path: Path, name: str, is_released: bool) -> None:
    table, more = "CREATE TABLE t (id BIGINT, a INT, b INT);", "CREATE TABLE t (id BIGINT, a INT, b INT, w INT);"
    other, others = "CREATE TABLE k (id BIGINT);", "CREATE TABLE k (id BIGINT, w INT);"
    new = (more if "a column" in name else table) + (others if "another table" in name else other)
    steps = 'evolution("t", rename={"a": "b", "b": "a"})' + (', evolution("k")' if "another table" in name else "")
    lake = deployed(tmp_path, *releases(tmp_path, (f"{table}{other}", ""), (new, steps)))
    append(lake.path("t"), [{"id": 1, "a": 10, "b": 20}])
    for change in ALTERED[name]:
        commands.alter(lake.env, f"ALTER TABLE {change}", jobs=no_spark)
    if is_released:
        lake.upgrade(lake.second)
        commands.rollback(lake.env)
    lose(lake)
    assert "`alter` or `accept` has renamed columns" in unknown(lake, lake.first)["t"]


def test_names_that_an_accept_took_over_are_asked_about(tmp_path: Path) -> None:
    """1.0.0 has b, which was dropped; a is called b since, and what is called a came later: all names of 1.0.0 are there."""
    table = "CREATE TABLE t (id BIGINT, a INT, b INT); CREATE TABLE k (id BIGINT);"
    lake = deployed(tmp_path, *releases(tmp_path, (table, ""), (table, 'evolution("t", rename={"a": "b", "b": "a"})')))
    commands.alter(lake.env, "ALTER TABLE t DROP COLUMN b", jobs=no_spark)
    commands.contract(lake.env, at_once=True)
    foreign.rename_column(lake.path("t"), "a", "b")
    foreign.add_column(lake.path("k"), "w", "integer")
    commands.accept(lake.env, shutil.copytree(lake.first, tmp_path / "accepted"))
    commands.alter(lake.env, "ALTER TABLE t ADD COLUMN a INT", jobs=no_spark)
    lose(lake)
    assert [name for name, reason in unknown(lake, lake.first).items() if "`alter` or `accept`" in reason] == ["t"]


def test_names_that_an_alter_exchanged_are_no_question_once_a_release_has_them_or_it_was_rolled_back(tmp_path: Path) -> None:
    table = "CREATE TABLE t (id BIGINT, a INT, b INT);"
    lake = deployed(tmp_path, *releases(tmp_path, (table, ""), (table, 'evolution("t", rename={"a": "b", "b": "a"})')))
    append(lake.path("t"), [{"id": 1, "a": 10, "b": 20}])
    commands.alter(lake.env, "ALTER TABLE t RENAME COLUMN a TO z", hold=timedelta(days=1), jobs=no_spark)
    commands.rollback(lake.env)
    lose(lake)
    rebuild(elsewhere(lake.env), lake.first)
    for change in EXCHANGED:
        commands.alter(elsewhere(lake.env), f"ALTER TABLE {change}", jobs=no_spark)
    commands.upgrade(elsewhere(lake.env), lake.second, jobs=no_spark)
    lose(lake)
    rebuild(elsewhere(lake.env), lake.second)
    assert elsewhere(lake.env).reader("t").arrow().to_pylist() == [{"id": 1, "a": 20, "b": 10}]


# --- names that nobody declared -------------------------------------------------------------------------------------------------------


WRONG: dict[str, tuple[list[tuple[str, str]], list[str], str]] = {
    "as it is": ([], ["typo"], "unknown_collection"),
    "no name": ([], [""], "invalid_name"),
    "table": ([("typo", "flights")], [], "unknown_collection"),
}


@pytest.mark.parametrize(("tables", "as_it_is", "code"), WRONG.values(), ids=WRONG.keys())
def test_a_name_that_the_release_does_not_declare_is_refused(
    lake: Lake, tmp_path: Path, tables: list[tuple[str, str]], as_it_is: list[str], code: str
) -> None:
    own = [(name, str(lake.path(path))) for name, path in tables]
    lose(lake)
    before = tree(tmp_path)
    (found,) = refusals(lambda: rebuild(Environment.open(lake.env.location.uri), lake.first, own, as_it_is))
    assert found.code == code
    assert tree(tmp_path) == before
