"""A ledger that was lost without a backup is made anew from the tables and the release folder; what could not be known is said."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence, put_fence
from airflow_provider_schemamig.core.delta.names import physical_name
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import backup
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.admin.verify_tables import verify_tables
from airflow_provider_schemamig.core.ledger.numbers import MARGIN
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation
from airflow_provider_schemamig.core.upgrade.rebuild import errors as e
from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import UNKNOWN, rebuild
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.bytes import tree
from tests.support.lake import Crash, Lake, append, no_spark
from tests.support.product import Product
from tests.support.tables import foreign
from tests.support.upgrades import brought_back, deployed, refused, releases
from tests.unit.ledger.samples import elsewhere

ONE = "CREATE TABLE t (id BIGINT, a INT, gone STRING); CREATE TABLE u (id BIGINT); CREATE TABLE r (id BIGINT);"
TWO = "CREATE TABLE t (id BIGINT, b INT); CREATE TABLE u (id BIGINT); CREATE TABLE r (name STRING);"
THREE = TWO.replace("b INT", "b INT, c INT")
STEPS = 'evolution("t", rename={"a": "b"}, drop=["gone"]), replacement("r")'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.1.0 in its hold: ``t`` hides a column, ``r`` has a retired table beside its own."""
    first, second, _ = releases(tmp_path, (ONE, ""), (TWO, STEPS), (THREE, 'evolution("t")'))
    found = deployed(tmp_path, first, second)
    append(found.path("t"), [{"id": 1, "a": 7, "gone": "x"}])
    found.upgrade(found.second)
    return found


def lose(lake: Lake) -> None:
    assert lake.env.location.local_path is not None
    shutil.rmtree(lake.env.location.local_path / "_schemamig" / "ledger")


def refusals(run: Callable[[], object]) -> list[SchemamigError]:
    with pytest.raises(SchemamigError) as caught:
        run()
    return list(caught.value.refusals) if isinstance(caught.value, Refused) else [caught.value]


def test_collections_are_what_they_were(lake: Lake, tmp_path: Path) -> None:
    before = lake.state
    rows = lake.env.reader("t").arrow().to_pylist()
    lose(lake)
    tables = {path: data for path, data in tree(tmp_path).items() if "_schemamig" not in path and "." in path}
    done = rebuild(elsewhere(lake.env), lake.second)
    now = replace(lake, env=elsewhere(lake.env)).state
    assert {path: data for path, data in tree(tmp_path).items() if path in tables} == tables, "no table got a byte"
    assert {name: item.shard for name, item in now.objects.items()} == {name: item.shard for name, item in before.objects.items()}
    assert before.release is not None
    assert before.release.is_same(now.release)
    for name in now.objects:
        old, new = before.entry(name), now.entry(name)
        assert (new.declared, new.physical, new.stored_names) == (old.declared, old.physical, old.stored_names)
    again = elsewhere(lake.env)
    assert again.reader("t").arrow().to_pylist() == rows == [{"id": 1, "b": 7}]
    assert verify(LedgerReader(again)) == ()
    assert commands.status(again).drifted == ()
    assert done.generation > MARGIN
    assert done.epoch >= MARGIN
    assert UNKNOWN in done.notes
    assert any("gone" in note and note.startswith("t:") for note in done.notes)
    assert any(note.startswith("r/") for note in done.notes), "the retired table is told"


def test_rebuild_goes_on_from_there(lake: Lake, tmp_path: Path) -> None:
    lose(lake)
    done = rebuild(elsewhere(lake.env), lake.second)
    again = replace(lake, env=elsewhere(lake.env))
    outcome = again.upgrade(tmp_path / "product" / "1.2.0", hold=timedelta(0))
    assert outcome.generation == done.generation + 1
    assert outcome.epoch == done.epoch + 1
    assert again.env.reader("t").arrow().to_pylist() == [{"id": 1, "b": 7, "c": None}]
    assert verify(LedgerReader(again.env)) == ()


