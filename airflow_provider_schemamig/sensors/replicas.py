"""Does the target of some streams have the schemas that their origin has?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.operators.arguments import as_choice
from airflow_provider_schemamig.operators.replicas import StreamOperator
from airflow_provider_schemamig.sensors.base import WaitingSensor

if TYPE_CHECKING:
    from airflow_provider_schemamig.triggers.base import LookingTrigger


class SchemaMatchSensor(StreamOperator, WaitingSensor):
    """Waits until the target accepts the schemas of the origin, by the gate that replicated rows go through.

    That is so if each collection's schema at the origin is the target's, or one of the last few that the target had, or fits the target's
    column by column; and the same for the schema of the commit at which a stream is paused. Looks at ledgers and at the heads of the
    target's tables; whether any rows were brought makes no difference.

    :param collections: (templated) names, or one text with commas between them; none: all that the origin has.
    :param depth: how many previous schemas of the target are accepted.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "collections")

    def __init__(self, *, collections: Sequence[str] | str = "", depth: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.collections = collections
        self.depth = depth

    def trigger(self, deadline: float) -> LookingTrigger:
        from airflow_provider_schemamig.triggers.replicas import SchemaMatchTrigger

        names = as_choice(self.collections) or None
        return SchemaMatchTrigger(self.origin, self.target, self.poke_interval, deadline, self.depth, names)
