"""What is in the tables, as one digest a table: enough to see that an upgrade kept every row and every value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.chain import Evolve, RewriteStep, merge
from airflow_provider_schemamig.core.release.merge.fills import columns_of
from airflow_provider_schemamig.core.release.queries.projection import project
from airflow_provider_schemamig.core.release.queries.query import bind
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from spark_jobs.delta_tables import table_sql
from spark_jobs.digest import rows_digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def views(release: Release, source: Version) -> dict[CollectionName, str]:
    """For each collection at ``source`` the query over ``{name}`` that shows its rows in the head's shape: renamed, widened, added as NULL,
    dropped, rewritten.

    What the release replaces has no such query, and no entry.
    """
    queries = declared_rows(release.declarations(source))
    for step in merge(release, source).steps:
        queries.pop(step.collection, None)
        if isinstance(step, Evolve):
            queries[step.collection] = f"SELECT {project(step.old, step.new, step.renames)} FROM {{{step.collection}}}"
        elif isinstance(step, RewriteStep):
            queries[step.collection] = f"SELECT {columns_of(step.new)} FROM ({step.up})"
    return queries


def declared_rows(declarations: Mapping[CollectionName, Declaration]) -> dict[CollectionName, str]:
    """The query of the declared columns, in declared order: what a table has beside them (hidden columns) takes no part."""
    return {name: f"SELECT {columns_of(declaration)} FROM {{{name}}}" for name, declaration in declarations.items()}


def digests(spark: SparkSession, env: Environment, queries: Mapping[CollectionName, str]) -> dict[CollectionName, RowsDigest]:
    """The digest of every collection named, seen through its query."""
    state = LedgerReader(env).state()
    tables = {name: table_sql(env.table_location(state.shard_of(name).uri).uri) for name in queries}
    return {name: rows_digest(spark.sql(bind(query, tables))) for name, query in queries.items()}
