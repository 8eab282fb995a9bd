"""What must hold of the ledger's stored updates, and between the rows they sum up to. Pure: from rows to findings.

``ledger edit`` asks the same before and after a change, so that a row written by hand is held to what all others are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from airflow_provider_schemamig.core.ledger.admin.findings import LedgerFinding, of_row
from airflow_provider_schemamig.core.ledger.codec import RawRow, collection_of, decode, encode_key, row_type_of
from airflow_provider_schemamig.core.ledger.errors import FormatStepFailed, LedgerDamaged
from airflow_provider_schemamig.core.ledger.fold import sums
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS
from airflow_provider_schemamig.core.ledger.rows import (
    FROZEN_COLLECTIONS,
    ROW_TYPES,
    DeploymentState,
    EnvironmentRelease,
    HoldState,
    Leader,
    LedgerSince,
    Shard,
    ShardState,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage.errors import InvalidLocation
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

Rule = Callable[[State], Iterator[LedgerFinding]]

_UNFINISHED = (DeploymentState.CLAIMED, DeploymentState.PROMOTED)
#: What the deployment of a hold that is not closed has come to.
_HELD = {
    HoldState.OPEN: (DeploymentState.COMMITTED,),
    HoldState.ROLLING_BACK: (DeploymentState.COMMITTED,),
    HoldState.KEEPING: (DeploymentState.ROLLED_BACK,),
    HoldState.CONTRACTING: (DeploymentState.COMMITTED, DeploymentState.ROLLED_BACK),
}
_LEADER = (Leader.COLLECTION, encode_key(Leader.key))
_RELEASE = (EnvironmentRelease.COLLECTION, encode_key(EnvironmentRelease.key))
_SINCE = (LedgerSince.COLLECTION, encode_key(LedgerSince.key))


def check_rows(env: EnvironmentRoot, version: int, rows: Sequence[RawRow]) -> tuple[LedgerFinding, ...]:
    """Return all that is wrong with ``rows``, the updates of ``env``'s ledger up to its head ``version``. Raises LedgerTooNew."""
    found = [*_sum_findings(rows), *_time_findings(rows, version)]
    try:
        state = State.of(version, rows, env.location.uri)
    except LedgerDamaged as error:
        found += _row_findings(rows, ROW_TYPES)
        return tuple(found) or (LedgerFinding("no_config", error.where, error.reason),)
    found += _row_findings(rows, strictest_types(state.format))
    try:
        state.config  # noqa: B018 - decodes the row that everything else rests on
        state.upgrades  # noqa: B018 - runs the steps of an older format, which the rules see it through
    except LedgerDamaged as error:
        return tuple(found) or (LedgerFinding("no_config", error.where, error.reason),)
    except FormatStepFailed as error:
        return (*found, LedgerFinding("format_step_failed", f"format {error.source}", error.reason))
    rules: tuple[Rule, ...] = (*_RULES, functools.partial(_place_findings, env))
    for rule in rules:
        found.extend(_guarded(rule, state))
    return (*found, *_since_findings(rows, state), *_history_findings(rows))


def strictest_types(number: int) -> tuple[type[Any], ...]:
    """Return the classes that rows of a format have to satisfy.

    The frozen copies of a format know less than today's rows (times are text in them), so they are taken only for rows that have another
    shape today.
    """
    if number == FORMATS.current:
        return ROW_TYPES
    older = (row_type for row_type in FORMATS.types(number) if collection_of(row_type) not in FROZEN_COLLECTIONS)
    return (*(row_type for row_type in ROW_TYPES if collection_of(row_type) in FROZEN_COLLECTIONS), *older)


def _guarded(rule: Rule, state: State) -> Iterator[LedgerFinding]:
    """Yield a rule's findings, as far as the rows that it reads can be decoded; the row checks before have reported the damage itself."""
    try:
        yield from rule(state)
    except LedgerDamaged:
        return


# --- stored updates ------------------------------------------------------------------------------------------------------------------


def _sum_findings(rows: Sequence[RawRow]) -> Iterator[LedgerFinding]:
    values: dict[tuple[str, str], int] = {}
    for (collection, key, value), count in sums(rows).items():
        if count < 0:
            yield of_row("negative_multiplicity", collection, key, f"{count} times {value}")
        elif count > 1:
            yield of_row("doubled", collection, key, f"{count} times {value}")
        if count > 0:
            values[collection, key] = values.get((collection, key), 0) + 1
    for (collection, key), count in values.items():
        if count > 1:
            yield of_row("two_values", collection, key, f"{count} values for one key")


