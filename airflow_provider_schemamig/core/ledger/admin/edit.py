"""One ledger row written or taken away by hand (``ledger edit``, ``ledger delete``): the last resort of whoever repairs at night.

Safe as far as it can be: the value has to be a row of its collection, the row has to be what was looked at, nobody may seem to be at
work, ``verify`` may find nothing new, and the audit log knows of it first. ``force`` lifts the last three. It is one compare-and-append:
all or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pendulum

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.admin.activity import active_parties
from airflow_provider_schemamig.core.ledger.admin.edit_errors import (
    EditUnsound,
    InvalidRow,
    LooksAlive,
    NotAudited,
    RowChanged,
    RowProtected,
    UnknownRow,
)
from airflow_provider_schemamig.core.ledger.admin.findings import LedgerFinding
from airflow_provider_schemamig.core.ledger.admin.verify_rows import check_rows, strictest_types
from airflow_provider_schemamig.core.ledger.codec import RawRow, collection_of, decode, encode, encode_key, row_type_of
from airflow_provider_schemamig.core.ledger.errors import (
    LedgerCompacted,
    LedgerDamaged,
    LedgerVersionUnknown,
)
from airflow_provider_schemamig.core.ledger.fold import sums
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import EnvironmentConfig
from airflow_provider_schemamig.core.ledger.state import check_format
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.storage import secrets_of
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals

_CONFIG = (EnvironmentConfig.COLLECTION, encode_key(EnvironmentConfig.key))
#: A diff is stored as a 64-bit number; a damaged ledger may need more than one to be set right.
_LARGEST_DIFF = 2**62


@dataclass(frozen=True, slots=True)
class RowEdit:
    """What is wanted of one row. ``key``: as ``ledger dump`` prints it, or without its quotes. ``value``: JSON text, None: no row.

    ``expect``: the ledger version that was looked at; the row must be now what it was then.
    """

    collection: str
    key: str
    value: str | None
    expect: int | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """``before``: what was stored under the key, one text unless the ledger was damaged. ``version``: the ledger's, after it."""

    version: int
    collection: str
    key: str
    before: tuple[str, ...]
    after: str | None
    changed: bool
    #: What ``force`` went over.
    signs: tuple[str, ...] = ()
    findings: tuple[LedgerFinding, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ledger edit`` and ``ledger delete``."""
        return {
            "version": self.version,
            "collection": self.collection,
            "key": self.key,
            "before": list(self.before),
            "after": self.after,
            "changed": self.changed,
            "signs_of_life": list(self.signs),
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
        }


def edit_row(env: EnvironmentRoot, wanted: RowEdit, who: str, now: pendulum.DateTime | None = None) -> Edited:
    """Do it, or nothing. In place already: nothing is written, not even audit.

    Raises UnknownRow, InvalidRow, RowProtected, RowChanged; unless forced LooksAlive, EditUnsound, NotAudited; and as appends do.
    """
    ledger, audit, task = _Ledger(env), _Audit(env, who), None

    def attempt() -> Edited:
        nonlocal task
        task = _task(ledger, wanted, task)
        if task.is_done:
            return task.outcome(*audit.end("done", task))
        task = _checked(ledger, task, pendulum.now("UTC") if now is None else now)
        audit.begin(task)
        ledger.append(task)
        return task.outcome(*audit.end("done", task), changed=True)

    try:
        return ledger.patiently(attempt)
    except SchemamigError as error:
        if task is not None:
            audit.end(error.code, task)
        raise


@dataclass(frozen=True, slots=True)
class _Look:
    """``types``: of the rows of the format that the ledger is in, which a row written by hand is of, too."""

    version: int
    tag: str | None
    rows: tuple[RawRow, ...]
    types: tuple[type[Any], ...]


class _Ledger(LedgerWriter):
    """All stored updates, and appends of any: ``State`` cannot be had, or added to, where the damage is that is to be repaired."""

    def look(self) -> _Look:
        """Return the ledger's newest version and its rows, as far as they can be read.

        Raises LedgerTooNew, LedgerTooOld; LedgerDamaged where not even the updates can be read.
        """
        version = self.table.head()
        rows = tuple(self.table.scan())
        numbers = [
            check_format({_CONFIG[1]: value}, self.env.location.uri)
            for value, count in _values_of(rows, *_CONFIG).items()
            if count > 0 and _names_a_format(value)
        ]
        return _Look(version, self.table.tag, rows, strictest_types(max(numbers, default=FORMATS.current)))

    def append(self, task: _Task) -> None:
        self._commit(task.updates(), task.version, task.tag)


@dataclass(frozen=True, slots=True)
class _Task:
    """An edit against the ledger as it is: what stands under the key (text -> how often), and what shall."""

    wanted: RowEdit
    version: int
    tag: str | None
    rows: tuple[RawRow, ...]
    key: str
    before: dict[str, int]
    after: str | None
    signs: tuple[str, ...] = ()
    findings: tuple[LedgerFinding, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.wanted.collection} {self.key}"

    @property
    def is_done(self) -> bool:
        return self.before == ({} if self.after is None else {self.after: 1})

    def updates(self) -> tuple[RawRow, ...]:
        """Return the diffs that replace all texts stored under the key by exactly ``after``."""
        texts = dict.fromkeys([*self.before, *([] if self.after is None else [self.after])])
        changes = ((text, int(text == self.after) - self.before.get(text, 0)) for text in texts)
        return tuple(
            RawRow(self.wanted.collection, self.key, text, self.version + 1, diff) for text, change in changes for diff in _parts(change)
        )

    def outcome(self, *notes: str, changed: bool = False) -> Edited:
        version = self.version + 1 if changed else self.version
        before = tuple(self.before)
        return Edited(version, self.wanted.collection, self.key, before, self.after, changed, self.signs, self.findings, notes)


def _task(ledger: _Ledger, wanted: RowEdit, earlier: _Task | None) -> _Task:
    seen = ledger.look()
    key = _stored_key(seen.rows, wanted)
    before = _values_of(seen.rows, wanted.collection, key)
    after = _validated(ledger.env, wanted, key, seen.types)
    task = _Task(wanted, seen.version, seen.tag, seen.rows, key, before, after)
    if not task.is_done:  # done already, by this very command before it was killed: that comes first
        _check_unchanged(task, earlier)
    return task


def _stored_key(rows: Sequence[RawRow], wanted: RowEdit) -> str:
    """Return the wanted key as it is stored, even if it is damaged; else read it as JSON; else as plain text."""
    if any(row[:2] == (wanted.collection, wanted.key) for row in rows):
        return wanted.key
    try:
        key = json.loads(wanted.key)
    except (ValueError, RecursionError):
        key = None
    return encode_key(key if isinstance(key, str) else wanted.key)


def _values_of(rows: Sequence[RawRow], collection: str, key: str) -> dict[str, int]:
    return {value: count for (_, _, value), count in sums(row for row in rows if row[:2] == (collection, key)).items()}


def _validated(env: EnvironmentRoot, wanted: RowEdit, key: str, types: tuple[type[Any], ...]) -> str | None:
    """Return the text to store: as this software writes the row, so that it finds it again (absent and null are two encodings)."""
    where = f"{wanted.collection} {key}"
    row_type = row_type_of(wanted.collection, key, types)
    if row_type is None and not (wanted.value is None and wanted.force):
        raise UnknownRow(where=where, known=sorted({collection_of(known) for known in types}))
    if wanted.value is None:
        return None
    if any(secret in wanted.value for secret in _secrets(env)):
        raise InvalidRow(where=where, reason="it holds a credential of the storage options")
    assert row_type is not None
    try:
        _, _, text = encode(decode(row_type, key, wanted.value))
        text.encode()
    except LedgerDamaged as error:
        raise InvalidRow(where=where, reason=error.reason) from error
    except UnicodeEncodeError as error:
        raise InvalidRow(where=where, reason="it holds half a character (a lone surrogate)") from error
    return text


def _check_unchanged(task: _Task, earlier: _Task | None) -> None:
    seen = None if earlier is None else earlier.before
    if task.wanted.expect is not None:
        expect, first = task.wanted.expect, min(row.ts for row in task.rows)
        if not 0 <= expect <= task.version:
            raise LedgerVersionUnknown(version=expect, head=task.version)
        if expect < first:
            raise LedgerCompacted(version=expect, since=first)
        seen = _values_of([row for row in task.rows if row.ts <= expect], task.wanted.collection, task.key)
    if seen is not None and seen != task.before:
        raise RowChanged(where=task.where, seen=_shown(seen), found=_shown(task.before))


def _checked(ledger: _Ledger, task: _Task, now: pendulum.DateTime) -> _Task:
    """Return the task with the reasons against it, and raise them unless the edit is forced. Asked again whenever the ledger moved on."""
    _check_protected(task)
    signs = active_parties(ledger.env, task.rows, now)
    known = {(finding.code, finding.where) for finding in check_rows(ledger.env, task.version, task.rows)}
    following = check_rows(ledger.env, task.version + 1, (*task.rows, *task.updates()))
    findings = tuple(finding for finding in following if (finding.code, finding.where) not in known)
    if not task.wanted.force:
        refusals: list[SchemamigError] = [LooksAlive(signs=signs)] if signs else []
        raise_refusals([*refusals, *([EditUnsound(findings=findings)] if findings else [])])
    return replace(task, signs=signs, findings=findings)


def _check_protected(task: _Task) -> None:
    """Refuse an edit of the config row, unless it puts a damaged one back.

    Without the config row nothing can be read, and the fences on all tables carry its id.
    """
    if (task.wanted.collection, task.key) != _CONFIG:
        return
    if task.after is None:
        raise RowProtected(where=task.where, reason="without it nothing in the ledger can be read")
    if list(task.before.values()) == [1] and _is_readable(*task.before):
        raise RowProtected(where=task.where, reason="the fences on all tables carry its id, and all rows are in its format")
    found = json.loads(task.after)["format_version"]
    if not FORMATS.minimum <= found <= FORMATS.current:
        raise RowProtected(where=task.where, reason=f"this software knows no format {found}")


class _Audit:
    """The audit log knows of an edit before it happens, so that a kill cannot hide it; and how it ended."""

    def __init__(self, env: EnvironmentRoot, who: str) -> None:
        self._env = env
        self._who = who
        self._begun: pendulum.DateTime | None = None
        self._notes: list[str] = []

    def begin(self, task: _Task) -> None:
        """Write the beginning of the edit into the audit log, once, however often the edit has to be tried. Raises NotAudited."""
        if self._begun is None:
            self._begun = pendulum.now("UTC")
            self._write("begun", task)
        if self._notes and not task.wanted.force:
            raise NotAudited(note=self._notes[0])

    def end(self, outcome: str, task: _Task) -> tuple[str, ...]:
        """Write the outcome into the audit log, if the beginning was written, and return the notes for the user."""
        if self._begun is not None:
            self._write(outcome, task)
        return tuple(dict.fromkeys(self._notes))

    def _write(self, outcome: str, task: _Task) -> None:
        assert self._begun is not None
        what = "ledger delete" if task.after is None else "ledger edit"
        seconds = (pendulum.now("UTC") - self._begun).total_seconds()
        note = append_history(self._env, HistoryEntry(self._who, what, None, None, self._begun, seconds, outcome, _detail(self._env, task)))
        self._notes += [note] if note else []


def _detail(env: EnvironmentRoot, task: _Task) -> str:
    found = {
        "collection": task.wanted.collection,
        "key": task.key,
        "before": list(task.before),
        "after": task.after,
        "onto_version": task.version,
        "forced_over": [*task.signs, *(f"{finding.code} {finding.where}" for finding in task.findings)],
    }
    text = canonical(found)
    for secret in _secrets(env):
        text = text.replace(secret, "***")
    return text


def _secrets(env: EnvironmentRoot) -> list[str]:
    """Return the credentials of the storage options that are long enough not to stand in a row by chance."""
    return [secret for secret in secrets_of(env.options) if len(secret) >= 8]


def _names_a_format(value: str) -> bool:
    try:
        data: Any = json.loads(value)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and isinstance(data.get("format_version"), int)


def _is_readable(value: str) -> bool:
    try:
        decode(EnvironmentConfig, _CONFIG[1], value)
    except LedgerDamaged:
        return False
    return True


def _shown(values: dict[str, int]) -> str | None:
    return " and ".join(text if count == 1 else f"{count} times {text}" for text, count in values.items()) or None


def _parts(change: int) -> Iterator[int]:
    while change:
        part = max(-_LARGEST_DIFF, min(change, _LARGEST_DIFF))
        yield part
        change -= part
