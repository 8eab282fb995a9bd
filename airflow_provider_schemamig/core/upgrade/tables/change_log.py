"""What online changes left in a table's log, and their entries in the audit log: begin, duration, outcome.

The table's log says it, so it is the same for whoever asks and survives a kill. It does not say which transactions of others were aborted:
an aborted one leaves nothing behind. What others did commit meanwhile is counted.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pendulum

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.listing import list_log, read_commit
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import Intent, IntentKind, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId
from airflow_provider_schemamig.core.online.operation import Enter, Operation, Recluster, Reorg
from airflow_provider_schemamig.core.online.unfilled import action_of
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.tables.clustering import STAGE

#: The longest reason that a line of audit keeps.
_DETAIL = 500


@dataclass(frozen=True)
class Made:
    """Commits on a table since an online change began. ``ours``: of its generation, by their action (``change``, ``backfill:<column>``,
    ``cluster``); ``others``: of everybody else; ``first_at``: when the first of ours was made, UTC."""

    ours: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    first_at: pendulum.DateTime | None = None

    @property
    def commits(self) -> int:
        return sum(self.ours.values())


def change_intent(state: State, shard: ShardId, generation: Generation) -> TransitionIntent | None:
    """Return the intent of a generation's online changes of a shard; None before their first commit. It says where they began."""
    return state.transition(shard, IntentKind.CHANGE, generation)


def made_since(env: EnvironmentRoot, state: State, intent: Intent) -> Made | None:
    """Return what was committed since ``intent`` began; None if the log does not tell any more."""
    uri = state.shards[intent.shard].uri
    try:
        newest = list_log(env.table_store(uri)).version
        found = [_seen(env, uri, version) for version in range(intent.base_version + 1, newest + 1)]
    except LogTruncated:
        return None
    ours = [seen for seen in found if seen.generation == intent.generation]
    first = min((seen.at for seen in ours if seen.at is not None), default=None)
    return Made(Counter(seen.action for seen in ours), len(found) - len(ours), first)


@dataclass(frozen=True, slots=True)
class _Seen:
    generation: int | None
    action: str
    at: pendulum.DateTime | None


@functools.lru_cache(maxsize=16384)
def _seen(env: EnvironmentRoot, uri: str, version: int) -> _Seen:
    """Read a commit once a process: ``status --watch`` asks for the same ones every two seconds."""
    commit = read_commit(env.table_store(uri), version)
    about = commit.about or {}
    at = pendulum.from_timestamp(commit.milliseconds / 1000) if commit.milliseconds is not None else None
    return _Seen(about.get("generation"), str(about.get("action", "")), at)


# --- the audit log -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ElementEntries:
    """The walk of a collection's elements by one run, as the audit log will remember it: one entry an element."""

    leader: LeaderWriter
    collection: CollectionName
    shard: ShardId
    operations: Sequence[Operation]
    #: When this run took it up; the log or the ledger may know an earlier run.
    taken_up: pendulum.DateTime = field(default_factory=lambda: pendulum.now("UTC"))

    def ended(self, outcome: str = "done", reason: str = "") -> None:
        """Record that all elements have come as far as before the cut-over, or were all walked back.

        They were walked back because of ``reason`` (``outcome``: its code).
        """
        leader = self.leader
        intent = change_intent(leader.state, self.shard, leader.generation)
        made = (made_since(leader.env, leader.state, intent) if intent is not None else None) or Made()
        began = min(self.taken_up, made.first_at or self.taken_up)
        entries = [
            HistoryEntry.ended(
                f"change {operation.name}",
                began,
                collection=self.collection,
                generation=leader.generation,
                who=leader.who,
                outcome=outcome,
                detail="; ".join(part for part in (_made_text(operation, made), reason) if part)[:_DETAIL],
            )
            for operation in self.operations
        ]
        note = append_history(leader.env, *entries)
        leader.notes.extend([note] if note else [])


def _made_text(operation: Operation, made: Made) -> str:
    """Describe the commits that an element's way needs, as metadata commits are shared by the elements of a table."""
    entered = sum(1 for step in operation.steps if isinstance(step, Enter) and step.changes)
    actions = {action_of(step.column) for step in operation.steps if isinstance(step, Reorg)}
    actions |= {STAGE for step in operation.steps if isinstance(step, Recluster)}
    batches = sum(made.ours.get(action, 0) for action in actions)
    return f"{entered} metadata commit(s), {batches} batch(es) of rows"


def record_taken_back(leader: LeaderWriter, started: pendulum.DateTime) -> None:
    """Record elements of earlier epochs that this leader took back: a rollback, or a deployment that came after one that died."""
    taken_back = [element for element in leader.state.elements.values() if element.epoch < leader.epoch and element.error is None]
    entries = [
        HistoryEntry.ended(
            f"undo {element.name}",
            started,
            collection=element.collection,
            generation=element.generation,
            who=leader.who,
            detail=f"it was {element.state.value.upper()} since {element.since.to_iso8601_string()}",
        )
        for element in taken_back
    ]
    note = append_history(leader.env, *entries) if entries else None
    leader.notes.extend([note] if note else [])
