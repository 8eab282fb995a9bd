"""The live tables of an environment, as an upgrade looks at them: heads, what is expected of them, drift."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.features import CatalogManagedTable
from airflow_provider_schemamig.core.delta.log.head import (
    Head,
    LogDamaged,
    LogTruncated,
    TableMissing,
    known_head,
    look_at_head,
    look_or_none,
)
from airflow_provider_schemamig.core.delta.names import fields_in, physical_name
from airflow_provider_schemamig.core.ledger.objects.known_heads import recall_heads
from airflow_provider_schemamig.core.ledger.rows import DriftRevertIntent, Intent, IntentKind, SchemaEntry, Shard, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, ShardId
from airflow_provider_schemamig.core.schema.delta_json import InvalidSchemaJson, UnknownDeltaType
from airflow_provider_schemamig.core.schema.diff.drift import Drift, live_differences
from airflow_provider_schemamig.core.schema.diff.renames import is_stand_in
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import path_in_files, translate
from airflow_provider_schemamig.core.storage import Location, Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.errors import DriftFound, NamesUnderWay, UnknownCollection
from airflow_provider_schemamig.core.upgrade.plan.column_names import added_in_place, exchanged, known_names
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import live_collection
from airflow_provider_schemamig.core.upgrade.plan.holds.rules import options_refused, why_held
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError

S = TypeVar("S", bound=State | None)
T = TypeVar("T")
#: How often tables are looked at while somebody writes to the ledger.
_LOOKS = 5


def table_store(env: EnvironmentRoot, state: State, shard: ShardId) -> Store:
    return env.table_store(state.shards[shard].uri, state.shards[shard].table_id)


def live_places(env: EnvironmentRoot, state: State) -> list[Location]:
    """Return where the live tables lie."""
    return [env.table_location(state.shards[item.shard].uri) for item in state.objects.values()]


def known(state: State, collection: str) -> CollectionName:
    """Return the name of a collection. Raises UnknownCollection."""
    if collection not in state.objects:
        raise UnknownCollection(collection=collection)
    return CollectionName(collection)


def asked_for(state: State, collections: Collection[str] | None) -> Sequence[CollectionName]:
    """Return these collections, or all; sorted. Raises UnknownCollection."""
    return [known(state, name) for name in sorted(state.objects if collections is None else collections)]


def consistent_look(read: Callable[[], S], look: Callable[[S], T], is_odd: Callable[[T], Any]) -> T:
    """Return the findings of ``look``, which gets the ledger's state from ``read`` and reads tables after it.

    What a leader made of a table in between is no drift: where what is found ``is_odd``, or refused, it is looked for again as long as the
    ledger has moved on.
    """
    for _ in range(_LOOKS):
        state = read()
        try:
            found = look(state)
            if not is_odd(found) or _is_newest(read, state):
                return found
        except Refusal:
            if _is_newest(read, state):
                raise
    return look(read())


def _is_newest(read: Callable[[], State | None], state: State | None) -> bool:
    now = read()
    return (None if now is None else now.version) == (None if state is None else state.version)


#: The difference of a table that is gone.
NO_TABLE = "no Delta table is there"


def read_heads(
    env: EnvironmentRoot, state: State | None, collections: Iterable[CollectionName] | None = None, *, again: bool = True
) -> Mapping[CollectionName, Head | None]:
    """Return the head of every collection's live shard; None where no table is.

    It may be that of another table that was made in its place (``drift_of``). Unless ``again``, one that this process has looked at counts.
    """
    return {} if state is None else _each(env, state, collections, functools.partial(_head_of, env, state, again))


def _each(
    env: EnvironmentRoot, state: State, collections: Iterable[CollectionName] | None, look: Callable[[CollectionName], T]
) -> Mapping[CollectionName, T]:
    recall_heads(env)
    names = list(state.objects if collections is None else collections)
    return dict(zip(names, env.each(look, names), strict=True))


def _head_of(env: EnvironmentRoot, state: State, again: bool, collection: CollectionName) -> Head | None:
    try:
        store = table_store(env, state, state.objects[collection].shard)
        known = None if again else known_head(store)
        return known.head if known is not None and known.head.table_id == store.table_id else look_or_none(store)
    except SchemamigError as error:
        error.collection = error.collection or collection
        raise


#: What one table's log can be like without stopping what is told of the others.
UNREADABLE = (LogTruncated, LogDamaged, CatalogManagedTable)


def look_at_tables(
    env: EnvironmentRoot, state: State, collections: Iterable[CollectionName] | None = None
) -> Mapping[CollectionName, Head | str]:
    """Return the head of each table, or why it has none, in words. A log that cannot be read is such a reason.

    For callers that show or skip a table without a head, and otherwise as ``read_heads``.
    """

    def look(collection: CollectionName) -> Head | str:
        try:
            return _head_of(env, state, True, collection) or NO_TABLE
        except UNREADABLE as damaged:
            return damaged.message.rstrip(".")

    return _each(env, state, collections, look)


def is_another(env: EnvironmentRoot, shard: Shard) -> bool:
    """Return whether somebody dropped the shard's table and made another one in its place, which is not ours to change or delete."""
    try:
        return look_at_head(env.table_store(shard.uri, shard.table_id)).is_another
    except (TableMissing, *UNREADABLE):  # what a run that died in deleting it has left
        return False


