"""Why a release folder fails its upgrade tests: fixtures that are not what they were, paths that users cannot take."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import FileRefusal
from airflow_provider_schemamig.exceptions import Refusal

COMMAND = "`schemamig fixtures`"
_OWN_ROWS = 'To keep rows of your own, write "generator": "hand" in its first line.'


# --- fixtures ------------------------------------------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class FixtureMissing(FileRefusal):
    code = "fixture_missing"

    @property
    def message(self) -> str:
        return f"{self.where} is missing: there are no rows of that version to carry to the later ones."

    @property
    def next_action(self) -> str:
        return f"Run {COMMAND} and commit what it writes."


@dataclass(eq=False, kw_only=True)
class FixtureChanged(FileRefusal):
    """The same generator makes other rows of the same declaration: somebody edited the file, or the declaration of a released version."""

    code = "fixture_changed"
    is_head: bool = False

    @property
    def message(self) -> str:
        return f"{self.where} is not what is generated for this version: the rows it stands for may be gone from the tests."

    @property
    def next_action(self) -> str:
        if self.is_head:
            return (
                f'If schema.sql changed since, run {COMMAND} again. To keep rows of your own, write "generator": "hand" in its first line.'
            )
        return 'Restore the file from git. To keep rows of your own, write "generator": "hand" in its first line.'


@dataclass(eq=False, kw_only=True)
class FixtureDamaged(FileRefusal):
    """``line`` is counted from 1."""

    code = "fixture_damaged"
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where} cannot be read as rows of its collection: {self.reason}."

    @property
    def next_action(self) -> str:
        return f"Restore the file from git, correct the line, or delete the file and run {COMMAND}."


@dataclass(eq=False, kw_only=True)
class FixtureNotCanonical(FileRefusal):
    """Read and written again, the row is another text: two ways to write one value, and a later version may take one of them only."""

    code = "fixture_not_canonical"
    expected: str

    @property
    def message(self) -> str:
        return f"{self.where} is not written as this row is written again."

    @property
    def next_action(self) -> str:
        return f"Write the line as {self.expected}"


@dataclass(eq=False, kw_only=True)
class FixtureTooNew(FileRefusal):
    code = "fixture_too_new"
    generator: int
    known: int

    @property
    def message(self) -> str:
        return f"{self.where} was made by generator {self.generator}, and this schemamig knows up to {self.known}."

    @property
    def next_action(self) -> str:
        return "Install the version of schemamig that wrote it, or a newer one."


@dataclass(eq=False, kw_only=True)
class FixtureUnexpected(FileRefusal):
    code = "fixture_unexpected"

    @property
    def message(self) -> str:
        return f"{self.where} belongs to no supported version that makes or changes this collection."

    @property
    def next_action(self) -> str:
        return "Delete the file (git keeps it)."


# --- paths ---------------------------------------------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class PathFailed(Refusal):
    """One reason why ``path`` cannot be taken. ``phase`` is what was being done; ``reason`` and ``remedy`` are whole sentences."""

    code = "path_failed"
    path: str
    phase: str
    cause: str
    reason: str
    remedy: str
    repeat: str

    @property
    def message(self) -> str:
        return f"{self.path}: {self.phase}: [{self.cause}] {self.reason}"

    @property
    def next_action(self) -> str:
        return f"{self.remedy} Repeat this path alone with `{self.repeat}`."


@dataclass(eq=False, kw_only=True)
class BackportBreaksPath(Refusal):
    """``backport`` came out after ``existing``, which is a higher version and cannot know it."""

    code = "backport_breaks_path"
    backport: Version
    existing: Version
    steps: tuple[str, ...]

    @property
    def message(self) -> str:
        what = f"brings {', '.join(self.steps)}" if self.steps else "changes no schema, and yet is a version of its own"
        return (
            f"{self.backport} was released after {self.existing} and {what}; the chain of {self.existing} does not have it, "
            f"so an environment at {self.backport} cannot be upgraded to {self.existing}."
        )

    @property
    def next_action(self) -> str:
        patch = Version(self.existing.major, self.existing.minor, self.existing.patch + 1)
        return (
            f"Release the migration above {self.existing} instead of below it; or release {patch} with {self.backport} in its folder, "
            f"and tell users of {self.backport} to go there, past {self.existing}."
        )


@dataclass(eq=False, kw_only=True)
class ReleaseForgotten(Refusal):
    """``target`` came out after ``released``, is a higher version, and does not have it between its versions."""

    code = "release_forgotten"
    released: Version
    target: Version

    @property
    def message(self) -> str:
        return (
            f"{self.released} was released before {self.target}, and the folder of {self.target} does not have it, so an environment at "
            f"{self.released} cannot be upgraded to {self.target}."
        )

    @property
    def next_action(self) -> str:
        module = f"migrations/{self.released.module_name}.py"
        return f"Merge snapshots/{self.released}.sql, {module} and their lines of snapshots.lock from the branch that released it."


@dataclass(eq=False, kw_only=True)
class ReleasedFileChanged(FileRefusal):
    """A tag holds other bytes of a released file than the folder: environments are at what the tag says."""

    code = "released_file_changed"
    tag: str

    @property
    def message(self) -> str:
        return f"{self.where} is not what the tag {self.tag} released; environments at that version have what the tag has."

    @property
    def next_action(self) -> str:
        return f"Restore it: `git show {self.tag}:./{self.file}` in the release folder. A change goes into a new version."


@dataclass(eq=False, kw_only=True)
class InvalidReleased(Refusal):
    code = "invalid_released"
    reason: str

    @property
    def message(self) -> str:
        return f"what was released cannot be known: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Give the versions in the order in which they came out: 1.0.0,1.1.0,1.0.1, or a file with one a line, or --tags 'v*'."


@dataclass(eq=False, kw_only=True)
class UnknownPath(Refusal):
    code = "unknown_upgrade_path"
    text: str
    known: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"there is no path {self.text!r} in this release."

    @property
    def next_action(self) -> str:
        return f"Paths are written 1.0.0..1.3.0; there are {', '.join(self.known[:8])}{' and more' if len(self.known) > 8 else ''}."
