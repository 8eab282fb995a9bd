"""What ``schemamig verify`` finds, in the numbers of the definition of a consistent database (docs/online-changes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.key_validation import Source
from airflow_provider_schemamig.core.upgrade.plan.live_tables import NO_TABLE
from airflow_provider_schemamig.exceptions import Refusal


class Condition(IntEnum):
    """The seed's list, as far as a Delta table can break it (docs/online-changes.md, "Verify").

    1 (a value without its table) is a folder that no row of the ledger names: ``ledger verify`` looks for those. 3 (an index entry without
    its row) cannot be: clustering is an order of the rows themselves.
    """

    VALUE_WITHOUT_COLUMN = 2
    VALUE_MISSING = 4
    INDEX_INCOMPLETE = 5
    RULE_VIOLATED = 6


class Inconsistent(Refusal):
    """A live table is not consistent with its schema, for callers that have to fail then. ``sentence``: the finding's."""

    code = "inconsistent"
    message = "{sentence}."
    next_action = (
        "`schemamig verify --collection {collection}` names rows, files and the commits that wrote them; fix the rows. Of a table that is "
        "not there `schemamig status` says what to do."
    )
    sentence: str


@dataclass(frozen=True, slots=True)
class TableFinding:
    """``element``: as in ``status`` (``check:positive``, ``not_null:a.b``). ``rows``: how many are concerned; None: the log does not tell.

    ``sample``: up to 5 rows as text. ``files``: up to 5 that they lie in, as the log names them, and the commits that wrote those, oldest
    first; which an UPDATE or a compaction makes others than those that first brought the rows.
    """

    condition: Condition
    collection: CollectionName
    element: str
    text: str
    rows: int | None
    sample: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commits: tuple[Source, ...] = ()

    @property
    def sentence(self) -> str:
        rows = "" if self.rows is None else f"{self.rows:,} row(s): "
        return f"{self.element}: {rows}{self.text} (condition {self.condition})"

    def as_refusal(self) -> Inconsistent:
        return Inconsistent(collection=self.collection, sentence=self.sentence)

    def to_json(self) -> dict[str, Any]:
        return {
            "condition": int(self.condition),
            "collection": self.collection,
            "element": self.element,
            "text": self.text,
            "rows": self.rows,
            "sample": list(self.sample),
            "files": list(self.files),
            "commits": [
                {"version": item.version, "operation": item.operation, "user_metadata": item.user_metadata} for item in self.commits
            ],
        }


@dataclass(frozen=True, slots=True)
class KeptRule:
    """All rows of table version ``version`` keep what ``element`` says."""

    collection: CollectionName
    element: str
    version: int

    def to_json(self) -> dict[str, Any]:
        return {"collection": self.collection, "element": self.element, "version": self.version}


@dataclass(frozen=True, slots=True)
class Unasked:
    """What could not be looked at, and why. ``element`` None: the whole collection."""

    collection: CollectionName
    element: str | None
    reason: str

    def as_refusal(self) -> Inconsistent:
        return Inconsistent(collection=self.collection, sentence=self.reason)

    def to_json(self) -> dict[str, Any]:
        return {"collection": self.collection, "element": self.element, "reason": self.reason}


def gone(collection: CollectionName) -> Unasked:
    """Return the answer for a collection without a table to look at."""
    return Unasked(collection, None, f"{NO_TABLE}, or another one than the ledger knows")


@dataclass(frozen=True, slots=True)
class Verified:
    findings: tuple[TableFinding, ...] = ()
    kept: tuple[KeptRule, ...] = ()
    unasked: tuple[Unasked, ...] = ()

    @property
    def broken(self) -> tuple[TableFinding | Unasked, ...]:
        """Return the findings, and the collections of which there is no table to look at."""
        return (*self.findings, *(item for item in self.unasked if item.element is None))

    def to_json(self) -> dict[str, Any]:
        return {
            "findings": [item.to_json() for item in self.findings],
            "kept": [item.to_json() for item in self.kept],
            "unasked": [item.to_json() for item in self.unasked],
        }


def sorted_out(found: Sequence[TableFinding | KeptRule | Unasked]) -> Verified:
    """Return the findings by kind, in the order they were found in."""
    return Verified(
        tuple(item for item in found if isinstance(item, TableFinding)),
        tuple(item for item in found if isinstance(item, KeptRule)),
        tuple(item for item in found if isinstance(item, Unasked)),
    )
