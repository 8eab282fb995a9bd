"""The questions of online changes as checks of the Spark job ``preflight``: where the tables lie that they are about."""

from __future__ import annotations

from typing import Any

from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.operation import Chain, Question
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store


def check_of(env: EnvironmentRoot, state: State, collection: CollectionName, question: Question) -> dict[str, Any]:
    """Return one check over the newest version of ``collection``. What it refers to is there (``check_referenced``)."""
    check = {"collection": collection, "uri": _uri(env, state, collection), **question.to_json()}
    return check if question.refers is None else {**check, "referenced_uri": _uri(env, state, question.refers)}


def check_referenced(state: State, chain: Chain) -> None:
    """Raise NotOnline for rows that would refer to a collection that the release before does not have: its table is not in place yet."""
    for operation in chain:
        if operation.refers is not None and operation.refers not in state.objects:
            reason = f"{operation.refers} gets its table at the cut-over; add the foreign key in the release after"
            raise NotOnline(op=operation.change.op, path=", ".join(operation.columns), reason=reason)


def _uri(env: EnvironmentRoot, state: State, collection: CollectionName) -> str:
    return table_store(env, state, state.objects[collection].shard).location.uri
