"""Keys that others are not held to, watched: each row that came is looked at once, and how far that got is written down.

One overwritten object a collection, ``_schemamig/keys/<collection>.json``. Nothing is built on it but how much is asked the next time: if
it is lost, damaged, or of another table than the live one, all rows are asked once more. Of two that watch at a time the last one's word
stays; either is true.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.jsonable import Unreadable, canonical, parsed, to_json
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, ShardId, collection_name
from airflow_provider_schemamig.core.online.key_validation import KeyFinding, Validated
from airflow_provider_schemamig.core.online.keys import Reference, Unique, trusted_keys
from airflow_provider_schemamig.core.storage import ObjectMissing
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.live_tables import asked_for
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.verify.findings import Condition, KeptRule, TableFinding, Unasked, Verified, gone, sorted_out
from airflow_provider_schemamig.core.upgrade.verify.keys import KeyName, verify_keys
from airflow_provider_schemamig.core.upgrade.verify.table import look

FOLDER = f"{EnvironmentRoot.SYSTEM_FOLDER}/keys"


@dataclass(frozen=True, slots=True)
class _Mark:
    """Up to where a key is known to hold: of which table, and of which one that it refers to."""

    validated: Validated
    shard: ShardId
    referenced: ShardId | None = None


@dataclass(frozen=True, slots=True)
class _Marks:
    """Of one collection, by the key in SQL's words."""

    marks: Mapping[str, _Mark] = field(default_factory=dict)


def watch_keys(env: EnvironmentRoot, jobs: Jobs, collections: Collection[CollectionName] | None = None) -> Verified:
    """Ask the keys of ``collections`` (None: of all) of the rows that came since the last call; of a key that is new, of all rows.

    A key that rows break stays marked where it was, so they are found again until they are fixed. Raises UnknownCollection, what reading
    a log raises, and the errors of ``core.spark.errors``; nothing is marked then.
    """
    state = LedgerReader(env).state()
    names = asked_for(state, collections)
    known = {name: _read(env, name) for name in names}
    since = dict(_since(state, known))
    found = verify_keys(env, state, jobs, since, names)
    for name in names:
        kept_to = {rule: validated for (owner, rule), validated in {**since, **found.validated}.items() if owner == name}
        marks = _Marks({rule: _Mark(validated, *_tables(state, name, rule)) for rule, validated in kept_to.items()})
        if marks != known[name]:
            env.store().put(_key(name), canonical(to_json(marks)).encode())
    kept = [KeptRule(name, _key_of(state, name, rule).element, validated.version) for (name, rule), validated in found.validated.items()]
    absent = [name for name, table in zip(names, env.each(functools.partial(look, env, state), names), strict=True) if table is None]
    unasked = [
        Unasked(name, _key_of(state, name, rule).element, f"{rule}: its columns or the table it refers to are not there")
        for name, rule in found.unasked
        if name not in absent
    ]
    return sorted_out([*(_finding(state, item) for item in found.findings), *kept, *unasked, *map(gone, absent)])


def _since(state: State, known: Mapping[CollectionName, _Marks]) -> Iterator[tuple[KeyName, Validated]]:
    """Yield the marks of keys whose tables are still the live ones."""
    for name, marks in known.items():
        for key in trusted_keys(state, name):
            mark = marks.marks.get(key.rule)
            if mark is not None and (mark.shard, mark.referenced) == _tables(state, name, key.rule):
                yield (name, key.rule), mark.validated


def _tables(state: State, collection: CollectionName, rule: str) -> tuple[ShardId, ShardId | None]:
    other = next((key.collection for key in trusted_keys(state, collection) if key.rule == rule and isinstance(key, Reference)), None)
    referenced = None if other is None or other not in state.objects else state.objects[other].shard
    return state.objects[collection].shard, referenced


def _key_of(state: State, collection: CollectionName, rule: str) -> Unique | Reference:
    return next(key for key in trusted_keys(state, collection) if key.rule == rule)


def _finding(state: State, found: KeyFinding) -> TableFinding:
    key = _key_of(state, found.collection, found.key)
    commits = () if found.source is None else (found.source,)
    return TableFinding(Condition.RULE_VIOLATED, found.collection, key.element, key.breach, found.rows, found.sample, (), commits)


def _key(collection: CollectionName) -> str:
    return f"{FOLDER}/{collection_name(collection)}.json"


def _read(env: EnvironmentRoot, collection: CollectionName) -> _Marks:
    try:
        found = parsed(_Marks, env.store().get(_key(collection)))
    except ObjectMissing:
        return _Marks()
    return _Marks() if isinstance(found, Unreadable) else found
