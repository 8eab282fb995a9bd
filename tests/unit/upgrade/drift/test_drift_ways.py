"""Three ways on from drift: what is taken over, what is undone, what is refused, by kind of change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.check import check
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree, unwritten
from tests.support.lake import Crash, Lake, no_spark, rows
from tests.support.product import Product
from tests.support.tables import foreign
from tests.support.tables.adopting import MAPPED, Site, alter, mapped
from tests.support.upgrades import deployed, refused, releases, two_releases, whole
from tests.unit.upgrade.adopt.test_adopt import begin

FLIGHTS = CollectionName("flights")
INNER = {"type": "struct", "fields": [mapped("code", 5), mapped("city", 6)]}
FIELDS = [
    mapped("id", 1, kind="long", nullable=False),
    mapped("gate", 2),
    mapped("seats", 3, kind="integer"),
    mapped("origin", 4, kind=INNER),
]
SETTINGS = {
    "delta__columnMapping__mode": "name",
    "delta__columnMapping__maxColumnId": "6",
    "delta__constraints__few": "seats < 9",
    "owned_by": "ops",
}
PROTOCOL = {
    **MAPPED,
    "writerFeatures": ["checkConstraints", "columnMapping", "typeWidening"],
    "readerFeatures": ["columnMapping", "typeWidening"],
}


def watched(folder: Path) -> Site:
    """A site that manages one table with column mapping, a CHECK and a row."""
    site = Site(folder)
    table = site.by_hand("flights", FIELDS, PROTOCOL, **SETTINGS)
    foreign.write(table, [{"id": 1, "gate": "A1", "seats": 3, "origin": {"code": "JFK", "city": "NY"}}])
    site.adopt(flights=table)
    return site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return watched(tmp_path)


def table_of(site: Site) -> Path:
    return site.folder / "out" / "flights"


def fields(**changed: Any) -> list[dict[str, Any]]:
    """The columns with some of them another way (None: gone)."""
    found = [changed.get(item["name"], item) for item in FIELDS]
    return [item for item in found if item is not None] + [item for name, item in changed.items() if name.startswith("new")]


@dataclass(frozen=True)
class Way:
    """``accepted``: the step in the module; None: refused. ``lossy``, ``impossible``: of the revert, in rows written since, too."""

    drift: Callable[[Path], Any]
    accepted: str | None
    lossy: bool = False
    impossible: bool = False
    lossy_with_rows: bool = False
    impossible_with_rows: bool = False


def renamed_inside(path: Path) -> None:
    inner = {"type": "struct", "fields": [mapped("iata", 5, "code"), mapped("city", 6)]}
    alter(path, fields(origin=mapped("origin", 4, kind=inner)))


def inside_of_a_renamed_one(*inner: dict[str, Any]) -> Callable[[Path], None]:
    """Other fields inside of ``origin``, which is called ``place``. One more of it may be new."""

    def drift(path: Path) -> None:
        kind = {"type": "struct", "fields": list(inner)}
        alter(path, fields(origin=mapped("place", 4, "origin", kind)), delta__columnMapping__maxColumnId="7")

    return drift


def exchanged_inside(path: Path) -> None:
    """Names and types are as before."""
    inner = {"type": "struct", "fields": [mapped("code", 6, "city"), mapped("city", 5, "code")]}
    alter(path, fields(origin=mapped("origin", 4, kind=inner)))


def took_a_name(path: Path) -> None:
    """The one that had it was dropped; a new one has its own."""
    inner = {"type": "struct", "fields": [mapped("code", 6, "city"), mapped("city", 7, "col-7")]}
    alter(path, fields(origin=mapped("origin", 4, kind=inner)), delta__columnMapping__maxColumnId="7")


WAYS: dict[str, Way] = {
    "add": Way(lambda path: alter(path, fields(new=mapped("new", 7))), 'evolution("flights")', lossy_with_rows=True),
    "rename": Way(lambda path: alter(path, fields(gate=mapped("door", 2, "gate"))), 'evolution("flights", rename={"gate": "door"})'),
    "rename inside": Way(renamed_inside, 'evolution("flights", rename={"origin.code": "iata"})'),
    "rename around": Way(
        lambda path: alter(path, fields(origin=mapped("place", 4, "origin", INNER))), 'evolution("flights", rename={"origin": "place"})'
    ),
    "exchange inside": Way(exchanged_inside, None),
    "exchange inside of a renamed one": Way(inside_of_a_renamed_one(mapped("code", 6, "city"), mapped("city", 5, "code")), None),
    "give a name to a new one inside of a renamed one": Way(
        inside_of_a_renamed_one(mapped("iata", 5, "code"), mapped("city", 6), mapped("code", 7, "col-7")), None, lossy_with_rows=True
    ),
    "drop and add in place inside of a renamed one": Way(
        inside_of_a_renamed_one(mapped("city", 6), mapped("code", 7, "col-7")),
        'evolution("flights", rename={"origin": "place"})',
        lossy=True,
    ),
    "take a name": Way(took_a_name, None, lossy=True),
    "give a name to a new one": Way(
        lambda path: alter(path, fields(gate=mapped("door", 2, "gate"), new=mapped("gate", 7, "col-7"))), None, lossy_with_rows=True
    ),
    "drop": Way(lambda path: alter(path, fields(gate=None)), 'evolution("flights", drop=["gate"])', lossy=True),
    "drop a required one": Way(lambda path: alter(path, fields(id=None)), 'evolution("flights", drop=["id"])', impossible=True),
    "widen": Way(lambda path: alter(path, fields(seats=mapped("seats", 3, kind="long"))), 'evolution("flights")', impossible=True),
    "convert": Way(lambda path: alter(path, fields(seats=mapped("seats", 3, kind="date"))), None, impossible=True),
    "relax": Way(lambda path: alter(path, fields(id=mapped("id", 1, kind="long"))), 'evolution("flights")'),
    "set not null": Way(lambda path: alter(path, fields(gate=mapped("gate", 2, nullable=False))), 'evolution("flights")'),
    "add check": Way(lambda path: alter(path, delta__constraints__many="seats > 0"), 'evolution("flights")'),
    "drop check": Way(lambda path: alter(path, delta__constraints__few=None), 'evolution("flights")', impossible_with_rows=True),
    "property": Way(lambda path: alter(path, owned_by="somebody"), 'evolution("flights")'),
    "property gone": Way(lambda path: alter(path, owned_by=None), 'evolution("flights")'),
    "drop and add": Way(
        lambda path: alter(path, fields(gate=None, new=mapped("new", 7))), 'evolution("flights", drop=["gate"])', lossy=True
    ),
    "several": Way(
        lambda path: alter(path, fields(gate=mapped("door", 2, "gate"), new=mapped("new", 7)), owned_by="me"),
        'evolution("flights", rename={"gate": "door"})',
        lossy_with_rows=True,
    ),
}


def state_of(site: Site) -> tuple[str, Any]:
    found = commands.status(site.env).document
    return found["version"], found["collections"]["flights"]


#: Much like another one: only in ``make soak``.
ALIKE = ("rename around", "set not null", "property gone")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.soak if name in ALIKE else ()) for name in WAYS])
def test_drift_ways_taken_over(site: Site, name: str) -> None:
    way = WAYS[name]
    way.drift(table_of(site))
    before = tree(table_of(site))
    seen = state_of(site)[1]
    assert seen["drift"]
    with pytest.raises(SchemamigError) as caught:
        site.upgrade()
    assert caught.value.code == "drift"
    if way.accepted is None:
        assert seen["ways_on"][0]["why_not"]
        with unwritten(site.env), pytest.raises(SchemamigError) as caught:
            accept(site.env, site.release)
        assert caught.value.code == "cannot_accept"
        assert ("schemamig revert" in caught.value.next_action) == (not seen["ways_on"][1]["why_not"]), "no advice that goes round"
        return
    done = accept(site.env, site.release)
    assert seen["ways_on"][0]["does"] == [change["text"] for change in texts(done)]
    assert tree(table_of(site)) == before
    assert way.accepted in (site.release / "migrations" / "v1_1_0.py").read_text()
    assert check(site.release) == ()
    site.upgrade()
    site.check("1.1.0")
    assert tree(table_of(site)) == before  # the upgrade found the change made
    if name in LONG:
        commands.rollback(site.env)
        site.check("1.0.0")
        before = marked(before, tree(table_of(site)))
        site.upgrade(hold=timedelta(0))
        site.check("1.1.0")
        assert tree(table_of(site)) == before
        assert commands.plan(site.env, site.release).plan.is_empty


def marked(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Check that a rollback said in the log from where on rows are of the release before, and did nothing else; return the files."""
    (commit,) = after.keys() - before.keys()
    actions = [json.loads(line) for line in after[commit][0].decode().splitlines()]
    assert {name for action in actions for name in action} == {"commitInfo", "txn"}
    assert {name: found for name, found in after.items() if name not in (commit, "_delta_log")} == {
        name: found for name, found in before.items() if name != "_delta_log"
    }
    return after


