"""The flows of rows that a plan's rewrites need: forth through ``up`` while they are built, back through ``down`` on a rollback."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import BuildingShard, Deployment, IntentKind, Shard
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ShardId, quote
from airflow_provider_schemamig.core.release.merge.chain import RewriteStep
from airflow_provider_schemamig.core.release.merge.key_on_way_back import gives_key_back
from airflow_provider_schemamig.core.release.queries.query import placeholders
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import text_partitions
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.exactly_once import LinkChain
from airflow_provider_schemamig.core.transfer.row_transfer import Lookup, RowTransfer
from airflow_provider_schemamig.core.upgrade.errors import NotBuilt
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_names, names_under_way, table_store
from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
from airflow_provider_schemamig.core.upgrade.prepare.build import NO_EPOCH, replacement_key
from airflow_provider_schemamig.core.upgrade.prepare.declared_types import shown_as_declared

#: Names of the chains in the target's log.
COPY, TAIL, ROLLBACK = "copy", "tail", "rollback"


@dataclass(frozen=True, slots=True)
class RewriteRollback:
    """A rewrite to be taken back: from the shard ``now`` to the one before it, ``old``."""

    step: RewriteStep
    now: ShardId
    old: ShardId


def row_of(state: State, deployment: Deployment, collection: CollectionName) -> BuildingShard:
    row = state.replacements.get(replacement_key(collection, deployment))
    if row is None:
        raise NotBuilt(collection=collection)
    return row


def forward_transfer(state: State, deployment: Deployment, stage: Copy, chain: str) -> RowTransfer:
    """Return the flow from the shard that was live when the copy was begun into the new one. NotBuilt if it never was."""
    row = row_of(state, deployment, stage.collection)
    if not row.fill_inputs:
        raise NotBuilt(collection=stage.collection)
    (copied, _), *looked_up = row.fill_inputs
    source, target = state.shards[ShardId(copied)], state.shards[row.shard]
    lookups = [
        _lookup(state, lookup.collection, state.shards[ShardId(shard)], version, lookup.projection)
        for lookup, (shard, version) in zip(stage.lookups, looked_up, strict=True)
    ]
    return RowTransfer(
        collection=stage.collection,
        chain=_chain(state, target.shard, chain, deployment),
        source=source.shard,
        source_uri=source.uri,
        source_id=source.table_id,
        target=target.shard,
        target_uri=target.uri,
        target_id=target.table_id,
        query=stage.up,
        own=stage.source,
        projection=shown_as_declared(state, source.shard, stage.projection),
        columns=_columns(stage.declaration),
        text_partitions=text_partitions(stage.declaration),
        lookups=tuple(lookups),
    )


def copied_version(state: State, deployment: Deployment, stage: Copy) -> int:
    """Return the version of the source that the copy shows. NotBuilt if it was never begun."""
    row = row_of(state, deployment, stage.collection)
    found = dict(row.fill_inputs).get(state.shard_of(stage.source).shard)
    if found is None:
        raise NotBuilt(collection=stage.collection)
    return found


def backward_transfer(
    env: EnvironmentRoot, state: State, deployment: Deployment, step: RewriteStep, stage: Copy, now: ShardId, old: ShardId
) -> RowTransfer:
    """Return the flow from the shard that a release brought back into the one it took over from; only for a step with ``down``.

    What ``down`` looks up is read as it is now, or was until its columns got their names back: a row that was changed since is found by
    its key, not by what it was made of. That key is what ``down`` makes of it, so it has to be that of the row that ``up`` (``stage``) made
    it of. Raises NamesUnderWay.
    """
    key = step.old.primary_key
    lookups = []
    for name in placeholders(step.down or ""):
        if name != step.collection:
            columns = _columns(state.entry(name).declared)
            lookups.append(_lookup(state, name, state.shard_of(name), _readable_at(env, state, deployment, name), _select_list(columns)))
    return RowTransfer(
        collection=step.collection,
        chain=_chain(state, old, f"{ROLLBACK}/{now}", deployment),
        source=now,
        source_uri=state.shards[now].uri,
        source_id=state.shards[now].table_id,
        target=old,
        target_uri=state.shards[old].uri,
        target_id=state.shards[old].table_id,
        query=step.down or "",
        own=step.collection,
        projection=shown_as_declared(state, now, _select_list(_columns(step.new))),
        columns=_columns(step.old),
        text_partitions=text_partitions(step.old),
        lookups=tuple(lookups),
        match=tuple(key.columns) if key is not None else (),
        forward=None if key is None or gives_key_back(step) else forward_transfer(state, deployment, stage, COPY),
    )


def _lookup(state: State, collection: CollectionName, shard: Shard, version: int, projection: str) -> Lookup:
    return Lookup(collection, shard.uri, shard.table_id, version, shown_as_declared(state, shard.shard, projection))


def _readable_at(env: EnvironmentRoot, state: State, deployment: Deployment, collection: CollectionName) -> int:
    """Return the newest version of a looked-up table that has the release's names; a rollback that died may have taken those back.

    Raises NamesUnderWay.
    """
    shard = state.shard_of(collection).shard
    store = table_store(env, state, shard)
    head = read_head(store)
    rolled_back = state.transition(shard, IntentKind.ROLLBACK, deployment.generation)
    if names_under_way(state, collection, head) and rolled_back is not None and rolled_back.done_version is not None:
        head = read_head(store, rolled_back.done_version - 1)
    check_names(state, collection, head)
    return head.version


def _columns(declaration: Declaration) -> tuple[str, ...]:
    return tuple(field.name for field in declaration.fields)


def _select_list(columns: Iterable[str]) -> str:
    return ", ".join(quote(column) for column in columns)


def _chain(state: State, target: ShardId, name: str, deployment: Deployment) -> LinkChain:
    return LinkChain(Fence(env_id=state.config.env_id, shard=target, epoch=NO_EPOCH).app_id, name, deployment.generation)
