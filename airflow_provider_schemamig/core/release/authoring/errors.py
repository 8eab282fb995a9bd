"""What keeps ``new`` and ``rebase`` from writing."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import RELEASE_TOML, FileRefusal
from airflow_provider_schemamig.exceptions import Refusal


class InvalidTitle(Refusal):
    code = "invalid_title"
    message = "The title is not allowed: {reason}."
    next_action = "Say in one line what changes, such as: Carriers report delay in minutes."
    reason: str


class VersionNotNewer(Refusal):
    code = "version_not_newer"
    message = "{version} is not above {head}, which the folder has; versions only grow."
    next_action = "Give a higher version, or none: then the next minor one is taken."
    version: Version
    head: Version


class VersionNotReplaced(FileRefusal):
    code = "version_not_replaced"
    message = "{file} is valid, but its version is written in a way that cannot be replaced by another."
    next_action = 'Write it on a line of its own: version = "1.1.0"'
    file: str = RELEASE_TOML


class NothingToRebase(Refusal):
    """The own migration is on top already, or there is none."""

    code = "nothing_to_rebase"
    message = "{version} stays as it is: {reason}."
    next_action = "If another branch released {version}, too, say --onto {version}; otherwise there is nothing to do."
    version: Version
    reason: str


class VersionTaken(FileRefusal):
    code = "version_taken"
    message = "It cannot be renumbered to {target}: {file} of the later version {version} exists."
    next_action = "Say --onto {version}, so that it comes after it."
    version: Version
    target: Version
