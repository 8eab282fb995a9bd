"""The schemas of all environments: what each says of itself, kept in all of them.

One overwritten object a node, ``_schemamig/replicas/nodes/<env id>.json``, and the content of every schema named there by its hash. An
environment's own object is made of its ledger and of nothing else, so previous hashes outlive every process. Each run of a replication
brings to both its environments what the other has heard, so each comes to know the whole cluster. Whom nobody hears of any more stays
there and is marked. What others wrote is shown and compared; nothing here decides what is brought, so damage in it is reported, no more.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Any

import pendulum

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.core.jsonable import canonical, from_json, to_json
from airflow_provider_schemamig.core.ledger.objects.nodes import file_name
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, InvalidName, Version
from airflow_provider_schemamig.core.replication.model import FOLDER, EnvId, StreamState
from airflow_provider_schemamig.core.replication.note_errors import NoteDamaged
from airflow_provider_schemamig.core.replication.stream.lineage import (
    ColumnLineage,
    ReleaseMark,
    by_name,
    distinct,
    history_of,
    lineage_in,
    marks_of,
    releases_passed,
)
from airflow_provider_schemamig.core.replication.stream.stored_state import parsed, read_states, wake
from airflow_provider_schemamig.core.schema.fingerprint import ALGORITHM, fingerprint, set_fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import ObjectExists, ObjectMissing, ReadStore, Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

NODES = f"{FOLDER}/nodes"
SCHEMAS = f"{FOLDER}/schemas"

#: How often a node says that it is there while nothing changes.
HEARTBEAT = timedelta(minutes=1)
#: How many hashes before the current one are told to others; how many count is ``Settings.depth``.
KEPT = 10
#: Of a collection's schemas, the newest; among them are as many that differ.
_LOOKED_AT = 50
#: A time so far ahead of ours was told by a wrong clock; it may not outlive what is true until that time has come.
CLOCK_SKEW = timedelta(minutes=5)

_HASH = re.compile(f"{ALGORITHM}:([0-9a-f]{{64}})")


@dataclass(frozen=True, slots=True)
class Hashes:
    """A collection's hash, those of other schemas it had, newest first (``KEPT`` of them), and the table version since which it has its
    schema. ``marks``: what their columns are, the current schema's first, for an equal hash does not say so."""

    current: Fingerprint
    previous: tuple[Fingerprint, ...]
    table_version: int
    marks: tuple[tuple[ReleaseMark, ...], ...] = ()

    @property
    def schemas(self) -> tuple[tuple[Fingerprint, tuple[ReleaseMark, ...]], ...]:
        """Return the current one, then the previous ones, as far as they are told apart."""
        hashes = (self.current, *self.previous)
        return tuple(zip(hashes, (*self.marks, *((),) * (len(hashes) - len(self.marks))), strict=True))


@dataclass(frozen=True, slots=True)
class NodeState:
    """What an environment says of itself at ``updated_at``, by the clock of its publisher."""

    env_id: EnvId
    uri: str
    release: Version | None
    #: Of all its collections.
    set_hash: Fingerprint
    collections: Mapping[CollectionName, Hashes]
    updated_at: pendulum.DateTime
    #: The version of this software.
    software: str
    #: The streams into it that are paused or stopped.
    waiting: tuple[StreamState, ...] = ()


# --- what an environment says of itself ----------------------------------------------------------------------------------------------


Lineages = Mapping[CollectionName, Mapping[Fingerprint, Declaration]]


def lineages(state: State) -> Lineages:
    """Return the schemas of every collection by hash: its current one, then those it had, the newest first, ``KEPT`` of them.

    They are the ledger's ``schemas`` rows, which are never taken away: after a restart, or on another machine, they are the same.
    """
    return {name: _lineage(state, name, entries) for name, entries in _histories(state).items()}


def _histories(state: State) -> dict[CollectionName, Sequence[SchemaEntry]]:
    """Return the schemas of every collection that is there, the oldest first."""
    named = by_name(state)
    return {name: history_of(state, name, named[name]) for name in sorted(state.objects)}


def _lineage(state: State, name: CollectionName, history: Sequence[SchemaEntry]) -> Mapping[Fingerprint, Declaration]:
    # The current schema need not be the newest: a replacement that was rolled back left one of its own.
    found = {state.objects[name].fingerprint: state.entry(name).declared}
    for entry in reversed(history):
        if len(found) > KEPT:
            break
        found.setdefault(fingerprint(entry.declared), entry.declared)
    return found


