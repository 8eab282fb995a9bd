"""Why a foreign change is not taken over, or not undone (docs/adopting.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class CannotAccept(Refusal):
    """What was done to the table is nothing that an evolution of the release can say."""

    code = "cannot_accept"
    reasons: Sequence[str]

    @property
    def message(self) -> str:
        return f"the change of the table cannot be taken into the release: {'; '.join(self.reasons)}."

    @property
    def next_action(self) -> str:
        return f"Undo it (`schemamig revert --collection {self.collection}`), or stop managing the table (`schemamig unmanage`)."


@dataclass(eq=False)
class CannotRevert(Refusal):
    """The change has no inverse."""

    code = "cannot_revert"
    reasons: Sequence[str]

    @property
    def message(self) -> str:
        return f"the change of the table cannot be undone: {'; '.join(self.reasons)}."

    @property
    def next_action(self) -> str:
        return f"Take it over (`schemamig accept --collection {self.collection}`), or stop managing the table (`schemamig unmanage`)."


@dataclass(eq=False)
class LossyRevert(Refusal):
    """Undoing the change would lose values."""

    code = "lossy_revert"
    losses: Sequence[str]

    @property
    def message(self) -> str:
        return f"undoing the change loses values: {'; '.join(self.losses)}."

    @property
    def next_action(self) -> str:
        return "Run it again with --allow-lossy if that is what you want; `schemamig accept` keeps everything."
