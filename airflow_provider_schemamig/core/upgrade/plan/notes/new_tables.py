"""The notes of a plan on a table made anew: the properties that somebody set on the old one by hand, which no release declares."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View
from airflow_provider_schemamig.core.upgrade.plan.stages import Build, Copy
from airflow_provider_schemamig.exceptions import listed


def with_notes_on_new_tables(view: View, planned: Planned) -> Planned:
    """Return the plan with a note for a replaced or rewritten collection whose new table lacks a property of the old one."""
    return planned.noted(*_notes(view, planned))


def _notes(view: View, planned: Planned) -> Iterator[str]:
    copied = [(stage.source, stage.declaration) for stage in planned.plan.of_kind(Copy)]
    replaced = [(stage.collection, stage.declaration) for stage in planned.plan.of_kind(Build)]
    for source, declaration in (*copied, *replaced):
        head = view.heads.get(source)
        if head is not None and view.state is not None and (left := _left_behind(view.state, head, source, declaration)):
            what = f"{listed(left, 5)}, set by hand on the old one; declare what it is to have"
            yield f"{source}: the new table gets what the release declares, and not {what}."


def _left_behind(state: State, head: Head, source: CollectionName, new: Declaration) -> list[str]:
    entry = state.entry(source)
    declared = {key for declaration in (entry.declared, new) for key, _ in declaration.properties}
    declared |= {key for pin in state.pins.values() if pin.shard == entry.shard for key, before in pin.properties if before is None}
    return [key for key, _ in head.declaration(source).properties if key not in declared]
