"""The promotion gate for those who approve in the ledger (``schemamig approve``), not in Airflow's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.operators.base import as_generation
from airflow_provider_schemamig.sensors.base import EnvironmentSensor

if TYPE_CHECKING:
    from airflow_provider_schemamig.triggers.ledger import EnvironmentTrigger


class PromotionSensor(EnvironmentSensor):
    """Waits until the plan of a generation is approved in the ledger.

    :param generation: (templated) the generation that preflight claimed.
    """

    template_fields: Sequence[str] = (*EnvironmentSensor.template_fields, "generation")

    def __init__(self, *, generation: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation

    def trigger(self, deadline: float) -> EnvironmentTrigger:
        from airflow_provider_schemamig.triggers.ledger import PromotionTrigger

        return PromotionTrigger(self.environment, self.poke_interval, deadline, generation=as_generation(self.generation))
