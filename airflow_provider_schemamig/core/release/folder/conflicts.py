"""Git's conflict markers in the files of a release folder, and versions that two branches claim.

Version numbers are linear, so two branches that release the same one must conflict, clearly and before anything is read as if it were
one text. What to do about it differs by file; ``schemamig rebase`` renumbers the own migration.
"""

from __future__ import annotations

import re

from airflow_provider_schemamig.core.release.folder.errors import LOCK_FILE, RELEASE_TOML, SCHEMA_SQL, FileRefusal

_BEGIN = re.compile(rb"^<{7}(?: .*)?$", re.MULTILINE)
_END = re.compile(rb"^>{7}(?: .*)?$", re.MULTILINE)
_LOCK_LINE = re.compile(r'^\s*"([^"\n]+)"\s*=', re.MULTILINE)
REBASE = (
    "If both branches claim one version, abort the merge (git merge --abort, or git rebase --abort), run `schemamig rebase --onto VERSION` "
    "with that version on the branch that is not released yet, commit, and merge again."
)


class MergeConflict(FileRefusal):
    """``line`` is where the first marker stands."""

    code = "merge_conflict"
    message = "{where} holds git's conflict markers: another branch changed the same lines."

    @property
    def next_action(self) -> str:
        if self.file == SCHEMA_SQL:
            return f"Keep what both branches want, delete the markers, then run `schemamig snapshot`. {REBASE}"
        if self.file == LOCK_FILE:
            return f"Take the file of the branch that is released, then run `schemamig snapshot`: it adds the lines of this one. {REBASE}"
        if self.file == RELEASE_TOML:
            return f"Keep the higher version and the higher min_version, and delete the markers. {REBASE}"
        return f"A snapshot or module belongs to one branch: its lines cannot be mixed. {REBASE}"


class DuplicateVersion(FileRefusal):
    """The lock has two lines for one file, as a careless merge leaves them."""

    code = "duplicate_version"
    message = "{where} has a second line for {name}: two branches claim this version with other content."
    next_action = f"Keep the line of the branch that is released, and its file. {REBASE}"
    file: str = LOCK_FILE
    name: str


def conflict_line(data: bytes) -> int | None:
    """Return the line (from 1) of the first marker of a conflict that git left in a file, or None."""
    begin = _BEGIN.search(data)
    if begin is None or _END.search(data, begin.end()) is None:
        return None
    return data.count(b"\n", 0, begin.start()) + 1


def duplicate_line(text: str) -> tuple[str, int] | None:
    """Return the first file that has two lines in a lock, and the second one's line (from 1)."""
    seen: set[str] = set()
    for found in _LOCK_LINE.finditer(text):
        if found[1] in seen:
            return found[1], text.count("\n", 0, found.start(1)) + 1
        seen.add(found[1])
    return None
