"""docs/runbook.md as its readers use it: entries with codes, labelled lines and ways on, each a block of commands to type."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.unit.cli.samples import Ran, Run

BOOK = Path(__file__).parents[3] / "docs/runbook.md"
#: In this order, each once.
LABELS = ("Means", "Safe", "Press", "Never")
#: What only looks may end with what it found.
LOOKS = ("status", "plan", "check", "verify", "ledger verify", "schema status", "jars", "history", "report")
_FOUND = (0, 1, 3)
_WORD = re.compile(r"\b[A-Z]{3,}\b")


@dataclass(frozen=True)
class Entry:
    """``ways``: what the label *Type* says before each block -> the block's lines."""

    title: str
    codes: tuple[str, ...]
    labels: dict[str, str]
    ways: dict[str, tuple[str, ...]]

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")


def entries(text: str | None = None) -> dict[str, Entry]:
    """Every heading of level three that has labelled lines."""
    parts = re.split(r"^### (.*)$", text or BOOK.read_text(), flags=re.MULTILINE)[1:]
    found = [_entry(title, body.partition("\n## ")[0]) for title, body in zip(parts[::2], parts[1::2], strict=True)]
    return {entry.title: entry for entry in found if entry.labels}


def _entry(title: str, body: str) -> Entry:
    head, _, rest = body.partition("- **Means:**")
    codes = tuple(re.findall(r"`([a-z0-9_]+)`", head))
    labels = {name: text.strip() for name, text in re.findall(r"^- \*\*(\w+):\*\* (.*(?:\n  .*)*)$", "- **Means:**" + rest, re.MULTILINE)}
    ways = re.findall(r"^\*\*Type\*\*, ([^`]*?(?:`[^`]*`[^`]*?)*):\n\n```sh\n(.*?)```$", body, re.MULTILINE | re.DOTALL)
    return Entry(title, codes, labels if rest else {}, {" ".join(way.split()): tuple(block.strip().splitlines()) for way, block in ways})


def never_at_night() -> dict[str, tuple[str, ...]]:
    """Why no task shows a code -> the codes."""
    rows = re.findall(r"^\| (.*) \| (.*) \|$", BOOK.read_text().partition("## Not at night")[2], re.MULTILINE)
    return {why: tuple(re.findall(r"`([a-z0-9_]+)`", codes)) for why, codes in rows if "`" in codes}


def way_of(title: str, begins: str) -> tuple[str, ...]:
    entry = entries()[title]
    (found,) = [lines for way, lines in entry.ways.items() if way.startswith(begins)]
    return found


def follow(run: Run, title: str, begins: str, **words: object) -> list[Ran]:
    """Type the lines of the way that begins so, with the capital words filled in. What acts has to succeed; what looks may find something.

    GENERATION and PLAN, where they are not given, are those that an earlier line answered.
    """
    done: list[Ran] = []
    words = {"GENERATION": "", "PLAN": "", **words} if "preflight" in way_of(title, begins)[0] else words
    for line in way_of(title, begins):
        unknown = set(_WORD.findall(line)) - set(words)
        assert not unknown, f"{line}: what is {unknown}?"
        # As a shell splits it, then filled in: a value with quotes or spaces stays one argument.
        program, *arguments = [_filled(part, words) for part in shlex.split(line)]
        if program == "mv":
            source, target = arguments
            shutil.move(source, target)
            continue
        assert program == "schemamig", line
        is_claim = line.startswith("schemamig preflight")
        ran = run(*arguments, *(["--json"] if is_claim else []))
        looks = any(line.startswith(f"schemamig {name} ") or line == f"schemamig {name}" for name in LOOKS)
        assert ran.exit_code in (_FOUND if looks else (0,)), f"{line}\n{ran.stdout}{ran.stderr}"
        if is_claim:
            words |= {"GENERATION": ran.document["generation"], "PLAN": ran.document["plan_digest"]}
        done.append(ran)
    return done


def _filled(part: str, words: Mapping[str, object]) -> str:
    return _WORD.sub(lambda found: str(words[found[0]]), part)


def sees(code: str, title: str) -> None:
    """Who is shown this code finds this entry."""
    assert code in entries()[title].codes, f"{code} is not in the entry '{title}'"
