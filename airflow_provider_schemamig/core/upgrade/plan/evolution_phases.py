"""The changes of one evolution by phase: what a plan lists, and what expand, change and cut-over are left with."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ColumnPath, Generation
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.diff.phases import Phases, phases
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.plan.open_holds import kept_fields, open_holds, physical_after
from airflow_provider_schemamig.core.upgrade.plan.unreleased import declared_now, renames_left

#: The arguments of ``phases``.
PhasesOf = tuple[Declaration, Declaration, Declaration, Mapping[ColumnPath, str], frozenset[ColumnPath]]


def evolution_phases(state: State, step: Evolve, ended: Collection[Generation] = ()) -> Phases:
    """Return the changes of an evolution by phase, from what the table has once the holds in ``ended`` have ended to what is declared."""
    return phases(*phases_of(state, step, ended))


def phases_of(state: State, step: Evolve, ended: Collection[Generation]) -> PhasesOf:
    """Return all that the phases of an evolution depend on."""
    source = step.old.name
    kept = frozenset(kept_fields(state, source, [hold for hold in open_holds(state) if hold.generation not in ended]))
    return physical_after(state, source, ended), declared_now(state, step), step.new, renames_left(state, step), kept
