"""The runbook (docs/runbook.md) as the page shows it, and the entry of each red thing there. The package brings the book along."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

#: What the page shows besides codes -> the title of its entry.
SIGNS: Mapping[str, str] = MappingProxyType(
    {
        "unreachable": "The page shows unreachable or stale",
        "reader_ended": "The page shows unreachable or stale",
        "failed": "The page shows unreachable or stale",
        "stale": "The page shows unreachable or stale",
        "paused": "Paused and nobody knows why",
        "half_way": "An upgrade was left half-way",
        "sealed": "A seal that nobody opens",
        "stream_waits": "A stream waits",
    }
)

#: What says nothing of the reason.
_GENERAL = frozenset({"refused", "failed"})


def entry_of(code: str, detail: str = "") -> str:
    """Return the anchor of the entry about an error's code, or one of ``SIGNS``; "" where there is none.

    ``detail``: what is told beside it. The codes in that are the reasons where ``code`` only says that something was refused, or failed.
    """
    named = [reason for reason in re.findall(r"\[(\w+)\]", detail) if reason in _entries() and reason not in _GENERAL]
    return _entries().get(named[0] if named and code in _GENERAL else code, "")


@functools.cache
def runbook_html() -> str:
    """Return the runbook as HTML. Links lead within it: other pages of the docs are not here."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(re.sub(r"^<!--.*-->$", "", _text(), flags=re.MULTILINE))
    for heading, inline in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", _anchor(inline.content))
    for link in (child for token in tokens for child in token.children or ()):
        if link.type == "link_open" and not str(link.attrGet("href")).startswith("#"):
            link.attrs = {}
    return str(parser.renderer.render(tokens, parser.options, {}))


@functools.cache
def _entries() -> Mapping[str, str]:
    parts = re.split(r"^### (.*)$", _text(), flags=re.MULTILINE)[1:]
    found = {sign: _anchor(title) for sign, title in SIGNS.items()}
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        head, means, _ = body.partition("- **Means:**")
        found |= dict.fromkeys(re.findall(r"`(\w+)`", head if means else ""), _anchor(title))
    return found


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@functools.cache
def _text() -> str:
    return resources.files(__package__).joinpath("runbook.txt").read_text(encoding="utf-8")
