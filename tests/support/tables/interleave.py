"""A writer that plans right before a commit of ours on a table, and goes on as soon as it stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.delta.interleavings import COMMITS, Kind
from tests.support.rows.tables import Action, commit_at

#: Ends the statement, and says how it ended: None if it committed.
End = Callable[[], Exception | None]


@dataclass
class Interleave:
    """A hook for ``Environment.on_write``: ``plan`` is called before the commit number ``at`` of ours, what it returns after it."""

    at: int
    plan: Callable[[], End]
    commits: int = 0
    met: bool = False
    error: Exception | None = None
    _end: End | None = field(default=None, repr=False)

    def __call__(self, moment: str, what: str, key: str) -> None:
        if not key.startswith("_delta_log/"):
            return
        if moment == "before" and self.commits == self.at and self._end is None:
            self._end = self.plan()
        if moment == "after":
            if self.commits == self.at and self._end is not None:
                self.error, self.met = self._end(), True
            self.commits += 1

    def check(self, expected: str) -> None:
        """``expected``: COMMITS, or a pattern of the error."""
        assert self.met
        if expected == COMMITS:
            assert self.error is None, self.error
        else:
            assert self.error is not None, "it committed"
            assert re.search(expected, str(self.error)), self.error


def is_ours(actions: Sequence[Action]) -> bool:
    """Whether a commit is schemamig's own."""
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    return str(info.get("engineInfo")).startswith("schemamig/")


def kinds(table: Path, since: int, until: int) -> tuple[Kind, ...]:
    """Of the commits after ``since`` up to ``until`` that are ours."""
    found = [commit_at(table, version) for version in range(since + 1, until + 1)]
    return tuple(_kind(actions) for actions in found if is_ours(actions))


def _kind(actions: Sequence[Action]) -> Kind:
    if any("metaData" in action for action in actions):
        return Kind.METADATA
    if any("domainMetadata" in action for action in actions):
        return Kind.DOMAIN
    return Kind.FILES if any(action["add"]["dataChange"] for action in actions if "add" in action) else Kind.LAYOUT
