"""Do all rows keep their keys? Asked of all rows, or of what came since it was last known."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_schemamig.core.delta.log.head import Head, head_or_none
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.key_validation import (
    KeyFinding,
    PendingKeyCheck,
    PinnedKeys,
    Validated,
    findings,
    pending_key_check,
)
from airflow_provider_schemamig.core.online.keys import Reference, Unique, live_names, trusted_keys
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs, violation_of
from airflow_provider_schemamig.exceptions import raise_refusals

#: A collection, and a key of it in SQL's words (``Unique.rule``, ``Reference.rule``).
KeyName = tuple[CollectionName, str]


@dataclass(frozen=True, slots=True)
class KeysVerified:
    """``validated``: up to where each key is known to hold now; a key with findings is not among them, so that they are found again until
    somebody fixes them. ``unasked``: keys over columns or tables that are not there."""

    findings: tuple[KeyFinding, ...] = ()
    validated: Mapping[KeyName, Validated] = field(default_factory=dict)
    unasked: tuple[KeyName, ...] = ()


def verify_keys(
    env: EnvironmentRoot,
    state: State,
    jobs: Jobs,
    since: Mapping[KeyName, Validated],
    collections: Collection[CollectionName] | None = None,
) -> KeysVerified:
    """Ask the rows of ``collections`` (None: of all) that came after ``since``; of keys that are not in it, all rows. Writes nothing.

    No row that could break a key, no JVM. Raises the errors of ``core.spark.errors``.
    """
    names = sorted(state.objects if collections is None else collections)
    dues, absent = dues_of(env, state, names, since)
    violations = ask(env, jobs, [item.check for item in dues if item.check is not None])
    found: list[KeyFinding] = []
    validated: dict[KeyName, Validated] = {}
    for item in dues:
        own = violations_of(violations, item.collection, item.key.rule)
        found += findings(item, own)
        if not own:
            validated[item.collection, item.key.rule] = item.validated
    return KeysVerified(tuple(found), validated, tuple((name, key.rule) for name, key in absent))


def dues_of(
    env: EnvironmentRoot, state: State, collections: Sequence[CollectionName], since: Mapping[KeyName, Validated]
) -> tuple[Sequence[PendingKeyCheck], Sequence[tuple[CollectionName, Unique | Reference]]]:
    """Return the pending check of each key, and the keys over columns or tables that are missing."""
    look = KeyLook(env, state)
    dues, absent = [], []
    for name in collections:
        for key in trusted_keys(state, name):
            found = look.pending_key_check(name, key, since.get((name, key.rule)))
            if found is None:
                absent.append((name, key))
            else:
                dues.append(found)
    return dues, absent


def ask(env: EnvironmentRoot, jobs: Jobs, checks: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the violations that the job ``preflight`` finds. Nothing to ask, no JVM."""
    if not checks:
        return ()
    request = {"checks": list(checks), "estimates": [], "storage_options": dict(env.options)}
    violations: Sequence[Mapping[str, Any]] = jobs().run("preflight", request)["violations"]
    return violations


def violations_of(violations: Sequence[Mapping[str, Any]], collection: CollectionName, rule: str) -> Sequence[Mapping[str, Any]]:
    return [found for found in violations if (found["collection"], found["rule"]) == (collection, rule)]


class KeyLook:
    """Tables and their heads, each looked at once."""

    def __init__(self, env: EnvironmentRoot, state: State) -> None:
        self._env = env
        self._state = state
        self._heads: dict[CollectionName, Head | None] = {}

    def pending_key_check(self, collection: CollectionName, key: Unique | Reference, since: Validated | None) -> PendingKeyCheck | None:
        """Return the check that a key needs; None if the key speaks of something that is not there."""
        table = self._pinned(collection, key.columns)
        if table is None:
            return None
        if isinstance(key, Unique):
            return pending_key_check(collection, key, table, None, since)
        referenced = self._pinned(key.collection, key.to)
        return None if referenced is None else pending_key_check(collection, key, table, referenced, since)

    def _pinned(self, collection: CollectionName, columns: tuple[str, ...]) -> PinnedKeys | None:
        if collection not in self._state.objects:
            return None
        store = table_store(self._env, self._state, self._state.objects[collection].shard)
        if collection not in self._heads:
            self._heads[collection] = head_or_none(store)
        head = self._heads[collection]
        if head is None:
            return None
        names = live_names(self._state, collection, head.schema)
        if any(column not in names for column in columns):
            return None
        return PinnedKeys(store, head, tuple(names[column] for column in columns))


#: The scan, and looks at what came since the one before.
_LOOKS = 3


def validate_key(env: EnvironmentRoot, state: State, jobs: Jobs, collection: CollectionName, key: Unique | Reference) -> int:
    """Return the version up to which all rows keep a new key: its scan, and what came meanwhile, until nothing did.

    Nothing on the table stops a foreign writer, nor one of ours that looked before the key was in force. Where rows come faster than they
    are looked at, ``verify`` finds what is wrong with the last of them. Raises DataViolation, DriftFound, the errors of
    ``core.spark.errors``.
    """
    known: Validated | None = None
    for _ in range(_LOOKS):
        item = KeyLook(env, state).pending_key_check(collection, key, known)
        if item is None:
            raise DriftFound(collection=collection, differences=(f"{key.rule}: its columns, or what it refers to, are not there",))
        known = item.validated
        if item.check is None:
            break
        raise_refusals([violation_of(found) for found in ask(env, jobs, [item.check])])
    assert known is not None
    return known.version
