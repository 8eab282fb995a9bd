"""Why a change that others made is not accepted, or not reverted (docs/adopting.md)."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.ledger.admin.findings import REMEDIES
from airflow_provider_schemamig.core.upgrade.errors import ChangeNotInRelease
from airflow_provider_schemamig.exceptions import Refusal

_NO_OTHER_WAY = (
    "It cannot be {other} either (`schemamig status` says why): stop managing the table (`schemamig unmanage --collection {collection}`)."
)


class CannotAccept(Refusal):
    """The table's drift is nothing that an evolution of the release can say. ``undoable``: ``revert`` can undo it; ``held``: why
    nothing but that goes now (``plan.holds.rules.options_refused``)."""

    code = "cannot_accept"
    message = "the change of the table cannot be taken into the release: {reasons:; }."
    reasons: Sequence[str]
    undoable: bool = True
    held: str = ""

    @property
    def next_action(self) -> str:
        if self.held:
            revert = f"Revert it (`schemamig revert --collection {self.collection}`)." if self.undoable else "Undo it on the table itself."
            return f"{revert} `unmanage` does not go now: {self.held}"
        if not self.undoable:
            return _NO_OTHER_WAY.format(collection=self.collection, other="reverted")
        return (
            f"Revert it (`schemamig revert --collection {self.collection}`), "
            f"or stop managing the table (`schemamig unmanage --collection {self.collection}`)."
        )


class NotInVersions(ChangeNotInRelease):
    """The release folder is further than the environment, without what was done to the table, and no version on top could say it."""

    next_action = (
        "Take the versions that are deployed nowhere out of the folder and run this again; or, if they are deployed elsewhere, revert the "
        "change (`schemamig revert --collection {collection}`), put all of these into a version on top of them, and upgrade to that."
    )


class CannotRevert(Refusal):
    """The change has no inverse. ``acceptable``: ``accept`` can take it over; ``held``: why neither that nor unmanage goes now."""

    code = "cannot_revert"
    message = "the change of the table cannot be reverted: {reasons:; }."
    reasons: Sequence[str]
    acceptable: bool = True
    held: str = ""

    @property
    def next_action(self) -> str:
        if self.held:
            return f"Undo it on the table itself. `accept` and `unmanage` do not go now: {self.held}"
        if not self.acceptable:
            return _NO_OTHER_WAY.format(collection=self.collection, other="accepted")
        return (
            f"Accept it (`schemamig accept --release DIR --collection {self.collection}`), "
            f"or stop managing the table (`schemamig unmanage --collection {self.collection}`)."
        )


class LossyRevert(Refusal):
    """Undoing the change would lose values. ``acceptable``: ``accept`` can take it over; ``held``: why neither that nor unmanage goes
    now."""

    code = "lossy_revert"
    message = "reverting the change loses values: {losses:; }."
    losses: Sequence[str]
    acceptable: bool = True
    held: str = ""

    @property
    def next_action(self) -> str:
        if self.held:
            return f"Run it again with --allow-lossy if that is what you want. `accept` and `unmanage` do not go now: {self.held}"
        keeps = "accept" if self.acceptable else "unmanage"
        other = f"`schemamig {keeps} --collection {self.collection}`"
        return f"Run it again with --allow-lossy if that is what you want; {other} keeps everything."


class SealedByLostHistory(Refusal):
    """No drift, and no writer gets anything in: nothing in the ledger is going to open that seal. ``moved_to``: what it names."""

    code = "sealed_by_lost_history"
    message = (
        "the table at {uri} is as recorded, but it is sealed for {moved_to}, which the ledger does not know (was it restored or rebuilt?): "
        "every write to the table is refused, and there is no other drift."
    )
    next_action = f"{REMEDIES['seal_unknown']} `schemamig ledger verify` lists all such tables."
    uri: str
    moved_to: str
