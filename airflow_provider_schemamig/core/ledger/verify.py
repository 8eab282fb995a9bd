"""Is the ledger sound? Everything that must hold between its rows, said as findings; works on damaged ledgers and says what is damaged.

``verify`` never stops at the first finding and writes nothing (DESIGN section 10, ``ledger verify``).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from airflow_provider_schemamig.core.ledger.codec import RawRow, decode, row_type_of
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.rows import Leader, LedgerSince, Object, ShardState
from airflow_provider_schemamig.core.ledger.state import State, sums
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.ledger.table import FOLDER, LOG
from airflow_provider_schemamig.core.storage import ObjectMissing


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` is stable; ``where`` names a ledger row (collection and key), a file, or the ledger."""

    code: str
    where: str
    text: str


def verify(reader: LedgerReader) -> tuple[Finding, ...]:
    """All that is wrong, files first; empty if the ledger is sound. Raises LedgerMissing and LedgerTooNew, which are no damage."""
    if not reader.exists():
        reader.state()
    damaged = tuple(_log_findings(reader))
    if not damaged:
        try:
            version = reader.table.head()
        except LedgerDamaged as error:
            return (Finding("unreadable_log", LOG, error.reason),)
        damaged = tuple(_data_findings(reader))
    if damaged:
        return damaged  # what the rest would find only follows from the holes
    rows = reader.table.scan()
    broken = [*_sum_findings(rows), *_row_findings(rows), *_time_findings(rows, version)]
    if any(finding.where.startswith("config ") for finding in broken):
        return tuple(broken)
    state = State.of(version, rows, reader.env.location.uri)
    checks: tuple[Callable[[State], Iterator[Finding]], ...] = (_object_findings, _release_findings, _leader_findings, _orphan_findings)
    for check in checks:
        broken.extend(_guarded(check, state))
    broken.extend(_epoch_findings(rows))
    return tuple(broken)


def _guarded(check: Callable[[State], Iterator[Finding]], state: State) -> Iterator[Finding]:
    """A check as far as the rows it reads can be decoded; the damage itself was found by the row checks before."""
    try:
        yield from check(state)
    except LedgerDamaged:
        return


def _log_findings(reader: LedgerReader) -> Iterator[Finding]:
    store = reader.env.store()
    versions = []
    for name in store.names(LOG):
        if not (name.endswith(".json") and name[:20].isdigit() and len(name) == 25):
            continue
        versions.append(int(name[:20]))
        try:
            actions = [json.loads(line) for line in store.get(f"{LOG}/{name}").splitlines()]
        except ValueError as error:
            yield Finding("unreadable_log", f"{LOG}/{name}", f"not JSON ({error})")
            continue
        if not any("commitInfo" in action for action in actions):  # delta-rs reads an empty file as a commit of nothing
            yield Finding("unreadable_log", f"{LOG}/{name}", "it is not a whole commit")
    for before, after in pairwise(versions):
        if after != before + 1:
            yield Finding("log_gap", LOG, f"version {before} is followed by version {after}")


def _data_findings(reader: LedgerReader) -> Iterator[Finding]:
    try:
        reader.table.scan()
        return
    except LedgerDamaged as error:
        found = tuple(_bad_files(reader)) or (Finding("unreadable_data", FOLDER, error.reason),)
    yield from found


def _bad_files(reader: LedgerReader) -> Iterator[Finding]:
    # Only here, on a damaged ledger: delta-rs reads all files at once and does not always name the bad one.
    import pyarrow
    import pyarrow.parquet

    store = reader.env.store()
    for name in reader.table.files():
        where = f"{FOLDER}/{name}"
        try:
            pyarrow.parquet.read_table(io.BytesIO(store.get(where)))
        except ObjectMissing:
            yield Finding("data_missing", where, "the file is not there")
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            yield Finding("unreadable_data", where, str(error).splitlines()[0])


def _sum_findings(rows: list[RawRow]) -> Iterator[Finding]:
    values: dict[tuple[str, str], int] = {}
    for (collection, key, value), count in sums(rows).items():
        if count < 0:
            yield Finding("negative_multiplicity", f"{collection} {key}", f"{count} times {value}")
        elif count > 1:
            yield Finding("doubled", f"{collection} {key}", f"{count} times {value}")
        if count > 0:
            values[collection, key] = values.get((collection, key), 0) + 1
    for (collection, key), count in values.items():
        if count > 1:
            yield Finding("two_values", f"{collection} {key}", f"{count} values for one key")


