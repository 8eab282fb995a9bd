"""A key that is being added: all rows are asked, and then those that came meanwhile."""

from __future__ import annotations

from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.key_validation import Validated
from airflow_provider_schemamig.core.online.keys import Reference, Unique
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs, violation_of
from airflow_provider_schemamig.core.upgrade.verify.keys import KeyLook, ask
from airflow_provider_schemamig.exceptions import raise_refusals

#: The scan, and looks at what came since the one before.
_LOOKS = 3


def validate_key(env: EnvironmentRoot, state: State, jobs: Jobs, collection: CollectionName, key: Unique | Reference) -> int:
    """Return the version up to which all rows keep a key that is being added: its scan, and what came meanwhile, until nothing did.

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
