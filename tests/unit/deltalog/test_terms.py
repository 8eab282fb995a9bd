"""An application id that is closed goes on under the next one: nobody who holds the old one gets through, and the count stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.deltalog.terms import NOTHING, Reached, app_ids, next_term, reached, term_id

#: What may happen to a count: it goes up, or who holds it is turned away.
STEPS = st.lists(st.one_of(st.integers(0, 5), st.none()), max_size=12)
APP = "schemamig:replica:origin:g1-0a81bffe3bd2"


def play(steps: list[int | None]) -> tuple[dict[str, int], int, int]:
    """The table's transactions, and what the count and the term have to be."""
    txns: dict[str, int] = {}
    count, term = NOTHING, 0
    for step in steps:
        if step is None:
            txns |= next_term(APP, reached(txns, APP))
            term += 1
        else:
            count += step
            if step:
                txns[term_id(APP, term)] = count
    return txns, count, term


@given(STEPS)
def test_the_count_is_never_lost(steps: list[int | None]) -> None:
    txns, count, term = play(steps)
    assert reached(txns, APP) == Reached(term, count)


@given(STEPS, st.integers(0, 12))
def test_delta_skips_whoever_holds_an_older_term(steps: list[int | None], held: int) -> None:
    """It does so where the transaction version is not above the last one of the id."""
    txns, count, term = play(steps)
    is_skipped = txns.get(term_id(APP, held), NOTHING) >= count + 1
    assert is_skipped == (held < term)


def test_a_longer_id_is_another_one() -> None:
    txns = {f"{APP}0": 7, **next_term(f"{APP}0", Reached(0, 7))}
    assert reached(txns, APP) == Reached(0, NOTHING)
    assert app_ids([APP, *txns]) == [APP, f"{APP}0"]


def test_a_later_term_is_further() -> None:
    assert Reached(0, 9) < Reached(1, NOTHING) < Reached(1, 0)
