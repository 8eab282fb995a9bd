"""A rule, and what it finds (as ruff has them: a code, a name, one page of docs each in docs/lint/)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_schemamig.core.release.folder.errors import FileRefusal
from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.subject import Subject


class Severity(StrEnum):
    """An error keeps a release from passing ``check``, a warning is shown there, a notice by ``lint`` only."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Rule:
    """``check`` looks at the version that is being written. ``summary`` says what it finds, in a few words."""

    code: str
    name: str
    severity: Severity
    summary: str
    check: Callable[[Subject], Iterator[Hit]]

    @property
    def page(self) -> str:
        """Return the rule's page of docs, relative to the project."""
        return f"docs/lint/{self.code}.md"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A rule's hit. ``reason``: why its author allows it, or None."""

    rule: Rule
    hit: Hit
    reason: str | None = None

    @property
    def where(self) -> str:
        return f"{self.hit.file}:{self.hit.line}"


class LintError(FileRefusal):
    """A finding of a rule that is an error, as ``check`` reports it."""

    code = "lint"
    message = "{where}: {rule} {name}: {text}."
    next_action = (
        "Do what docs/lint/{rule}.md says instead; if it is meant, allow it where it stands, with the reason: `schemamig: allow {rule} "
        "because ...`"
    )
    rule: str
    name: str
    text: str


def rule(code: str, name: str, severity: Severity, summary: str) -> Callable[[Callable[[Subject], Iterator[Hit]]], Rule]:
    """Make a rule of a function."""

    def made(check: Callable[[Subject], Iterator[Hit]]) -> Rule:
        return Rule(code, name, severity, summary, check)

    return made
