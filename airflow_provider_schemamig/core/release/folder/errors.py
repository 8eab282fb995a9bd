"""What can be wrong with the files of a release folder: one class a reason.

``file`` is relative to the release folder, with forward slashes; ``line`` and ``column`` count from 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.exceptions import Refusal

RELEASE_TOML = "release.toml"
SCHEMA_SQL = "schema.sql"
LOCK_FILE = "snapshots.lock"


class FileRefusal(Refusal):
    """Base: something is wrong in ``file``."""

    file: str
    line: int | None = None

    @property
    def where(self) -> str:
        """Return the place in the form ``migrations/v1_1_0.py:12``."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


class UnwritableFile(FileRefusal):
    code = "unwritable_file"
    message = "{file} cannot be written: {reason}."
    next_action = "Give a path in a folder that is there and may be written to."
    reason: str


class UnreadableFile(FileRefusal):
    code = "unreadable_file"
    message = "{file} cannot be read: {reason}."
    reason: str
    #: It is what was given for a release, and no folder.
    is_no_folder: bool = False

    @property
    def next_action(self) -> str:
        if self.is_no_folder:
            return "Give the path of a release folder; `schemamig init DIR` makes one."
        return "Make it a readable UTF-8 text file (or folder) of this user, or give the right path."


class InvalidReleaseToml(FileRefusal):
    code = "invalid_release_toml"
    message = "{where} is not valid: {reason}."
    next_action = 'It holds three lines: name = "flights_lake", version = "1.1.0", min_version = "1.0.0".'
    file: str = RELEASE_TOML
    reason: str


class VersionBelowMinimum(FileRefusal):
    code = "version_below_minimum"
    message = "{file} is of version {version}; with min_version = {minimum} that is too old to be here."
    version: Version
    minimum: Version

    @property
    def next_action(self) -> str:
        if self.file == RELEASE_TOML:
            return "Raise version, or lower min_version."
        return (
            f"If min_version was raised, delete it (git rm {self.file}) and run `schemamig snapshot`, which takes its line out of "
            "snapshots.lock; otherwise lower min_version again."
        )


class VersionAboveHead(FileRefusal):
    code = "version_above_head"
    message = "{file} is of version {version}, but the release is {head}."
    next_action = "Set version in release.toml to {version}, or delete the file."
    version: Version
    head: Version


class UnexpectedFile(FileRefusal):
    code = "unexpected_file"
    message = "{file} does not belong here: files of this folder are named like {expected}."
    next_action = "Rename or delete it."
    expected: str


class MissingSnapshot(FileRefusal):
    code = "missing_snapshot"
    message = "{file} is missing: every version from min_version to the head needs its snapshot."
    version: Version
    is_head: bool

    @property
    def next_action(self) -> str:
        if self.is_head:
            return f"Run `schemamig snapshot`: it freezes schema.sql as {self.file}."
        return "Restore it from version control; or, if the version was never released, delete its migration module and lock line too."


class MissingModule(FileRefusal):
    code = "missing_module"
    message = "{file} is missing: nothing says how an environment gets to {version}."
    next_action = "Write it (a docstring, and STEPS = [] if nothing needs a step); if it was released, restore it from version control."
    version: Version


class SchemaNotFrozen(FileRefusal):
    code = "schema_not_frozen"
    message = "schema.sql and {file} differ; the snapshot of the head is its copy, byte for byte."
    next_action = (
        "If schema.sql was changed by mistake, restore it (git checkout -- schema.sql). If {version} is deployed anywhere, begin the next "
        "version: `schemamig new TITLE`. If it never was, run `schemamig snapshot`: it freezes schema.sql again, and the line in "
        'snapshots.lock becomes "{file}" = "{digest}"'
    )
    version: Version
    digest: str


class InvalidLock(FileRefusal):
    code = "invalid_lock"
    message = "{where} is not valid: {reason}."
    next_action = "Restore it from version control: it guards what was released. If there never was one, run `schemamig snapshot`."
    file: str = LOCK_FILE
    reason: str


class NotLocked(FileRefusal):
    code = "not_locked"
    message = "{file} has no line in snapshots.lock."
    next_action = 'Run `schemamig snapshot`, or add the line: "{file}" = "{digest}"'
    digest: str


class LockedFileMissing(FileRefusal):
    """A lock line whose file is gone, or is of a version no longer supported."""

    code = "locked_file_missing"
    message = "snapshots.lock has a line for {file}, and there is no such file."
    next_action = "Restore the file from version control; or, if min_version was raised past it, run `schemamig snapshot`."


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


class EditedSnapshot(_Edited):
    code = "edited_snapshot"
    message = "{file} was changed after it was frozen ({locked} became {digest}): environments were deployed from the old text."


class EditedModule(_Edited):
    code = "edited_module"
    message = (
        "{file} was changed after its release ({locked} became {digest}): environments that already ran it are left in another state than "
        "those that will."
    )


class FolderNotEmpty(FileRefusal):
    code = "folder_not_empty"
    message = "{file} is not empty (it holds {found:.3}): a new release folder is not put over files."
    next_action = "Give a folder that does not exist yet, or an empty one."
    found: Sequence[str]
