"""SM001: what a migration module says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.model import Severity, rule
from airflow_provider_schemamig.core.release.lint.subject import Subject

_WHY = re.compile(r"^\s*Why:\s*\S", re.MULTILINE)


@rule("SM001", "no-why", Severity.ERROR, "the module's docstring does not say why")
def no_why(subject: Subject) -> Iterator[Hit]:
    if subject.migration is not None and _WHY.search(subject.migration.docstring) is None:
        yield subject.in_module(1, None, "the docstring has no paragraph that begins with `Why:`")


RULES = (no_why,)