def node_state(env: EnvironmentRoot, state: State, streams: Sequence[StreamState], now: pendulum.DateTime) -> NodeState:
    """Return the state of ``env`` by its ledger, with the streams into it that wait. Looks at no table."""
    passed = releases_passed(state)
    collections = {
        name: _hashes(state.entry(name), lineage_in(state, entries[-_LOOKED_AT:], passed)) for name, entries in _histories(state).items()
    }
    return NodeState(
        EnvId(state.config.env_id),
        env.location.uri,
        state.release_version,
        set_fingerprint({name: hashes.current for name, hashes in collections.items()}),
        collections,
        now,
        __version__,
        tuple(found for found in streams if found.waits),
    )


def _hashes(current: SchemaEntry, lineage: ColumnLineage) -> Hashes:
    found = list(islice(distinct(current, lineage), KEPT + 1))
    own, *previous = (hash_ for _, hash_ in found)
    marks = tuple(marks_of(entry, lineage, KEPT) for entry, _ in found)
    return Hashes(own, tuple(previous), current.since_table_version, marks)


def publish(env: EnvironmentRoot, now: pendulum.DateTime, streams: Sequence[StreamState] = ()) -> NodeState:
    """Publish the state of ``env``, if it changed or was last published a minute ago; return what is published afterwards.

    ``streams``: as their runner has just left them; if one waits that did not, or no more, that is said at once. Twins may both publish.
    One that comes late, with what it read before a change, is put right by whoever publishes next.
    """
    state = LedgerReader(env).state()
    known = _node(env.store(), state.config.env_id)
    if isinstance(known, NodeState) and _says(known, state, streams) and timedelta() <= now - known.updated_at < HEARTBEAT:
        return known
    return _publish(env, state, now)


def refresh(env: EnvironmentRoot, now: pendulum.DateTime) -> NodeState:
    """Work out what ``env`` is now, publish it, and wake its paused streams. To be repeated where it was cut."""
    published = _publish(env, LedgerReader(env).state(), now)
    wake(env, now)
    return published


def _publish(env: EnvironmentRoot, state: State, now: pendulum.DateTime) -> NodeState:
    known = lineages(state)
    node = node_state(env, state, read_states(env), now)
    store = env.store()
    # Contents first: whoever reads a hash finds what it means.
    kept = set(store.names(SCHEMAS))
    for hash_, declared in {hash_: declared for lineage in known.values() for hash_, declared in lineage.items()}.items():
        if _file(hash_) not in kept:
            _keep(store, hash_, declared)
    _write(store, node)
    return node


def _says(known: NodeState, state: State, streams: Sequence[StreamState]) -> bool:
    """Return whether what a node is known to say is true now.

    Only current hashes are compared, which are rows; previous ones, which are computed, follow with a heartbeat.
    """
    version = state.release_version
    told = {name: hashes.current for name, hashes in known.collections.items()}
    if known.release != version or told != {name: item.fingerprint for name, item in state.objects.items()}:
        return False
    waiting = {found.stream: _why(found) for found in known.waiting}
    return all(_why(found) == waiting.get(found.stream) for found in streams if found.stream.target == known.env_id)


def _why(found: StreamState) -> object:
    """Return what a stream waits for, None if it does not; how far behind it falls meanwhile is no news."""
    pause = found.pause
    return (found.error, pause and (pause.reason, pause.event_version, pause.event_hash, pause.local_hash)) if found.waits else None


# --- what is known of others ---------------------------------------------------------------------------------------------------------


def published(env: EnvironmentRoot) -> Iterator[NodeState | NoteDamaged]:
    """Yield every node's object in ``env``, or what is wrong with it; by id."""
    store, decode = env.store(), _NodeDecoder()
    for name in store.names(NODES):
        if not name.endswith(".json"):
            continue
        try:
            found = _node(store, name.removesuffix(".json"), decode)
        except InvalidName as error:
            found = NoteDamaged(where=f"{NODES}/{name}", reason=f"no environment has such an id ({error.rule})")
        if found is not None:
            yield found


def heard_of(env: EnvironmentRoot, env_id: EnvId) -> NodeState | NoteDamaged | None:
    """Return what a node said last, as far as it came here; of ``env`` itself, what it published."""
    return _node(env.store(), env_id)


def nodes(env: EnvironmentRoot) -> tuple[NodeState, ...]:
    """Return every node that ``env`` has heard of, by id; itself as it was published last. Nodes that cannot be read are left out."""
    return tuple(node for node in published(env) if isinstance(node, NodeState))


def known_schema(env: EnvironmentRoot, hash_: Fingerprint) -> Declaration | None:
    """Return the schema of a hash that some environment had; None if its content did not come here, or is not what its hash says."""
    name = _file(hash_)
    return None if name is None else _schema(env.store(), name, hash_)


