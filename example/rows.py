"""What is in the tables, as one digest a table: enough to see that an upgrade kept every row and every value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.chain import Evolve, merge
from airflow_provider_schemamig.core.release.folder import Release
from airflow_provider_schemamig.core.release.projection import project
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.sql import quote
from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from spark_jobs.delta_tables import table_sql
from spark_jobs.digest import rows_digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def views(release: Release, source: Version) -> dict[CollectionName, str]:
    """For each collection at ``source`` the SELECT list that shows its rows in the head's shape: renamed, widened, added as NULL, dropped.

    What the release replaces has no such list, and no entry.
    """
    lists = select_lists(release.declarations(source))
    for step in merge(release, source).steps:
        lists.pop(step.collection, None)
        if isinstance(step, Evolve):
            lists[step.collection] = project(step.old, step.new, step.renames)
    return lists


def select_lists(declarations: Mapping[CollectionName, Declaration]) -> dict[CollectionName, str]:
    """The SELECT list of the declared columns, in declared order: what a table has beside them (hidden columns) takes no part."""
    return {name: ", ".join(quote(f.name) for f in declaration.fields) for name, declaration in declarations.items()}


def digests(spark: SparkSession, env: Environment, lists: Mapping[CollectionName, str]) -> dict[CollectionName, RowsDigest]:
    """The digest of every collection named, seen through its SELECT list."""
    state = LedgerReader(env).state()
    tables = {name: table_sql(env.table_location(state.shard_of(name).uri).uri) for name in lists}
    return {name: rows_digest(spark.sql(f"SELECT {shown} FROM {tables[name]}")) for name, shown in lists.items()}
