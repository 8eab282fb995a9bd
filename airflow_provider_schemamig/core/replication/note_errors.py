"""What lies below ``_schemamig/replicas`` and cannot be read (the registry's branch of the error tree)."""

from __future__ import annotations

from airflow_provider_schemamig.exceptions import Refusal


class NoteDamaged(Refusal):
    """A stream's or a node's object unlike those that this software writes. ``where``: its key. Reported, never in anybody's way."""

    code = "replica_note_damaged"
    message = "{where} cannot be read: {reason}."
    next_action = "Delete it: a stream's object is written again by its next run, a node's by its `schemamig schema refresh`."
    where: str
    reason: str