def test_the_environment_keeps_its_id_where_a_table_was_fenced(lake: Lake) -> None:
    env_id, shard = lake.state.config.env_id, lake.state.shard_of(CollectionName("t"))
    put_fence(lake.env.table_store(shard.uri), Fence(env_id, shard.shard, Epoch(30)), Tag(Generation(9), Epoch(30), "fence"))
    lose(lake)
    done = rebuild(elsewhere(lake.env), lake.second)
    assert (done.env_id, done.epoch) == (env_id, 30 + MARGIN)
    assert not any("another id" in note for note in done.notes)


def test_without_a_fence_it_has_another_id_and_says_so(lake: Lake) -> None:
    env_id = lake.state.config.env_id
    lose(lake)
    done = rebuild(elsewhere(lake.env), lake.second)
    assert done.env_id != env_id
    assert any("another id" in note for note in done.notes)


def test_tables_of_two_environments_are_refused(lake: Lake) -> None:
    for number, name in enumerate(("t", "u")):
        shard = lake.state.shard_of(CollectionName(name))
        put_fence(lake.env.table_store(shard.uri), Fence(f"e-{number}", shard.shard, Epoch(3)), Tag(Generation(9), Epoch(3), "fence"))
    lose(lake)
    (found,) = refusals(lambda: rebuild(elsewhere(lake.env), lake.second))
    assert isinstance(found, e.SeveralEnvironments)
    assert found.env_ids == ("e-0", "e-1")


def test_a_ledger_that_is_there_is_not_replaced(lake: Lake, tmp_path: Path) -> None:
    before = tree(tmp_path)
    (found,) = refusals(lambda: rebuild(elsewhere(lake.env), lake.second))
    assert isinstance(found, e.LedgerThere)
    assert tree(tmp_path) == before


def test_another_release_than_it_was_at_is_refused_with_every_reason(lake: Lake, tmp_path: Path) -> None:
    lose(lake)
    before = tree(tmp_path)
    other = Product(tmp_path / "x").release("1.1.0", TWO.replace("b INT", "b STRING") + "CREATE TABLE n (id BIGINT);")
    before |= {path: data for path, data in tree(tmp_path).items() if path.startswith("x")}
    found = {error.collection: type(error) for error in refusals(lambda: rebuild(elsewhere(lake.env), other))}
    assert found == {"t": e.NotAsDeclared, "n": e.CollectionWithoutTable}
    assert {path: data[0] for path, data in tree(tmp_path).items()} == {path: data[0] for path, data in before.items()}


def test_two_tables_that_may_be_it_are_asked_about(lake: Lake) -> None:
    own = lake.path("u")
    twin = own.parent / "g9-0123456789ab"
    shutil.copytree(own, twin)
    lose(lake)
    (found,) = refusals(lambda: rebuild(elsewhere(lake.env), lake.second))
    assert isinstance(found, e.SeveralTables)
    assert (found.collection, len(found.uris)) == ("u", 2)
    done = rebuild(elsewhere(lake.env), lake.second, [("u", str(own))])
    assert {str(shard.collection): shard.uri for shard in done.tables}["u"] == f"u/{own.name}"


def test_a_table_from_elsewhere_is_named_and_counts_as_adopted(lake: Lake, tmp_path: Path) -> None:
    shutil.move(lake.path("u"), tmp_path / "elsewhere")
    lose(lake)
    done = rebuild(elsewhere(lake.env), lake.second, [("u", str(tmp_path / "elsewhere"))])
    (shard,) = (shard for shard in done.tables if shard.collection == CollectionName("u"))
    assert (shard.adopted, shard.uri) == (True, (tmp_path / "elsewhere").as_uri())
    assert verify(LedgerReader(elsewhere(lake.env))) == ()


