"""Why a release cannot be rolled back."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.ledger.rows import Deployment, DeploymentState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.exceptions import Refusal


class NothingToRollBack(Refusal):
    code = "nothing_to_roll_back"
    message = "there is nothing to roll back: {why}."
    next_action = "{first}"
    why: str
    first: str


def another_first(found: Deployment, asked: Generation) -> NothingToRollBack:
    """Return the refusal of a rollback of generation ``asked``, where ``found`` would go back."""
    if found.generation == asked:
        return NothingToRollBack(
            why=f"generation {asked} was committed meanwhile", first=f"Run it again: it is {found.target} that goes back."
        )
    if found.state is DeploymentState.PROMOTED:
        first = f"Let it finish, or give it up with `schemamig cancel --generation {found.generation}`. Then roll back again."
        return NothingToRollBack(why=f"generation {found.generation} has taken over since, with an upgrade to {found.target}", first=first)
    if found.generation > asked:
        why = f"generation {found.generation} has brought {found.target} since, which goes back first"
    else:
        why = (
            f"generation {asked} has gone back already, or its hold is over; next would be {found.target} of generation {found.generation}"
        )
    return NothingToRollBack(why=why, first=f"If that is what you want: `schemamig rollback --generation {found.generation}`.")


class LossyRollback(Refusal):
    code = "lossy_rollback"
    message = "rolling back loses rows: {losses:; }."
    next_action = "Run it again with --allow-lossy if that is what you want."
    losses: Sequence[str]


class KeysTaken(Refusal):
    """Rows since a rewrite have, through ``down``, the key of another such row, or of a row that only the old table has."""

    code = "keys_taken"
    message = (
        "{rows} row(s) that were written since have a primary key ({columns:, }) in the old table {uri} that is another row's. "
        "Nothing was rolled back."
    )
    next_action = (
        "Give these rows other keys, or take them out, and run `schemamig rollback` again. Or stay at the release: nothing is lost."
    )
    uri: str
    columns: Sequence[str]
    rows: int


class RollbackFilesGone(Refusal):
    """VACUUM or retention took away files that a rollback has to read rows from: a version of the new table, or of a lookup."""

    code = "way_back_gone"
    message = "Rollback would lose rows: files or change data that it has to read are gone by VACUUM ({detail}). Nothing was rolled back."
    next_action = (
        "Stay at the release: nothing is lost, and a later release can lead back to the old shape. Or restore these files from a backup "
        "of the storage, and run `schemamig rollback` again."
    )
    detail: str


class RowsNotFound(Refusal):
    """Rows of before a rewrite were changed or deleted since, and ``down`` does not give back what they are found by in the old table."""

    code = "rows_not_found"
    message = (
        "{rows} different row(s) that were changed or deleted cannot be found in the old table {uri} by {by}: `down` does not reproduce "
        "the old values. Nothing was rolled back."
    )
    next_action = (
        "Restore the values that these rows had at the commit, and run `schemamig rollback` again. Or stay at the release: nothing is "
        "lost, and a later release can lead back to the old shape."
    )
    uri: str
    rows: int
    #: What a row is found by.
    by: str
