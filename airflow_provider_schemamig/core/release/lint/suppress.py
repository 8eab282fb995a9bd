"""``schemamig: allow SM112 because ...``: a finding that is meant, with the reason, where it stands.

In a migration module such a comment within a step or directly above it covers that step; anywhere else it covers the module. In
schema.sql it covers the statement it stands in, ends, or comes before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_schemamig.core.release.folder.errors import SCHEMA_SQL
from airflow_provider_schemamig.core.release.folder.modules import comments
from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.subject import Subject
from airflow_provider_schemamig.core.release.sql.text import line_and_column, line_comments, statements

_MARK = re.compile(r"(?:#|--)+\s*schemamig:\s*(?P<rest>.*)", re.IGNORECASE)
_ALLOW = re.compile(r"allow\s+(?P<codes>[^\s,]+(?:\s*,\s*[^\s,]+)*)(?:\s+because\b[\s:]*(?P<reason>.*))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Suppression:
    """``codes`` are in capitals, none if the comment cannot be read. It covers the lines ``first`` to ``last`` of ``file``."""

    file: str
    line: int
    codes: tuple[str, ...]
    reason: str
    first: int
    last: int

    def covers(self, code: str, hit: Hit) -> bool:
        return code in self.codes and self.file == hit.file and self.first <= hit.line <= self.last


def suppressions(subject: Subject) -> tuple[Suppression, ...]:
    """Return every such comment of the two files that are being written."""
    return (*_in_module(subject), *_in_schema(subject))


def _in_module(subject: Subject) -> Iterator[Suppression]:
    if subject.migration is None:
        return
    found = list(comments(subject.module))
    lines = subject.module.splitlines()
    alone = {line for line, _ in found if lines[line - 1].lstrip().startswith("#")}
    for line, text in found:
        span = next((span for span in subject.step_spans if _belongs(line, span, alone)), (1, len(lines)))
        yield from _read(subject.migration.file, line, text, span)


def _belongs(line: int, span: tuple[int, int], alone: set[int]) -> bool:
    """Return whether a comment is within a step, or in the lines of comment that end just above it."""
    first, last = span
    return line <= last and all(between in alone for between in range(line, first))


def _in_schema(subject: Subject) -> Iterator[Suppression]:
    text = subject.schema
    spans = []
    for statement in statements(text):
        end = statement.offset + len(statement.text)
        end_of_line = text.find("\n", end)
        spans.append((statement.offset, len(text) if end_of_line < 0 else end_of_line))
    for offset, comment in line_comments(text):
        line = _line(text, offset)
        lines = next(((_line(text, first), _line(text, last)) for first, last in spans if offset < last), (0, 0))
        yield from _read(SCHEMA_SQL, line, comment, lines)


def _line(text: str, offset: int) -> int:
    return line_and_column(text, offset)[0]


def _read(file: str, line: int, comment: str, span: tuple[int, int]) -> Iterator[Suppression]:
    mark = _MARK.match(comment)
    if mark is None:
        return
    found = _ALLOW.fullmatch(mark["rest"].strip())
    codes = () if found is None else tuple(code.strip().upper() for code in found["codes"].split(","))
    reason = "" if found is None else (found["reason"] or "").strip()
    yield Suppression(file, line, codes, reason, *span)