def exchange(one: EnvironmentRoot, other: EnvironmentRoot, now: pendulum.DateTime, streams: Sequence[StreamState] = ()) -> None:
    """Publish both environments, and let each know what the other has heard: schemas first, then nodes.

    This happens at most once a minute, and on change. ``streams``: as in ``publish``, into either of them. Of a third node the newest word
    counts. Of the two themselves their own counts, whatever the clocks said before.
    """
    mine, theirs = publish(one, now, streams), publish(other, now, streams)
    first, second = one.store(), other.store()
    if mine.env_id == theirs.env_id or (_is_told(first, second, mine.env_id) and _is_told(second, first, theirs.env_id)):
        return
    _copy_schemas(first, second)
    _copy_schemas(second, first)
    _tell_of_others(one, other, {mine.env_id, theirs.env_id}, now)
    # Last, because they are what says that there was an exchange: one that was cut is made again.
    _write(second, mine)
    _write(first, theirs)


def _is_told(by: ReadStore, to: ReadStore, env_id: EnvId) -> bool:
    """Return whether one environment has a node's own word as the other has it; by its bytes, of which all but a few lines are marks."""
    key = f"{NODES}/{file_name(env_id)}"
    try:
        return by.get(key) == to.get(key)
    except ObjectMissing:
        return False


def _tell_of_others(one: EnvironmentRoot, other: EnvironmentRoot, themselves: set[EnvId], now: pendulum.DateTime) -> None:
    """Copy the newest word on every third node to both environments.

    What cannot be read is not written over, as it may be newer software's.
    """
    heard = [{_id_of(found): found for found in published(env)} for env in (one, other)]
    for env_id in sorted((heard[0].keys() | heard[1].keys()) - themselves):
        found = [known.get(env_id) for known in heard]
        readable = [node for node in found if isinstance(node, NodeState)]
        if not readable:
            continue
        newest = max(readable, key=lambda node: (node.updated_at <= now + CLOCK_SKEW, node.updated_at))
        for env, known in zip((one, other), found, strict=True):
            if known != newest and not isinstance(known, NoteDamaged):
                _write(env.store(), newest)


def _id_of(found: NodeState | NoteDamaged) -> str:
    return found.env_id if isinstance(found, NodeState) else found.where.removeprefix(f"{NODES}/").removesuffix(".json")


def _copy_schemas(source: ReadStore, target: Store) -> None:
    kept = set(target.names(SCHEMAS))
    for name in source.names(SCHEMAS):
        hash_ = Fingerprint(f"{ALGORITHM}:{name.removesuffix('.json')}")
        if name not in kept and name == _file(hash_):
            declared = _schema(source, name, hash_)
            if declared is not None:
                _keep(target, hash_, declared)


# --- objects -------------------------------------------------------------------------------------------------------------------------


class _NodeDecoder:
    """Decode nodes' objects, and what several say of their collections once: most of a cluster's nodes say the same, and it is all but a
    few lines of the object (200 collections: 6 ms a node, to compare them 1)."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, Mapping[CollectionName, Hashes]]] = []

    def __call__(self, data: Any) -> NodeState:
        node: NodeState = from_json(NodeState, {**data, "collections": {}})
        return replace(node, collections=self._collections(data["collections"]))

    def _collections(self, data: Any) -> Mapping[CollectionName, Hashes]:
        found = next((known for other, known in self._known if other == data), None)
        if found is None:
            found = from_json(Mapping[CollectionName, Hashes], data)
            self._known.append((data, found))
        return found


def _node(store: ReadStore, env_id: str, decode: _NodeDecoder | None = None) -> NodeState | NoteDamaged | None:
    key = f"{NODES}/{file_name(env_id)}"
    try:
        found = parsed(NodeState, key, store.get(key), decode or _NodeDecoder())
    except ObjectMissing:
        return None
    if isinstance(found, NodeState) and found.env_id != env_id:
        return NoteDamaged(where=key, reason=f"it is the state of another node, {found.env_id}")
    return found


def _write(store: Store, node: NodeState) -> None:
    store.put(f"{NODES}/{file_name(node.env_id)}", canonical(to_json(node)).encode())


def _file(hash_: Fingerprint) -> str | None:
    """Return the name of a schema's object; None for what is no hash, and may not reach a path."""
    match = _HASH.fullmatch(hash_)
    return f"{match[1]}.json" if match is not None else None


def _schema(store: ReadStore, name: str, hash_: Fingerprint) -> Declaration | None:
    key = f"{SCHEMAS}/{name}"
    try:
        found = parsed(Declaration, key, store.get(key))
    except ObjectMissing:
        return None
    return found if isinstance(found, Declaration) and fingerprint(found) == hash_ else None


def _keep(store: Store, hash_: Fingerprint, declared: Declaration) -> None:
    with contextlib.suppress(ObjectExists):  # a twin's: of the same content, but perhaps for comments and order
        store.put_if_absent(f"{SCHEMAS}/{_file(hash_)}", canonical(to_json(declared)).encode())
