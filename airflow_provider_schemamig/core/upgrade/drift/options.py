"""The three ways on from a drift, as ``status`` shows them: what each would do to each column, and why it cannot where it cannot."""

from __future__ import annotations

from typing import Any

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.typed_commands import typed
from airflow_provider_schemamig.core.upgrade.drift.accept import why_not
from airflow_provider_schemamig.core.upgrade.drift.changes import Foreign, foreign_changes, reversal
from airflow_provider_schemamig.core.upgrade.drift.unmanage import in_use
from airflow_provider_schemamig.core.upgrade.plan.holds.rules import options_refused
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.exceptions import Refusal


def options_for(env: EnvironmentRoot, state: State, collection: CollectionName, head: Head | None) -> list[dict[str, Any]]:
    """Return what can be done about drift: accept, revert, unmanage; only the last one where there is no table (``head`` None).

    Each has ``way``, ``command``, ``does`` (one text a change), ``loses``, ``why_not`` (empty: it can be done).
    """
    if head is None or head.is_another:
        found = [_unmanage(env, state, collection, is_there=head is not None)]
    else:
        found = _options_of(env, state, collection, head)
    refused = options_refused(state)
    return [{**way, "why_not": [refused[way["way"]].message.rstrip(".")]} if way["way"] in refused else way for way in found]


def _options_of(env: EnvironmentRoot, state: State, collection: CollectionName, head: Head) -> list[dict[str, Any]]:
    try:
        foreign = foreign_changes(state, collection, head)
    except Refusal as refusal:  # a type that no declaration has
        reason = (refusal.message.rstrip("."),)
        accept = _way(env, "accept", f"--release DIR --collection {collection}", [], why_not=reason)
        revert = _way(env, "revert", f"--collection {collection}", [], why_not=reason)
        return [accept, revert, _unmanage(env, state, collection)]
    return [] if foreign is None else [_accept(env, state, foreign), _revert(env, state, foreign), _unmanage(env, state, collection)]


def _accept(env: EnvironmentRoot, state: State, foreign: Foreign) -> dict[str, Any]:
    name = foreign.entry.collection
    reasons = why_not(env, state, name, foreign.head)
    does = [] if reasons else [describe(change) for change in foreign.visible]
    if not reasons and foreign.has_other_id:
        does.append(f"the ledger knows the table by its id {foreign.head.table_id}")
    return _way(env, "accept", f"--release DIR --collection {name}", does, why_not=reasons)


def _revert(env: EnvironmentRoot, state: State, foreign: Foreign) -> dict[str, Any]:
    name = foreign.entry.collection
    options = f"--collection {name}"
    try:
        found = reversal(table_store(env, state, foreign.entry.shard), foreign)
    except Refusal as refusal:  # names that changed hands: there is no telling which column is which
        return _way(env, "revert", options, [], why_not=(refusal.message.rstrip("."),))
    does = [] if found.impossible else [describe(change) for change in found.changes if change.cost is not Cost.NONE]
    if not found.impossible and foreign.has_other_id:
        does.append(f"the table gets its id {foreign.table_id} back")
    lossy = " --allow-lossy" if found.losses else ""
    return _way(env, "revert", options + lossy, does, loses=found.losses, why_not=found.impossible)


def _unmanage(env: EnvironmentRoot, state: State, name: CollectionName, *, is_there: bool = True) -> dict[str, Any]:
    used = in_use(env, state, name)
    why_not = () if used is None else (used.message.rstrip("."),)
    told = "the table stays as it is and is not managed any more" if is_there else "the collection is not managed any more"
    does = [] if why_not else [told]
    return _way(env, "unmanage", f"--collection {name}", does, why_not=why_not)


def _way(
    env: EnvironmentRoot, way: str, options: str, does: list[str], *, loses: tuple[str, ...] = (), why_not: tuple[str, ...] = ()
) -> dict[str, Any]:
    command = typed(f"{way} {options}", env.location.uri)
    return {"way": way, "command": command, "does": does, "loses": list(loses), "why_not": list(why_not)}
