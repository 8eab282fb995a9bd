"""The registry of schemas: an id names one schema of one shard, whatever happens to releases, holds, shards and the ledger's history."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter
from airflow_provider_schemamig.core.names import CollectionName, SchemaId
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.upgrade.compare_and_evolve import Ok, compare_and_evolve_schema
from tests.support.lake import Lake
from tests.support.upgrades import releases, whole

KEPT = "CREATE TABLE kept (id BIGINT);\n"


class Registry:
    """Every schema entry that was ever seen: what an id means must not change."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._seen: dict[tuple[CollectionName, SchemaId], SchemaEntry] = {}

    def look(self) -> None:
        state = LedgerReader(self._lake.env).state()
        found = dict(state.schemas)
        assert self._seen.keys() <= found.keys(), "an id was forgotten, so it could come again"
        for key, entry in self._seen.items():
            assert fingerprint(entry.declared) == fingerprint(found[key].declared), key
            assert (entry.shard, entry.since_table_version) == (found[key].shard, found[key].since_table_version), key
        for collection in {collection for collection, _ in found}:
            assert state.next_schema_id(collection) > max(number for name, number in found if name == collection)
        self._seen = found

    def ids(self, collection: str) -> list[int]:
        return sorted(number for name, number in self._seen if name == collection)


def test_an_id_means_one_schema_for_ever(tmp_path: Path) -> None:
    first, second, third, fourth = releases(
        tmp_path,
        (KEPT + "CREATE TABLE planes (id BIGINT, year INT);", ""),
        (KEPT + "CREATE TABLE planes (id BIGINT, seats INT);", 'evolution("planes", drop=["year"])'),
        (KEPT, 'removal("planes")'),
        (KEPT + "CREATE TABLE planes (id BIGINT, name STRING);", ""),
    )
    lake = Lake(Environment.open(str(tmp_path / "lake")), first, second)
    registry = Registry(lake)

    def then(work: object) -> None:
        registry.look()

    then(lake.upgrade(first))
    then(lake.upgrade(second))
    then(commands.rollback(lake.env))
    then(lake.upgrade(second))
    assert registry.ids("planes") == [1, 2, 3, 4]
    then(compact(LedgerWriter(lake.env)))
    then(commands.contract(lake.env, at_once=True))
    planes = CollectionName("planes")
    wanted = LedgerReader(lake.env).state().entry(planes).declared
    assert compare_and_evolve_schema(lake.env, planes, SchemaId(4), wanted) == Ok(SchemaId(4))
    then(lake.upgrade(third, hold=timedelta(0)))
    assert planes not in lake.state.objects
    then(compact(LedgerWriter(lake.env)))
    then(lake.upgrade(fourth, hold=timedelta(0)))
    assert lake.state.entry(planes).schema_id == 5, "the collection was away, its ids are not free"
    assert lake.state.since > 0, "the ledger's own history was summed up meanwhile"
    whole(lake)