def _row_findings(rows: Sequence[RawRow], types: tuple[type[Any], ...]) -> Iterator[LedgerFinding]:
    for collection, key, value in sums(rows):
        row_type = row_type_of(collection, key, types)
        try:
            if row_type is not None:
                decode(row_type, key, value)
        except LedgerDamaged as error:
            yield of_row("unreadable_row", collection, key, error.reason)


def _time_findings(rows: Sequence[RawRow], version: int) -> Iterator[LedgerFinding]:
    for row in rows:
        if not 0 <= row.ts <= version or row.diff == 0:
            yield of_row("wrong_time", row.collection, row.key, f"diff {row.diff} at {row.ts}, the head is {version}")


def _since_findings(rows: Sequence[RawRow], state: State) -> Iterator[LedgerFinding]:
    """Yield a finding if history does not begin where ``since`` says.

    There is always an update of that version (the config row's at least), and none before.
    """
    try:
        since = state.since
    except LedgerDamaged:
        return
    first = min(row.ts for row in rows)
    if 0 <= first != since:
        yield of_row("wrong_since", *_SINCE, f"history is said to begin at version {since}, its first update is of version {first}")


def _history_findings(rows: Sequence[RawRow]) -> Iterator[LedgerFinding]:
    """Yield a finding wherever the generation, the epoch or ``since`` went down, over all the history that is left."""
    leaders: list[tuple[int, ...]] = []
    sinces: list[tuple[int, ...]] = []
    for row in sorted((row for row in rows if row.diff > 0), key=lambda row: row.ts):
        try:
            if row[:2] == _LEADER:
                leader = decode(Leader, row.key, row.value)
                leaders.append((leader.epoch, leader.generation))
            elif row[:2] == _SINCE:
                sinces.append((decode(LedgerSince, row.key, row.value).since,))
        except LedgerDamaged:
            continue  # found by the row checks
    yield from _backwards(leaders, _LEADER, "epoch, generation")
    yield from _backwards(sinces, _SINCE, "since")


def _backwards(values: list[tuple[int, ...]], row: tuple[str, str], what: str) -> Iterator[LedgerFinding]:
    for before, after in pairwise(values):
        if any(new < old for old, new in zip(before, after, strict=True)):
            yield of_row("went_backwards", *row, f"({what}) went from {before} to {after}")


# --- between rows --------------------------------------------------------------------------------------------------------------------


def _object_findings(state: State) -> Iterator[LedgerFinding]:
    from airflow_provider_schemamig.core.schema.fingerprint import fingerprint

    for name, row in state.objects.items():
        shard = state.shards.get(row.shard)
        schema = state.schemas.get((row.collection, row.schema_id))
        if shard is None or shard.state is not ShardState.LIVE or shard.collection != name:
            what = "no shard row" if shard is None else f"{shard.state}, of {shard.collection}"
            yield _of("shard_not_live", row, f"its shard {row.shard} is not a live one ({what})")
        if schema is None:
            yield _of("schema_missing", row, f"it has no schema {row.schema_id}")
            continue
        if schema.shard != row.shard:
            yield _of("schema_of_other_shard", row, f"schema {row.schema_id} is of shard {schema.shard}, not {row.shard}")
        if (found := fingerprint(schema.declared)) != row.fingerprint:
            yield _of("wrong_fingerprint", row, f"stored {row.fingerprint}, its declaration has {found}")


def _release_findings(state: State) -> Iterator[LedgerFinding]:
    from airflow_provider_schemamig.core.schema.fingerprint import set_fingerprint

    if state.release is None:
        if state.objects:
            yield of_row("no_release", *_RELEASE, f"{len(state.objects)} collection(s), and no release that they are at")
        return
    found = set_fingerprint(state.release_set())
    if found != state.release.fingerprint:
        yield of_row("wrong_set_fingerprint", *_RELEASE, f"stored {state.release.fingerprint}, its objects have {found}")


def _leader_findings(state: State) -> Iterator[LedgerFinding]:
    leader = state.leader
    if leader is None:
        return
    deployment = state.deployments.get(leader.generation)
    if deployment is None:
        yield of_row("leader_unknown", *_LEADER, f"generation {leader.generation} has no deployment")
    elif deployment.state is DeploymentState.CLAIMED:
        yield of_row("leader_not_promoted", *_LEADER, f"the deployment of generation {leader.generation} is only claimed")


def _intent_findings(state: State) -> Iterator[LedgerFinding]:
    leader = state.leader
    for intent in state.intents.values():
        if leader is None or intent.epoch > leader.epoch or intent.generation > leader.generation:
            yield _of("intent_ahead", intent, f"epoch {intent.epoch}, generation {intent.generation}: no leader had them")
        if intent.shard not in state.shards:
            yield _of("intent_without_shard", intent, f"there is no shard {intent.shard}")


