"""A table taken back by an unfinished rollback: may an upgrade give it back what its release had?

Only if nothing would be missing. Rows that came since know of no rule and no default that went with the release, and nobody would ask them
for it any more: then the rollback has to be finished, and the next upgrade begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from airflow_provider_schemamig.core.delta.log.commits import may_have_files_since
from airflow_provider_schemamig.core.delta.log.head import head_or_none
from airflow_provider_schemamig.core.ledger.rows import Intent, IntentKind, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.schema.changes import SetDefault
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.live_tables import is_done, table_store
from airflow_provider_schemamig.core.upgrade.tables.errors import RollbackUnfinished
from airflow_provider_schemamig.core.upgrade.tables.inverse import InverseChanges, after_inverse, column_swaps, inverse_changes


def is_of_rollback(intent: Intent) -> TypeGuard[TransitionIntent]:
    return isinstance(intent, TransitionIntent) and intent.kind is IntentKind.ROLLBACK


def unfinished_rollbacks(env: EnvironmentRoot, state: State) -> Iterator[RollbackUnfinished]:
    """Yield one refusal for each table that is not as its release had it, and cannot be again.

    Tables whose columns change places are looked at when their rows have the values that come back (``recovery``).
    """
    for intent in state.intents.values():
        if not is_of_rollback(intent):
            continue
        store = table_store(env, state, intent.shard)
        head = head_or_none(store)
        if head is None or not is_done(state, intent, head) or column_swaps(intent.after, intent.before, intent.renames):
            continue
        inverse = inverse_changes(store, head, intent.after, intent.before, intent.renames, intent.base_version)
        reasons = what_is_missing(store, intent, inverse)
        if reasons:
            yield unfinished(state, intent, reasons)


def what_is_missing(store: ReadStore, intent: TransitionIntent, inverse: InverseChanges) -> tuple[str, ...]:
    """Return why ``inverse`` does not make of the table what its release had, in words; empty: it does."""
    found = live_differences(intent.before, after_inverse(intent.after, inverse))
    reasons = (inverse.left_behind or tuple(map(str, found))) if found else ()
    given = [change.path for change in inverse.changes if isinstance(change, SetDefault) and change.new is not None]
    return (
        *reasons,
        *(f"rows came in without the DEFAULT of {path}" for path in given if may_have_files_since(store, intent.base_version)),
    )


def unfinished(state: State, intent: Intent, reasons: tuple[str, ...]) -> RollbackUnfinished:
    release = state.deployments[intent.generation]
    return RollbackUnfinished(collection=intent.collection, release=str(release.target), source=str(release.source), reasons=reasons)
