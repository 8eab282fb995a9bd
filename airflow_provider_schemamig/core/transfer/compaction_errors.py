"""Why a table's files are left as they are."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class CannotCompact(Refusal):
    """A table that is read right, but whose files schemamig cannot replace one by one."""

    code = "cannot_compact"
    reason: str

    @property
    def message(self) -> str:
        return f"its files cannot be rewritten: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Leave it as it is (readers see no difference), or let Delta rewrite it: REORG TABLE ... APPLY (PURGE)."