@pytest.mark.parametrize("moment", range(4))
def test_killed_anywhere_it_is_run_again(lake: Lake, moment: int) -> None:
    """Until it is there as a whole nobody else makes an environment of it, with numbers that were given out before."""
    lose(lake)
    with pytest.raises(Crash):
        rebuild(lake.crashing_at(moment), lake.second)
    again = elsewhere(lake.env)
    if not LedgerReader(again).exists():
        for create in (False, True):
            with refused("no_environment"):
                commands.upgrade(again, lake.second, create=create, jobs=no_spark)
        rebuild(again, lake.second)
    else:
        with refused("ledger_there"):
            rebuild(again, lake.second)
    assert replace(lake, env=again).state.given_out is not None
    assert verify(LedgerReader(again)) == ()
    assert commands.status(again).drifted == ()


# --- a leader died on the way ---------------------------------------------------------------------------------------------------------

SWAP = "CREATE TABLE t (id BIGINT, p INT, q INT); CREATE TABLE r (id BIGINT);"
SWAPPED = "CREATE TABLE t (id BIGINT, p INT, q INT); CREATE TABLE r (id BIGINT, n INT);"
SWAPS = 'evolution("t", rename={"p": "q", "q": "p"}), replacement("r")'
#: More than an upgrade and a rollback have.
MOMENTS = 70


@pytest.fixture
def swapping(tmp_path: Path) -> Lake:
    """At 1.0.0; at 1.1.0 names of ``t`` change places, and ``r`` begins anew."""
    found = deployed(tmp_path, *releases(tmp_path, (SWAP, ""), (SWAPPED, SWAPS)))
    append(found.path("t"), [{"id": 1, "p": 111, "q": 222}])
    append(found.path("r"), [{"id": 5}])
    return found


ROWS = {
    "1.0.0": ([{"id": 1, "p": 111, "q": 222}], [{"id": 5}]),
    "1.1.0": ([{"id": 1, "p": 222, "q": 111}], []),
}


def rows_of(lake: Lake) -> tuple[list[object], list[object]]:
    env = elsewhere(lake.env)
    return env.reader("t").arrow().to_pylist(), env.reader("r").arrow().to_pylist()


@pytest.mark.some(5)
@pytest.mark.parametrize("back", [False, True], ids=["upgrade", "rollback"])
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_rebuild_is_right_or_asks_wherever_a_leader_died(swapping: Lake, moment: int, back: bool) -> None:
    if back:
        swapping.upgrade(swapping.second)
    with contextlib.suppress(Crash):
        crashing = swapping.crashing_at(moment)
        _ = commands.rollback(crashing) if back else commands.upgrade(crashing, swapping.second, jobs=no_spark)
    version = str(replace(swapping, env=elsewhere(swapping.env)).version)
    lose(swapping)
    try:
        rebuild(elsewhere(swapping.env), swapping.first if version == "1.0.0" else swapping.second)
    except SchemamigError as refusal:
        found = refusal.refusals if isinstance(refusal, Refused) else [refusal]
        assert {type(error) for error in found} <= {e.EndUnknown, e.SeveralTables}
    else:
        assert rows_of(swapping) == ROWS[version]


def test_a_sealed_table_beside_a_new_one_is_named_by_who_has_looked(swapping: Lake) -> None:
    old = swapping.path("r")
    killed_at(swapping, lambda: foreign.metadata(old)["configuration"].get("delta.appendOnly") == "true")
    lose(swapping)
    (found,) = refusals(lambda: rebuild(elsewhere(swapping.env), swapping.first))
    assert isinstance(found, e.EndUnknown)
    assert (found.collection, found.action, found.generation) == ("r", "seal", 2)
    named = [("r", str(old))]
    assert isinstance(refusals(lambda: rebuild(elsewhere(swapping.env), swapping.first, named))[0], e.EndUnknown)
    done = rebuild(elsewhere(swapping.env), swapping.first, named, ["r"])
    assert rows_of(swapping) == ROWS["1.0.0"]
    assert any("is sealed" in note for note in done.notes)
    assert {finding.code for finding in verify_tables(LedgerReader(elsewhere(swapping.env)))} == {"seal_unknown", "orphan_folder"}


