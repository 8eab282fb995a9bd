"""What lies below ``_schemamig/replicas`` and cannot be read (the registry's branch of the error tree)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class NoteDamaged(Refusal):
    """A stream's or a node's object that is not what this software writes. ``where``: its key. Reported, never in anybody's way."""

    code = "replica_note_damaged"
    where: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where} cannot be read: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Delete it: a stream's object is written anew by its next run, a node's by its `schemamig schema refresh`."
