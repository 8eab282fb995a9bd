"""On S3: a Spark that overwrites is found before anything is claimed, and the session of an upgrade is proven by a commit of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.log.listing import commit_key, read_commit
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage import ReadStore, UnsafeLogStore, log_stores, store
from airflow_provider_schemamig.core.storage.location import Location
from airflow_provider_schemamig.core.upgrade.prepare import log_stores as asked
from tests.support.stores.fake_s3 import FakeS3, serving
from tests.support.tables import foreign
from tests.support.upgrades import two_releases

SPARK = b'{"commitInfo":{"timestamp":1,"operation":"CREATE TABLE","engineInfo":"Apache-Spark/4.2.0 Delta-Lake/4.4.0"}}\n'
MARK = {"x-amz-meta-schemamig-log-store": "conditional"}


@pytest.fixture
def fake() -> FakeS3:
    return FakeS3()


@pytest.fixture
def options(fake: FakeS3) -> Iterator[dict[str, str]]:
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "us-east-1", "aws_allow_http": "true"}
    with serving(fake) as endpoint:
        yield {**keys, "aws_endpoint_url": endpoint}


@pytest.mark.parametrize(
    "body, mark, proven",
    [(SPARK, MARK, True), (SPARK, {}, False), (SPARK.replace(b"Apache-Spark", b"Another"), {}, False)],
    ids=["ours", "stock", "another engine"],
)
def test_a_session_is_proven_by_the_mark_of_its_commit(
    body: bytes, mark: dict[str, str], proven: bool, fake: FakeS3, options: dict[str, str]
) -> None:
    env = Environment.open("s3://bucket/lake", options)

    def upgrade() -> None:
        with asked.proven_session(env) as more:
            key = f"{Location.parse(more['log_store']).uri.removeprefix('s3://bucket/')}/{commit_key(0)}"
            fake.objects[key], fake.marks[key] = body, mark

    if proven:
        upgrade()
    else:
        with pytest.raises(UnsafeLogStore, match="the Spark that this upgrade uses"):
            upgrade()
    assert fake.objects == {}, "the scratch table is gone"


@pytest.mark.parametrize("uri, more", [("/lake", {}), ("gs://bucket/lake", {}), ("s3://b/l", {"schemamig.conditional_log_store": "true"})])
def test_log_stores_nothing_is_asked_where_it_does_not_matter_or_was_declared(uri: str, more: dict[str, str]) -> None:
    with asked.proven_session(Environment.open(uri, more)) as found:
        assert found == {}


def test_a_plan_refuses_the_tables_that_a_spark_overwrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "CREATE TABLE a (id BIGINT);\nCREATE TABLE b (id BIGINT);\nCREATE TABLE c (id BIGINT);\n"
    second = first.replace("a (id BIGINT", "a (id BIGINT, n INT").replace("b (id BIGINT", "b (id BIGINT, n INT")
    lake = two_releases(tmp_path, first, second, 'evolution("a"), evolution("b")')
    for name, is_conditional in (("a", True), ("b", False), ("c", False)):
        foreign.commit(lake.path(name), {"txn": {"appId": "spark", "version": 1}})
        uri = lake.env.table_location(lake.state.shard_of(CollectionName(name)).uri).uri
        monkeypatch.setitem(log_stores._newest, uri, log_stores.SparkCommit(1, "Apache-Spark/4.2.0 Delta-Lake/4.4.0", is_conditional))
    for module in (store, asked):
        monkeypatch.setattr(module, "needs_log_store", lambda location, options: True)
    (refusal,) = commands.plan(lake.env, lake.second).refusals
    assert (refusal.code, refusal.collection) == ("unsafe_log_store", "b"), "c gets no commit"
    assert "version 1 (Apache-Spark/4.2.0 Delta-Lake/4.4.0)" in refusal.message
    before = LedgerReader(lake.env).state().version
    with pytest.raises(UnsafeLogStore):
        lake.upgrade(lake.second)
    assert LedgerReader(lake.env).state().version == before


def test_of_a_commit_that_is_known_to_be_safe_nobody_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours are, by any process of ours; one of Spark's is, once it was looked at."""
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, n INT);", 'evolution("a")')
    for module in (store, asked):
        monkeypatch.setattr(module, "needs_log_store", lambda location, options: True)
    read: list[int] = []

    def reading(table: ReadStore, version: int) -> LogCommit:
        read.append(version)
        return read_commit(table, version)

    monkeypatch.setattr(asked, "read_commit", reading)
    commands.plan(lake.env, lake.second)
    assert read == [], "the newest commit is ours"
    foreign.commit(lake.path("a"), {"txn": {"appId": "spark", "version": 1}})
    for _ in range(2):
        commands.plan(lake.env, lake.second)
    assert read == [1]
