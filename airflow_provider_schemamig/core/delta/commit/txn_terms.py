"""Transaction identifiers whose holders can be turned away.

Delta lets a statement through if its transaction version is above the last one of its application id. A process that paused can therefore
still commit under its old id, even if the table was sealed, replaced, or got the same rows meanwhile. To turn such processes away the id is
*closed*: one commit gives it the highest version there is. The count goes on, where it was, under the id of the next *term*.

When a stream moves to another table its term moves with it, so terms order the moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: The count of an id that never moved.
NOTHING = -1
#: What no transaction version is above; below the largest that Delta's LONG holds.
_CLOSED = 2**62
_MARK = "#"


@dataclass(frozen=True, slots=True, order=True)
class TxnPosition:
    """Where a count stands. ``term``: how many of its ids are closed."""

    term: int
    version: int = NOTHING


def term_id(app_id: str, term: int) -> str:
    """Return the application id of a term; ``app_id`` itself in the first."""
    return f"{app_id}{_MARK}{term}" if term else app_id


def app_ids(txns: Iterable[str]) -> list[str]:
    """Return what the ids are called without their terms, each once."""
    return sorted({txn.partition(_MARK)[0] for txn in txns})


def txn_position(txns: Mapping[str, int], app_id: str) -> TxnPosition:
    """Return how far an application id has come, from the highest transaction version of every application id of a table."""
    # From the highest on, not the lowest: a table may forget identifiers that have not moved for long.
    term = max((_term(txn) for txn in txns if txn.partition(_MARK)[0] == app_id), default=0)
    version = txns.get(term_id(app_id, term), NOTHING)
    return TxnPosition(term + 1) if version == _CLOSED else TxnPosition(term, version)


def _term(txn: str) -> int:
    number = txn.partition(_MARK)[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0


def advance(app_id: str, own: TxnPosition, to: TxnPosition) -> dict[str, int]:
    """Return the transaction versions that move a count from ``own`` to ``to``.

    ``to`` is of the same term or a later one. The ids of the terms before it are closed.
    """
    closed = {term_id(app_id, term): _CLOSED for term in range(own.term, to.term)}
    return closed if to.version == NOTHING else {**closed, term_id(app_id, to.term): to.version}
