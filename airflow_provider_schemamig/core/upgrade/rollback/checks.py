"""What a rollback takes back, and whether it can. Asked before it touches anything, so that what it cannot do leaves all as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.head import Head, another_table, look_at_head, look_or_none
from airflow_provider_schemamig.core.ledger.rows import Deployment, DeploymentState, Hold, HoldState, IntentKind, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId, check_label
from airflow_provider_schemamig.core.release.merge.chain import Create, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.schema.diff.drift import forgets
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import Outcome, deployment_of
from airflow_provider_schemamig.core.upgrade.execute.cancel import built_by
from airflow_provider_schemamig.core.upgrade.plan.column_names import exchanged
from airflow_provider_schemamig.core.upgrade.plan.errors import OldTableForgets, OldTableMissing, RollbackLogGone
from airflow_provider_schemamig.core.upgrade.plan.live_tables import drift_of, drift_refusal, may_be_renamed, table_store
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.prepare.build import replacement_key, shard_of_new
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from airflow_provider_schemamig.core.upgrade.rollback.old_tables import changed_by_others
from airflow_provider_schemamig.core.upgrade.rollback.rewrites import rows_since_commit
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError, raise_refusals

#: What leads on where no way leads back.
_BY_RELEASE = "Write a new release that declares the shape that you want: `schemamig new TITLE`."


def to_roll_back(state: State) -> Deployment:
    """Return the deployment to roll back: the leader's, promoted, or committed with its hold open."""
    if state.leader is None:
        raise _nothing(state, "nothing was ever promoted here", "Bring a release first: `schemamig upgrade`.")
    deployment = state.deployments[state.leader.generation]
    if deployment.state is DeploymentState.PROMOTED:
        return deployment
    open_ones = [hold.generation for hold in state.holds.values() if hold.state in (HoldState.OPEN, HoldState.ROLLING_BACK)]
    if open_ones:
        return state.deployments[max(open_ones)]
    if deployment.state is DeploymentState.COMMITTED and deployment.source is None:
        raise _nothing(state, f"{deployment.target} is the environment's first release", _BY_RELEASE)
    if deployment.state is DeploymentState.COMMITTED:
        hold = state.holds.get(deployment.generation)
        begun = ", and contract has begun" if hold is not None and hold.state is HoldState.CONTRACTING else ""
        raise _nothing(state, f"the hold of {deployment.target} is over{begun}", _BY_RELEASE)
    why = f"generation {deployment.generation} is {deployment.state.value} already"
    if built_by(state, deployment.generation):
        why += ", and what it was building was not deleted"
        raise _nothing(state, why, f"`schemamig cancel --generation {deployment.generation}` deletes it.")
    raise _nothing(state, why, "Look at `schemamig status`: it names the release that the environment is at.")


def check_hold_not_over(state: State, asked: Deployment | None) -> None:
    """Raise NothingToRollBack for a release whose hold is over: of it, not of whatever came after it."""
    if asked is None or asked.state is not DeploymentState.COMMITTED or asked.source is None:
        return
    hold = state.holds.get(asked.generation)
    if hold is None or hold.state is HoldState.CLOSED:
        raise _nothing(state, f"the hold of generation {asked.generation}, {asked.target}, is over", _BY_RELEASE)


def _nothing(state: State, why: str, first: str) -> NothingToRollBack:
    """Return the refusal. An upgrade that was killed before its promotion is given up by another command, which it names.

    None of before the newest leader: that one can be promoted no more.
    """
    leads = 0 if state.leader is None else state.leader.generation
    open_ones = [found for found in state.deployments.values() if found.state is DeploymentState.CLAIMED and found.generation > leads]
    if open_ones:
        newest = max(open_ones, key=lambda deployment: deployment.generation)
        given_up = f"`schemamig cancel --generation {newest.generation}`"
        first = f"The upgrade to {newest.target} that was begun goes on with `schemamig upgrade`, or is given up with {given_up}."
    return NothingToRollBack(why=why, first=first)


def begun_by(state: State, claim_id: str | None, asked: Generation | None) -> Deployment | None:
    """Return what a rollback under this claim took back, or has begun to; of ``asked``, if that is not None. Raises InvalidName for a
    claim that is no id."""
    if claim_id is not None:
        check_label("claim", claim_id)
    found = (item for item in state.deployments.values() if claim_id in item.rolled_back_by and asked in (None, item.generation))
    return next(found, None)


def rolled_back_before(state: State, claim_id: str | None, generation: Generation | None) -> Outcome | None:
    """Return the answer if just this was rolled back already, whose answer was lost, or by a twin."""
    begun = begun_by(state, claim_id, generation)
    if begun is not None and begun.state is DeploymentState.ROLLED_BACK:
        done = f"{begun.target} was rolled back under this claim already"
        return Outcome(begun.target, begun.source, begun.generation, None, notes=(done,))
    asked = None if generation is None else deployment_of(state, generation)
    if asked is not None and asked.state is DeploymentState.ROLLED_BACK:
        at = state.release_version
        return Outcome(at, at, asked.generation, None, notes=(f"generation {asked.generation} was rolled back already",))
    return None


