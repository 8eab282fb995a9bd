"""The first commit of a ledger that was brought back: numbers above all that the lost history may have given out.

It is made on a copy, and put in place before the ledger opens. Otherwise a process that dies in between would leave a ledger that gives
numbers out again.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

import pendulum

from airflow_provider_schemamig.core.ledger.codec import RawRow, decode, encode, encode_key
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, NumbersExhausted
from airflow_provider_schemamig.core.ledger.fold import replaced, sums
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.numbers import highest_numbers
from airflow_provider_schemamig.core.ledger.rows import GivenOut, Hold, HoldState, Leader, Shard, ShardState
from airflow_provider_schemamig.core.ledger.table import FOLDER, LOG, LedgerTable
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage import THROWAWAY
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

_COMMIT = "restore-"


@dataclass(frozen=True, slots=True)
class FirstCommit:
    """``files``: key -> content, of the commit. ``notes``: what could not be looked at for the highest numbers."""

    files: Mapping[str, bytes]
    notes: tuple[str, ...]


def first_commit_after(env: EnvironmentRoot, version: int, ledger: Mapping[str, bytes]) -> FirstCommit:
    """Return the commit that follows the ``ledger`` (its files by their keys) at ``version``, made for ``env``.

    Raises NumbersExhausted; LedgerDamaged where the ledger's files cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = EnvironmentRoot.open(folder, {THROWAWAY: "true"})
        store = copy.store()
        for key, data in ledger.items():
            store.put(key, data)
        table = LedgerTable(copy)
        table.head()
        rows = table.scan()
        numbers = highest_numbers(env, rows, _places(rows))
        if numbers.is_exhausted:
            raise NumbersExhausted(uri=env.location.uri, epoch=numbers.epoch)
        given_out = GivenOut(*numbers.raised, _by_hand(env, rows))
        table.commit(list(_updates(rows, given_out, version + 1)), f"{_COMMIT}{uuid4().hex}", "append")
        made = {f"{name}/{file}" for name in (FOLDER, LOG) for file in store.names(name)} - ledger.keys()
        return FirstCommit({key: store.get(key) for key in made if not key.endswith("_last_checkpoint")}, numbers.notes)


def is_first_commit(commit: bytes) -> bool:
    """Return whether a commit of the ledger is one that ``restore`` put on top."""
    try:
        actions = [json.loads(line) for line in commit.splitlines() if line.strip()]
        return any(str(action.get("commitInfo", {}).get("userMetadata", "")).startswith(_COMMIT) for action in actions)
    except (ValueError, AttributeError, RecursionError):
        return False


def _places(rows: Iterable[RawRow]) -> list[str]:
    """Return the places of all shards with a readable row, also of shards that are gone by now."""
    return [shard.uri for shard in _shards((row.key, row.value) for row in rows if row.collection == Shard.COLLECTION)]


def _shards(found: Iterable[tuple[str, str]]) -> Iterator[Shard]:
    for key, value in found:
        try:
            yield decode(Shard, key, value)
        except LedgerDamaged:  # ``verify`` lists it
            continue


def _by_hand(env: EnvironmentRoot, rows: Iterable[RawRow]) -> tuple[Generation, ...]:
    """Return the generations of holds that the lost history rolled back, says the audit log, or may have: where the log is lost, or begins
    after the hold, nothing tells. Those of an earlier restore stay.

    Also of those whose rollback had begun in the backup: it came to its end since, maybe, and users write into what the hold hides.
    """
    held: list[Generation] = []
    before: set[Generation] = set()
    for collection, key, value in (identity for identity, count in sums(rows).items() if count > 0):
        with contextlib.suppress(LedgerDamaged):  # ``verify`` lists it
            if collection == Hold.COLLECTION:
                hold = decode(Hold, key, value)
                held += [hold.generation] if hold.state in (HoldState.OPEN, HoldState.ROLLING_BACK) else []
            elif (collection, key) == (GivenOut.COLLECTION, encode_key(GivenOut.key)):
                before |= {*decode(GivenOut, key, value).by_hand}
    told: set[tuple[str, int | None]] = set()
    with contextlib.suppress(SchemamigError):
        told = {(entry.what, entry.generation) for entry in read_history(env)}
    return tuple(sorted(it for it in held if it in before or ("rollback", it) in told or ("cutover", it) not in told))


def _updates(rows: Iterable[RawRow], given_out: GivenOut, ts: int) -> Iterator[RawRow]:
    """Yield the numbers, the leader's row with its new epoch, and the fence that every live table has to get."""
    current = [identity for identity, count in sums(rows).items() if count > 0]
    stored = {(collection, key): value for collection, key, value in current}
    epoch = given_out.epoch
    collection, key, value = encode(given_out)
    yield from replaced(collection, key, stored.get((collection, key)), value, ts)
    address = (Leader.COLLECTION, encode_key(Leader.key))
    if address in stored:
        try:
            leader = decode(Leader, address[1], stored[address])
            new = replace(leader, epoch=epoch, since=pendulum.now("UTC"))
            yield from replaced(*address, stored[address], encode(new)[2], ts)
        except LedgerDamaged:
            pass  # damage is brought back as it was, for ``ledger edit``; numbers are given out by the row above
    for (name, key), value in stored.items():
        if name == Shard.COLLECTION:
            for shard in _shards([(key, value)]):
                if shard.state is ShardState.LIVE:
                    yield from replaced(name, key, value, encode(replace(shard, fenced_by=epoch))[2], ts)
