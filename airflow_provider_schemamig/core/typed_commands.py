"""The commands in a text, as its reader can type them: with the options for environment and release."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

#: Commands that take no ``--env``, and those that take ``--release`` (a test holds both against the command line).
WITHOUT_ENV = frozenset(
    {"init", "jars", "snapshot", "check", "diff", "new", "rebase", "lint", "fixtures", "test", "replicate", "schema diff"}
)
WITH_RELEASE = frozenset(
    {"accept", "adopt", "check", "fixtures", "ledger rebuild", "lint", "new", "plan", "preflight", "rebase", "snapshot", "test", "upgrade"}
)
_COMMAND = re.compile(r"`schemamig ((?:ledger |schema )?[a-z_]+)([^`]*)`")


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters ``start`` to ``end`` of a text make way for ``new``."""

    start: int
    end: int
    new: str


def edits(text: str, environment: str | None, release: str | None) -> Iterator[Edit]:
    """Yield what completes the commands in ``text``, from its end backwards. None: nobody has to type the option."""
    for found in reversed(list(_COMMAND.finditer(text))):
        verb, rest = found[1], found[2]
        options = ""
        if environment is not None:
            rest = rest.replace(" --env URI", "")
            if verb not in WITHOUT_ENV and "--env" not in rest:
                options += f" --env {shlex.quote(environment)}"
        if release is not None:
            rest = rest.replace(" --release DIR", "")
            if verb in WITH_RELEASE and "--release" not in rest:
                options += f" --release {shlex.quote(release)}"
        if options or rest != found[2]:
            yield Edit(found.end(1), found.end(2), f"{options}{rest}")


def complete(text: str, environment: str | None, release: str | None) -> str:
    """Return ``text`` with the commands in it as they can be typed: with ``--env`` and ``--release``, where they take them."""
    for edit in edits(text, environment, release):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def typed(command: str, environment: str) -> str:
    """Return the command (a verb and its options) as it is typed for this environment: for documents, which stand in no text."""
    return complete(f"`schemamig {command}`", environment, None).strip("`")