def test_a_table_that_a_lost_history_sealed_is_drift_with_what_opens_it(tmp_path: Path) -> None:
    lake = deployed(tmp_path, *releases(tmp_path, (ONE, ""), (ONE.replace("r (id BIGINT)", "r (name STRING)"), 'replacement("r")')))
    backup(lake.env, str(tmp_path / "backup"))
    lake.upgrade(lake.second)
    lake, _ = brought_back(lake, tmp_path)
    with refused("drift", "r") as found:
        lake.upgrade(lake.second)
    assert "ledger rebuild" in found[0].next_action and "accept" not in found[0].next_action
    foreign.add_column(lake.path("r"), "more", "integer")
    with refused("drift", "r") as found:
        lake.upgrade(lake.second)
    assert "accept" in found[0].next_action


def test_names_that_changed_places_are_asked_about(swapping: Lake) -> None:
    path = swapping.path("t")
    killed_at(swapping, lambda: [field["name"] for field in foreign.live_schema(path)] == ["id", "p", "q"] and renamed(path))
    lose(swapping)
    found = refusals(lambda: rebuild(elsewhere(swapping.env), swapping.first))
    assert ("t", "cutover") in {(error.collection, error.action) for error in found if isinstance(error, e.EndUnknown)}


def test_without_an_audit_log_every_table_that_was_changed_is_asked_about(lake: Lake) -> None:
    assert lake.env.location.local_path is not None
    paths = [(name, str(lake.path(name))) for name in ("r", "t")]
    shutil.rmtree(lake.env.location.local_path / "_schemamig")
    found = {error.collection: type(error) for error in refusals(lambda: rebuild(elsewhere(lake.env), lake.second))}
    assert found == {"t": e.EndUnknown, "r": e.EndUnknown}
    rebuild(elsewhere(lake.env), lake.second, paths, ["r", "t"])


def test_a_clean_up_says_nothing_of_a_rollback_that_died(swapping: Lake) -> None:
    swapping.upgrade(swapping.second)
    path = swapping.path("t")

    def dies(moment: str, what: str, key: str) -> None:
        if what == "ledger" and moment == "before" and not renamed(path):
            raise Crash

    with pytest.raises(Crash):
        commands.rollback(replace(swapping.env, on_write=dies))
    commands.cleanup(elsewhere(swapping.env), Generation(2))
    lose(swapping)
    found = refusals(lambda: rebuild(elsewhere(swapping.env), swapping.second))
    assert ("t", "rollback") in {(error.collection, error.action) for error in found if isinstance(error, e.EndUnknown)}


def test_a_table_named_by_a_link_is_the_one_below_the_root(lake: Lake, tmp_path: Path) -> None:
    """Not an adopted one at another place; and no two collections get it."""
    (tmp_path / "current").symlink_to(tmp_path / "lake")
    shard = lake.state.shard_of(CollectionName("u"))
    lose(lake)
    linked = str(tmp_path / "current" / shard.uri)
    found = refusals(lambda: rebuild(elsewhere(lake.env), lake.second, [("r", linked)]))
    assert ("u", e.CollectionWithoutTable) in {(str(error.collection), type(error)) for error in found}
    done = rebuild(Environment.open(str(tmp_path / "current")), lake.second, [("u", str(tmp_path / "lake" / shard.uri))])
    assert [(item.uri, item.adopted) for item in done.tables if item.collection == "u"] == [(shard.uri, False)]
    assert not any(finding.where.startswith("u/") for finding in verify_tables(LedgerReader(elsewhere(lake.env))))


def renamed(path: Path) -> bool:
    return any(field["name"] == "q" and physical_name(field) == "p" for field in foreign.live_schema(path))


def killed_at(lake: Lake, reached: Callable[[], bool]) -> None:
    """Kill an upgrade at its first append to the ledger at which something holds of the tables."""

    def dies(moment: str, what: str, key: str) -> None:
        if what == "ledger" and moment == "before" and reached():
            raise Crash

    with pytest.raises(Crash):
        commands.upgrade(replace(lake.env, on_write=dies), lake.second, jobs=no_spark)