def _element_findings(state: State) -> Iterator[LedgerFinding]:
    for element in state.elements.values():
        if element.shard not in state.shards:
            yield _of("element_without_shard", element, f"there is no shard {element.shard}")


def _generation_findings(state: State) -> Iterator[LedgerFinding]:
    """Yield the rows of a generation without a deployment; rollback, contract and cleanup look it up."""
    known = set(state.deployments)
    for rows in (state.shards, state.replacements, state.approvals, state.holds):
        for row in rows.values():
            generation: Generation = row.generation
            if generation not in known:
                yield _of("generation_unknown", row, f"generation {generation} has no deployment")


def _hold_findings(state: State) -> Iterator[LedgerFinding]:
    for hold in state.holds.values():
        deployment = state.deployments.get(hold.generation)
        if deployment is not None and deployment.state not in _HELD.get(hold.state, (deployment.state,)):
            yield _of("hold_without_commit", hold, f"it is {hold.state}, its deployment {deployment.state}")


def _replacement_findings(state: State) -> Iterator[LedgerFinding]:
    """Yield the replacements without a shard, of deployments that may still be promoted.

    Of other deployments a row may outlive its shard until the next cleanup.
    """
    for row in state.replacements.values():
        deployment = state.deployments.get(row.generation)
        if row.shard not in state.shards and deployment is not None and deployment.state in _UNFINISHED:
            yield _of("replacement_without_shard", row, f"there is no shard {row.shard}")


def _place_findings(env: EnvironmentRoot, state: State) -> Iterator[LedgerFinding]:
    """Yield the shards with a shared or unusable place.

    Every shard has a place of its own; tables that were adopted are never deleted, so two rows may name the place of one.
    """
    at: dict[str, Shard] = {}
    for _, shard in sorted(state.shards.items()):
        try:
            place = env.table_location(shard.uri).uri
        except InvalidLocation as error:
            yield _of("unusable_uri", shard, error.rule)
            continue
        other = at.setdefault(place, shard)
        if other is not shard and not (other.adopted and shard.adopted):
            yield _of("shared_uri", shard, f"{shard.uri} is the place of shard {other.shard}, too")
        elif not (shard.adopted or shard.is_at_own_place):
            yield _of("unusable_uri", shard, f"{shard.uri} is no folder that schemamig makes for it")


def _orphan_findings(state: State) -> Iterator[LedgerFinding]:
    """Yield the shards that nothing points to.

    A live shard belongs to an object, one that is being built to a replacement or an open intent, a retired one to a way back.
    """
    wanted: Mapping[ShardState, set[str]] = {
        ShardState.LIVE: {row.shard for row in state.objects.values()},
        ShardState.BUILDING: {row.shard for row in state.replacements.values()}
        | {intent.shard for intent in state.intents.values() if intent.done_version is None},
        ShardState.RETIRED: {shard.shard for shard in state.shards.values() if _is_taken_away_later(state, shard)},
    }
    for shard in state.shards.values():
        if shard.shard not in wanted[shard.state]:
            yield _of("orphan_shard", shard, f"{shard.state} at {shard.uri}, and nothing points to it{_way(state, shard)}")


def _way(state: State, shard: Shard) -> str:
    """Return the command that deletes the shard; none unless its generation was still building it at its end."""
    deployment = state.deployments.get(shard.generation)
    over = deployment is not None and deployment.state in (DeploymentState.ROLLED_BACK, DeploymentState.CANCELLED)
    is_left = over and shard.state is ShardState.BUILDING
    return f"; `schemamig cancel --generation {shard.generation}` deletes it" if is_left else ""


def _is_taken_away_later(state: State, shard: Shard) -> bool:
    """Return whether contract or a cleanup will remove the shard.

    The contract of the hold that keeps it does, or a later cleanup, if the shard was taken back by its own rollback.
    """
    if shard.retired_by is None:
        return False
    hold = state.holds.get(shard.retired_by)
    return shard.retired_by == shard.generation or (hold is not None and hold.state is not HoldState.CLOSED)


def _of(code: str, row: Any, text: str) -> LedgerFinding:
    return of_row(code, row.COLLECTION, encode_key(row.key), text)


_RULES: tuple[Rule, ...] = (
    _object_findings,
    _release_findings,
    _leader_findings,
    _intent_findings,
    _element_findings,
    _generation_findings,
    _hold_findings,
    _replacement_findings,
    _orphan_findings,
)
