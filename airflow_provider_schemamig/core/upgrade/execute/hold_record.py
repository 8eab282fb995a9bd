"""What a commit writes down for its hold: of each table it changed, replaced or removed, what the way back and contract will ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_provider_schemamig.core.ledger.rows import HeldTable, Intent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ColumnPath, ShardId
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.changes import ChangeType, DropColumn
from airflow_provider_schemamig.core.schema.diff.renames import net_renames
from airflow_provider_schemamig.core.schema.paths import path_in_files, translate
from airflow_provider_schemamig.core.upgrade.plan import stages as s

Names = Mapping[ColumnPath, str]


def evolved_table(state: State, stages: Sequence[s.Stage], step: Evolve, *, before: int, names: Names) -> HeldTable:
    """Return what is kept of an evolved table. ``stages``: the step's own.

    ``names``: what the table's fields are called in the data files once the release is there (``SchemaEntry.stored_names``).
    """
    entry = state.entry(step.old.name)
    types = tuple(_types(stages))
    return HeldTable(
        collection=step.old.name,
        schema_id=entry.schema_id,
        shard=entry.shard,
        table_id=state.shards[entry.shard].table_id,
        before=before,
        dropped=tuple(sorted(path_in_files(path, names) for path in _drops(stages))),
        retyped=tuple(sorted({path_in_files(path, names) for path, _ in types})),
        swapped=tuple(sorted({path_in_files(path, names)[0] for path, widening in types if not widening})),
    )


def retired_tables(state: State, stages: Sequence[s.Retire], seals: Mapping[ShardId, Intent]) -> Iterator[HeldTable]:
    """Yield the held tables of what is replaced, rewritten and removed."""
    for stage in stages:
        entry = state.entry(stage.collection)
        seal = seals.get(entry.shard)
        before = seal.base_version if seal is not None else None
        yield HeldTable(stage.collection, entry.schema_id, entry.shard, state.shards[entry.shard].table_id, before)


def _drops(stages: Sequence[s.Stage]) -> Iterator[ColumnPath]:
    for stage in stages:
        if isinstance(stage, s.Contract):
            yield from (ColumnPath(change.path) for change in stage.changes if isinstance(change, DropColumn))


def _types(stages: Sequence[s.Stage]) -> Iterator[tuple[ColumnPath, bool]]:
    """Yield (path after the cut-over, whether it widened) of every change of type."""
    renames = net_renames(change for stage in stages if isinstance(stage, s.CutOver) for change in stage.changes)
    for stage in stages:
        for change in stage.changes if isinstance(stage, s.Expand | s.Online) else ():
            if isinstance(change, ChangeType):
                yield translate(change.path, renames), change.widening
