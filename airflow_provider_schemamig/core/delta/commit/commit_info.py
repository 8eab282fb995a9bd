"""What a commit of ours says about itself: commitInfo.userMetadata, the one field every Delta tool shows."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, Epoch, Generation


def label_of(action: str) -> str:
    """Return what DESCRIBE HISTORY shows as the operation."""
    return f"{RESERVED_PREFIX.upper()} {action.upper()}"


@dataclass(frozen=True, slots=True)
class Tag:
    """The generation, epoch and purpose of a commit. ``action``: a stage's name (expand, cutover, seal, fence...)."""

    generation: Generation
    epoch: Epoch
    action: str

    @property
    def user_metadata(self) -> str:
        """Return ``{"schemamig": {"action", "epoch", "generation"}}`` as text."""
        return canonical({RESERVED_PREFIX: {"action": self.action, "epoch": self.epoch, "generation": self.generation}})

    @property
    def operation(self) -> str:
        return label_of(self.action)
