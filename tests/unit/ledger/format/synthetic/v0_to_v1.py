"""A collection's mark is called its fingerprint.

Why: it is one.

What: one update a collection.
"""

from __future__ import annotations

from airflow_provider_schemamig.core.ledger.format import objects_v1 as v1
from airflow_provider_schemamig.core.ledger.format.actions import Action, LedgerSnapshot, Update
from tests.unit.ledger.format.synthetic import objects_v0 as v0


def upgrade(snapshot: LedgerSnapshot) -> list[Action]:
    return [Update(row, v1.Object(row.collection, row.shard, row.schema_id, row.mark)) for row in snapshot.of(v0.Object).values()]


def verify(before: LedgerSnapshot, after: LedgerSnapshot) -> str | None:
    old = {row.collection: row.mark for row in before.of(v0.Object).values()}
    return None if old == {row.collection: row.fingerprint for row in after.of(v1.Object).values()} else "a mark is not what it was"
