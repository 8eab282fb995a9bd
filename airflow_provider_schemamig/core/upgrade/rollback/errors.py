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
