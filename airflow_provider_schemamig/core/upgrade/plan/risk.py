"""Whether somebody has to be asked about a plan, or it may run by itself: the rule behind the gate ``auto``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.upgrade.plan.explain import ABORTS, ADDED, Explanation


def reasons_to_ask(explained: Iterable[Explanation], *, has_hold: bool, added_columns_pass: bool = False) -> tuple[str, ...]:
    """Return why a person has to see the plan; none: it is instant, breaks nobody, and all of it can be taken back.

    A writer in flight that aborts once, and succeeds when it is tried again, is not broken. ``added_columns_pass``: whoever asks knows that
    nobody writes to these tables by position, nor with delta-rs without ``schema_mode``: only those an added column breaks.
    """
    harmless = {ABORTS, *((ADDED,) if added_columns_pass else ())}
    found = (f"{item.collection}: {reason}" if item.collection else reason for item in explained for reason in _reasons(item, harmless))
    return tuple(dict.fromkeys((*found, *(() if has_hold else ("there is no way back: the hold is 0",)))))


def _reasons(item: Explanation, harmless: set[str]) -> Iterator[str]:
    if item.cost.rank > Cost.INSTANT.rank:
        yield f"{item.summary} ({item.cost})"
    yield from (text for text in item.breaks if text not in harmless)
    yield from (f"for good: {text}" for text in item.irreversible)
