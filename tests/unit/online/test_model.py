"""The table of ``core.schema.element_states`` is proved by search: no reachable state has an anomaly, and no part of the table is idle."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from airflow_provider_schemamig.core.schema.element_states import DUTIES, PATHS, ROW_STATES, ElementState
from tests.unit.online.model import BREAKS, CLASSES, Anomaly, Found, Kind, Rules, explore, rules_of, start
from tests.unit.online.mutants import ABSENT, CREATED, DELETE, MUTANTS, PUBLIC, WRITE, Mutant

LAGS = (0, 1, None)
EVERY = pytest.mark.parametrize("lag", LAGS, ids=["lag-0", "lag-1", "delta"])
KINDS = pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())


@cache
def explored(kind: Kind, lag: int | None) -> Found:
    return explore(rules_of(kind, lag), start(ABSENT))


def states_explored() -> int:
    return sum(len(explored(kind, lag).worlds) for kind in Kind for lag in LAGS)


@KINDS
@EVERY
def test_no_anomaly_can_be_reached(kind: Kind, lag: int | None) -> None:
    found = explored(kind, lag)
    print(f"{kind.name}: {len(found.worlds)} states")
    assert found.anomaly is None, found.trace


@KINDS
@EVERY
def test_both_directions_and_the_undo_from_every_state_are_explored(kind: Kind, lag: int | None) -> None:
    found = explored(kind, lag)
    states = PATHS[CLASSES[kind]]
    assert {(world.schema, world.adding) for world in found.worlds} == {(state, adding) for state in states for adding in (True, False)}
    assert start(PUBLIC) in found.worlds  # so the removal of what has always been there has no states of its own


@KINDS
@EVERY
def test_each_state_is_met_with_rows_and_by_writers_of_its_neighbours(kind: Kind, lag: int | None) -> None:
    """Else "no anomaly" would say nothing: rows there are, public elements hold their values, scans find violations."""
    worlds = explored(kind, lag).worlds
    met = {(world.schema, who.under) for world in worlds for who in world.writers if all(row.value for row in world.rows)}
    steps = rules_of(kind, lag).steps
    lagging = {(to, at) for (at, _), to in steps.items()}
    assert {(state, state) for state in PATHS[CLASSES[kind]]} <= met
    assert not lagging & met if lag == 0 else lagging <= met if lag == 1 else lagging & met
    if kind is Kind.RULE:
        assert any(world.work is not None and BREAKS in world.work.todo for world in worlds)
    else:
        assert any(world.schema is PUBLIC and all(row.held for row in world.rows) for world in worlds)


@KINDS
@EVERY
def test_no_value_exists_while_anybody_believes_the_element_absent(kind: Kind, lag: int | None) -> None:
    """Definition 1 to the letter: the data is consistent for the side of a step that knows nothing of the element, too."""
    worlds = explored(kind, lag).worlds
    absent = [world for world in worlds if ABSENT in (world.schema, *(who.under for who in world.writers))]
    assert absent
    assert not [world for world in absent if any(row.held for row in world.rows)]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.name}, {mutant.kind.name.lower()}")
def test_a_mutant_fails(mutant: Mutant) -> None:
    found = explore(mutant.rules(), start(mutant.at))
    print(*found.trace, sep="\n")
    assert (found.anomaly, len(found.trace)) == (mutant.breaks, mutant.length), found.trace


def test_a_trace_says_in_words_what_happened() -> None:
    (skipped,) = (mutant for mutant in MUTANTS if mutant.name == "DELETE is skipped")
    assert explore(skipped.rules(), start(ABSENT)).trace == (
        "the schema goes from absent to write",
        "writer 1 plans again, under write",
        "writer 1, under write, inserts row 1",
        "writer 2, under absent, updates row 1",
    )


DEMANDS = {
    (kind, state, name)
    for kind, cls in CLASSES.items()
    for state in PATHS[cls]
    for name in ("written", "removed", "read")
    if kind in (Kind.RULE, Kind.INDEX)  # the hardest of their classes: a column's value goes with its row, whoever deletes it
}
# Holding writers to a rule earlier than needed, deleting what cannot be there, and not reading what could be: none of it harms data.
HARMLESS = {
    (Kind.RULE, ABSENT, "written"),
    (Kind.RULE, ABSENT, "removed"),
    (Kind.RULE, PUBLIC, "read"),
    (Kind.INDEX, ABSENT, "removed"),
    (Kind.INDEX, PUBLIC, "read"),
}


def other_duty(kind: Kind, state: ElementState, name: str) -> Rules:
    rules = rules_of(kind)
    duty = rules.duties[state]
    return replace(rules, duties={**rules.duties, state: replace(duty, **{name: not getattr(duty, name)})})


def test_every_duty_is_needed_as_it_is() -> None:
    assert {demand for demand in DEMANDS if explore(other_duty(*demand), start(ABSENT)).anomaly is None} == HARMLESS


def test_created_is_unused_since_an_old_writer_may_meet_absent() -> None:
    assert explore(other_duty(Kind.OPTIONAL, CREATED, "written"), start(ABSENT)).anomaly is Anomaly.NOT_IN_SCHEMA


@KINDS
@pytest.mark.parametrize("lag", [0, None], ids=["lag-0", "delta"])
def test_delta_needs_neither_created_nor_delete(kind: Kind, lag: int | None) -> None:
    """Where the log aborts whoever planned before, both states may be left out; at lag 1 that fails (see the mutants)."""
    rules = rules_of(kind, lag)
    shortened = {at: rules.steps[to, at[1]] if to in (CREATED, DELETE) else to for at, to in rules.steps.items()}
    found = explore(replace(rules, steps=shortened), start(ABSENT))
    assert found.anomaly is None, found.trace
    assert not {CREATED, DELETE} & {world.schema for world in found.worlds}


@KINDS
def test_on_delta_the_way_back_may_be_one_commit(kind: Kind) -> None:
    """From any state straight to ABSENT, as the engine walks a table back: the commit aborts everybody who knew of the element."""
    rules = rules_of(kind, None)
    found = explore(
        replace(rules, steps={(state, adding): to if adding else ABSENT for (state, adding), to in rules.steps.items()}), start(ABSENT)
    )
    assert found.anomaly is None, found.trace


def test_after_check_and_write_nothing_new_is_asked_of_a_writer() -> None:
    """So VALIDATE, REORG and PUBLIC are ledger rows: no commit, nobody is aborted."""
    for first in (ElementState.CHECK, WRITE):
        asked = {(DUTIES[state].written, DUTIES[state].removed) for state in (first, *ROW_STATES, PUBLIC)}
        assert asked == {(True, True)}
