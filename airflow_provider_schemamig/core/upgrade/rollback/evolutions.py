"""Evolved collections on the way back of a committed deployment: one metadata commit each.

A column whose type a shadow column changed comes back with every value that it had. Rows written after the swap lack its values: they are
filled by the reverse cast before the columns are swapped back.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.delta.commit.fence import fence_txns, put_txns
from airflow_provider_schemamig.core.delta.log.commits import may_have_files_since
from airflow_provider_schemamig.core.delta.log.head import head_at, read_head
from airflow_provider_schemamig.core.ledger.rows import HeldTable, Hold, IntentKind, SchemaEntry, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, ShardId
from airflow_provider_schemamig.core.online.backfill import due_files
from airflow_provider_schemamig.core.online.nested_types import leaves
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, RewriteStep
from airflow_provider_schemamig.core.schema.describe import keys_in_words
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.schema.diff.renames import net_renames
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.core.upgrade.plan.column_names import names_after, names_of
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import still_there
from airflow_provider_schemamig.core.upgrade.plan.live_tables import is_in_place, table_store
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stages import CutOver
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs, violation_of
from airflow_provider_schemamig.core.upgrade.tables.column_swap import SwapBack, fill_old_column, retry_on_new_files
from airflow_provider_schemamig.core.upgrade.tables.inverse import inverse_changes
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition, commit_transitions


@dataclass(frozen=True)
class RolledBackTables:
    """What the way back made of the evolved collections."""

    physical: Mapping[CollectionName, Declaration]
    #: The commit that did it, or the mark of one that stays: up to it rows came that may have the columns that go.
    versions: Mapping[CollectionName, int]
    #: What each table's fields are called in the data files (``SchemaEntry.stored_names``).
    names: Mapping[CollectionName, tuple[tuple[ColumnPath, str], ...]]


def lossy_casts(env: EnvironmentRoot, state: State, plan: Plan, hold: Hold, jobs: Jobs) -> tuple[str, ...]:
    """Describe the values that came since and do not fit the type of before. Without such rows no Spark is started."""
    checks = []
    for swap_back in _all_swaps_back(state, plan, hold, lossy=False):
        store = table_store(env, state, swap_back.shard)
        head = read_head(store)
        for item in swap_back.columns if is_in_place(swap_back.now, head) else ():  # else a rollback that died had come further
            if due_files(store, head, swap_back.fill_of(store, head, item)):
                wanted, used = type_sql(item.hidden.type), item.used.name
                about = {"collection": swap_back.collection, "uri": store.location.uri, "version": head.version}
                for path, _, found in leaves(item.used.type, item.hidden.type, used):
                    rule = f"have no value of {path} as {type_sql(found)}, it becomes NULL"
                    checks.append({**about, "kind": "cast", "column": path, "type": type_sql(found), "rule": rule})
                for kept in swap_back.columns.kept(item, lossy=True):
                    rule = f"break the CHECK {kept.check.name} with {used} as {wanted}, they have to be changed or deleted first"
                    checks.append({**about, "kind": "check", "expression": kept.expression, "rule": rule})
    if not checks:
        return ()
    answer = jobs().run("preflight", {"checks": checks, "estimates": [], "storage_options": dict(env.options)})
    violations = [violation_of(item) for item in answer["violations"]]
    return tuple(f"{item.collection}: {item.count} row(s) {item.rule}" for item in violations)


def fill_old_columns(leader: LeaderWriter, jobs: Jobs, *, lossy: bool) -> None:
    """Bring all rows back, which is the long part of it, while everybody goes on. Raises as ``column_swap.fill_old_column``."""
    for swap_back in _all_swaps_back(leader.state, leader.plan, hold_of(leader), lossy=lossy):
        if _rolled_back(leader, swap_back.shard) is None:
            fill = functools.partial(fill_old_column, leader, swap_back, jobs)
            retry_on_new_files(leader, swap_back.collection, swap_back.shard, fill)  # with ``force`` those wait who outrun it


def roll_back_tables(leader: LeaderWriter, jobs: Jobs, *, lossy: bool) -> RolledBackTables:
    """Roll all collections back in one round, but those whose columns change places: each of them has its own race with its writers.

    What a rollback that died had taken back stays as it is: what rows came since do not have was never theirs.
    """
    hold = hold_of(leader)
    tables = {step.collection: held_table(leader.state, hold, step.old.name) for step in _evolved(leader.plan)}
    rolled_back = {name: known for name, table in tables.items() if (known := _rolled_back(leader, table.shard)) is not None}
    steps = [step for step in _evolved(leader.plan) if step.collection not in rolled_back]
    plain = [step for step in steps if not _swap_back_of(leader.state, leader.plan, hold, step, lossy).columns]
    transitions: list[Transition] = []
    for step, (transition, left) in zip(plain, leader.env.each(lambda step: _transition(leader, step), plain), strict=True):
        leader.notes.extend(f"{step.collection}: {text}" for text in left)
        transitions += [] if transition is None else [transition]
    rolled_back_at = leader.env.each(lambda known: _stands(leader, known), rolled_back.values())
    versions = dict(zip(rolled_back, rolled_back_at, strict=True)) | commit_transitions(leader, IntentKind.ROLLBACK, transitions)
    for step in steps:
        swap_back = _swap_back_of(leader.state, leader.plan, hold, step, lossy)
        if swap_back.columns:
            attempt = functools.partial(_swap_back, leader, step, swap_back, jobs)
            transition, version = retry_on_new_files(leader, step.collection, swap_back.shard, attempt)
            transitions.append(transition)
            versions[step.collection] = version
    moved = {transition.collection for transition in transitions}
    stay = [step for step in steps if step.collection not in moved]
    versions |= zip((step.collection for step in stay), leader.env.each(lambda step: _marked(leader, step), stay), strict=True)
    names = {step.collection: leader.state.entry(step.collection).stored_names for step in stay}
    changes = dict.fromkeys(rolled_back, ()) | {transition.collection: transition.changes for transition in transitions}
    # At our own commits: what somebody did to a table since is drift.
    read = leader.env.each(lambda name: head_at(held_store(leader.env, leader.state, tables[name]), versions[name]), changes)
    for name, head in zip(changes, read, strict=True):
        names[name] = names_of(head) if name in rolled_back else names_after(leader.state.entry(name), changes[name], head)
    physical = {name: known.after for name, known in rolled_back.items()}
    return RolledBackTables(physical | {transition.collection: transition.after for transition in transitions}, versions, names)


def _marked(leader: LeaderView, step: Evolve) -> int:
    """Return a version without rows, where the table stays as it is: up to there they are of the release, and after it of the one before.

    Streams tell by that which columns an event has.
    """
    held = held_table(leader.state, hold_of(leader), step.old.name)
    store, fence = held_store(leader.env, leader.state, held), leader.fence(held.shard)
    tag = leader.tag(IntentKind.ROLLBACK.value)
    return put_txns(store, read_head(store), fence_txns(store, fence), tag, fence.check).version


def _rolled_back(leader: LeaderView, shard: ShardId) -> TransitionIntent | None:
    """Return the intent that took the table back already, in this rollback or in a dead one (``recovery.settle``)."""
    known = leader.state.transition(shard, IntentKind.ROLLBACK, leader.generation)
    return known if known is not None and known.done_version is not None else None


def _stands(leader: LeaderView, known: TransitionIntent) -> int:
    """Return the version that did it. Raises DriftFound if somebody changed the table since."""
    head = read_head(table_store(leader.env, leader.state, known.shard))
    found = live_differences(known.after, head.declaration(known.after.name))
    if found:
        raise DriftFound(collection=known.collection, differences=tuple(map(str, found)), under_way=True)
    return head.version if known.done_version is None else known.done_version


def _swap_back(leader: LeaderWriter, step: Evolve, swap_back: SwapBack, jobs: Jobs) -> tuple[Transition, int]:
    checked_at = fill_old_column(leader, swap_back, jobs)
    transition, left = _transition(leader, step)
    leader.notes.extend(f"{step.collection}: {text}" for text in left)
    assert transition is not None  # two columns change places
    return transition, commit_transitions(leader, IntentKind.ROLLBACK, [replace(transition, checked_at=checked_at)])[step.collection]


def _evolved(plan: Plan) -> tuple[Evolve, ...]:
    return tuple(step for step in plan.target.steps if isinstance(step, Evolve))


def hold_of(leader: LeaderView) -> Hold:
    return leader.state.holds[leader.generation]


def held_table(state: State, hold: Hold, collection: CollectionName) -> HeldTable:
    found = state.held_table(hold.generation, collection)
    assert found is not None  # its commit wrote down all that it changed
    return found


def held_store(env: EnvironmentRoot, state: State, held: HeldTable) -> Store:
    """Return the table in the hold, and no other one that was made in its place."""
    return env.table_store(state.shards[held.shard].uri, held.table_id)


def source_entry(state: State, held: HeldTable) -> SchemaEntry:
    return state.schemas[held.collection, held.schema_id]


def _all_swaps_back(state: State, plan: Plan, hold: Hold, *, lossy: bool) -> Sequence[SwapBack]:
    found = [_swap_back_of(state, plan, hold, step, lossy) for step in _evolved(plan)]
    return [swap_back for swap_back in found if swap_back.columns]


def _swap_back_of(state: State, plan: Plan, hold: Hold, step: Evolve, lossy: bool) -> SwapBack:
    """Return the way home of an evolved collection.

    Later releases may have come and gone since: what came in is looked for from before this one's first commit on.
    """
    entry, held = state.entry(step.collection), held_table(state, hold, step.old.name)
    wanted = replace(still_there(state, source_entry(state, held)), name=step.collection)
    renamed = net_renames(change for stage in plan.of_collection(step.collection) if isinstance(stage, CutOver) for change in stage.changes)
    return SwapBack(step.collection, held.shard, entry.physical, wanted, tuple(renamed.items()), held.before or 0, lossy)


def _transition(leader: LeaderView, step: Evolve) -> tuple[Transition | None, tuple[str, ...]]:
    """Return the transition back of a table, if one is needed, and what stays behind on it."""
    entry, swap_back = leader.state.entry(step.collection), _swap_back_of(leader.state, leader.plan, hold_of(leader), step, False)
    store = held_store(leader.env, leader.state, held_table(leader.state, hold_of(leader), step.old.name))
    known = leader.state.transition(entry.shard, IntentKind.ROLLBACK, leader.generation)
    if known is not None:
        entry = replace(entry, physical=known.before)
    head = read_head(store)
    inverse = inverse_changes(store, head, entry.physical, swap_back.wanted, swap_back.renames, swap_back.since)
    if not inverse.changes:
        return None, inverse.left_behind
    return Transition(step.collection, entry.shard, entry.physical, inverse.changes, inverse.forget, head.version), inverse.left_behind


def unasked_keys(leader: LeaderView, plan: Plan) -> Iterator[str]:
    """Yield, in words, the keys that a rollback declares again after rows came. The release had dropped these keys.

    FOREIGN KEYs always: nothing kept the rows that they refer to, and those may be of a table that is no part of the release.
    """
    for step in plan.target.steps:
        if isinstance(step, Create):
            continue
        kept = set[str]()
        if isinstance(step, Evolve | RewriteStep):
            kept = {*keys_in_words(step.new, match(step.old, step.new, step.renames if isinstance(step, Evolve) else {}))}
        found = [key for key in keys_in_words(step.old) if key not in kept]
        came = isinstance(step, RewriteStep) or (
            isinstance(step, Evolve) and bool(found) and _rows_came(leader, held_table(leader.state, hold_of(leader), step.old.name))
        )
        for key in found:
            if key.startswith("FOREIGN KEY"):
                yield f"{step.old.name}: {key} is declared again, and no row was asked: `schemamig verify` does"
            elif came:
                yield f"{step.old.name}: {key} is declared again, and rows that came since were not asked: `schemamig verify` does"


def _rows_came(leader: LeaderView, held: HeldTable) -> bool:
    return may_have_files_since(held_store(leader.env, leader.state, held), held.before or 0)
