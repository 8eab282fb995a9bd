"""Transaction identifiers whose holders can be turned away.

Delta lets a statement through whose transaction version is above the last one of its application id. So whoever stood still for however
long and goes on gets through wherever that id has not moved meanwhile, though the table may have been sealed, left and opened again, or
have got the very rows by another way. To keep all of those off, the id is *closed*: it gets a version that none is above, and the count
goes on under the id of the next *term*. It is one commit and loses nothing: who looks afterwards finds the count where it was.

A count that goes on in another table takes its term along, so that of two things that were agreed on the later one has the later term.
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
    return int(number) if number.isdigit() else 0


def advance(app_id: str, own: TxnPosition, to: TxnPosition) -> dict[str, int]:
    """Return the transaction versions that move a count from ``own`` to ``to``, which is of the same term or a later one.

    The ids of the terms before that are closed.
    """
    closed = {term_id(app_id, term): _CLOSED for term in range(own.term, to.term)}
    return closed if to.version == NOTHING else {**closed, term_id(app_id, to.term): to.version}
