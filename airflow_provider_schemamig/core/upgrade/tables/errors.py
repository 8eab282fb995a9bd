"""Why a change of a live table stops or cannot begin."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.exceptions import Conflict, Refusal


class ElementTakenBack(Conflict):
    """A twin of this generation took an online change back meanwhile."""

    code = "walked_back"
    message = "Another process of this deployment has undone {element}: {reason}"
    next_action = "Fix the reported rows and run the command again."
    element: str
    reason: str


class NeverDeployed(Refusal):
    """Work on collections of an environment that has no release yet."""

    code = "never_deployed"
    message = "no release was ever deployed here, so there is no collection to change."
    next_action = "Deploy a release first: `schemamig upgrade`, or `schemamig adopt` for tables that are there."


class NameOfRelease(Refusal):
    """A collection would get the name of another one in the environment's release. That one was renamed or dropped here."""

    code = "name_of_release"
    message = (
        "release {version} has another collection of this name, which was renamed or dropped here since; readers of the release still "
        "expect it."
    )
    next_action = "Take another name, or first deploy a release that declares the new name, or the removal, of the other collection."
    version: str


class SwapRaced(Conflict):
    """Each time all rows had their values, somebody wrote before the columns of a change of type could change places."""

    code = "swap_raced"
    message = "Writers added rows to {uri} {tries} times (the last at version {version}) between filling the new column and swapping it in."
    next_action = (
        "Try again: what is filled stays filled. The last tries were behind a seal, which only RESTORE gets through. Find out who keeps "
        "restoring {collection}, and have that stopped until this is done."
    )
    uri: str
    version: int
    tries: int


class SwapTakenBack(Conflict):
    """A twin of this generation failed, and let columns change places again that this process counted on; nothing was committed."""

    code = "swap_taken_back"
    message = "columns of shard {shard} have changed places again: another process of this generation took its cut-over back."
    next_action = "Try again: what is filled stays filled."
    shard: str


class NotInvertible(Refusal):
    """A value written since a change of type has no counterpart of the type before."""

    code = "does_not_go_back"
    message = "a change of type cannot be taken back, because a value written since does not fit the type before: {reason}"
    next_action = (
        "Change or delete those rows and try again, or `schemamig rollback --allow-lossy`: then the values are NULL, where no CHECK "
        "forbids that."
    )
    reason: str


class RollbackUnfinished(Refusal):
    """An upgrade meets half a rollback: a table went back, and what came to it since keeps it from being as its release had it again."""

    code = "rollback_unfinished"
    message = (
        "a rollback of {release} has begun and not ended: the table is as it was before {release} already, and cannot be brought to "
        "{release} again: {reasons:; }."
    )
    next_action = (
        "Finish that rollback first: run `schemamig rollback` until the environment is at {source} (a release that was promoted since is "
        "taken back first); then upgrade again."
    )
    release: str
    source: str
    reasons: Sequence[str]
