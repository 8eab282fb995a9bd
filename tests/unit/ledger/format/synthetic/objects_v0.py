"""The ledger's rows in a format 0 that never was: what format 1 calls an object's ``fingerprint`` is called ``mark`` here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_schemamig.core.ledger.format import objects_v1


@dataclass(frozen=True, slots=True)
class Object:
    COLLECTION: ClassVar[str] = "objects"
    collection: str
    shard: str
    schema_id: int
    mark: str

    @property
    def key(self) -> str:
        return self.collection


TYPES: tuple[type, ...] = (*(kind for kind in objects_v1.TYPES if kind is not objects_v1.Object), Object)
