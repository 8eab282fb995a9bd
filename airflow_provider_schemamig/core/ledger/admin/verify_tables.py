"""Is what the ledger says there is really there? Reads tables' logs and lists folders; no rows, no JVM, no write.

Whether a table's columns are as recorded is ``status``'s to say (drift); here it is whether tables, plans and ledger belong together.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_schemamig.core.delta.commit.fence import EPOCH_STRIDE, Fence, newest_fence
from airflow_provider_schemamig.core.delta.errors import LogTruncated, TableMissing
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.admin.findings import LedgerFinding, of_row
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.codec import encode_key
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, PlanMissing
from airflow_provider_schemamig.core.ledger.numbers import next_epoch, shard_folders
from airflow_provider_schemamig.core.ledger.objects.known_heads import recall_heads
from airflow_provider_schemamig.core.ledger.objects.plan_store import read_plan
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, HoldState, Leader, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import Epoch
from airflow_provider_schemamig.core.storage.errors import InvalidLocation
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

#: What is found while the ledger moves on may have been in order before and after: looked at again, so often.
_LOOKS = 3


def verify_ledger(reader: LedgerReader) -> tuple[LedgerFinding, ...]:
    """Return all that is wrong with the ledger, its tables and its plans. Raises as ``verify``, and as the storage does if nothing was
    found."""
    found = verify(reader)
    if any(finding.key is None for finding in found):
        return found  # rows cannot be read where files cannot
    try:
        return found + verify_tables(reader)
    except SchemamigError:
        if not found:
            raise
        return found  # that is what to begin with


def verify_tables(reader: LedgerReader) -> tuple[LedgerFinding, ...]:
    """Return the tables, folders and plans that are missing, left over or newer than the ledger.

    What is named only by ledger rows that cannot be read is left out, as ``verify`` reports such rows. Raises as reading the ledger and
    the storage does.
    """
    for _ in range(_LOOKS):
        # Folders first: whoever makes one has written its row before, so a folder without a row is nobody's.
        folders = tuple(shard_folders(reader.env))
        state = reader.state()
        found = tuple(_findings(reader.env, state, folders))
        if not found or reader.state().version == state.version:
            break
    return found


def _findings(env: EnvironmentRoot, state: State, folders: tuple[str, ...]) -> Iterator[LedgerFinding]:
    try:
        shards = tuple(shard for _, shard in sorted(state.shards.items()))
        yield from _orphan_folders(env, state, folders, shards)
        yield from _table_findings(env, state, shards)
        yield from _plan_findings(env, state)
    except LedgerDamaged:
        return


def _orphan_folders(env: EnvironmentRoot, state: State, folders: tuple[str, ...], shards: tuple[Shard, ...]) -> Iterator[LedgerFinding]:
    known = {place for shard in shards if (place := _place(env, shard)) is not None}
    left = [folder for folder in folders if env.table_location(folder).uri not in known]
    # A table that was given back (``unmanage``) has no shard row any more; the rows of its schemas stay.
    unmanaged = {entry.shard for entry in state.schemas.values()} if left else set()
    for folder in left:
        if folder.rpartition("/")[2] not in unmanaged and env.table_store(folder).names("_delta_log"):
            yield LedgerFinding("orphan_folder", folder, "a table of ours, and no shard row names it")


def _table_findings(env: EnvironmentRoot, state: State, shards: tuple[Shard, ...]) -> Iterator[LedgerFinding]:
    """Yield what is wrong with the tables of live shards; those of retired ones are removed before their row is."""
    epoch = Epoch(next_epoch(state) - 1)
    highest = epoch
    recall_heads(env)
    live = [shard for shard in shards if shard.state is ShardState.LIVE and _place(env, shard) is not None]

    def look(shard: Shard) -> tuple[int, str | None] | TableMissing | LogTruncated:
        store = env.table_store(shard.uri, shard.table_id)
        try:
            head = read_head(store)
            return newest_fence(store, head, Fence(state.config.env_id, shard.shard, epoch).app_id) or 0, head.sealed_for
        except (TableMissing, LogTruncated) as error:
            return error

    for shard, found in zip(live, env.each(look, live), strict=True):
        if isinstance(found, TableMissing):
            yield of_row("table_missing", Shard.COLLECTION, encode_key(shard.key), found.message.rstrip("."))
        elif not isinstance(found, LogTruncated):  # else ``status`` looks into the log and says what it lacks
            fence, sealed_for = found
            highest = max(highest, Epoch(fence // EPOCH_STRIDE))
            # A live table is sealed only while its leader's intent says so: a table sealed by a lost history nobody would unseal.
            if sealed_for is not None and not state.intents_of(shard.shard):
                text = f"its table at {env.table_location(shard.uri).uri} is sealed for {sealed_for}: every write to it is refused"
                yield of_row("seal_unknown", Shard.COLLECTION, encode_key(shard.key), text)
    if highest > epoch:
        text = f"epoch {epoch}, and a table was fenced by epoch {highest} already"
        yield of_row("fence_ahead", Leader.COLLECTION, encode_key(Leader.key), text)


def _plan_findings(env: EnvironmentRoot, state: State) -> Iterator[LedgerFinding]:
    """Yield the missing plans that are still to be run or needed for a rollback."""
    held = {hold.generation for hold in state.holds.values() if hold.state is not HoldState.CLOSED}
    for generation, deployment in sorted(state.deployments.items()):
        if deployment.state not in (DeploymentState.CLAIMED, DeploymentState.PROMOTED) and generation not in held:
            continue
        try:
            read_plan(env, deployment.plan_digest)
        except (PlanMissing, LedgerDamaged) as error:
            yield of_row("plan_missing", deployment.COLLECTION, encode_key(deployment.key), error.message.rstrip("."))


def _place(env: EnvironmentRoot, shard: Shard) -> str | None:
    """Return the URI of a shard's place; None for a place that cannot be used, which ``verify`` reports."""
    try:
        return env.table_location(shard.uri).uri
    except InvalidLocation:
        return None
