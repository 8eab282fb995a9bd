"""The choice of the gate between preflight and promotion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseBranchOperator

from airflow_provider_schemamig.operators.base import BadArgument
from airflow_provider_schemamig.retry import SchemamigRetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context


class PromotionGateOperator(BaseBranchOperator):
    """Follow the gate that the run asks for; the others are skipped.

    :param gate: (templated) ``approval`` (a person answers in Airflow), ``ledger`` (``schemamig approve``) or ``none``.
    :param paths: the task to follow for each gate.
    """

    template_fields: Sequence[str] = ("gate",)

    def __init__(self, *, gate: str, paths: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(retry_policy=SchemamigRetryPolicy(), **kwargs)
        self.gate = gate
        self.paths = paths

    def choose_branch(self, context: Context) -> str | Iterable[str] | None:
        if self.gate not in self.paths:
            raise BadArgument(argument="gate", value=self.gate, wanted=f"one of {', '.join(self.paths)}")
        return self.paths[self.gate]
