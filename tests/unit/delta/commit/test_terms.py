"""An application id that is closed goes on under the next one: nobody who holds the old one gets through, and the count stays."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.delta.commit.txn_terms import NOTHING, TxnPosition, advance, app_ids, term_id, txn_position

#: What may happen to a count: it goes up (by so much), or who holds it is turned away (for so many terms).
STEPS = st.lists(st.tuples(st.sampled_from(["up", "away"]), st.integers(1, 4)), max_size=12)
APP = "schemamig:replica:origin:g1-0a81bffe3bd2"


def play(steps: list[tuple[str, int]]) -> tuple[dict[str, int], TxnPosition]:
    """The table's transactions, and where the count has to be."""
    txns: dict[str, int] = {}
    at = TxnPosition(0, NOTHING)
    for step, number in steps:
        to = replace(at, version=at.version + number) if step == "up" else replace(at, term=at.term + number)
        txns |= advance(APP, at, to)
        at = to
    return txns, at


@given(STEPS)
def test_the_count_is_never_lost(steps: list[tuple[str, int]]) -> None:
    txns, at = play(steps)
    assert txn_position(txns, APP) == at


@given(STEPS, st.integers(0, 12))
def test_delta_skips_whoever_holds_an_older_term(steps: list[tuple[str, int]], held: int) -> None:
    """It does so where the transaction version is not above the last one of the id."""
    txns, at = play(steps)
    is_skipped = txns.get(term_id(APP, held), NOTHING) >= at.version + 1
    assert is_skipped == (held < at.term)


def test_a_longer_id_is_another_one() -> None:
    txns = {f"{APP}0": 7, **advance(f"{APP}0", TxnPosition(0, 7), TxnPosition(1, 7))}
    assert txn_position(txns, APP) == TxnPosition(0, NOTHING)
    assert app_ids([APP, *txns]) == [APP, f"{APP}0"]


def test_a_later_term_is_further() -> None:
    assert TxnPosition(0, 9) < TxnPosition(1, NOTHING) < TxnPosition(1, 0)
