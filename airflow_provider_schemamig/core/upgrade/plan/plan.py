"""A plan: one closed list of stages, and the digest that binds promotion to what preflight checked and a person approved.

The digest covers everything that changes tables or the ledger for this release, also what ``--end-hold`` deletes; not the generation (the
same plan may be claimed twice), nor the settling of what an earlier leader, or this one before it was killed, began. A hold that
maintenance ended meanwhile is no change of plan (``still_is``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from airflow_provider_schemamig.core.jsonable import from_json, to_text
from airflow_provider_schemamig.core.ledger.objects import plan_store
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.stage_list import (
    EvolutionMemo,
    TableEvolution,
    in_order,
)
from airflow_provider_schemamig.core.upgrade.plan.target import Target

S = TypeVar("S", bound=s.Stage)


@dataclass(frozen=True)
class Plan:
    target: Target
    stages: tuple[s.Stage, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def _evolutions(self) -> EvolutionMemo:
        return EvolutionMemo(self.ends)

    def evolution(self, step: Evolve, state: State) -> TableEvolution:
        """Return what of an evolution ``state`` leaves to be run. Raises as ``stage_list.evolved``."""
        return self._evolutions.evolution(step, state)

    def left(self, state: State) -> tuple[s.Stage, ...]:
        """Return the stages as ``state`` leaves them to be run: those of live tables are derived anew, as recovery may have changed them.

        Settle comes first, be anything left open or not: whoever takes the lead looks. Raises as ``stage_list.evolved``.
        """
        found: list[s.Stage] = [stage for stage in self.stages if not isinstance(stage, s.Settle | s.EvolutionStage)]
        evolutions = [self.evolution(step, state) for step in self.target.steps if isinstance(step, Evolve)]
        found += [stage for evolution in evolutions for stage in evolution.stages]
        return (s.Settle(tuple(sorted({intent.collection for intent in state.intents.values()}))), *in_order(found))

    @cached_property
    def ends(self) -> frozenset[Generation]:
        """Return the generations whose holds it ends before their time."""
        return frozenset(stage.generation for stage in self.of_kind(s.EndHold))

    def still_is(self, approved: Plan, state: State) -> bool:
        """Return whether it does the same as ``approved``, but for holds that were ended, or begun to be, since."""
        if self.bound == approved.bound or self.digest == approved.digest:  # to compare takes a tenth of the time of a digest
            return True
        left = approved.ends - self.ends
        if any(generation in state.holds and state.holds[generation].state is not HoldState.CLOSED for generation in left):
            return False
        return self._takes <= approved._takes and self._but_holds == approved._but_holds

    @cached_property
    def _takes(self) -> frozenset[tuple[Generation, str]]:
        """Return the columns and shards that go with the holds it ends, each with the hold's generation."""
        stages = self.of_kind(s.EndHold)
        paths = {(stage.generation, f"{stage.collection}: {change.path}") for stage in stages for change in stage.changes}
        return frozenset(paths | {(stage.generation, shard) for stage in stages for shard in stage.shards})

    @cached_property
    def _but_holds(self) -> str:
        return replace(self, stages=tuple(stage for stage in self.stages if not isinstance(stage, s.EndHold))).digest

    @cached_property
    def digest(self) -> str:
        return plan_store.digest(self.text)

    @cached_property
    def bound(self) -> Plan:
        """Return what of it is stored with the deployment, and digested; all that its memory has goes along."""
        if not self.notes and not self.of_kind(s.Settle):
            return self
        return replace(self, stages=tuple(stage for stage in self.stages if not isinstance(stage, s.Settle)), notes=())

    @cached_property
    def text(self) -> str:
        """Return what is stored with the deployment."""
        return to_text(self.bound)

    def forget_text(self) -> None:
        """Give the text up, of which the digest is known: of 10,000 collections it has 20 MiB."""
        vars(self).pop("text", None)

    @classmethod
    def from_document(cls, data: Mapping[str, Any]) -> Plan:
        plan: Plan = from_json(cls, data)
        return plan

    def of_kind(self, kind: type[S]) -> tuple[S, ...]:
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = tuple(stage for stage in self.stages if isinstance(stage, kind))
        return found

    def of_collection(self, collection: CollectionName) -> tuple[s.Stage, ...]:
        """Return the stages of one collection."""
        return self._by_collection.get(collection, ())

    @cached_property
    def _by_kind(self) -> dict[type[Any], tuple[Any, ...]]:
        return {}

    @cached_property
    def _by_collection(self) -> dict[CollectionName | None, tuple[s.Stage, ...]]:
        found: dict[CollectionName | None, tuple[s.Stage, ...]] = {}
        for stage in self.stages:
            found[stage.collection] = (*found.get(stage.collection, ()), stage)
        return found

    @property
    def is_empty(self) -> bool:
        return not self.stages
