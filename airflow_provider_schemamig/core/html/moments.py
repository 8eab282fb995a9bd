"""The words of terminal, page and report for when a plan's stages happen and where a way back leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Title, what it means, the kinds of stages; in order. Every kind that a plan lists stands here once (tested against ``PLAN_KINDS``).
MOMENTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Before promotion", "no live table is touched", ("build", "copy")),
    ("Expand", "adds, relaxes and widens; nothing is taken away", ("settle", "create", "expand")),
    ("Change online", "rows are validated and filled while others read and write", ("change",)),
    ("Cut over and commit", "in force from the commit on", ("seal", "cutover", "commit")),
    ("Contract", "what is taken away for good, and when", ("end_hold", "contract", "retire")),
)


def back_to(hold: Mapping[str, Any]) -> str:
    """Return where a rollback of a hold's document leads. An ``alter`` leaves the release, so its version alone says nothing."""
    before = str(hold["from"])
    return before if before != hold["to"] else f"{before} as it was before generation {hold['generation']}"
