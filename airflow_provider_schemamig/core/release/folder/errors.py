"""What can be wrong with the files of a release folder: one class a reason.

``file`` is relative to the release folder, with forward slashes; ``line`` and ``column`` count from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.exceptions import Refusal

RELEASE_TOML = "release.toml"
SCHEMA_SQL = "schema.sql"
LOCK_FILE = "snapshots.lock"
SNAPSHOT_COMMAND = "`schemamig snapshot`"


@dataclass(eq=False, kw_only=True)
class FileRefusal(Refusal):
    """Base: something is wrong in ``file``."""

    file: str
    line: int | None = None

    @property
    def where(self) -> str:
        """``migrations/v1_1_0.py:12``."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(eq=False, kw_only=True)
class UnreadableFile(FileRefusal):
    code = "unreadable_file"
    reason: str

    @property
    def message(self) -> str:
        return f"{self.file} cannot be read: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Make it a readable UTF-8 text file (or folder) of this user, or give the right path."


@dataclass(eq=False, kw_only=True)
class InvalidReleaseToml(FileRefusal):
    code = "invalid_release_toml"
    file: str = RELEASE_TOML
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where} is not valid: {self.reason}."

    @property
    def next_action(self) -> str:
        return 'It holds three lines: name = "flights_lake", version = "1.1.0", min_version = "1.0.0".'


@dataclass(eq=False, kw_only=True)
class VersionBelowMinimum(FileRefusal):
    code = "version_below_minimum"
    version: Version
    minimum: Version

    @property
    def message(self) -> str:
        return f"{self.file} is of version {self.version}; with min_version = {self.minimum} that is too old to be here."

    @property
    def next_action(self) -> str:
        if self.file == RELEASE_TOML:
            return "Raise version, or lower min_version."
        return (
            f"If min_version was raised, delete it (git rm {self.file}) and run {SNAPSHOT_COMMAND}, which takes its line out of "
            f"{LOCK_FILE}; otherwise lower min_version again."
        )


@dataclass(eq=False, kw_only=True)
class VersionAboveHead(FileRefusal):
    code = "version_above_head"
    version: Version
    head: Version

    @property
    def message(self) -> str:
        return f"{self.file} is of version {self.version}, but the release is {self.head}."

    @property
    def next_action(self) -> str:
        return f"Set version in {RELEASE_TOML} to {self.version}, or delete the file."


@dataclass(eq=False, kw_only=True)
class UnexpectedFile(FileRefusal):
    code = "unexpected_file"
    expected: str

    @property
    def message(self) -> str:
        return f"{self.file} does not belong here: files of this folder are named like {self.expected}."

    @property
    def next_action(self) -> str:
        return "Rename or delete it."


@dataclass(eq=False, kw_only=True)
class MissingSnapshot(FileRefusal):
    code = "missing_snapshot"
    version: Version
    is_head: bool

    @property
    def message(self) -> str:
        return f"{self.file} is missing: every version from min_version to the head needs its snapshot."

    @property
    def next_action(self) -> str:
        if self.is_head:
            return f"Run {SNAPSHOT_COMMAND}: it freezes {SCHEMA_SQL} as {self.file}."
        return "Restore it from version control; or, if the version was never released, delete its migration module and lock line too."


@dataclass(eq=False, kw_only=True)
class MissingModule(FileRefusal):
    code = "missing_module"
    version: Version

    @property
    def message(self) -> str:
        return f"{self.file} is missing: nothing says how an environment gets to {self.version}."

    @property
    def next_action(self) -> str:
        return "Write it (a docstring, and STEPS = [] if nothing needs a step); if it was released, restore it from version control."


@dataclass(eq=False, kw_only=True)
class SchemaNotFrozen(FileRefusal):
    code = "schema_not_frozen"
    version: Version
    digest: str

    @property
    def message(self) -> str:
        return f"{SCHEMA_SQL} and {self.file} differ; the snapshot of the head is its copy, byte for byte."

    @property
    def next_action(self) -> str:
        return (
            f"If {SCHEMA_SQL} was changed by mistake, restore it (git checkout -- {SCHEMA_SQL}). If {self.version} is deployed anywhere, "
            f"begin the next version: `schemamig new`. If it never was, run {SNAPSHOT_COMMAND}: it freezes {SCHEMA_SQL} again, and the "
            f'line in {LOCK_FILE} becomes "{self.file}" = "{self.digest}"'
        )


@dataclass(eq=False, kw_only=True)
class InvalidLock(FileRefusal):
    code = "invalid_lock"
    file: str = LOCK_FILE
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where} is not valid: {self.reason}."

    @property
    def next_action(self) -> str:
        return f"Restore it from version control, it guards what was released; if there never was one, run {SNAPSHOT_COMMAND}."


@dataclass(eq=False, kw_only=True)
class NotLocked(FileRefusal):
    code = "not_locked"
    digest: str

    @property
    def message(self) -> str:
        return f"{self.file} has no line in {LOCK_FILE}."

    @property
    def next_action(self) -> str:
        return f'Run {SNAPSHOT_COMMAND}, or add the line: "{self.file}" = "{self.digest}"'


@dataclass(eq=False, kw_only=True)
class LockedFileMissing(FileRefusal):
    """A lock line for a version that is no longer supported, or whose file is gone."""

    code = "locked_file_missing"

    @property
    def message(self) -> str:
        return f"{LOCK_FILE} has a line for {self.file}, and there is no such file."

    @property
    def next_action(self) -> str:
        return f"Restore the file from version control; or, if min_version was raised past it, run {SNAPSHOT_COMMAND}."


@dataclass(eq=False, kw_only=True)
class _Edited(FileRefusal):
    version: Version
    locked: str
    digest: str
    #: Only the version that is still being written may be claimed by another branch, too.
    is_head: bool = False

    @property
    def next_action(self) -> str:
        rebase = f"If another branch released {self.version}, too, run `schemamig rebase --onto {self.version}`. " if self.is_head else ""
        return (
            f"If it was changed by mistake, restore it (git checkout -- {self.file}) and put the change into a new version. {rebase}"
            f'If {self.version} was never deployed anywhere, replace its line in {LOCK_FILE} by: "{self.file}" = "{self.digest}"'
        )


@dataclass(eq=False, kw_only=True)
class EditedSnapshot(_Edited):
    code = "edited_snapshot"

    @property
    def message(self) -> str:
        return f"{self.file} was changed after it was frozen ({self.locked} became {self.digest}): environments look like the old text."


@dataclass(eq=False, kw_only=True)
class EditedModule(_Edited):
    code = "edited_module"

    @property
    def message(self) -> str:
        return (
            f"{self.file} was changed after its release ({self.locked} became {self.digest}): "
            "environments that already ran it are left in another state than those that will."
        )


@dataclass(eq=False, kw_only=True)
class FolderNotEmpty(FileRefusal):
    code = "folder_not_empty"
    found: Sequence[str]

    @property
    def message(self) -> str:
        return f"{self.file} is not empty (it holds {', '.join(list(self.found)[:3])}): a new release folder is not put over files."

    @property
    def next_action(self) -> str:
        return "Give a folder that does not exist yet, or an empty one."
