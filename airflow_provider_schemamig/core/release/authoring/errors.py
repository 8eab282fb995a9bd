"""What keeps ``new`` and ``rebase`` from writing."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import RELEASE_TOML, FileRefusal
from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False, kw_only=True)
class InvalidTitle(Refusal):
    code = "invalid_title"
    reason: str

    @property
    def message(self) -> str:
        return f"The title cannot be: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Say in one line what changes, such as: Carriers report delay in minutes."


@dataclass(eq=False, kw_only=True)
class VersionNotNewer(Refusal):
    code = "version_not_newer"
    version: Version
    head: Version

    @property
    def message(self) -> str:
        return f"{self.version} is not above {self.head}, which the folder has; versions only grow."

    @property
    def next_action(self) -> str:
        return "Give a higher version, or none: then the next minor one is taken."


@dataclass(eq=False, kw_only=True)
class VersionNotReplaced(FileRefusal):
    code = "version_not_replaced"
    file: str = RELEASE_TOML

    @property
    def message(self) -> str:
        return f"{self.file} is valid, and written so that the version in it cannot be replaced by another."

    @property
    def next_action(self) -> str:
        return 'Write it on a line of its own: version = "1.1.0"'


@dataclass(eq=False, kw_only=True)
class NothingToRebase(Refusal):
    """The own migration is on top already, or there is none."""

    code = "nothing_to_rebase"
    version: Version
    reason: str

    @property
    def message(self) -> str:
        return f"{self.version} stays as it is: {self.reason}."

    @property
    def next_action(self) -> str:
        return f"If another branch released {self.version}, too, say --onto {self.version}; otherwise there is nothing to do."


@dataclass(eq=False, kw_only=True)
class VersionTaken(FileRefusal):
    code = "version_taken"
    version: Version
    target: Version

    @property
    def message(self) -> str:
        return f"The migration would become {self.target}, and {self.file} of version {self.version} is there."

    @property
    def next_action(self) -> str:
        return f"Say --onto {self.version}, so that it comes after it."
