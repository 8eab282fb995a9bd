"""``objects.lock``: the sha256 of every published format's types and steps, so that nobody changes what ledgers were written by (B11).

A line has the form that a release's ``snapshots.lock`` has, and it is read and written by the same hands: a person's, from the message.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from airflow_provider_schemamig.core.ledger import format as package
from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION
from airflow_provider_schemamig.core.release.folder.lock import digest

FOLDER = Path(next(iter(package.__path__)))
LOCK = "objects.lock"
DRAFT = "draft"
LOCKED = re.compile(r"objects_v(\d+)\.py|v(\d+)_to_v(\d+)\.py")


HEADER = """\
# What ledgers out there were written by: a line for the types of each format, and for each step, that a version of the package was
# published with. A locked file never changes. "draft" is the format that no version was published with yet, if there is one: its files may
# change, and have no line (docs/ledger-format.md).
"""


def complaints(folder: Path = FOLDER) -> list[str]:
    """Everything that is wrong, each with its reason, what to do, and the line to paste."""
    locked = tomllib.loads((folder / LOCK).read_text())
    draft = locked.pop(DRAFT, None)
    found = _digests(folder)
    free = _files(draft) if draft is not None else set()
    wrong = [] if draft in (None, FORMAT_VERSION) else [f"{LOCK} calls format {draft} a draft, and the newest is {FORMAT_VERSION}."]
    wrong += [f"{LOCK} has {name}, and calls its format a draft: one of the two lines has to go." for name in sorted(free & locked.keys())]
    wrong += [
        f"{LOCK} has {name}, and there is no such file. Put it back; if MIN was raised on purpose, delete its line."
        for name in locked
        if name not in found
    ]
    return wrong + [_complaint(name, locked.get(name), now) for name, now in found.items() if name not in free and locked.get(name) != now]


def freeze(folder: Path = FOLDER) -> None:
    """Lock the draft; what is locked already keeps its line."""
    locked = tomllib.loads((folder / LOCK).read_text())
    locked.pop(DRAFT, None)
    lines = [f'"{name}" = "{found}"\n' for name, found in (_digests(folder) | locked).items()]
    (folder / LOCK).write_text(HEADER + "".join(lines))


def draft(folder: Path = FOLDER) -> int | None:
    """The format that no version of the package is published with."""
    return tomllib.loads((folder / LOCK).read_text()).get(DRAFT)


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: digest(path.read_bytes()) for path in sorted(folder.glob("*.py")) if LOCKED.fullmatch(path.name)}


def _files(number: int) -> set[str]:
    return {f"objects_v{number}.py", f"v{number - 1}_to_v{number}.py"}


def _complaint(name: str, locked: str | None, now: str) -> str:
    line = f'"{name}" = "{now}"'
    if locked is None:
        return f"{name} is not in {LOCK}: anybody could change it unseen. Add the line\n  {line}"
    kind = "the types of a ledger format" if name.startswith("objects") else "a step of the ledger's format"
    following = f"objects_v{FORMAT_VERSION + 1}.py and v{FORMAT_VERSION}_to_v{FORMAT_VERSION + 1}.py"
    return (
        f"{name} was changed, and it holds {kind}: ledgers out there were written by it, as it was.\n"
        f"- Ledgers were written by it: put it back, and make a new format with {following} (docs/ledger-format.md).\n"
        f"- It never left this branch: replace its line in {LOCK} with\n  {line}\n  (it was {locked})"
    )
