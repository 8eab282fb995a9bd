"""Rows that a rollback leaves behind: what users wrote into the tables that the release brought, where nothing takes it back."""

from __future__ import annotations

from collections.abc import Iterable

import pendulum

from airflow_provider_schemamig.core.delta.errors import LogDamaged, LogTruncated
from airflow_provider_schemamig.core.delta.log.head import head_or_none
from airflow_provider_schemamig.core.ledger.rows import Deployment
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.release.merge.chain import Replace, RewriteStep
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.core.upgrade.context.context import plan_of
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.prepare.build import replacement_key
from airflow_provider_schemamig.core.upgrade.prepare.claim import DEFAULT_HOLD
from airflow_provider_schemamig.core.upgrade.rollback.rewrites import rows_since_commit


def lossy(env: EnvironmentRoot, state: State, deployment: Deployment) -> tuple[str, ...]:
    """Return what a rollback of a committed deployment would lose: rows that came into a new shard since, and have no way back."""
    found = []
    for step in plan_of(env, deployment).target.steps:
        if not isinstance(step, Replace | RewriteStep) or (isinstance(step, RewriteStep) and step.down is not None):
            continue
        row = state.replacements.get(replacement_key(step.collection, deployment))
        if row is not None:
            found.append((step.collection, row.shard))
    came = env.each(lambda item: rows_came(env, state, deployment, item[1]), found)
    text = "{}: rows written into {} since {} stay behind in it"
    return tuple(text.format(*item, deployment.target) for item, is_left in zip(found, came, strict=True) if is_left)


def rows_came(env: EnvironmentRoot, state: State, deployment: Deployment, shard: ShardId) -> bool:
    """Return whether users changed rows of a table that the deployment brought. A log that cannot tell, or not any more, counts as yes."""
    if head_or_none(table_store(env, state, shard)) is None:
        return False
    try:
        return rows_since_commit(env, state, deployment, shard)
    except (LogTruncated, LogDamaged):  # damaged before its last checkpoint, which is all that others read
        return True


def kept_until(deployment: Deployment) -> pendulum.DateTime:
    """Return until when rows are kept: as long as the release's own way back was open, and at least a day, from now on."""
    return pendulum.now("UTC").add(seconds=max(deployment.hold_seconds, int(DEFAULT_HOLD.total_seconds())))


def note(env: EnvironmentRoot, state: State, deployment: Deployment, shards: Iterable[ShardId], until: pendulum.DateTime) -> list[str]:
    """Return a note on each table with rows that stay behind: its place, and how long it stays."""
    texts = []
    for shard in sorted(shards):
        row = state.shards[shard]
        where = env.table_location(row.uri).uri
        texts.append(
            f"{row.collection}: rows written since {deployment.target} stay in {where}, sealed, until {minute(until)}; "
            "`schemamig contract` deletes them after that, and an upgrade with --end-hold before"
        )
    return texts
