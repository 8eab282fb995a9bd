"""Why a release cannot be rolled back."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.exceptions import Refusal


class NothingToRollBack(Refusal):
    code = "nothing_to_roll_back"
    message = "there is nothing to roll back: {why}."
    next_action = "To undo a contracted release, write a new release that declares the old shape."
    why: str


class LossyRollback(Refusal):
    code = "lossy_rollback"
    message = "rolling back loses rows: {losses:; }."
    next_action = "Run it again with --allow-lossy if that is what you want."
    losses: Sequence[str]


class RowsNotFound(Refusal):
    """Rows of before a rewrite were changed or deleted since, and without a key nobody finds them in the old table."""

    code = "rows_not_found"
    message = (
        "{rows} kind(s) of rows that were changed or deleted since the release are not found in the old table {uri}: it has no primary "
        "key, and `down` makes other rows of them than they were. Nothing was taken back."
    )
    next_action = (
        "Give those rows back the values that they had at the commit, and run `schemamig rollback` again; or stay at the release: nothing "
        "is lost by that, and a next one can lead back to the old shape."
    )
    uri: str
    rows: int
