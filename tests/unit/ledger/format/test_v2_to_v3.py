"""The step from format 2 to 3: intents of dead processes, and a place for online changes that is empty yet."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from airflow_provider_schemamig.core.jsonable import to_json
from airflow_provider_schemamig.core.ledger.format import objects_v2 as v2
from airflow_provider_schemamig.core.ledger.format import objects_v3 as v3
from airflow_provider_schemamig.core.ledger.format import v2_to_v3
from airflow_provider_schemamig.core.ledger.format.actions import Snapshot, Stored, Update
from tests.unit.ledger.samples import element

TIME = "2026-03-01T12:30:15+00:00"
NESTED = v2.Struct((v2.Field("m", v2.Map(v2.Primitive("string"), v2.Array(v2.Primitive("int"), False), False)),))
BEFORE = v2.Declaration(
    "flights",
    (v2.Field("id", v2.Primitive("bigint"), False, "1", "é"), v2.Field("deep", NESTED)),
    ("id",),
    ("deep",),
    (v2.Check("c", "id > 0"),),
    v2.Key(("id",), "k"),
    (v2.Key(("id",)),),
    (v2.ForeignKey(("id",), "planes", ("x",), "f"),),
    (("a", "b"),),
    "all",
)
AFTER = replace(BEFORE, fields=BEFORE.fields[:1])
CONTRACT = v2.Intent("flights", "s1", 2, 4, v2.IntentKind.CONTRACT, 7, BEFORE, AFTER, (("a.b", "c"),), 9)
SEAL = v2.Intent("planes", "s2", 2, 4, v2.IntentKind.SEAL, 3, None, None, deadline=TIME)
LEDGER = Snapshot(
    [
        Stored(v2.EnvironmentConfig("e", 2, TIME), 0),
        Stored(v2.Object("flights", "s1", 1, "f"), 4),
        Stored(CONTRACT, 5),
        Stored(SEAL, 6),
    ]
)


def after(*more: Any, **changes: Any) -> Snapshot:
    """Format 3's intents as the step made them, each with ``changes``, and ``more`` rows."""
    made = [replace(action.new, **changes) for action in v2_to_v3.upgrade(LEDGER) if isinstance(action, Update)]
    return Snapshot([Stored(row, 8) for row in (*made, *more)])


def test_an_intent_stays_what_it_was_and_has_reached_nothing() -> None:
    actions = v2_to_v3.upgrade(LEDGER)
    assert [to_json(action.new) for action in actions if isinstance(action, Update)] == [
        {**to_json(old), "reached": None} for old in (CONTRACT, SEAL)
    ]
    assert len(actions) == 2
    assert v2_to_v3.verify(LEDGER, after()) is None


@pytest.mark.parametrize("kind", v2.IntentKind)
def test_every_kind_of_intent_has_the_same_name(kind: v2.IntentKind) -> None:
    (action,) = v2_to_v3.upgrade(Snapshot([Stored(replace(SEAL, kind=kind), 6)]))
    assert isinstance(action, Update)
    assert action.new.key == action.old.key


def test_a_ledger_without_intents_changes_nothing_but_its_number() -> None:
    empty = Snapshot(LEDGER.rows[:2])
    assert v2_to_v3.upgrade(empty) == []
    assert v2_to_v3.verify(empty, Snapshot([])) is None


def _reached() -> Snapshot:
    return after(reached=v3.Declaration("flights", ()))


def _lost() -> Snapshot:
    return Snapshot(after().rows[1:])


def _with_element() -> Snapshot:
    row = element()
    return after(v3.Element(**{f.name: getattr(row, f.name) for f in fields(v3.Element)}))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (_reached, "is not what it was"),
        (_lost, "is not what it was"),
        (lambda: after(base_version=0), "is not what it was"),
        (_with_element, "there are elements"),
    ],
    ids=["reached", "lost", "changed", "element"],
)
def test_the_step_finds_its_own_defects(found: Any, words: str) -> None:
    assert words in (v2_to_v3.verify(LEDGER, found()) or "")