def texts(done: Any) -> list[dict[str, Any]]:
    from airflow_provider_schemamig.core.schema.describe import change_json

    return [change_json(change) for _, changes in done.changes for change in changes]


#: Those that go the whole way; for the others what is special about them is over before.
LONG = ("several", "drop")


def _undone_cases() -> Iterator[Any]:
    """In ``make test``, without rows only where rows make the difference; all in ``make soak``."""
    for name, way in WAYS.items():
        differs = way.lossy_with_rows or way.impossible_with_rows or name in LONG
        yield pytest.param(name, False, id=f"{name} without rows", marks=() if differs else pytest.mark.soak)
        yield pytest.param(name, True, id=f"{name} with rows", marks=pytest.mark.soak if name in ALIKE else ())


@pytest.mark.parametrize("name, with_rows", list(_undone_cases()))
def test_drift_ways_undone(site: Site, name: str, with_rows: bool) -> None:
    way = WAYS[name]
    way.drift(table_of(site))
    if with_rows:
        known = {item["name"] for item in foreign.live_schema(table_of(site))}
        row = {"id": 2, "gate": "B", "door": "B", "new": "x", "seats": 1, "origin": None, "place": None}
        if name != "convert":
            foreign.write(table_of(site), [{key: value for key, value in row.items() if key in known}])
    lossy, impossible = way.lossy or (with_rows and way.lossy_with_rows), way.impossible or (with_rows and way.impossible_with_rows)
    takes, shown, _ = state_of(site)[1]["ways_on"]
    assert (bool(shown["loses"]), bool(shown["why_not"])) == (lossy and not impossible, impossible)
    if impossible or lossy:
        before = tree(table_of(site))
        with pytest.raises(SchemamigError) as caught:
            revert(site.env, "flights")
        assert caught.value.code == ("cannot_revert" if impossible else "lossy_revert")
        assert ("schemamig accept" in caught.value.next_action) == (not takes["why_not"]), "no advice that goes round"
        assert tree(table_of(site)) == before
    if impossible:
        return
    revert(site.env, "flights", allow_lossy=lossy)
    site.check("1.0.0")
    if not way.lossy:  # what is lost else is what came since
        (first,) = (row for row in rows(table_of(site)) if row["id"] == 1)
        assert first["origin"] == {"code": "JFK", "city": "NY"} and first["gate"] == "A1"
    assert commands.plan(site.env, site.release).plan.is_empty
    columns = [item["name"] for item in foreign.live_schema(table_of(site))]
    assert columns == ["id", "gate", "seats", "origin"]
    if name not in LONG:
        return
    begin(site, "gate STRING", "gate STRING,\n    more STRING", 'evolution("flights")')
    site.upgrade()
    site.check("1.1.0")


