"""Keeping a table's history longer than its own settings do, while a long copy needs it (the 7-day wall).

The one thing that touches a live table before promotion, and only when a person asks for it by name. A pin only lengthens: removed files
and log entries are kept as long as the table keeps each of them by itself, or longer. Pins are counted: the first of a table writes down
its settings, the last one that goes puts them back, whoever it is; a generation that dies leaves its pin to cleanup. What somebody else
sets meanwhile stays, and is raised where a pin asks for more.

The ledger comes first: a pin is written down before the table is raised, and marked as given up before the table is lowered. So all who
work on one table at once want the same of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pendulum

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import commit_edited
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.log.head import Head, look_or_none, read_head
from airflow_provider_schemamig.core.delta.metadata.validate import TableState
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import Pin, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId, check_label
from airflow_provider_schemamig.core.schema.delta_rules.retention import (
    DEFAULT_HOURS,
    FILES,
    LOG,
    forgets_too_early,
    interval_of,
    lengthened,
    longer,
)
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import LONGEST_HOURS, check_range
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import live_collection
from airflow_provider_schemamig.core.upgrade.plan.live_tables import fence_of, is_done, known, table_store
from airflow_provider_schemamig.core.upgrade.tables.durable import require_durable
from airflow_provider_schemamig.core.upgrade.tables.undeclared import PINNED
from airflow_provider_schemamig.core.user import user_name


def pin(env: EnvironmentRoot, collection: str, holder: str, hours: int) -> Pin:
    """Keep removed files and log entries of the collection's live table for at least ``hours``. Safe to repeat: the row comes first.

    Raises UnknownCollection; InvalidName for a holder with a credential in it; OutOfRange; as ``commit_edited`` does.
    """
    check_label("holder", holder)
    check_range("a pin", hours, "hours", 1, LONGEST_HOURS)
    ledger = LedgerWriter(env)
    shard = _live_shard(ledger.state(), collection)
    by, at = user_name(), pendulum.now("UTC")

    def decide(state: State) -> Sequence[Update]:
        # Read in here: while a pin is in the state, the table shows what it made of it, and no longer than that.
        head = read_head(table_store(env, state, shard))
        known = _as_set_since(state, shard, head)
        properties = known[0].properties if known else _own_settings(state, shard, head)
        others = [found for found in known if found.holder != holder]
        return [*map(Put, others), Put(Pin(shard, holder, hours, properties, _asked(known, hours), by, at, given_up=False))]

    state = ledger.transact(decide)
    _set_retention(env, ledger, shard)
    append_history(env, HistoryEntry.ended("pin", at, collection=collection, who=by, detail=f"{hours} hours for {holder}"))
    return state.pins[shard, holder]


def unpin(env: EnvironmentRoot, collection: str, holder: str) -> bool:
    """Give a pin up; the table's own settings come back with the last one. False if there was none. The row goes last.

    Raises UnknownCollection for a name that no collection ever had.
    """
    ledger, started = LedgerWriter(env), pendulum.now("UTC")
    state = ledger.state()
    found = [pinned for pinned in state.pins.values() if pinned.holder == holder and _name_of(state, pinned.shard) == collection]
    if not found and collection not in state.objects and all(name != collection for name, _ in state.schemas):
        raise UnknownCollection(collection=collection)
    for pinned in found:
        release_pin(env, ledger, pinned)
    if found:
        append_history(env, HistoryEntry.ended("unpin", started, collection=collection, who=user_name(), detail=f"for {holder}"))
    return bool(found)


def release_pin(env: EnvironmentRoot, ledger: LedgerWriter, pinned: Pin) -> None:
    """Put the table's settings back, or to what the other pins ask for; the row goes last."""

    def give_up(state: State) -> Sequence[Update]:
        return [
            Put(replace(found, given_up=found.given_up or found.holder == pinned.holder))
            for found in _as_set_since(state, pinned.shard, _head(env, state, pinned.shard))
        ]

    ledger.transact(give_up)
    _set_retention(env, ledger, pinned.shard)

    def decide(state: State) -> Sequence[Update]:
        if not _held(state, pinned) or not state.pins[pinned.shard, pinned.holder].given_up:
            return []  # somebody else dropped it, or the holder has asked again
        known = pins_of(state, pinned.shard)
        others = [replace(found, asked=_asked(known)) for found in known if found.holder != pinned.holder]
        return [Drop(Pin, pinned.key), *map(Put, others)]

    ledger.transact(decide)


def keep_pinned(leader: LeaderWriter, shards: Iterable[ShardId]) -> None:
    """Raise the tables' retention again to what their pins ask for, after a commit of ours set it lower or took it away.

    What somebody else has set since is written down first: the table shows it no longer. Before the ledger has that commit: what dies in
    between comes by here again.
    """
    for shard in shards:
        if pins_of(leader.state, shard):
            leader.ledger.transact(partial(_set_since, leader.env, shard))
            _set_retention(leader.env, leader.ledger, shard, only_raise=True)


def _set_since(env: EnvironmentRoot, shard: ShardId, state: State) -> Sequence[Update]:
    known = _as_set_since(state, shard, _head(env, state, shard))
    return [Put(found) for found in known if found != state.pins[found.shard, found.holder]]


def _head(env: EnvironmentRoot, state: State, shard: ShardId) -> Head | None:
    return look_or_none(table_store(env, state, shard)) if shard in state.shards else None


def pins_of(state: State, shard: ShardId) -> list[Pin]:
    return [found for found in state.pins.values() if found.shard == shard]


