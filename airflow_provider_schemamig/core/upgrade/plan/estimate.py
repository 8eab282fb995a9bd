"""How long an upgrade would take: what its fills and copies have to read, at the speed this environment has been copied with before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.ledger.rows import Progress
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS, Build, Copy, CutOver

#: The last round of one tail and its digest on a warm session, measured (`make bench`: block). It does not grow with the table.
_CATCH_UP_SECONDS = (1.0, 4.0)


@dataclass(frozen=True, slots=True)
class Timing:
    """``checked_seconds``: how long planning and checking took. ``rows``: what Spark would read; without any, an upgrade is a handful of
    metadata commits a table. ``rows_per_second``: None before the environment's first copy. ``seconds``: of the work on rows.
    ``statement_seconds``: of the smallest statement on this Spark; measured where something is rewritten."""

    checked_seconds: float
    rows: int
    rows_per_second: int | None
    statement_seconds: float | None = None

    @property
    def seconds(self) -> float | None:
        if not self.rows:
            return 0.0
        return None if self.rows_per_second is None else self.rows / self.rows_per_second

    def to_json(self) -> dict[str, Any]:
        seconds = self.seconds
        return {
            "checked_seconds": round(self.checked_seconds, 3),
            "rows": self.rows,
            "rows_per_second": self.rows_per_second,
            "seconds": round(seconds, 1) if seconds is not None else None,
            "statement_seconds": self.statement_seconds,
        }


def timing_of(
    state: State | None, estimates: Sequence[Mapping[str, Any]], checked_seconds: float, statement_seconds: float | None = None
) -> Timing:
    """Return the timing of a plan. ``estimates``: what ``preflight`` found about the inputs, with their ``rows``."""
    rows, rate = sum(item["rows"] for item in estimates), None if state is None else rows_per_second(state)
    return Timing(checked_seconds, rows, rate, statement_seconds)


def rows_per_second(state: State) -> int | None:
    """Return the speed of the largest copy that the ledger still knows; small ones tell more of Spark's start than of its speed."""
    rates = [rate for row in state.progress.values() if (rate := _rate(row)) is not None]
    return max(1, round(max(rates)[1])) if rates else None


def _rate(row: Progress) -> tuple[int, float] | None:
    rows, seconds = row.rows - row.rows_before, (row.updated_at - row.started_at).total_seconds()
    return (rows, rows / seconds) if row.stage == "copy" and rows > 0 and seconds > 0 else None


def catch_up_seconds(rewrites: int) -> tuple[int, int]:
    """Return for how long writers wait, at least and at most: all rewrites are sealed together and caught up with one after the other."""
    low, high = _CATCH_UP_SECONDS
    return round(low * rewrites), round(high * rewrites)


def blocked_seconds(plan: Plan, seal_seconds: int = SEAL_SECONDS) -> tuple[int, int]:
    """Return for how long writers are blocked, at least and at most; what Spark takes for the files of the last commits comes on top.

    ``seal_seconds``: a seal's deadline.
    """
    low, high = catch_up_seconds(len(plan.of_kind(Copy)))
    swaps = any(stage.swaps for stage in plan.of_kind(CutOver))
    return low, max(high, seal_seconds if swaps else 0)


def blocked_in_words(plan: Plan) -> str:
    """Return for how long writers are blocked by a plan's rewrites."""
    rewrites = len(plan.of_kind(Copy))
    low, high = catch_up_seconds(rewrites)
    return f"{low} to {high} s for {rewrites} rewrite(s), and what Spark takes for the files that the last commits touched"


def fills_while_blocked(plan: Plan, collection: CollectionName) -> str:
    """Return which fills run again while writers of a sealed table wait; "" if none reads it."""
    names = [build.collection for build in plan.of_kind(Build) if any(item.collection == collection for item in build.inputs)]
    return f", and as long as the fill of {', '.join(names)} takes, if rows came since" if names else ""
