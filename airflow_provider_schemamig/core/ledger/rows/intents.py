"""The ledger's typed rows about what a leader is about to do to a table: one class a kind of doing, stored under its tag.

A part of ``ledger.rows``, and imported from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Self

import pendulum

from airflow_provider_schemamig.core.jsonable import union
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Generation, ShardId
from airflow_provider_schemamig.core.schema.model import Declaration


class IntentKind(StrEnum):
    CREATE = "create"
    #: A schema change outside of a release (``compare_and_evolve_schema``).
    EVOLVE = "evolve"
    EXPAND = "expand"
    #: The steps of online changes between expand and cut-over: ``before`` is where they began, ``after`` the step that is being made,
    #: ``reached`` the one before it.
    CHANGE = "change"
    SEAL = "seal"
    CUTOVER = "cutover"
    CONTRACT = "contract"
    #: A table goes back to the release before.
    ROLLBACK = "rollback"
    #: The table of before a rewrite or replacement is opened again.
    UNSEAL = "unseal"
    #: What a leader of before had begun is taken back in one commit: from ``before`` to ``after``, which may be neither of the others'
    #: steps. ``renames``: columns that have their names of the ledger again.
    TAKE_BACK = "take_back"
    #: Drift: what somebody else did to a table goes.
    REVERT = "revert"
    #: Old files are written anew in today's schema; the schema itself stays as it is.
    COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a leader is about to do to a table, written before it does it; open until ``done_version`` is known or it was settled.

    Key: one per (shard, kind, generation).
    """

    COLLECTION: ClassVar[str] = "intents"
    collection: CollectionName
    shard: ShardId
    generation: Generation
    epoch: Epoch
    kind: IntentKind
    base_version: int
    done_version: int | None = None

    @property
    def key(self) -> str:
        return f"{self.shard}/{self.kind}/{self.generation}"

    @property
    def leads_to(self) -> tuple[Declaration, ...]:
        """Return the physical schemas that the table may have while this is open, but for the one of before."""
        return ()

    def done(self, table_version: int) -> Self:
        return replace(self, done_version=table_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIntent(Intent):
    """A table is made that was not there."""

    after: Declaration

    @property
    def leads_to(self) -> tuple[Declaration, ...]:
        return (self.after,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionIntent(Intent):
    """A table goes from one physical schema to another one in one metadata commit; going back means going from after to before."""

    before: Declaration
    after: Declaration
    #: The physical schema that the table has until ``after`` is made, where that is not ``before``; None for moves of one step.
    reached: Declaration | None = None
    #: Old path -> new last name: with it, before -> after and after -> before are both derivable by ``schema.diff``.
    renames: tuple[tuple[ColumnPath, str], ...] = ()

    @property
    def leads_to(self) -> tuple[Declaration, ...]:
        return (self.after,) if self.reached is None else (self.after, self.reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapIntent(TransitionIntent):
    """Columns of another type take their places with the cut-over; its release is committed upon it."""

    #: After this moment nobody commits upon it any more.
    deadline: pendulum.DateTime
    #: Whoever would commit upon it finds it gone: the columns change places again.
    is_given_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SealIntent(Intent):
    """No write is to enter the table until the release is committed."""

    #: After this moment nobody commits upon it any more. A next leader may unseal at any time.
    deadline: pendulum.DateTime
    #: Whoever would commit upon it finds it gone: the table is unsealed.
    is_given_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSwapIntent(Intent):
    """A rollback seals the table that the release brought (SEAL), or opens the one of before (UNSEAL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRevertIntent(Intent):
    """What somebody else did to a table goes (``drift.revert``); what the table was before is not in the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionIntent(Intent):
    """Files are written anew, the schema stays."""


union(
    {
        "create": CreateIntent,
        "transition": TransitionIntent,
        "swap": SwapIntent,
        "seal": SealIntent,
        "shard_swap": ShardSwapIntent,
        "drift_revert": DriftRevertIntent,
        "compaction": CompactionIntent,
    },
    of=Intent,
)
