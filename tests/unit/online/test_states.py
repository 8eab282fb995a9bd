"""The one table of states: the published paths forward and back, and what a state asks."""

from __future__ import annotations

from itertools import pairwise

import pytest

from airflow_provider_schemamig.core.schema.element_states import DUTIES, PATHS, ROW_STATES, ElementClass, ElementState, following, path

EVERY_CLASS = pytest.mark.parametrize("cls", ElementClass)

SEED = {
    (ElementClass.SCHEMA_ONLY, True): "absent created public",
    (ElementClass.SCHEMA_ONLY, False): "public created absent",
    (ElementClass.VALIDATION, True): "absent check validate public",
    (ElementClass.VALIDATION, False): "public check absent",
    (ElementClass.REORG, True): "absent delete write reorg public",
    (ElementClass.REORG, False): "public write delete absent",
}


@pytest.mark.parametrize(("cls", "adding"), SEED)
def test_the_paths_are_the_seeds(cls: ElementClass, adding: bool) -> None:
    assert " ".join(path(cls, adding)) == SEED[cls, adding]


@pytest.mark.parametrize(("cls", "adding"), SEED)
def test_following_walks_the_path(cls: ElementClass, adding: bool) -> None:
    state: ElementState | None = path(cls, adding)[0]
    walked = []
    while state is not None:
        walked.append(state)
        state = following(cls, state, adding=adding)
    assert tuple(walked) == path(cls, adding)


@EVERY_CLASS
def test_work_is_given_up_for_the_state_before_it(cls: ElementClass) -> None:
    states = PATHS[cls]
    for before, state in pairwise(states):
        if state in ROW_STATES:
            assert following(cls, state, adding=False) is before


@EVERY_CLASS
@pytest.mark.parametrize("adding", [True, False])
def test_a_state_of_another_class_is_an_error(cls: ElementClass, adding: bool) -> None:
    for state in set(ElementState) - set(PATHS[cls]):
        with pytest.raises(ValueError, match="not in tuple"):
            following(cls, state, adding=adding)


def test_the_tables_are_whole_and_constant() -> None:
    assert set(PATHS) == set(ElementClass)
    assert set(DUTIES) == set(ElementState) == {state for states in PATHS.values() for state in states}
    for table in (PATHS, DUTIES):
        with pytest.raises(TypeError):
            table[next(iter(table))] = None  # type: ignore[index]
