"""One place where a rule says something."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.names import CollectionName


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a rule says something: ``line`` of ``file`` (from 1), relative to the release folder."""

    file: str
    line: int
    collection: CollectionName | None
    text: str
