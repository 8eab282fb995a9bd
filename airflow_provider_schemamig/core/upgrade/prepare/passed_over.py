"""Columns left hidden by a rolled-back leap. A release passed by the leap would take them for its own of the same name.

``plan.leaps`` looks ahead, at what a leap would find; here is looked back, at what one has left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_schemamig.core.ledger.errors import PlanMissing
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ColumnPath, Version
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.errors import HiddenConflict
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import path_in_files
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import plan_of
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import physical_after
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View

#: Names in the data files -> path on the table.
Hidden = Mapping[tuple[str, ...], ColumnPath]


def refused_names(env: EnvironmentRoot, view: View, planned: Planned) -> Iterator[HiddenConflict]:
    """Yield a refusal for each column whose name another, hidden column has. The hidden one would be taken for it, or passed by."""
    state, target = view.state, planned.plan.target
    if state is None or target.ahead:
        return
    for step in target.steps:
        if not isinstance(step, Evolve) or step.old.name not in state.objects:
            continue
        entry = state.entry(step.old.name)
        rolled_back = [known for known in state.schemas_of(entry.shard) if known.rolled_back is not None and known.release is not None]
        hidden = _hidden(entry, physical_after(state, step.old.name, planned.plan.ends)) if rolled_back else {}
        found: dict[ColumnPath, HiddenConflict] = {}
        for known in rolled_back if hidden else ():
            for conflict in _conflicts(_step_of(env, state, known), step, known, hidden, target.version):
                found.setdefault(ColumnPath(conflict.path), conflict)
        yield from found.values()


def _conflicts(leap: Evolve | None, step: Evolve, known: SchemaEntry, hidden: Hidden, version: Version) -> Iterator[HiddenConflict]:
    """Yield the conflicts of a step to ``version`` with the hidden names of a rolled-back schema; ``leap``: the step that had led to it."""
    if leap is None or known.release is None:
        return
    names, origins = dict(known.stored_names), match(step.old, step.new, step.renames)
    if known.release > version:
        wanted = {path for path, _ in walk(step.new.fields)} - origins.keys()
        for passed in leap.passed_names:
            left = hidden.get(path_in_files(passed.now, names))
            if left is not None and passed.path in wanted and passed.since <= version < passed.until:
                wants, found = f"{passed.path}, which is another column there", f"{passed.now} of {known.release}"
                yield HiddenConflict(collection=step.collection, path=left, found=found, wanted=wants, release=known.release)
    elif known.release == version and known.collection == step.collection:
        new = {path for path, _ in walk(leap.new.fields)} - match(leap.old, leap.new, leap.renames).keys()
        for path in sorted(new & origins.keys()):
            if (left := hidden.get(path_in_files(path, names))) is not None:
                found = f"{path} of {version} before it was rolled back"
                yield HiddenConflict(collection=step.collection, path=left, found=found, wanted=f"{path}, a column that came since")


def _hidden(entry: SchemaEntry, physical: Declaration) -> Hidden:
    """Return the hidden columns and fields of the table, without those that go with the holds ended by the plan."""
    names = dict(entry.stored_names)
    declared: set[ColumnPath] = {*match(entry.declared, physical, {})}
    return {path_in_files(path, names): path for path, _ in walk(physical.fields) if path not in declared}


def _step_of(env: EnvironmentRoot, state: State, known: SchemaEntry) -> Evolve | None:
    """Return the step that brought a rolled-back schema. A plan that is lost tells nothing."""
    deployment = state.deployments.get(known.rolled_back) if known.rolled_back is not None else None
    if deployment is None:
        return None
    try:
        steps = plan_of(env, deployment).target.steps
    except PlanMissing:
        return None
    return next((step for step in steps if isinstance(step, Evolve) and step.collection == known.collection), None)
