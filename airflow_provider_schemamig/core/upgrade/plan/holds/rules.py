"""What a release cannot do to a table as long as a hold keeps something of it, for holds stack everywhere else; and the ends of holds as
parts of a plan; and which ways on from drift they leave. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pendulum

from airflow_provider_schemamig.core.ledger.objects.nodes import Node
from airflow_provider_schemamig.core.ledger.rows import HeldTable, Hold, HoldState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, ShardId
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.changes import AddColumn, ChangeType, DropColumn
from airflow_provider_schemamig.core.schema.diff.phases import Phases
from airflow_provider_schemamig.core.schema.paths import path_in_files
from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, HoldInUse, HoldOpen
from airflow_provider_schemamig.core.upgrade.plan.errors import HoldKeeps
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import (
    dropped_paths,
    ends_by_hand,
    held_of,
    kept_fields,
    live_collection,
    needed_by,
    open_holds,
    retired_by,
)
from airflow_provider_schemamig.core.upgrade.plan.stages import EndHold
from airflow_provider_schemamig.exceptions import SchemamigError


def options_refused(state: State) -> Mapping[str, SchemamigError]:
    """Return the ways on from drift (``accept``, ``revert``, ``unmanage``) that do not go now for any table, each with the refusal."""
    if state.leader is not None and state.is_promoted:
        return dict.fromkeys(("accept", "revert", "unmanage"), DeploymentOpen(generation=state.leader.generation))
    held = hold_in_the_way(state)
    return {} if held is None else dict.fromkeys(("accept", "unmanage"), held)


def why_held(state: State) -> str:
    """Return why revert is the only way on from drift; "" where it is not."""
    refused = options_refused(state)
    return refused["accept"].message if "accept" in refused and "revert" not in refused else ""


def hold_in_the_way(state: State) -> HoldOpen | None:
    """Return the refusal of a change that no way back would know of; None where no hold is open, or the time of each is over."""
    now = pendulum.now("UTC")
    for hold in open_holds(state):
        if hold.until > now or hold.state is HoldState.ROLLING_BACK or ends_by_hand(state, hold):
            return hold_open(state, hold)
    return None


def hold_open(state: State, hold: Hold) -> HoldOpen:
    """Return the refusal of what an open hold does not let happen."""
    waits = ends_by_hand(state, hold) and hold.until <= pendulum.now("UTC")
    return HoldOpen(generation=hold.generation, until=hold.until, state=hold.state, by_hand=waits)


def refused_by_holds(state: State, step: MergedStep, found: Phases | None, holds: Sequence[Hold]) -> Iterator[HoldKeeps]:
    """Yield every reason against the step. ``found``: how an evolution is made."""
    match step:
        case Create():
            return
        case Evolve(old=old):
            if found is not None:
                yield from _evolution(state, old.name, found, holds)
        case Replace(old=old):
            yield from kept_of_table(state, old.name, holds, "the release replaces the table")
        case RewriteStep(old=old):
            yield from kept_of_table(state, old.name, holds, "the release rewrites the table")
        case Remove(old=old):
            yield from kept_of_table(state, old.name, holds, "the release removes the table")


def _evolution(state: State, collection: CollectionName, found: Phases, holds: Sequence[Hold]) -> Iterator[HoldKeeps]:
    kept = kept_fields(state, collection, holds)
    for taken in found.taken:
        yield _refusal(collection, kept[taken.path], f"column {taken.path}", f"the release asks for {taken.by}")
    for change in (*found.expand, *found.online):
        if isinstance(change, ChangeType) and not change.widening:
            yield from kept_of_table(state, collection, holds, f"the release changes the type of {change.path}")
    entry = state.entry(collection)
    for hold, table in held_of(state, entry.shard, holds):
        for change in (*found.expand, *found.online):
            if isinstance(change, AddColumn | ChangeType) and _changes_again(change, table, dict(entry.stored_names)):
                lost = f"the type that {change.path} had before"
                yield _refusal(collection, hold, lost, f"the release changes the type of {change.path}")


def _changes_again(change: AddColumn | ChangeType, table: HeldTable, names: dict[ColumnPath, str]) -> bool:
    """Return whether this is another change of type where this hold's release made one.

    Where a column took another's place, a field more is one, too, because a struct is cast as one value.
    """
    path = path_in_files(change.path, names)
    if isinstance(change, AddColumn):
        return len(path) > 1 and path[0] in table.swapped
    return any(path[: len(other)] == other[: len(path)] for other in table.retyped)


def kept_of_table(state: State, collection: CollectionName, holds: Sequence[Hold], asks: str) -> Iterator[HoldKeeps]:
    """Yield a refusal for each hold that keeps columns of the table, or the table before it."""
    if collection not in state.objects:
        return
    entry = state.entry(collection)
    for hold in holds:
        fields = [path for _, table in held_of(state, entry.shard, [hold]) for path in dropped_paths(entry, table)]
        tables = [shard.shard for shard in retired_by(state, hold) if shard.successor == entry.shard]
        lost = [*(f"column {path}" for path in fields), *(f"the table {shard} that it was before" for shard in tables)]
        if lost:
            yield _refusal(collection, hold, ", ".join(lost), asks)


def _refusal(collection: CollectionName, hold: Hold, lost: str, asks: str) -> HoldKeeps:
    return HoldKeeps(collection=collection, generation=hold.generation, until=hold.until, lost=lost, asks=asks)


def end_of(state: State | None, hold: Hold) -> list[EndHold]:
    """Return what the hold's end takes away, collection by collection."""
    assert state is not None  # it has a hold
    drops: dict[CollectionName, list[DropColumn]] = {}
    shards: dict[CollectionName, list[ShardId]] = {}
    for table in hold.tables:
        name = live_collection(state, table.shard)
        if name is not None and table.dropped:
            drops.setdefault(name, []).extend(map(DropColumn, dropped_paths(state.entry(name), table)))
    for shard in retired_by(state, hold):
        shards.setdefault(shard.collection, []).append(shard.shard)
    names = sorted({*drops, *shards})
    found = [EndHold(hold.generation, name, tuple(drops.get(name, ())), tuple(shards.get(name, ()))) for name in names]
    return found or [EndHold(hold.generation)]


def holds_in_use(holds: Sequence[Hold], nodes: Sequence[Node]) -> Iterator[HoldInUse]:
    for hold in holds:
        users = tuple(node.node_id for node in needed_by(hold, nodes))
        if users:
            yield HoldInUse(generation=hold.generation, until=hold.until, nodes=users)
