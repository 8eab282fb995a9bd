"""Why a release folder fails its upgrade tests: fixtures that are not what they were, paths that users cannot take."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import FileRefusal
from airflow_provider_schemamig.exceptions import Refusal

_OWN_ROWS = 'To keep rows of your own, write "generator": "hand" in its first line.'


# --- fixtures ------------------------------------------------------------------------------------------------------------------------


class FixtureMissing(FileRefusal):
    code = "fixture_missing"
    message = "{where} is missing: there are no rows of that version to carry to the later ones."
    next_action = "Run `schemamig fixtures` and commit what it writes."


class FixtureChanged(FileRefusal):
    """The same generator makes other rows of the same declaration: somebody edited the file, or the declaration of a released version."""

    code = "fixture_changed"
    message = "{where} is not what is generated for this version: the rows it stands for may be gone from the tests."
    is_head: bool = False

    @property
    def next_action(self) -> str:
        if self.is_head:
            return f"If schema.sql changed since, run `schemamig fixtures` again. {_OWN_ROWS}"
        return f"Restore the file from git. {_OWN_ROWS}"


class FixtureDamaged(FileRefusal):
    """``line`` is counted from 1."""

    code = "fixture_damaged"
    message = "{where} cannot be read as rows of its collection: {reason}."
    next_action = "Restore the file from git, correct the line, or delete the file and run `schemamig fixtures`."
    reason: str


class FixtureNotCanonical(FileRefusal):
    """Read and written again, the row is another text: two ways to write one value, and a later version may take one of them only."""

    code = "fixture_not_canonical"
    message = "{where} is not in the form that this row is written in."
    next_action = "Write the line as {expected}"
    expected: str


class FixtureTooNew(FileRefusal):
    code = "fixture_too_new"
    message = "{where} was made by generator {generator}, and this schemamig knows up to {known}."
    next_action = "Install the version of schemamig that wrote it, or a newer one."
    generator: int
    known: int


class FixtureUnexpected(FileRefusal):
    code = "fixture_unexpected"
    message = "{where} belongs to no supported version that makes or changes this collection."
    next_action = "Delete the file (git keeps it)."


# --- paths ---------------------------------------------------------------------------------------------------------------------------


class PathFailed(Refusal):
    """One reason why ``path`` cannot be taken. ``phase`` is what was being done; ``reason`` and ``remedy`` are whole sentences."""

    code = "path_failed"
    message = "{path}: {phase}: [{cause}] {reason}"
    next_action = "{remedy} Repeat this path alone with `{repeat}`."
    path: str
    phase: str
    cause: str
    reason: str
    remedy: str
    repeat: str


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


class ReleaseForgotten(Refusal):
    """``target`` came out after ``released``, is a higher version, and does not have it between its versions."""

    code = "release_forgotten"
    message = (
        "{released} was released before {target}, and the folder of {target} does not have it, so an environment at {released} cannot be "
        "upgraded to {target}."
    )
    next_action = (
        "Merge snapshots/{released}.sql, migrations/{released.module_name}.py and their lines of snapshots.lock from the branch that "
        "released it."
    )
    released: Version
    target: Version


class ReleasedFileChanged(FileRefusal):
    """A tag holds other bytes of a released file than the folder: environments are at what the tag says."""

    code = "released_file_changed"
    message = "{where} is not what the tag {tag} released; environments at that version have what the tag has."
    next_action = "Restore it: `git show {tag}:./{file}` in the release folder. A change goes into a new version."
    tag: str


class InvalidReleased(Refusal):
    code = "invalid_released"
    message = "what was released cannot be known: {reason}."
    next_action = "Give the versions in the order in which they came out: 1.0.0,1.1.0,1.0.1, or a file with one a line, or --tags 'v*'."
    reason: str


class UnknownPath(Refusal):
    code = "unknown_upgrade_path"
    message = "there is no path {text!r} in this release."
    next_action = "Paths are written 1.0.0..1.3.0; there are {known:.8}."
    text: str
    known: tuple[str, ...]