def _row_findings(rows: list[RawRow]) -> Iterator[Finding]:
    for collection, key, value in sums(rows):
        row_type = row_type_of(collection, key)
        try:
            if row_type is not None:
                decode(row_type, key, value)
        except LedgerDamaged as error:
            yield Finding("unreadable_row", f"{collection} {key}", error.reason)


def _time_findings(rows: list[RawRow], version: int) -> Iterator[Finding]:
    for row in rows:
        if not 0 <= row.ts <= version or row.diff == 0:
            yield Finding("wrong_time", f"{row.collection} {row.key}", f"diff {row.diff} at {row.ts}, the head is {version}")


def _object_findings(state: State) -> Iterator[Finding]:
    from airflow_provider_schemamig.core.schema.fingerprint import fingerprint

    for name, row in state.objects.items():
        shard = state.shards.get(row.shard)
        schema = state.schemas.get((row.collection, row.schema_id))
        if shard is None or shard.state is not ShardState.LIVE or shard.collection != name:
            what = "no shard row" if shard is None else f"{shard.state}, of {shard.collection}"
            yield _of_object(row, "shard_not_live", f"its shard {row.shard} is not a live one ({what})")
        if schema is None:
            yield _of_object(row, "schema_missing", f"it has no schema {row.schema_id}")
            continue
        if schema.shard != row.shard:
            yield _of_object(row, "schema_of_other_shard", f"schema {row.schema_id} is of shard {schema.shard}, not {row.shard}")
        if (found := fingerprint(schema.declared)) != row.fingerprint:
            yield _of_object(row, "wrong_fingerprint", f"stored {row.fingerprint}, its declaration has {found}")


def _of_object(row: Object, code: str, text: str) -> Finding:
    return Finding(code, f"objects {row.collection}", text)


def _release_findings(state: State) -> Iterator[Finding]:
    from airflow_provider_schemamig.core.schema.fingerprint import set_fingerprint

    if state.release is None:
        return
    found = set_fingerprint({name: state.released(row) for name, row in state.objects.items()})
    if found != state.release.fingerprint:
        yield Finding("wrong_set_fingerprint", "config release", f"stored {state.release.fingerprint}, its objects have {found}")


def _leader_findings(state: State) -> Iterator[Finding]:
    leader = state.leader
    if leader is not None and leader.generation not in state.deployments:
        yield Finding("leader_unknown", "leader leader", f"generation {leader.generation} has no deployment")
    for intent in state.intents.values():
        if leader is None or intent.epoch > leader.epoch or intent.generation > leader.generation:
            text = f"epoch {intent.epoch}, generation {intent.generation}: no leader had them"
            yield Finding("intent_ahead", f"intents {intent.key}", text)


def _epoch_findings(rows: list[RawRow]) -> Iterator[Finding]:
    """Generation and epoch only grow, over all the history that is left; ``since`` too."""
    leaders: list[tuple[int, ...]] = []
    sinces: list[tuple[int, ...]] = []
    for row in sorted((row for row in rows if row.diff > 0), key=lambda row: row.ts):
        row_type = row_type_of(row.collection, row.key)
        try:
            if row_type is Leader:
                leader = decode(Leader, row.key, row.value)
                leaders.append((leader.epoch, leader.generation))
            elif row_type is LedgerSince:
                sinces.append((decode(LedgerSince, row.key, row.value).since,))
        except LedgerDamaged:
            continue  # found by the row checks
    yield from _backwards(leaders, "leader leader", "epoch, generation")
    yield from _backwards(sinces, "config since", "since")


def _backwards(values: list[tuple[int, ...]], where: str, what: str) -> Iterator[Finding]:
    for before, after in pairwise(values):
        if any(new < old for old, new in zip(before, after, strict=True)):
            yield Finding("went_backwards", where, f"({what}) went from {before} to {after}")


def _orphan_findings(state: State) -> Iterator[Finding]:
    """A live shard belongs to an object, one that is being built to a replacement or an open intent; retired ones await contract."""
    wanted: Mapping[ShardState, set[str]] = {
        ShardState.LIVE: {row.shard for row in state.objects.values()},
        ShardState.BUILDING: {row.shard for row in state.replacements.values()}
        | {intent.shard for intent in state.intents.values() if intent.done_version is None},
    }
    for shard in state.shards.values():
        if shard.state in wanted and shard.shard not in wanted[shard.state]:
            yield Finding("orphan_shard", f"shards {shard.shard}", f"{shard.state} at {shard.uri}, and nothing points to it")