def is_in_place(expected: Declaration, head: Head) -> bool:
    """Return whether the table has this physical schema.

    Order and clustering are no drift: whoever reads goes by names. ``shown`` and ``is_done`` look at both where they tell two steps of
    ours apart.
    """
    return not live_differences(expected, head.declaration(expected.name))


def _is_ordered(expected: Declaration, head: Head) -> bool:
    """Return whether the columns are in this order; that of stand-ins depends on the attempts there were."""
    return _order(expected) == _order(head.declaration(expected.name))


def _order(declaration: Declaration) -> list[ColumnPath]:
    return [path for path, _ in walk(declaration.fields) if not is_stand_in(path)]


def shown(intent: TransitionIntent, head: Head) -> Declaration | None:
    """Return the physical schema that the table has: the one that the intent was to bring, or that of its step before; None: neither."""
    found = [step for step in intent.leads_to if is_in_place(step, head)]
    found = [step for step in found if _is_ordered(step, head)] or found
    return next((step for step in found if _is_clustered(step, head)), found[0] if found else None)


def _is_clustered(expected: Declaration, head: Head) -> bool:
    return head.declaration(expected.name).clustered_by == expected.clustered_by


def is_done(state: State, intent: TransitionIntent, head: Head) -> bool:
    """Return whether the table is where the intent was to bring it.

    An order, names that were swapped, a key, a comment, and a property that is no longer declared or asks for less history (also than by
    default) make no difference between two schemas. The order itself tells of the first unless somebody else made another one, the names
    in the data files of the second, and the table's comments and properties of the last; of a key nothing is on the table. The log is not
    asked: it may have been cleaned up since.
    """
    if not is_in_place(intent.after, head):
        return False
    begin = intent.before if intent.reached is None else intent.reached
    if intent.done_version is not None or not is_in_place(begin, head):
        return True
    if _order(begin) != _order(intent.after) and (_is_ordered(intent.after, head) or _is_ordered(begin, head)):
        return _is_ordered(intent.after, head)
    if begin.clustered_by != intent.after.clustered_by:
        return _is_clustered(intent.after, head)
    if _order(begin) != _order(intent.after) and not intent.renames:
        return False
    before, after = dict(begin.properties), dict(intent.after.properties)
    dropped = before.keys() - after.keys()
    as_before = any(head.properties.get(key) == before.get(key) != value for key, value in after.items())
    if as_before or not dropped.isdisjoint(head.properties) or _has_comments_of(begin, intent.after, head):
        return False
    return _is_renamed(state, intent, head)


def _has_comments_of(begin: Declaration, after: Declaration, head: Head) -> bool:
    """Return whether the table still has a comment of ``begin`` that ``after`` changes."""
    before, wanted, now = map(_comments, (begin, after, head.declaration(after.name)))
    return any(now.get(path) == comment != wanted.get(path, comment) for path, comment in before.items())


def _comments(declaration: Declaration) -> dict[str, str | None]:
    return {"": declaration.comment, **{path: field.comment for path, field in walk(declaration.fields)}}


def _is_renamed(state: State, intent: TransitionIntent, head: Head) -> bool:
    """Return whether every field of the intent's renames is called as it is to be, by what it is called in the data files."""
    name = live_collection(state, intent.shard)
    before = {} if name is None else dict(state.entry(name).stored_names)
    renames, now = dict(intent.renames), head.stored_names
    return all(path_in_files(path, before) == path_in_files(translate(path, renames), now) for path in renames)


def came_again(state: State, entry: SchemaEntry, head: Head) -> tuple[Drift, ...]:
    """Return the columns and fields that somebody dropped and added again: of the recorded one nothing is left but the name.

    None while an attempt of ours is under way, which may have added them, and writes down what they are called in the data files.
    """
    return () if state.intents_of(entry.shard) else added_in_place(entry, head)


#: What of ours gives columns other names, in the course of it or for good.
_RENAMING = frozenset({IntentKind.EVOLVE, IntentKind.CUTOVER, IntentKind.ROLLBACK, IntentKind.TAKE_BACK, IntentKind.REVERT})


def check_not_exchanged(state: State, shard: ShardId, head: Head) -> None:
    """Raise DriftFound unless every column has the name that the ledger knows it by: a change, or its inverse, would take one for another.

    Not where a change of ours is under way that has renamed them.
    """
    name = live_collection(state, shard)
    if name is None or may_be_renamed(state, shard, head):
        return
    found = exchanged(state.entry(name), head)
    if found:
        raise DriftFound(collection=name, differences=tuple(map(str, found)), under_way=True)