def _as_set_since(state: State, shard: ShardId, head: Head | None) -> list[Pin]:
    """Return a shard's pins, with what somebody else has set since as the table's own settings."""
    pins = pins_of(state, shard)
    if not pins or head is None or head.is_another:
        return pins
    asked, now, declared = {interval_of(count) for count in _asked(pins)}, _settings(head), _declared(state, shard, head)
    own = tuple((key, before if now[key] in asked or now[key] == declared.get(key) else now[key]) for key, before in pins[0].properties)
    return [replace(found, properties=own) for found in pins]


def _held(state: State, pinned: Pin) -> bool:
    return (pinned.shard, pinned.holder) in state.pins


def _set_retention(env: EnvironmentRoot, ledger: LedgerReader, shard: ShardId, *, only_raise: bool = False) -> None:
    """Set the table's settings to what its pins ask for. Pins that come or go meanwhile count, too.

    ``only_raise``: what the table has now is its own, as a commit of ours has just set it, which the ledger does not know yet.

    The head is read before the pins: a commit made for pins that have gone since then is a conflict, as whoever gave them up has committed.
    """
    seen: list[Pin] = []
    state = ledger.state()
    while shard in state.shards:
        store = table_store(env, state, shard)
        head = look_or_none(store)
        state = ledger.state()
        if head is None or head.is_another or shard not in state.shards:
            return  # what was raised is gone with its table
        pins = pins_of(state, shard) or [replace(pinned, given_up=True) for pinned in seen]
        try:
            _apply(store, state, shard, head, pins, only_raise)
        except MetadataMoved:
            continue
        known, state = pins_of(state, shard), ledger.state()
        if pins_of(state, shard) == known:
            return
        seen = pins


def _apply(store: Store, state: State, shard: ShardId, head: Head, pins: Sequence[Pin], only_raise: bool) -> None:
    """Set a table's properties to what its pins need, once; no commit if they are that already."""
    if not pins:
        return
    hours = max((found.hours for found in pins if not found.given_up), default=0)
    configuration = dict(head.metadata.get("configuration") or {})
    asked = {interval_of(count) for count in _asked(pins)}
    wanted, declared = {}, _declared(state, shard, head)
    for key, before in pins[0].properties:
        now, own = configuration.get(key), _declared_too(declared, key, before)
        # A setting that is neither of before nor a pin's was made by somebody else since, and stays.
        wanted[key] = lengthened(key, own if not only_raise and (now == before or now in asked) else now, hours)
    after = {key: value for key, value in {**configuration, **wanted}.items() if value is not None}
    was_too_early = forgets_too_early({key: before for key, before in pins[0].properties if before is not None})
    if not hours and forgets_too_early(after) and not forgets_too_early(configuration) and not was_too_early:
        # A release declared its files' while the log was pinned.
        wanted[LOG] = after[LOG] = after.get(FILES, interval_of(int(DEFAULT_HOURS[FILES])))
    if after == configuration:
        return
    leader = state.leader
    tag = Tag(leader.generation if leader else Generation(0), leader.epoch if leader else Epoch(0), PINNED)
    changed = TableState(head.protocol, {**head.metadata, "configuration": after})
    parameters = {key: str(value) for key, value in wanted.items()}
    committed = commit_edited(store, head, changed, fence_of(state, shard, tag.epoch), tag, parameters=parameters, since=head.version)
    require_durable(CollectionName(_name_of(state, shard) or ""), [committed])


def _asked(pins: Sequence[Pin], *hours: int) -> tuple[int, ...]:
    return tuple(sorted({*hours, *(count for found in pins for count in found.asked)}))


def _declared_too(declared: Mapping[str, str], key: str, own: str | None) -> str | None:
    """Return the table's own setting, or the ``declared`` one if it is longer."""
    wanted = declared.get(key)
    return own if wanted is None else wanted if own is None else longer(key, own, wanted)


def _declared(state: State, shard: ShardId, head: Head) -> Mapping[str, str]:
    """Return the properties that are declared of the table as it is: an upgrade that died, or goes on, may have brought it further than the
    ledger says."""
    done = [intent for intent in state.intents_of(shard) if isinstance(intent, TransitionIntent) and is_done(state, intent, head)]
    if done:
        return dict(done[-1].after.properties)
    name = live_collection(state, shard)
    if name is None:  # the hold of the release that retired it leads back to the schema that it had
        last = [entry for entry in state.schemas_of(shard) if entry.rolled_back is None][-1:]
        return dict(last[0].physical.properties) if last else {}
    announced = [step for intent in state.intents_of(shard) for step in intent.leads_to]
    live = head.declaration(name)
    nearest = min([state.entry(name).physical, *announced], key=lambda step: len(live_differences(step, live)))
    return dict(nearest.properties)


def _own_settings(state: State, shard: ShardId, head: Head) -> tuple[tuple[str, str | None], ...]:
    """Return the settings that no release has made: those go with it."""
    declared = _declared(state, shard, head)
    return tuple((key, None if value == declared.get(key) else value) for key, value in _settings(head).items())


def _settings(head: Head) -> dict[str, str | None]:
    configuration: Mapping[str, str] = head.metadata.get("configuration") or {}
    return {key: configuration.get(key) for key in (FILES, LOG)}


def _live_shard(state: State, collection: str) -> ShardId:
    return state.objects[known(state, collection)].shard


def _name_of(state: State, shard: ShardId) -> str | None:
    found = state.shards.get(shard)
    return found.collection if found is not None else None
