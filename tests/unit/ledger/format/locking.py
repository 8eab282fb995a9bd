"""``objects.lock``: the sha256 of every format's types and of every step, so that nobody changes what ledgers were written by (B11).

A line has the form that a release's ``snapshots.lock`` has, and it is read and written by the same hands: a person's, from the message.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from airflow_provider_schemamig.core.ledger import format as package
from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION
from airflow_provider_schemamig.core.release.lock import digest

FOLDER = Path(next(iter(package.__path__)))
LOCK = "objects.lock"
LOCKED = re.compile(r"objects_v(\d+)\.py|v(\d+)_to_v(\d+)\.py")


def complaints(folder: Path = FOLDER) -> list[str]:
    """Everything that is wrong, each with its reason, what to do, and the line to paste."""
    locked = tomllib.loads((folder / LOCK).read_text())
    found = {path.name: digest(path.read_bytes()) for path in sorted(folder.glob("*.py")) if LOCKED.fullmatch(path.name)}
    gone = [
        f"{LOCK} has {name}, and there is no such file. Put it back; if MIN was raised on purpose, delete its line."
        for name in locked
        if name not in found
    ]
    return gone + [_complaint(name, locked.get(name), now) for name, now in found.items() if locked.get(name) != now]


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