def may_be_renamed(state: State, shard: ShardId, head: Head) -> bool:
    """Return whether a change of ours that is under way has given columns other names; one that is announced only has not yet."""
    return any(_has_renamed(state, intent, head) for intent in state.intents_of(shard))


def _has_renamed(state: State, intent: Intent, head: Head) -> bool:
    if intent.kind not in _RENAMING:
        return False
    if not isinstance(intent, TransitionIntent):
        return True
    if intent.kind is IntentKind.EVOLVE and not intent.renames:
        return False
    return is_done(state, intent, head) or (intent.reached is not None and shown(intent, head) is not None)


def check_names(state: State, collection: CollectionName, head: Head) -> None:
    """Raise NamesUnderWay for ``names_under_way``."""
    others = names_under_way(state, collection, head)
    if others:
        raise NamesUnderWay(collection=collection, columns=others)


def names_under_way(state: State, collection: CollectionName, head: Head) -> tuple[ColumnPath, ...]:
    """Return the declared columns that do not go by their name in the ledger: no query that is written for those names can be asked.

    By names alone, columns that change theirs with each other would be read as each other.
    """
    entry = state.entry(collection)
    now = {path: physical_name(field) for path, field in fields_in(head.schema)}
    return tuple(path for path, name in known_names(entry, entry.declared).items() if now.get(path) != name)


def drift_of(state: State, collection: CollectionName, head: Head) -> tuple[str, ...]:
    """Return how the live table differs from the ledger; empty if it is as recorded, or as an open intent was about to make it."""
    shard = state.objects[collection].shard
    identity = id_drift(state.shards[shard], head)
    if head.is_another:
        return identity
    entry = state.entry(collection)
    expected = entry.physical
    try:
        live = head.declaration(collection)
    except (UnknownDeltaType, InvalidSchemaJson) as refusal:
        return (*identity, refusal.message.rstrip("."))
    fields, others = live_differences(expected, live), (*exchanged(entry, head), *came_again(state, entry, head))
    identity += lost_seal(state, shard, head)
    if not fields and not others:
        return identity
    announced = [live_differences(step, live) for intent in state.intents_of(shard) for step in intent.leads_to]
    if not all(announced):
        return identity
    nearest = min((fields, *announced), key=len)  # what an attempt of ours did is not told as somebody's
    return (*identity, *(str(difference) for difference in (*nearest, *others)))


def drift_found(state: State, collection: CollectionName, head: Head) -> DriftFound | None:
    """Return the refusal of a live table that is not as recorded; None if it is."""
    found = drift_of(state, collection, head)
    if found and found == lost_seal(state, state.objects[collection].shard, head):
        return DriftFound(collection=collection, differences=found, only_sealed=True)
    return drift_refusal(state, collection, found, made_anew=head.is_another) if found else None


def drift_but_seal(state: State, collection: CollectionName, head: Head) -> DriftFound | None:
    """Return the refusal of a live table that is not as recorded; None if it is, or if all is a seal that a lost history knows of."""
    drift = drift_found(state, collection, head)
    return None if drift is None or drift.only_sealed else drift


def check_as_recorded(state: State, collection: CollectionName, head: Head) -> None:
    """Raise DriftFound as ``drift_but_seal`` returns it."""
    if (drift := drift_but_seal(state, collection, head)) is not None:
        raise drift


def drift_refusal(state: State, collection: CollectionName, differences: Sequence[object], *, made_anew: bool = False) -> DriftFound:
    """Return the refusal of a table's drift, with the ways on that are open now."""
    is_begun = any(not isinstance(intent, DriftRevertIntent) for intent in state.intents_of(state.objects[collection].shard))
    under_way = is_begun or "revert" in options_refused(state)
    told, held = tuple(map(str, differences)), why_held(state)
    return DriftFound(collection=collection, differences=told, under_way=under_way, held=held, made_anew=made_anew)


def lost_seal(state: State, shard: ShardId, head: Head) -> tuple[str, ...]:
    """Describe a seal that a restored or rebuilt ledger does not know: what it was set for is lost history."""
    if head.sealed_for is None or state.given_out is None or state.intents_of(shard):
        return ()
    return (f"table: sealed for {head.sealed_for}, which the ledger that was restored does not know: every write to it is refused",)


def id_drift(shard: Shard, head: Head) -> tuple[str, ...]:
    """Describe how the table is another one than the ledger knows, or goes by another id; empty if it is as recorded."""
    if head.table_id == shard.table_id:
        return ()
    if head.is_another:
        made = f"found another one that was made in its place, with the id {head.table_id}"
        return (f"table: expected the one with the id {shard.table_id}, {made}",)
    by = "CREATE OR REPLACE TABLE gives a table another id, a RESTORE to before that takes it back"
    return (f"table id: expected {shard.table_id}, found {head.table_id} ({by})",)


def fence_of(state: State, shard: ShardId, epoch: Epoch) -> Fence:
    return Fence(env_id=state.config.env_id, shard=shard, epoch=epoch)
