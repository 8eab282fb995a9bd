"""The ledger's typed rows about holds: what is kept for the way back of each deployment, and until when.

A part of ``ledger.rows``, and imported from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import pendulum

from airflow_provider_schemamig.core.names import CollectionName, Generation, SchemaId, ShardId, Version


class HoldState(StrEnum):
    OPEN = "open"
    #: A rollback has begun: contract waits until it has ended, or a new deployment has taken it back.
    ROLLING_BACK = "rolling_back"
    #: It was rolled back. What its users wrote into its new tables, and what has no way back, is kept until ``until``.
    KEEPING = "keeping"
    CONTRACTING = "contracting"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A hold's record of one collection that its deployment changed, replaced or removed.

    The way back and contract go by this alone: names, the collection's newest schema and its present one may be those of a later release.
    Fields are given by their names in the data files, from the column inwards, which no rename changes.
    """

    #: As the source release calls it, and the schema that it had there.
    collection: CollectionName
    schema_id: SchemaId
    #: The table that held its rows, by its place and by Delta's own id.
    shard: ShardId
    table_id: str
    #: The newest version of the table before the deployment's first commit on it; None where no table was there, only its row.
    before: int | None
    #: What contract drops from it.
    dropped: tuple[tuple[str, ...], ...] = ()
    #: Fields whose type is another one since, as the target release has them.
    retyped: tuple[tuple[str, ...], ...] = ()
    #: The columns among them, or around them, that took the place of another column; that one is among ``dropped``.
    swapped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hold:
    """The way back after a commit: until ``until`` nothing of the source release is taken away. Holds stack: a newer one ends after it."""

    COLLECTION: ClassVar[str] = "holds"
    generation: Generation
    source: Version
    target: Version
    until: pendulum.DateTime
    state: HoldState
    tables: tuple[HeldTable, ...] = ()
    #: Collections of which the deployment changed nothing but comments or order, each with the schema that it had before.
    restated: tuple[tuple[CollectionName, SchemaId], ...] = ()

    @property
    def key(self) -> str:
        return str(self.generation)
