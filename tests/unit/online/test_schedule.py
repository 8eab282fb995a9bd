"""Operations as data: each walks its class's path, and the turns of a table keep every order that matters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.online.operation import Chain, Enter, Operation, Recluster, Round, RowStep, Validate, filled, schedule
from airflow_provider_schemamig.core.online.operations import operations_of
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.element_states import PATHS, ElementState
from airflow_provider_schemamig.core.schema.model import Check, Declaration, Field, Key, Primitive

INT = Primitive("int")
TABLE = Declaration(CollectionName("t"), (Field("a", INT), Field("b", INT)))
ADD_N = c.AddColumn(ColumnPath("n"), Field("n", INT, default="7"))
ADD_M = c.AddColumn(ColumnPath("m"), Field("m", INT, nullable=False, default="7"))
CHANGES: dict[str, c.Change] = {
    "check": c.AddCheck(Check("pos", "a > 0")),
    "check on n": c.AddCheck(Check("few", "n < 9")),
    "not null": c.SetNotNull(ColumnPath("b")),
    "default": ADD_N,
    "not null with a default": ADD_M,
    "unique": c.AddKey(Key(("a",)), primary=False),
    "unique over n": c.AddKey(Key(("n",)), primary=False),
    "clustering": c.ChangeClustering((), ("b",)),
}
#: Those that give rows values, and one more.
FILLING: dict[str, c.Change] = {
    "default": ADD_N,
    "not null with a default": ADD_M,
    "another type": c.ChangeType(ColumnPath("a"), INT, Primitive("string"), widening=False, shadowable=True),
}


def chains(*names: str) -> tuple[Chain, ...]:
    return tuple(operations_of((FILLING | CHANGES)[name], TABLE) for name in names)


def when(turns: Sequence[Round], operation: Operation, state: ElementState) -> int:
    """The turn in which an element reaches a state."""
    found = [
        number
        for number, turn in enumerate(turns)
        for other, step in (*turn.entering, *turn.row_steps)
        if other is operation and step.state is state
    ]
    assert len(found) == 1, (operation.name, state, found)
    return found[0]


@pytest.mark.parametrize("name", CHANGES)
def test_an_operation_walks_the_path_of_its_class(name: str) -> None:
    (chain,) = chains(name)
    for operation in chain:
        assert tuple(step.state for step in operation.steps) == PATHS[operation.cls][1:]


@given(names=st.lists(st.sampled_from(sorted(CHANGES)), unique=True))
def test_schedule_turns(names: list[str]) -> None:
    found = chains(*names)
    turns = schedule(found)
    for operation in (operation for chain in found for operation in chain):
        reached = [when(turns, operation, step.state) for step in operation.steps]
        assert reached == sorted(reached), "steps in their order"
        commits = [turn for turn, step in zip(reached, operation.steps, strict=True) if isinstance(step, Enter)]
        assert len(set(commits)) == len(commits), "one commit of an element a turn"
        for step, turn, following in zip(operation.steps, reached, reached[1:], strict=False):
            assert following > turn or not isinstance(step, RowStep), "what follows work waits for the next turn"
    for chain in found:
        for before, after in pairwise(chain):
            assert when(turns, before, ElementState.PUBLIC) <= when(turns, after, after.steps[0].state)
    assert len(turns) == max((len(schedule((chain,))) for chain in found), default=0) + _waited(names)


def _waited(names: list[str]) -> int:
    """How many turns a rule over ``n``, or clustering, takes longer than the others, because a column is filled first."""
    longest = max((len(schedule(chains(name))) for name in names), default=0)
    waits = [0]
    if "default" in names and any(name.endswith(" n") for name in names):
        waits.append(1 + len(schedule(chains("check on n"))))
    if "clustering" in names and not FILLING.keys().isdisjoint(names):
        waits.append(1 + len(schedule(chains("clustering"))))
    return max(0, max(waits) - longest)


@pytest.mark.parametrize("late", ["check on n", "unique over n"])
def test_a_rule_waits_until_its_column_is_filled(late: str) -> None:
    column, rule = chains("default", late)
    turns = schedule((rule, column))
    assert when(turns, rule[0], ElementState.CHECK) > when(turns, column[0], ElementState.REORG)
    assert filled((rule, column)) == {"n"}


@pytest.mark.parametrize("filling", FILLING)
def test_clustering_waits_until_no_file_is_filled_any_more(filling: str) -> None:
    (clustering,) = chains("clustering")[0]
    fill, own = chains(filling, "clustering")
    turns = schedule((own, fill))
    assert when(turns, own[0], ElementState.WRITE) > when(turns, fill[0], ElementState.REORG)
    assert not any(turn.swaps for turn in turns[:-1])
    assert filled((own, fill)) == {column for operation in fill for column in operation.columns}
    assert not clustering.fills


def test_a_unique_index_is_one_turn_of_two_elements() -> None:
    unique, clustering = chains("unique", "clustering")
    first, second = schedule((unique, clustering))
    assert first.changes == (CHANGES["clustering"],)
    assert [type(step) for _, step in first.row_steps] == [Validate, Recluster]
    assert {step.state for _, step in second.entering} == {ElementState.PUBLIC}


def test_rules_over_a_column_that_changes_its_type_come_with_it() -> None:
    """And a column that is filled, too, is filled first: the fill of the other type asks a CHECK over both."""
    both = c.AddCheck(Check("both", "a <> n"))
    together = (c.SetNotNull(ColumnPath("a")), both, FILLING["another type"], ADD_N)
    not_null, check, retyped, column = (operations_of(change, TABLE, together) for change in together)
    first, *others, swap = schedule((not_null, check, retyped, column))
    assert swap.swaps and not any(turn.swaps or turn.changes for turn in others)
    assert [operation for operation, _ in swap.entering] == [*retyped, *not_null, *check]
    assert [operation for operation, _ in first.row_steps] == [*column, *retyped]
    assert not any(isinstance(found, c.SetNotNull | c.AddCheck) for found in first.changes)
    assert [found for found in swap.changes if isinstance(found, c.SetNotNull | c.AddCheck)] == list(together[:2])


def test_elements_share_commits() -> None:
    turns = schedule(chains("check", "not null", "default", "not null with a default"))
    assert [len(turn.changes) > 0 for turn in turns] == [True, True, True]
    assert len(turns[0].changes) == 4
