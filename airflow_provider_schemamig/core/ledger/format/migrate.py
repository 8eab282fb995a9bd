"""Carry the text of a ledger over a step: decode as the old types, let the step answer, check it, encode as the new ones. No I/O.

The same code runs when newer software reads an older ledger in memory and when ``ledger upgrade`` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.codec import RawRow, decode, encode, encode_key, row_type_of
from airflow_provider_schemamig.core.ledger.errors import FormatStepFailed, LedgerDamaged
from airflow_provider_schemamig.core.ledger.fold import replaced
from airflow_provider_schemamig.core.ledger.format.actions import Action, Delete, Insert, LedgerSnapshot, Stored, Update
from airflow_provider_schemamig.core.ledger.format.formats import Formats, Step
from airflow_provider_schemamig.core.ledger.rows import FROZEN_COLLECTIONS, EnvironmentConfig

Address = tuple[str, str]
"""Ledger collection and stored key."""

CurrentRows = Mapping[Address, tuple[str, int]]
"""Address -> stored value and the ledger version that wrote it, one value a key."""

_CONFIG: Address = (EnvironmentConfig.COLLECTION, encode_key(EnvironmentConfig.key))


@dataclass(frozen=True, slots=True)
class MigratedLedger:
    """The ledger after a step. ``rows``: the updates that make it of the one before, the format's number among them, all at one ledger
    version; ``changed``: how many rows the step inserted, updated or deleted."""

    current: CurrentRows
    rows: tuple[RawRow, ...]
    changed: int


def migrate_ledger(current: CurrentRows, step: Step, formats: Formats, version: int) -> MigratedLedger:
    """Take the ledger over ``step``, as ledger version ``version``.

    Raises LedgerDamaged (a row is not one of the old format), FormatStepFailed (the step broke a rule; nothing may be written).
    """
    before = _snapshot(current, formats.types(step.source))
    wanted = _wanted(step, before, step.upgrade(before), formats)
    rows = (*_updates(current, wanted, version), *_numbered(current, step, version))
    after = _applied(current, rows)
    try:
        found = _snapshot(after, formats.types(step.target))
    except LedgerDamaged as damaged:
        raise _broken(step, f"{damaged.where} was left behind: {damaged.reason}") from damaged
    complaint = step.verify(before, found)
    if complaint is not None:
        raise _broken(step, complaint)
    return MigratedLedger(after, rows, len(wanted))


def _snapshot(current: CurrentRows, types: tuple[type[Any], ...]) -> LedgerSnapshot:
    rows = []
    for (collection, key), (value, version) in current.items():
        row_type = row_type_of(collection, key, types)
        if row_type is not None:
            rows.append(Stored(decode(row_type, key, value), version))
    return LedgerSnapshot(rows)


def _broken(step: Step, reason: str) -> FormatStepFailed:
    return FormatStepFailed(source=step.source, target=step.target, reason=reason)


# --- what a step may answer ----------------------------------------------------------------------------------------------------------


def _wanted(step: Step, before: LedgerSnapshot, actions: Iterable[Action], formats: Formats) -> dict[Address, Any]:
    """Return address -> the new row there, or None where a row goes. Raises FormatStepFailed for what no step may do."""
    known = {_address(row): row for row in before}
    wanted: dict[Address, Any] = {}
    for action in actions:
        old = None if isinstance(action, Insert) else action.old
        new = None if isinstance(action, Delete) else action.new
        address = _address(new if old is None else old)
        _check_types(step, old, new, formats)
        if isinstance(action, Update) and _address(new) != address:
            raise _broken(step, f"it moves {_words(address)} to {_words(_address(new))}")
        if known.get(address) != old:
            reason = "which is there already" if old is None else "which is not stored like that"
            raise _broken(step, f"it has a {type(action).__name__} of {_words(address)}, {reason}")
        if address[0] in FROZEN_COLLECTIONS:
            raise _broken(step, f"it changes {_words(address)}, and {address[0]} is the same in every format")
        if address in wanted:
            raise _broken(step, f"it changes {_words(address)} twice")
        wanted[address] = new
    return wanted


def _check_types(step: Step, old: Any, new: Any, formats: Formats) -> None:
    for row, number in ((old, step.source), (new, step.target)):
        if row is not None and type(row) not in formats.types(number):
            raise _broken(step, f"its {type(row).__name__} of {type(row).__module__} is no row of format {number}")


def _address(row: Any) -> Address:
    return row.COLLECTION, encode_key(row.key)


def _words(address: Address) -> str:
    return " ".join(address)


# --- as updates ----------------------------------------------------------------------------------------------------------------------


def _updates(current: CurrentRows, wanted: Mapping[Address, Any], version: int) -> list[RawRow]:
    rows: list[RawRow] = []
    for address, row in wanted.items():
        stored, _ = current.get(address, (None, 0))
        rows += replaced(*address, stored, None if row is None else encode(row)[2], version)
    return rows


def _numbered(current: CurrentRows, step: Step, version: int) -> list[RawRow]:
    """Return the format's own number: the one thing that changes in a frozen collection."""
    stored = current[_CONFIG][0]
    value = canonical({**json.loads(stored), "format_version": step.target})
    return replaced(*_CONFIG, stored, value, version)


def _applied(current: CurrentRows, rows: Iterable[RawRow]) -> CurrentRows:
    found = dict(current)
    for row in sorted(rows, key=lambda row: row.diff):  # retractions first: an update is a pair of both
        if row.diff < 0:
            del found[row.collection, row.key]
        else:
            found[row.collection, row.key] = (row.value, row.ts)
    return found
