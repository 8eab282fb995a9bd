"""The questions of online changes as checks of the Spark job ``preflight``: where the tables lie that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.operation import Chain, Question
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.release.merge.chain import Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store


def check_of(env: EnvironmentRoot, state: State, collection: CollectionName, question: Question) -> dict[str, Any]:
    """Return one check over the newest version of ``collection``. What it refers to is there (``check_referenced``)."""
    check = {"collection": collection, "uri": _uri(env, state, collection), **question.to_json()}
    return check if question.refers is None else {**check, "referenced_uri": _uri(env, state, question.refers)}


def check_referenced(state: State, steps: Sequence[MergedStep], own: CollectionName, chain: Chain) -> None:
    """Raise NotOnline for rows that refer to a table or columns not yet there as the release has them: rows are asked before the cut-over.

    ``own``: the collection of the rows.
    """
    for operation in chain:
        if operation.refers is None:
            continue
        reason = _why_not_there(state, steps, own, operation.refers, operation.refers_columns)
        if reason:
            raise NotOnline(op=operation.change.op, path=", ".join(operation.columns), reason=reason, is_early=True)


def _why_not_there(
    state: State, steps: Sequence[MergedStep], own: CollectionName, referred: CollectionName, columns: Sequence[ColumnPath]
) -> str:
    step = next((step for step in steps if not isinstance(step, Remove) and step.collection == referred), None)
    if isinstance(step, Replace | RewriteStep):
        return f"{referred} gets another table at the cut-over"
    if isinstance(step, Evolve) and step.old.name != referred:
        return f"{referred} is called {step.old.name} until the cut-over"
    if referred not in state.objects:
        return f"{referred} gets its table at the cut-over"
    if isinstance(step, Evolve) and referred != own:  # of its own columns a change has the names of before
        origins = match(step.old, step.new, step.renames)
        for column in columns:
            before = origins.get(column)
            if before is None:
                return f"{referred}.{column} comes with the same release"
            if before != column:
                return f"{referred}.{column} is called {before} until the cut-over"
    return ""


def _uri(env: EnvironmentRoot, state: State, collection: CollectionName) -> str:
    return table_store(env, state, state.objects[collection].shard).location.uri
