"""Read-only mode's work on data: replacement shards under (collection, version, generation), and their fills.

Nothing here is visible to another version or generation, and everything is found again by a rerun.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.create import create_table
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import newest_of_ours, rows_changed_since
from airflow_provider_schemamig.core.delta.log.head import head_or_none, read_head
from airflow_provider_schemamig.core.delta.log.listing import LOG
from airflow_provider_schemamig.core.ledger.rows import BuildingShard, Deployment, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId, Version
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.own_places import shard_folder, shard_id
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.errors import NotBuilt
from airflow_provider_schemamig.core.upgrade.plan.errors import InsideTable
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stages import Build, Copy
from airflow_provider_schemamig.exceptions import raise_refusals

#: What a commit that fills a replacement shard calls itself.
FILL = "fill"
#: Read-only mode has no epoch; its shards belong to one generation alone.
NO_EPOCH = Epoch(0)


def new_shard(state: State, collection: CollectionName, deployment: Deployment, attempt: int = 0) -> Shard:
    """Return the shard a generation makes for a collection at a version: the same for all processes of the generation, for no other.

    ``attempt`` counts the shards that were given up before it.
    """
    generation = deployment.generation
    digest = hashlib.sha256(f"{state.config.env_id}/{collection}/{deployment.target}/{generation}/{attempt}".encode()).hexdigest()
    shard = shard_id(generation, digest)
    table_id = table_id_of(state.config.env_id, shard)
    return Shard(shard, collection, shard_folder(collection, shard), table_id, generation, ShardState.BUILDING)


def shard_of_new(state: State, collection: CollectionName, deployment: Deployment) -> ShardId:
    """Return the shard of a collection that is new with the generation's release.

    It is the one that the ledger says it is built in, which a fill that had to begin anew may have changed; else the generation's first.
    """
    row = state.replacements.get(replacement_key(collection, deployment))
    return new_shard(state, collection, deployment).shard if row is None else row.shard


def table_id_of(env_id: str, shard: ShardId) -> str:
    """Return Delta's table id for a shard of ours; equal for twins, so that the second finds the first one's table."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"schemamig:{env_id}:{shard}"))


def replacement_key(collection: CollectionName, deployment: Deployment) -> tuple[CollectionName, Version, Generation]:
    return collection, deployment.target, deployment.generation


def built(plan: Plan) -> tuple[Build | Copy, ...]:
    """Return the stages that make a shard before promotion."""
    return (*plan.of_kind(Build), *plan.of_kind(Copy))


def inside_tables(env: EnvironmentRoot, collections: Iterable[CollectionName]) -> tuple[InsideTable, ...]:
    """Return a refusal for each collection whose new table would lie in the folder of a table: where an adopted one lies, or was left."""
    store, wanted = env.store(), sorted(set(collections))
    there = set(store.folders("")) if wanted else set()
    asked = [name for name in wanted if name in there]
    logs = env.each(lambda name: store.names(f"{name}/{LOG}"), asked)
    return tuple(InsideTable(collection=name, uri=env.location.child(name).uri) for name, log in zip(asked, logs, strict=True) if log)


def build_shards(env: EnvironmentRoot, ledger: LedgerWriter, deployment: Deployment, plan: Plan, listen: Listener) -> State:
    """Record and make the (empty) shards of all ``Build`` and ``Copy`` stages; one append, then one version-0 commit a table."""
    builds = built(plan)
    if not builds:
        return ledger.state()
    raise_refusals(inside_tables(env, (build.collection for build in builds)))

    def decide(state: State) -> Sequence[Update]:
        updates: list[Update] = []
        for build in builds:
            if replacement_key(build.collection, deployment) not in state.replacements:
                shard = new_shard(state, build.collection, deployment)
                updates += [Put(shard), Put(BuildingShard(build.collection, deployment.target, deployment.generation, shard.shard))]
        return updates

    state = ledger.transact(decide)

    def make(build: Build | Copy) -> tuple[float, BuildingShard | None]:
        started = time.monotonic()
        row = state.replacements[replacement_key(build.collection, deployment)]
        version = make_table(env, state, row.shard, build.declaration, Tag(deployment.generation, NO_EPOCH, "build"))
        return time.monotonic() - started, row if _is_lost(row, version) else None

    lost = []
    with contextlib.closing(env.each(make, builds)) as made:
        for number, (build, (seconds, row)) in enumerate(zip(builds, made, strict=True), start=1):
            listen(Event(Build.kind, build.collection, number, len(builds), seconds))
            lost += [] if row is None else [row]
    return _forget_fills(ledger, lost) if lost else state


