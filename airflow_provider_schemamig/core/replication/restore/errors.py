"""Why a restore is refused, or has to wait, by what was asked for."""

from __future__ import annotations

from airflow_provider_schemamig.exceptions import Conflict, Refusal


class OriginUpgrading(Conflict):
    """The origin's table has columns of a release already that its ledger does not have yet: they would be left out of the copy."""

    code = "origin_upgrading"
    message = "an upgrade of the origin is under way: with which columns its version {version} was written is known when it is over."
    next_action = (
        "Try again when it is over, or restore at a version from before it (`--version`); `--allow-schema-change` restores now, without "
        "what rows have in the new columns."
    )
    version: int


class NoSuchVersion(Refusal):
    code = "no_such_version"
    message = "version {version} of {uri} was asked for, and its newest is {newest}."
    next_action = "Restore at {newest} or an earlier version; without --version it is the newest."
    uri: str
    version: int
    newest: int


class RestoreNotNewer(Refusal):
    """The target has the origin's rows of ``at``, and they are not made anew by those of an earlier version, or of the same."""

    code = "restore_not_ahead"
    message = "version {version} of the origin was asked for, and the target has its version {at} already."
    next_action = "Restore at a version above {at}; where the target's rows are wrong, that takes another commit of the origin."
    version: int
    at: int
