"""Why a release cannot be rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class NothingToRollBack(Refusal):
    code = "nothing_to_roll_back"
    why: str

    @property
    def message(self) -> str:
        return f"there is nothing to roll back: {self.why}."

    @property
    def next_action(self) -> str:
        return "To undo a contracted release, write a new release that declares the old shape."


@dataclass(eq=False)
class LossyRollback(Refusal):
    code = "lossy_rollback"
    losses: Sequence[str]

    @property
    def message(self) -> str:
        return "rolling back loses rows: " + "; ".join(self.losses) + "."

    @property
    def next_action(self) -> str:
        return "Run it again with --allow-lossy if that is what you want."
