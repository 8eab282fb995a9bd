"""SM001: what a migration module says of itself. SM002 to SM004: the comments that allow findings; they cannot be allowed themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.model import Rule, Severity, rule
from airflow_provider_schemamig.core.release.lint.rules import change, loss, schema
from airflow_provider_schemamig.core.release.lint.subject import Subject
from airflow_provider_schemamig.core.release.lint.suppress import suppressions

_WHY = re.compile(r"^\s*Why:\s*\S", re.MULTILINE)


@rule("SM001", "no-why", Severity.ERROR, "the module's docstring does not say why")
def no_why(subject: Subject) -> Iterator[Hit]:
    if subject.migration is not None and _WHY.search(subject.migration.docstring) is None:
        yield subject.in_module(1, None, "the docstring has no paragraph that begins with `Why:`")


#: Every rule that may be allowed.
ALLOWABLE: tuple[Rule, ...] = (no_why, *loss.RULES, *change.RULES, *schema.RULES)
_BY_CODE: Mapping[str, Rule] = {known.code: known for known in ALLOWABLE}


@rule("SM002", "allowed-without-reason", Severity.ERROR, "a finding is allowed without a reason")
def allowed_without_reason(subject: Subject) -> Iterator[Hit]:
    for found in suppressions(subject):
        if found.codes and not found.reason:
            yield Hit(found.file, found.line, None, f"{', '.join(found.codes)} is allowed, and nothing says why")


@rule("SM003", "unreadable-comment", Severity.ERROR, "a comment to schemamig that cannot be read, or of a code that does not exist")
def unreadable_comment(subject: Subject) -> Iterator[Hit]:
    for found in suppressions(subject):
        unknown = [code for code in found.codes if code not in _BY_CODE]
        if not found.codes:
            yield Hit(found.file, found.line, None, "it does not say `schemamig: allow SM101 because ...`")
        elif unknown:
            yield Hit(found.file, found.line, None, f"there is no rule {unknown[0]}")


@rule("SM004", "allowed-for-nothing", Severity.WARNING, "a finding is allowed that is not there")
def allowed_for_nothing(subject: Subject) -> Iterator[Hit]:
    for found in suppressions(subject):
        for code in found.codes:
            known = _BY_CODE.get(code)
            if known is not None and not any(found.covers(code, hit) for hit in known.check(subject)):
                yield Hit(found.file, found.line, None, f"{code} is allowed, and finds nothing here")


RULES = (allowed_without_reason, unreadable_comment, allowed_for_nothing)