def check_rollback_possible(env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan, hold: Hold) -> None:
    """Raise all that speaks against the rollback at once: AnotherTable, OldTableMissing, OldTableChanged, OldTableForgets,
    UnsupportedFeature, DriftFound, RollbackLogGone.

    DriftFound is for a table that would forget the fence, RollbackLogGone where rows that came since have to go back and the log does
    not tell any more which those are.
    """
    refusals = list(_tables_in_the_way(env, state, deployment, plan, hold))
    raise_refusals(refusals)
    backwards = [step for step in plan.target.steps if isinstance(step, RewriteStep) and step.down is not None]

    def log_gone(step: RewriteStep) -> RollbackLogGone | None:
        try:
            rows_since_commit(env, state, deployment, state.replacements[replacement_key(step.collection, deployment)].shard)
        except LogTruncated as gone:
            return RollbackLogGone(collection=step.collection, uri=gone.uri, version=gone.version)
        return None

    raise_refusals([gone for gone in env.each(log_gone, backwards) if gone is not None])


def _tables_in_the_way(env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan, hold: Hold) -> Iterator[SchemamigError]:
    is_committed = deployment.state is DeploymentState.COMMITTED
    # Before the commit each is what it was, there or not; after it what was not there before the release need not be there now.
    needed = {table.shard for table in hold.tables if table.before is not None} if is_committed else set()
    names = {item.shard: name for name, item in state.objects.items()}
    rows = _tables(state, deployment, plan, hold)
    heads = env.each(lambda row: look_or_none(table_store(env, state, row.shard)), rows)
    for row, head in zip(rows, heads, strict=True):
        store = table_store(env, state, row.shard)
        if head is None and row.shard in needed:
            yield OldTableMissing(collection=row.collection, uri=store.location.uri)
        elif head is not None and head.is_another:
            yield another_table(store, head, row.collection)
        elif head is not None and row.shard in needed and not _has_seal(store, row, head):
            yield OldTableMissing(collection=row.collection, uri=store.location.uri, sealed_version=row.sealed_version)
        elif head is not None and (changed := changed_by_others(store, row, head)) is not None:
            yield changed
        elif head is not None and (unwritable := _unwritable(head)) is not None:
            unwritable.collection = row.collection
            yield unwritable
        elif head is not None and row.shard not in names and FORGETS in head.properties:
            if row.state is ShardState.RETIRED:  # what was being built goes
                yield OldTableForgets(collection=row.collection, uri=store.location.uri, value=head.properties[FORGETS])
        elif head is not None and (found := forgets(head.properties) or _drifted(state, names.get(row.shard), row, head, hold)):
            yield drift_refusal(state, row.collection, found)


def _has_seal(store: ReadStore, row: Shard, head: Head) -> bool:
    """Return whether a table retired by the release has the commit of its seal, the last one that its rows were read at.

    One that was brought back from a copy of before has other commits, or none. A log that was cleaned up beyond it went on from there.
    """
    if row.state is not ShardState.RETIRED or row.sealed_version is None:
        return True
    if head.version <= row.sealed_version:
        return head.version == row.sealed_version and head.sealed_for is not None
    try:
        return look_at_head(store, row.sealed_version).sealed_for is not None
    except LogTruncated:
        return True


def _unwritable(head: Head) -> SchemamigError | None:
    """Return why no commit of ours can be made on a table, which the way back seals, opens or changes; None: it can be."""
    try:
        check_writable(head.protocol, head.location.uri)
    except Refusal as refusal:
        return refusal
    return None


def _drifted(state: State, name: CollectionName | None, row: Shard, head: Head, hold: Hold) -> Sequence[object]:
    """Return what somebody changed on a live table since: the way back would stop there, with the hold neither open nor over.

    Where a rollback or another step of ours was begun, recovery judges what it left, but for names that somebody exchanged before it
    gave columns others. ``name``: None for no collection's table.
    """
    if name is None or may_be_renamed(state, row.shard, head):
        return ()
    is_begun = any(intent.kind is not IntentKind.EXPAND for intent in state.intents_of(row.shard))
    return drift_of(state, name, head) if hold.state is HoldState.OPEN and not is_begun else exchanged(state.entry(name), head)


def _tables(state: State, deployment: Deployment, plan: Plan, hold: Hold) -> list[Shard]:
    """Return the held tables, and those that the release brought."""
    shards: list[ShardId] = [table.shard for table in hold.tables]
    for step in plan.target.steps:
        if isinstance(step, Create):
            shards.append(shard_of_new(state, step.collection, deployment))
        elif isinstance(step, Replace | RewriteStep):
            shards.append(state.replacements[replacement_key(step.collection, deployment)].shard)
    return [state.shards[shard] for shard in dict.fromkeys(shards) if shard in state.shards]
