"""Generations and epochs: the next ones, and how far to go beyond all that a lost history may have given out.

What lay in a history that is lost cannot be known. Its processes may live: a leader with its generation and epoch, a Spark statement with
its transaction number. So whoever brings a ledger back goes on far above the highest number that is left anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_schemamig.core.delta.commit.fence import EPOCH_STRIDE, read_txns
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, STREAM_PREFIX, Epoch, Generation
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.own_places import is_shard_id
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

#: How far a ledger that was brought back goes on above the highest number that is known.
MARGIN = 2**16
#: A transaction version of Delta is a signed 64-bit number, and holds the epoch in its upper half.
HIGHEST_EPOCH = 2**63 // EPOCH_STRIDE - 1

_REPORT = re.compile(r"(\d+)\.json")
_SHARD = re.compile(r"g(\d+)-")
#: Of a table's transactions: whose, and at most how long an environment's id may be.
_OURS = re.compile(rf"{RESERVED_PREFIX}:([^:]+):[^:]+")


@dataclass(frozen=True, slots=True)
class Numbers:
    """The highest that were found. ``notes``: what could not be looked at."""

    generation: int
    epoch: int
    notes: tuple[str, ...] = ()

    @property
    def raised(self) -> tuple[Generation, Epoch]:
        """Return what counts as given out from now on."""
        return Generation(self.generation + MARGIN), Epoch(self.epoch + MARGIN)

    @property
    def is_exhausted(self) -> bool:
        return self.epoch + 2 * MARGIN > HIGHEST_EPOCH


def next_generation(state: State) -> Generation:
    given_out = state.given_out
    return Generation(max(max(state.deployments, default=0), 0 if given_out is None else given_out.generation) + 1)


def next_epoch(state: State) -> Epoch:
    given_out, leader = state.given_out, state.leader
    return Epoch(max(0 if leader is None else leader.epoch, 0 if given_out is None else given_out.epoch) + 1)


def highest_numbers(env: EnvironmentRoot, rows: Iterable[RawRow], tables: Iterable[str]) -> Numbers:
    """Return the highest generation and epoch ever used, and notes on what could not be looked at.

    They are looked for in ``rows`` (updates of a ledger, damaged ones too), in the history, the reports, the folders of shards, and the
    fences of ``tables`` (URIs beside those below the root).
    """
    generations, epochs, notes = [0], [0], []
    for row in rows:
        found = _numbers_in(row.value)
        generations += [found[name] for name in ("generation", "retired_by") if name in found]
        epochs += [found[name] for name in ("epoch", "fenced_by") if name in found]
    store = env.store()
    try:
        generations += [entry.generation for entry in read_history(env) if entry.generation is not None]
    except SchemamigError as error:
        notes.append(f"the audit log was not looked at: {error.message}")
    generations += _matched(_REPORT, store.names(f"{env.SYSTEM_FOLDER}/reports"))
    folders = list(shard_folders(env))
    generations += _matched(_SHARD, (folder.rpartition("/")[2] for folder in folders))

    def epochs_on(uri: str) -> list[Epoch] | str:
        try:
            table = env.table_store(uri)
            return [Epoch(version // EPOCH_STRIDE) for version in fences(table).values()] if table.names("_delta_log") else []
        except SchemamigError as error:
            return f"the fence of {uri} was not looked at: {error.message}"

    for found_on in env.each(epochs_on, dict.fromkeys([*folders, *tables])):
        if isinstance(found_on, str):
            notes.append(found_on)
        else:
            epochs += found_on
    return Numbers(max(generations), max(epochs), tuple(notes))


def shard_folders(env: EnvironmentRoot) -> Iterator[str]:
    """Yield the keys of the folders below an environment's root with names that we give to tables. Nothing else is ours to judge."""
    store = env.store()
    collections = [folder for folder in store.folders("") if folder != env.SYSTEM_FOLDER]
    for collection, names in zip(collections, env.each(store.folders, collections), strict=True):
        yield from (f"{collection}/{name}" for name in names if is_shard_id(name))


def fences(table: ReadStore) -> dict[str, int]:
    """Return, by the id of an environment, the highest transaction version that a fence or a statement of its leaders has on a table."""
    found: dict[str, int] = {}
    for app_id, version in read_txns(table, f"{RESERVED_PREFIX}:").items():
        ours = _OURS.fullmatch(app_id)
        if ours is not None and not app_id.startswith(STREAM_PREFIX):
            found[ours[1]] = max(version, found.get(ours[1], version))
    return found


def _numbers_in(value: str) -> dict[str, int]:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return {name: number for name, number in found.items() if type(number) is int} if isinstance(found, dict) else {}


def _matched(pattern: re.Pattern[str], names: Iterable[str]) -> list[int]:
    return [int(found[1]) for name in names if (found := pattern.match(name)) is not None]
