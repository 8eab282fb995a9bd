"""A rewrite that is being prepared, seen before it is promoted: ``up`` over the live table, at no cost but the read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.access.field_ids import Shape, live_shape
from airflow_provider_schemamig.core.access.read_mapping import fit_reader
from airflow_provider_schemamig.core.access.releases import PlannedShape, shape_of
from airflow_provider_schemamig.core.access.resolved_table import PinnedTable
from airflow_provider_schemamig.core.access.select import select, version_sql
from airflow_provider_schemamig.core.access.session_check import check_meaning
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.merge.merged import RewriteStep
from airflow_provider_schemamig.core.release.queries.query import bind
from airflow_provider_schemamig.core.schema.model import Primitive
from airflow_provider_schemamig.core.schema.sql import quote, type_sql
from airflow_provider_schemamig.core.spark.field_order import values_by_name
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def preview(env: EnvironmentRoot, state: State, planned: PlannedShape, place: PinnedTable, wanted: Shape, spark: SparkSession) -> str:
    """Return the query that gives the columns of ``wanted`` (of the release to come) at the version of ``place``. Raises Unfit,
    OtherMeaning.

    Lookups are read at their newest version; the rewrite itself reads them as they are when its copy begins. They are read by field id:
    an upgrade that died may have left columns with each other's names.
    """
    step = planned.step
    assert isinstance(step, RewriteStep)
    check_meaning(spark, step.collection, step.up)
    own = fit_reader(place.live, shape_of(state.entry(step.old.name)), place.evidence(), is_later=False)
    rows = {step.old.name: (planned.projection or "*", select(own, version_sql(place.uri, place.head.version)))}
    for name, projection in planned.lookups:
        lookup = _lookup(env, state, name)
        found = fit_reader(lookup.live, shape_of(state.entry(name)), lookup.evidence(), is_later=False)
        rows[name] = (projection, select(found, version_sql(lookup.uri, lookup.head.version)))
    views = {name: quote(f"schemamig_{name}") for name in rows}
    inputs = ", ".join(f"{views[name]} AS (SELECT {projection} FROM ({query}))" for name, (projection, query) in rows.items())
    query = f"WITH {inputs} SELECT * FROM (\n{bind(step.up, views)}\n)"
    types = {f.name: type_sql(f.type) for f in wanted.fields}
    values = {name: quote(name) for name in types}
    if not all(isinstance(f.type, Primitive) for f in wanted.fields):
        empty = ", ".join(f"CAST(NULL AS {found}) AS {quote(name)}" for name, found in types.items())
        values = values_by_name(spark, query, spark.sql(f"SELECT {empty}").schema.fields)
    return f"SELECT {', '.join(f'CAST({values[name]} AS {found}) AS {quote(name)}' for name, found in types.items())} FROM (\n{query}\n)"


def _lookup(env: EnvironmentRoot, state: State, collection: CollectionName) -> PinnedTable:
    shard = state.shard_of(collection)
    store = env.table_store(shard.uri, shard.table_id)
    head = read_head(store)
    return PinnedTable(shard, store, head, live_shape(head, collection), state)