def _is_lost(row: BuildingShard, version: int) -> bool:
    """Return whether the table, now at ``version``, lacks the rows of its fill or copy: rows make a commit.

    A restored ledger may know a table that was deleted after its backup.
    """
    return bool(row.filled_rows) and version == 0


def _forget_fills(ledger: LedgerWriter, lost: Sequence[BuildingShard]) -> State:
    def decide(state: State) -> Sequence[Update]:
        known = [state.replacements.get((row.collection, row.version, row.generation)) for row in lost]
        return [Put(replace(row, filled_rows=None, fill_inputs=())) for row, now in zip(lost, known, strict=True) if now == row]

    return ledger.transact(decide)


def make_table(env: EnvironmentRoot, state: State, shard: ShardId, declaration: Declaration, tag: Tag) -> int:
    """Return the empty table of a shard of ours, at version 0; its current version if it is there already."""
    head = create_table(table_store(env, state, shard), declaration, state.shards[shard].table_id, tag)
    return head.version


def unfilled(state: State, deployment: Deployment, plan: Plan) -> tuple[CollectionName, ...]:
    """Return the collections whose fill or copy has not ended well for this generation: never run, not ready, or its newest was refused."""
    found = []
    for build in built(plan):
        row = state.replacements.get(replacement_key(build.collection, deployment))
        if (isinstance(build, Copy) or build.fill is not None) and (row is None or row.filled_rows is None):
            found.append(build.collection)
    return tuple(found)


def stale_fills(env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan) -> tuple[CollectionName, ...]:
    """Return the collections whose newest fill was refused, or read its inputs before new data came to them.

    Such data makes no ``snapshot=True`` stale.
    """
    found = []
    for build in plan.of_kind(Build):
        row = state.replacements.get(replacement_key(build.collection, deployment))
        if row is None:
            raise NotBuilt(collection=build.collection)
        if _is_stale(env, state, build, row):
            found.append(build.collection)
    return tuple(found)


def _is_stale(env: EnvironmentRoot, state: State, build: Build, row: BuildingShard) -> bool:
    if build.fill is None or row.filled_rows is None:
        return build.fill is not None
    return last_fill(table_store(env, state, row.shard)) != row.fill_number or bool(moved_inputs(env, state, build, row))


def last_fill(store: ReadStore) -> int:
    """Return the number of the newest fill whose rows are in a shard, 0 if there is none: that of a killed process may be in no ledger."""
    found = newest_of_ours(store, lambda about: about.get("action") == FILL)
    return 0 if found is None else int(found[1]["number"])


def moved_inputs(env: EnvironmentRoot, state: State, build: Build, row: BuildingShard) -> dict[ShardId, int]:
    """Return the inputs that got rows since a fill read them, with the versions it read; none for ``snapshot=True``.

    Raises AnotherTable.
    """

    def is_moved(shard: ShardId, version: int) -> bool:
        store = table_store(env, state, shard)
        read_head(store)  # raises AnotherTable for one that was dropped and made anew: its versions begin anew, too
        try:
            return rows_changed_since(store, version)
        except LogTruncated:  # nobody can tell any more
            return True

    read = {} if build.snapshot else {ShardId(shard): version for shard, version in row.fill_inputs}
    return {shard: version for shard, version in read.items() if is_moved(shard, version)}


def check_built(env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan) -> None:
    """Check, for the last time before promotion and before the cut-over, that every replacement shard has its table and its rows."""
    missing = unfilled(state, deployment, plan)
    if missing:
        raise NotBuilt(collection=missing[0])
    for build in built(plan):
        row = state.replacements.get(replacement_key(build.collection, deployment))
        head = None if row is None else head_or_none(table_store(env, state, row.shard))
        if row is None or head is None or _is_lost(row, head.version):
            raise NotBuilt(collection=build.collection)


def record_fill(ledger: LedgerWriter, row: BuildingShard, inputs: tuple[tuple[str, int], ...], rows: int | None) -> State:
    """Write down what a fill read and made (``rows`` None: what it made was refused), unless a twin recorded a later one."""
    wanted = replace(row, fill_number=row.fill_number + 1, fill_inputs=inputs, filled_rows=rows)

    def decide(state: State) -> Sequence[Update]:
        known = state.replacements.get((row.collection, row.version, row.generation))
        return [] if known is None or known.fill_number >= wanted.fill_number else [Put(wanted)]

    return ledger.transact(decide)
