"""Columns that a rolled-back leap left hidden, and that a release which it leapt over would take for its own of the same name.

``plan.leaps`` looks ahead, at what a leap would find; here is looked back, at what one has left.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_schemamig.core.ledger.errors import PlanMissing
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.release.merge.merged import PassedName
from airflow_provider_schemamig.core.schema.errors import HiddenConflict
from airflow_provider_schemamig.core.schema.model import walk
from airflow_provider_schemamig.core.schema.paths import path_in_files
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import plan_of
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View


def refused_names(env: EnvironmentRoot, view: View, planned: Planned) -> Iterator[HiddenConflict]:
    """Yield a refusal for each new column whose name is on the table, hidden, and was another column's in this release."""
    state, target = view.state, planned.plan.target
    if state is None or target.ahead:
        return
    for step in target.steps:
        if not isinstance(step, Evolve) or step.old.name not in state.objects:
            continue
        entry = state.entry(step.old.name)
        wanted = {path for path, _ in walk(step.new.fields)} - match(step.old, step.new, step.renames).keys()
        hidden = _hidden(entry)
        later = [known for known in state.schemas_of(entry.shard) if known.rolled_back and known.release and known.release > target.version]
        for known in later if wanted and hidden else ():
            names = dict(known.stored_names)
            for passed in _leap(env, state, known):
                is_ours = passed.path in wanted and passed.since <= target.version < passed.until
                if is_ours and path_in_files(passed.path, names) in hidden:
                    found = f"as {known.release} has it"
                    wants = "a column of that name, which is another one there"
                    yield HiddenConflict(collection=step.collection, path=passed.path, found=found, wanted=wants, release=known.release)
                    wanted.discard(passed.path)  # said once


def _hidden(entry: SchemaEntry) -> set[tuple[str, ...]]:
    names = dict(entry.stored_names)
    declared: set[ColumnPath] = {*match(entry.declared, entry.physical, {})}
    return {path_in_files(path, names) for path, _ in walk(entry.physical.fields) if path not in declared}


def _leap(env: EnvironmentRoot, state: State, known: SchemaEntry) -> tuple[PassedName, ...]:
    """Return what the deployment that brought this schema leapt over. A plan that is lost tells nothing."""
    deployment = state.deployments.get(known.rolled_back) if known.rolled_back is not None else None
    if deployment is None:
        return ()
    try:
        steps = plan_of(env, deployment).target.steps
    except PlanMissing:
        return ()
    return next((step.passed_names for step in steps if isinstance(step, Evolve) and step.collection == known.collection), ())