def test_what_a_rollback_left_makes_way_by_the_advice_that_is_given(tmp_path: Path) -> None:
    """A hidden column that files carry, where the next release wants another one of its name."""
    old = "CREATE TABLE t (id BIGINT, a STRING);"
    lake = two_releases(tmp_path, old, "CREATE TABLE t (id BIGINT, b STRING, y INT);", 'evolution("t", rename={"a": "b"})')
    lake.upgrade(lake.second)
    foreign.write(lake.path("t"), [{"id": 1, "b": "one", "y": 1}])
    commands.rollback(lake.env, jobs=no_spark)
    other = Product(tmp_path / "other")
    first, wanted = other.release("1.0.0", old), other.release("1.2.0", "CREATE TABLE t (id BIGINT, a STRING, y STRING);", 'evolution("t")')
    with refused("hidden_conflict", "t") as found:
        lake.upgrade(wanted)
    assert "ALTER TABLE ... DROP COLUMN" in found[0].next_action and "schemamig accept" in found[0].next_action
    foreign.drop_column(lake.path("t"), "y")
    accept(lake.env, first, ["t"])
    lake.upgrade(wanted)
    whole(lake)
    assert rows(lake.path("t")) == [{"id": 1, "a": "one", "y": None}]


def died_and_again(lake: Lake) -> None:
    revert_that_dies(lake)
    revert(lake.env, "t", allow_lossy=True)


