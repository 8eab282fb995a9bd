"""Why a change of a live table stops or cannot begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class WalkedBack(Conflict):
    """A twin of this generation took an online change back meanwhile."""

    code = "walked_back"
    element: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.element} was walked back by another process of this generation: {self.reason}"

    @property
    def next_action(self) -> str:
        return "Mend what it says; the next try begins anew."


@dataclass(eq=False)
class NeverDeployed(Refusal):
    """Work on collections of an environment that has no release yet."""

    code = "never_deployed"

    @property
    def message(self) -> str:
        return "no release was ever deployed here, so there is no collection to change."

    @property
    def next_action(self) -> str:
        return "Deploy a release first: `schemamig upgrade`, or `schemamig adopt` for tables that are there."


@dataclass(eq=False)
class NameOfRelease(Refusal):
    """A collection would get a name that the environment's release gives to another one, which was renamed or dropped here."""

    code = "name_of_release"
    version: str

    @property
    def message(self) -> str:
        return (
            f"release {self.version} calls another collection so, which was renamed or dropped since: readers of the release expect that."
        )

    @property
    def next_action(self) -> str:
        return "Take another name, or first deploy a release that has the new name, or the removal, of the other one."


@dataclass(eq=False)
class SwapRaced(Conflict):
    """Each time all rows had their values, somebody wrote before the columns of a change of type could change places."""

    code = "swap_raced"
    uri: str
    version: int
    tries: int

    @property
    def message(self) -> str:
        return (
            f"rows came into {self.uri} {self.tries} times (the last at version {self.version}) between a look at its rows and the commit "
            "that is right for no others: its writers are faster."
        )

    @property
    def next_action(self) -> str:
        return (
            "Try again: what is filled stays filled. The last rounds were behind a seal, which RESTORE alone gets through: look for who "
            f"does that to {self.collection} again and again, and let it rest meanwhile."
        )


@dataclass(eq=False)
class SwapTakenBack(Conflict):
    """A twin of this generation failed, and let columns change places again that this process counted on; nothing was committed."""

    code = "swap_taken_back"
    shard: str

    @property
    def message(self) -> str:
        return f"columns of shard {self.shard} have changed places again: another process of this generation took its cut-over back."

    @property
    def next_action(self) -> str:
        return "Try again: what is filled stays filled."


@dataclass(eq=False)
class DoesNotGoBack(Refusal):
    """A value written since a change of type has no counterpart of the type before."""

    code = "does_not_go_back"
    reason: str

    @property
    def message(self) -> str:
        return f"a change of type cannot be taken back, a value that came since does not fit the type before: {self.reason}"

    @property
    def next_action(self) -> str:
        lossy = "`schemamig rollback --allow-lossy`: then the values are NULL, where no CHECK forbids that"
        return f"Change or delete those rows and try again, or {lossy}."


@dataclass(eq=False)
class RollbackUnfinished(Refusal):
    """An upgrade meets half a rollback: a table went back, and what came to it since keeps it from being as its release had it again."""

    code = "rollback_unfinished"
    release: str
    source: str
    reasons: Sequence[str]

    @property
    def message(self) -> str:
        return (
            f"a rollback of {self.release} has begun and not ended: the table went back already, and cannot be as {self.release} had it "
            f"again: {'; '.join(self.reasons)}."
        )

    @property
    def next_action(self) -> str:
        return (
            f"Finish that rollback first: `schemamig rollback`, until the environment is at {self.source} (one that was promoted since is "
            "taken back before it); then upgrade again."
        )
