"""Why a foreign change is not taken over, or not undone (docs/adopting.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.ledger.admin.findings import REMEDIES
from airflow_provider_schemamig.exceptions import Refusal

_NO_OTHER_WAY = (
    "It cannot be {other} either (`schemamig status` says why): stop managing the table (`schemamig unmanage --collection {collection}`)."
)


@dataclass(eq=False)
class CannotAccept(Refusal):
    """What was done to the table is nothing that an evolution of the release can say. ``undoable``: ``revert`` can undo it."""

    code = "cannot_accept"
    reasons: Sequence[str]
    undoable: bool = True

    @property
    def message(self) -> str:
        return f"the change of the table cannot be taken into the release: {'; '.join(self.reasons)}."

    @property
    def next_action(self) -> str:
        if not self.undoable:
            return _NO_OTHER_WAY.format(collection=self.collection, other="undone")
        return f"Undo it (`schemamig revert --collection {self.collection}`), or stop managing the table (`schemamig unmanage`)."


@dataclass(eq=False)
class CannotRevert(Refusal):
    """The change has no inverse. ``acceptable``: ``accept`` can take it over."""

    code = "cannot_revert"
    reasons: Sequence[str]
    acceptable: bool = True

    @property
    def message(self) -> str:
        return f"the change of the table cannot be undone: {'; '.join(self.reasons)}."

    @property
    def next_action(self) -> str:
        if not self.acceptable:
            return _NO_OTHER_WAY.format(collection=self.collection, other="taken over")
        return f"Take it over (`schemamig accept --collection {self.collection}`), or stop managing the table (`schemamig unmanage`)."


@dataclass(eq=False)
class LossyRevert(Refusal):
    """Undoing the change would lose values. ``acceptable``: ``accept`` can take it over."""

    code = "lossy_revert"
    losses: Sequence[str]
    acceptable: bool = True

    @property
    def message(self) -> str:
        return f"undoing the change loses values: {'; '.join(self.losses)}."

    @property
    def next_action(self) -> str:
        keeps = "accept" if self.acceptable else "unmanage"
        return f"Run it again with --allow-lossy if that is what you want; `schemamig {keeps}` keeps everything."


@dataclass(eq=False)
class SealedByLostHistory(Refusal):
    """No drift, and no writer gets anything in: nothing in the ledger is going to open that seal. ``moved_to``: what it names."""

    code = "sealed_by_lost_history"
    uri: str
    moved_to: str

    @property
    def message(self) -> str:
        return (
            f"the table at {self.uri} is as recorded, but sealed for {self.moved_to}, of which the ledger does not know "
            "(it was restored or rebuilt?): every write to it is refused, and there is nothing else to undo."
        )

    @property
    def next_action(self) -> str:
        return f"{REMEDIES['seal_unknown']} `schemamig ledger verify` lists all such tables."
