"""Why a release cannot be rolled back."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.exceptions import Refusal


class NothingToRollBack(Refusal):
    code = "nothing_to_roll_back"
    message = "there is nothing to roll back: {why}."
    next_action = "{first}"
    why: str
    first: str


def taken_over(generation: int) -> NothingToRollBack:
    """Return the refusal of a rollback whose deployment is no longer the one that would be rolled back."""
    return NothingToRollBack(
        why=f"generation {generation} took over meanwhile",
        first="Look at `schemamig status`; if that generation is to go back, run it again.",
    )


class LossyRollback(Refusal):
    code = "lossy_rollback"
    message = "rolling back loses rows: {losses:; }."
    next_action = "Run it again with --allow-lossy if that is what you want."
    losses: Sequence[str]


class RowsNotFound(Refusal):
    """Rows of before a rewrite were changed or deleted since, and without a key nobody finds them in the old table."""

    code = "rows_not_found"
    message = (
        "{rows} different row(s) that were changed or deleted cannot be found in the old table {uri}: it has no primary key, and `down` "
        "does not reproduce their old values. Nothing was rolled back."
    )
    next_action = (
        "Restore the values that these rows had at the commit, and run `schemamig rollback` again. Or stay at the release: nothing is "
        "lost, and a later release can lead back to the old shape."
    )
    uri: str
    rows: int
