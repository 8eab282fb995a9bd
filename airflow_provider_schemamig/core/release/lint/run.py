"""All rules on one release folder: ``lint`` shows what they find, ``check`` makes refusals of the errors among it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airflow_provider_schemamig.core.release.check import check_reading
from airflow_provider_schemamig.core.release.folder.errors import SCHEMA_SQL
from airflow_provider_schemamig.core.release.folder.lock import module_file
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.model import LintError, LintFinding, Rule, Severity
from airflow_provider_schemamig.core.release.lint.rules import comments as rules_comments
from airflow_provider_schemamig.core.release.lint.subject import Subject
from airflow_provider_schemamig.core.release.lint.suppress import Suppression, suppressions
from airflow_provider_schemamig.exceptions import Refusal

#: Every rule, by code.
RULES: tuple[Rule, ...] = tuple(sorted((*rules_comments.RULES, *rules_comments.ALLOWABLE), key=lambda rule: rule.code))


@dataclass(frozen=True, slots=True)
class Review:
    """A release folder looked at: ``refusals`` of its files and chain, and only if there are none ``findings`` about its head.

    ``allowed`` are findings that a comment allows, with its reason.
    """

    release: Release | None
    refusals: tuple[Refusal, ...]
    findings: tuple[LintFinding, ...] = ()
    allowed: tuple[LintFinding, ...] = ()

    @property
    def errors(self) -> tuple[LintError, ...]:
        return tuple(error_of(finding) for finding in self.findings if finding.rule.severity is Severity.ERROR)


def review(path: Path) -> Review:
    """Check the release folder at ``path``, then run every rule on the version being written. Writes nothing."""
    reading, refusals = check_reading(path)
    release = reading.release
    if refusals or release is None:
        return Review(release, tuple(refusals))
    module = reading.texts.get(module_file(release.version), "") if release.version in release.modules else ""
    findings, allowed = lint(Subject(release, reading.texts[SCHEMA_SQL], module))
    return Review(release, (), findings, allowed)


def lint(subject: Subject) -> tuple[tuple[LintFinding, ...], tuple[LintFinding, ...]]:
    """Return what the rules find, sorted by place; apart what comments allow."""
    comments = suppressions(subject)
    found = [LintFinding(rule, hit, _reason(rule, hit, comments)) for rule in RULES for hit in rule.check(subject)]
    found.sort(key=lambda finding: (finding.hit.file == SCHEMA_SQL, finding.hit.file, finding.hit.line, finding.rule.code))
    return tuple(f for f in found if f.reason is None), tuple(f for f in found if f.reason is not None)


def error_of(finding: LintFinding) -> LintError:
    hit, rule = finding.hit, finding.rule
    return LintError(collection=hit.collection, file=hit.file, line=hit.line, rule=rule.code, name=rule.name, text=hit.text)


def _reason(rule: Rule, hit: Hit, comments: tuple[Suppression, ...]) -> str | None:
    if rule in rules_comments.RULES:
        return None
    return next((comment.reason for comment in comments if comment.reason and comment.covers(rule.code, hit)), None)
