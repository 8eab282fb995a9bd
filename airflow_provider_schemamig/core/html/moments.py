"""When the stages of a plan happen, in the words that people read: terminal, page and report."""

from __future__ import annotations

#: Title, what it means, the kinds of stages; in order. Every kind that a plan lists stands here once (tested against ``PLAN_KINDS``).
MOMENTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Before promotion", "no live table is touched", ("build", "copy")),
    ("Expand", "adds, relaxes and widens; nothing is taken away", ("settle", "create", "expand")),
    ("Change online", "rows are validated and filled while others read and write", ("change",)),
    ("Cut over and commit", "the environment is at the new release afterwards", ("seal", "cutover", "commit")),
    ("Contract", "what is taken away for good, and when", ("end_hold", "contract", "retire")),
)