def died_and_upgraded(lake: Lake) -> None:
    """Whoever leads next settles it, and changes nothing of the table."""
    revert_that_dies(lake)
    lake.upgrade(lake.second)


def revert_that_dies(lake: Lake) -> None:
    """... when the table has its columns again, and the ledger does not know."""

    def hook(moment: str, what: str, key: str) -> None:
        if any(item["name"] == "g" for item in foreign.live_schema(lake.path("t"))):
            raise Crash

    with pytest.raises(Crash):
        revert(replace(lake.env, on_write=hook), "t", allow_lossy=True)


@pytest.mark.parametrize("way", [lambda lake: revert(lake.env, "t", allow_lossy=True), died_and_again, died_and_upgraded])
def test_drift_ways_what_came_again_is_known_to_every_release(tmp_path: Path, way: Callable[[Lake], object]) -> None:
    """It has another name in the data files: handles read it, and the end of the hold finds what it is to drop."""
    old = "CREATE TABLE t (id BIGINT, a STRING, g STRING, h STRING);"
    steps = 'evolution("t", rename={"a": "b", "g": "gg"}, drop=["h"])'
    new = "CREATE TABLE t (id BIGINT, b STRING, gg STRING, g STRING);"
    first, second, third = releases(tmp_path, (old, ""), (new, steps), (f"{new} CREATE TABLE u (id BIGINT);", ""))
    lake = deployed(tmp_path, first, third)
    lake.upgrade(second)
    foreign.write(lake.path("t"), [{"id": 1, "b": "one", "gg": "old", "g": "new", "h": None}])
    for name in ("gg", "g", "h"):
        foreign.drop_column(lake.path("t"), name)
    way(lake)
    foreign.write(lake.path("t"), [{"id": 2, "b": "two", "gg": "x", "g": "y", "h": "z"}])
    whole(lake)
    now, before = {"id": 2, "b": "two", "gg": "x", "g": "y"}, {"id": 2, "a": "two", "g": "x", "h": "z"}
    for release, row in ((None, now), ("1.1.0", now), ("1.0.0", before)):
        assert row in lake.env.reader("t", release).arrow().to_pylist()
    commands.contract(lake.env, at_once=True)
    whole(lake)
    assert "h" not in [item["name"] for item in foreign.live_schema(lake.path("t"))]
