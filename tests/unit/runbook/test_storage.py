"""The runbook's entries of storage, Spark, connections and the page: each is provoked, and its own words are followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import airflow_provider_schemamig
from airflow_provider_schemamig.core import commands, spark
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.errors import SparkUnavailable
from airflow_provider_schemamig.core.storage import StorageUnreachable, log_stores, store
from airflow_provider_schemamig.core.upgrade.prepare import log_stores as asked
from tests.support.rows.rewritten import jobs, make_rewritten
from tests.support.tables import foreign
from tests.unit.cli.samples import Run
from tests.unit.runbook.book import follow
from tests.unit.runbook.scenes import Releases, Scene

SPARK = "Spark does not start"


@contextmanager
def out_of_reach(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The store of every environment answers nothing."""

    def opened(*arguments: Any, **more: Any) -> Any:
        raise StorageUnreachable(uri="s3://bucket/lake", reason="no route to host")

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "store", opened)
        yield


def test_a_storage_that_does_not_answer(first: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = ("upgrade", "--env", first.env, "--release", first.releases.two)
    with out_of_reach(monkeypatch):
        found = first.refused("storage_unreachable", "The storage does not answer", *upgrade, exit_code=75)
    assert found["retryable"]
    follow(first.run, "The storage does not answer", "look whether it answers", ENV=first.env, RELEASE=first.releases.two)
    first.is_right("1.1.0")


def test_a_store_that_a_spark_overwrites(first: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the newest commit of a Spark without a conditional-create LogStore on S3 says; then it has committed with one."""
    title, name = "The store is not safe for metadata", CollectionName("t")
    foreign.commit(first.lake.path("t"), {"txn": {"appId": "spark", "version": 1}})
    uri = first.lake.env.table_location(first.lake.state.shard_of(name).uri).uri
    for module in (store, asked):
        monkeypatch.setattr(module, "needs_log_store", lambda location, options: True)
    version = 2
    monkeypatch.setitem(log_stores._newest, uri, log_stores.SparkCommit(version, "Apache-Spark/4.2.0 Delta-Lake/4.4.0", False))
    first.refused("unsafe_log_store", title, "upgrade", "--env", first.env, "--release", first.releases.two)
    monkeypatch.setitem(log_stores._newest, uri, log_stores.SparkCommit(version, "Apache-Spark/4.2.0 Delta-Lake/4.4.0", True))
    follow(first.run, "The store is not safe for metadata", "after that Spark", ENV=first.env, RELEASE=first.releases.two)
    first.is_right("1.1.0")


@pytest.fixture
def rewriting(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Work on rows is due; the cluster does not answer, the Spark of the command itself does."""
    found = make_rewritten(tmp_path)

    def runner(url: str, conf: Any) -> Any:
        if url == "local[2]":
            return jobs()
        raise SparkUnavailable(where=url, reason="connection refused")

    monkeypatch.setattr(spark, "runner_for", runner)
    return Scene(found.lake, Releases(found.lake.first, found.lake.second, found.lake.second, found.lake.second), run)


def test_a_cluster_that_does_not_answer(rewriting: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = ("upgrade", "--env", rewriting.env, "--release", rewriting.releases.two, "--spark", "sc://cluster:15002")
    rewriting.refused("spark_unavailable", SPARK, *upgrade, exit_code=75)
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: jobs())
    follow(rewriting.run, "Spark does not start", "are the JARs there", ENV=rewriting.env, RELEASE=rewriting.releases.two)
    rewriting.is_right("1.1.0")


def test_spark_in_the_command_itself(rewriting: Scene) -> None:
    upgrade = ("upgrade", "--env", rewriting.env, "--release", rewriting.releases.two, "--spark", "sc://cluster:15002")
    rewriting.refused("spark_unavailable", SPARK, *upgrade, exit_code=75)
    follow(rewriting.run, "Spark does not start", "work with Spark in the command", ENV=rewriting.env, RELEASE=rewriting.releases.two)
    rewriting.is_right("1.1.0")


def test_jars_that_are_missing(rewriting: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`schemamig jars` says so, and that `--fetch` fetches them; nothing is fetched here."""
    monkeypatch.setenv("SCHEMAMIG_JARS", str(tmp_path / "none"))
    found = rewriting.run("jars", "--json")
    assert found.exit_code == 3
    assert found.document["missing"]
    assert "--fetch" in " ".join((rewriting.run("jars").stdout + rewriting.run("jars").stderr).split())


def test_a_connection_that_is_wrong(first: Scene) -> None:
    first.refused("invalid_location", "The connection is wrong", "status", "--env", "s4://bucket/lake")
    (shown,) = follow(first.run, "The connection is wrong", "try the place itself", ENV=first.env)
    assert shown.exit_code == 0


def test_a_bug_leaves_the_environment_as_it_was(first: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **more: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(commands, "upgrade", broken)
        first.refused("internal", "It is a bug", "upgrade", "--env", first.env, "--release", first.releases.two)
    shown = follow(first.run, "It is a bug", "for the report", ENV=first.env)
    assert [ran.exit_code for ran in shown] == [0, 0, 0]
    assert shown[0].document["version"] == "1.0.0"
    first.is_right("1.0.0")


def test_a_page_that_gets_no_answer_says_nothing_about_the_environment(first: Scene) -> None:
    """Read and not imported: it takes Airflow's web server."""
    text = (Path(airflow_provider_schemamig.__file__).parent / "web/reading.py").read_text()
    assert '"unreachable"' in text
    assert '"reader_ended"' in text
    (shown,) = follow(first.run, "The page shows unreachable or stale", "on a worker", ENV=first.env)
    assert shown.exit_code == 0
