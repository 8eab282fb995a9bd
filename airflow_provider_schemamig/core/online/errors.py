"""Why a change cannot be made on a live table, or went back."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class NotOnline(Refusal):
    """A change that rows stand against, and that no operation makes on a live table."""

    code = "not_online"
    op: str
    path: str
    reason: str

    @property
    def message(self) -> str:
        what = f"{self.op} of {self.path}" if self.path else self.op
        return f"{what} cannot be made while others read and write: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Declare a rewrite (docs/schema-changes.md), or give an added column a default."
