"""The step from format 1 to 2: which release declared a schema, from what the ledger still knows."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from airflow_provider_schemamig.core.ledger.format import objects_v1 as v1
from airflow_provider_schemamig.core.ledger.format import objects_v2 as v2
from airflow_provider_schemamig.core.ledger.format import v1_to_v2
from airflow_provider_schemamig.core.ledger.format.actions import Snapshot, Stored, Update

TIME = "2026-03-01T12:30:15+00:00"
NESTED = v1.Struct((v1.Field("m", v1.Map(v1.Primitive("string"), v1.Array(v1.Primitive("int"), False))),))
DECLARED = v1.Declaration(
    "flights",
    (v1.Field("id", v1.Primitive("bigint"), False, "1", "é"), v1.Field("deep", NESTED)),
    ("id",),
    (),
    (v1.Check("c", "id > 0"),),
    v1.Key(("id",), "k"),
    (v1.Key(("id",)),),
    (v1.ForeignKey(("id",), "planes", ("x",)),),
    (("a", "b"),),
    "all",
)
COMMITTED, ROLLED_BACK = v1.DeploymentState.COMMITTED, v1.DeploymentState.ROLLED_BACK


def deployed(generation: int, source: str | None, target: str, state: v1.DeploymentState = COMMITTED) -> v1.Deployment:
    return v1.Deployment(generation, "c", source, target, "d", state, TIME, 0)


def schema(number: int, shard: str = "s1", **known: Any) -> v1.SchemaEntry:
    return v1.SchemaEntry("flights", number, shard, DECLARED, DECLARED, number, **known)


def ledger(*rows: tuple[Any, int], number: int = 1, shard: str = "s1", at: int = 4) -> Snapshot:
    """Flights has schema ``number`` of ``shard`` since ledger version ``at``; the environment is at 1.3.0."""
    own = [
        (v1.EnvironmentConfig("e", 1, TIME), 0),
        (v1.EnvironmentRelease("lake", "1.3.0", "f"), 30),
        (v1.Object("flights", shard, number, "f"), at),
        (v1.Shard("s1", "flights", "flights/s1", 1, v1.ShardState.LIVE), 4),
        (v1.Shard("s2", "flights", "flights/s2", 2, v1.ShardState.LIVE), 12),
    ]
    return Snapshot([Stored(row, version) for row, version in (*own, *rows)])


ONE, TWO, THREE = deployed(1, None, "1.0.0"), deployed(2, "1.0.0", "1.1.0"), deployed(3, "1.1.0", "1.2.0")
BACK = deployed(3, "1.1.0", "1.2.0", ROLLED_BACK)
SINCE = (v1.LedgerSince(20), 20)

#: What the ledger says; the release and the names of each schema afterwards.
CASES: dict[str, tuple[Snapshot, dict[int, tuple[Any, Any]]]] = {
    "declared by the commit of that version": (ledger((ONE, 4), (TWO, 12), (schema(1), 4)), {1: ("1.0.0", None)}),
    "the schema before it, by its own commit": (
        ledger((ONE, 4), (TWO, 12), (schema(1), 4), (schema(2), 12), number=2, at=12),
        {1: ("1.0.0", None), 2: ("1.1.0", None)},
    ),
    "contracted since, which wrote the schema anew": (
        ledger((ONE, 4), (TWO, 12), (schema(1), 4), (schema(2), 17), number=2, at=12),
        {1: ("1.0.0", None), 2: ("1.1.0", None)},
    ),
    "contracted since, and not the newest any more": (
        ledger((ONE, 4), (TWO, 12), (THREE, 20), (schema(1), 4), (schema(2), 17), (schema(3), 20), number=3, at=20),
        {1: ("1.0.0", None), 2: (None, None), 3: ("1.2.0", None)},
    ),
    "a replaced table may come back by a rollback": (
        ledger((ONE, 4), (TWO, 12), (schema(1), 9), (schema(2, "s2"), 12), number=2, shard="s2", at=12),
        {1: ("1.0.0", None), 2: ("1.1.0", None)},
    ),
    "brought back by a rollback": (
        ledger((ONE, 4), (TWO, 9), (BACK, 15), (schema(1), 4), (schema(3), 15), number=3, at=15),
        {1: ("1.0.0", None), 3: ("1.1.0", None)},
    ),
    "consolidated, made for a release and never changed": (
        ledger((ONE, 20), (TWO, 20), (schema(1), 20), SINCE, at=20),
        {1: ("1.0.0", None)},
    ),
    "consolidated, and another shard of it was made before": (
        ledger((ONE, 20), (TWO, 20), (schema(1), 20), (schema(2, "s2"), 20), SINCE, number=2, shard="s2", at=20),
        {1: ("1.0.0", None), 2: ("1.1.0", None)},
    ),
    "consolidated, and changed": (
        ledger((ONE, 20), (THREE, 20), (schema(1), 20), (schema(2), 20), SINCE, number=2, at=20),
        {1: (None, None), 2: ("1.3.0", None)},
    ),
    "consolidated before the newest commit": (
        ledger((ONE, 20), (THREE, 25), (schema(1), 20), (schema(2), 25), SINCE, number=2, at=25),
        {1: (None, None), 2: ("1.2.0", None)},
    ),
    "no deployment is left": (ledger((schema(1), 4)), {1: ("1.3.0", None)}),
    "made by a deployment that was rolled back": (ledger((replace(ONE, state=ROLLED_BACK), 9), (schema(1), 4)), {1: ("1.3.0", None)}),
    "written by later software": (ledger((ONE, 4), (schema(1, release="1.0.0"), 4)), {1: ("1.0.0", ())}),
    "written by later software, mapped": (
        ledger((ONE, 4), (schema(1, release="1.0.0", stored_names=(("id", "col-1"),)), 4)),
        {1: ("1.0.0", (("id", "col-1"),))},
    ),
    "ahead of its release": (
        ledger(
            (ONE, 4),
            (schema(1, release="1.0.0"), 4),
            (schema(2), 6),
            (v1.Ahead("flights", 2, 1, DECLARED, DECLARED, "f"), 5),
            number=2,
            at=6,
        ),
        {1: ("1.0.0", ()), 2: (None, None)},
    ),
    "nothing at all": (Snapshot([Stored(v1.EnvironmentConfig("e", 1, TIME), 0)]), {}),
}


@pytest.mark.parametrize(("snapshot", "expected"), CASES.values(), ids=CASES.keys())
def test_which_release_declared_a_schema(snapshot: Snapshot, expected: dict[int, tuple[Any, Any]]) -> None:
    actions = v1_to_v2.upgrade(snapshot)
    assert all(isinstance(action, Update) for action in actions)
    entries = {action.new.schema_id: action.new for action in actions if isinstance(action, Update)}
    assert {number: (entry.release, entry.stored_names) for number, entry in entries.items()} == expected
    assert v1_to_v2.verify(snapshot, _after(snapshot)) is None


def test_the_rest_of_a_schema_stays_what_it_was() -> None:
    (action,) = v1_to_v2.upgrade(ledger((ONE, 4), (schema(1), 4)))
    assert isinstance(action, Update)
    from airflow_provider_schemamig.core.jsonable import to_json

    assert to_json(action.new) == {**to_json(action.old), "release": "1.0.0", "stored_names": None}


def _after(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the step's answers; what it leaves alone is of equal shape in both formats."""
    new = {action.old.key: action.new for action in v1_to_v2.upgrade(snapshot) if isinstance(action, Update)}
    names = {kind.__name__: kind for kind in v2.TYPES}
    rows = []
    for item in snapshot.rows:
        row = item.row
        if isinstance(row, v1.SchemaEntry):
            rows.append(Stored(new[row.key], item.version))
        elif isinstance(row, v1.Object | v1.Ahead):
            kind = names[type(row).__name__]
            rows.append(Stored(kind(**{f.name: getattr(row, f.name) for f in fields(kind)}), item.version))
    return Snapshot(rows)


def _forget(entry: Any) -> Any:
    return replace(entry, release=None) if isinstance(entry, v2.SchemaEntry) else entry


def _widen(entry: Any) -> Any:
    return replace(entry, since_table_version=9) if isinstance(entry, v2.SchemaEntry) else entry


@pytest.mark.parametrize(("spoil", "words"), [(_forget, "has no release"), (_widen, "is not what it was"), (None, "is not what it was")])
def test_the_step_finds_its_own_defects(spoil: Any, words: str) -> None:
    snapshot = ledger((ONE, 4), (schema(1), 4))
    rows = [Stored(item.row if spoil is None else spoil(item.row), item.version) for item in _after(snapshot).rows]
    after = Snapshot([item for item in rows if spoil is not None or not isinstance(item.row, v2.SchemaEntry)])
    assert words in (v1_to_v2.verify(snapshot, after) or "")
