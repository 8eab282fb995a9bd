"""The notes on FOREIGN KEYs that no row is asked for, as one of the two tables is made anew, or is another one at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.merge.chain import Create, Remove
from airflow_provider_schemamig.core.release.sql.alter.paths import referring
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View
from airflow_provider_schemamig.core.upgrade.plan.stages import Build, Copy


def unasked_keys(state: State, changed: Mapping[CollectionName, Sequence[ColumnPath] | None]) -> Iterator[tuple[CollectionName, str]]:
    """Yield what is said of tables, or columns of them (None: all), that got other values at once, and to which other collections' keys
    refer. None of a table that was given back meanwhile."""
    declared = state.declarations()
    referred = {key.references for other in declared.values() for key in other.foreign_keys}  # few, of thousands of tables
    for name, paths in changed.items():
        for path in (None,) if paths is None else paths:
            for key in referring(declared[name], path, declared) if name in referred & declared.keys() else ():
                yield name, f"no row is asked for {key}; `schemamig verify` asks all"


def with_notes_on_unasked_keys(view: View, planned: Planned) -> Planned:
    """Return the plan with a note for each FOREIGN KEY that no row was asked for. It is in force with the commit all the same."""
    return planned.noted(*_notes(view.state, planned))


def _notes(state: State | None, planned: Planned) -> Iterator[str]:
    making: list[Copy | Build] = [*planned.plan.of_kind(Copy), *planned.plan.of_kind(Build)]
    anew = {stage.collection: stage.declaration for stage in making}
    empty = {stage.collection for stage in making if isinstance(stage, Build) and stage.fill is None}
    if not anew:
        return
    for name, declaration in sorted({**_kept(state, planned), **anew}.items()):
        for key in declaration.foreign_keys:
            made = name if name in anew else key.references
            if made in anew and name not in empty:
                rule = f"FOREIGN KEY ({', '.join(key.columns)}) REFERENCES {key.references}"
                why = f"the table of {made} is made anew"
                yield f"{name}: no row is asked for {rule}, as {why}; `schemamig verify` asks all after the commit."


def _kept(state: State | None, planned: Planned) -> Mapping[CollectionName, Declaration]:
    """Return the release's declarations of all its collections, changed or not."""
    if state is None:
        return {}
    steps = planned.plan.target.steps
    gone = {step.old.name for step in steps if not isinstance(step, Create)}
    unchanged = {name: declaration for name, declaration in state.declarations().items() if name not in gone}
    return {**unchanged, **{step.collection: step.new for step in steps if not isinstance(step, Remove)}}
