"""The closed list of stages a plan is made of: small values, one a sentence of what will happen.

``stage_list.stages`` makes them; ``explain`` and the tasks go over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from airflow_provider_schemamig.core.jsonable import union
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Generation, ShardId, Version
from airflow_provider_schemamig.core.schema.changes import Change, DropColumn
from airflow_provider_schemamig.core.schema.model import Declaration

#: After this many seconds any next leader may unseal a table whose commit did not come.
SEAL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Settle:
    """Fence what an earlier leader left unfinished on some tables, and adopt or undo it."""

    kind: ClassVar[str] = "settle"
    collection: ClassVar[None] = None
    changes: ClassVar[tuple[Change, ...]] = ()
    collections: tuple[CollectionName, ...]


@dataclass(frozen=True, slots=True)
class EndHold:
    """End a hold before its time: its release cannot be rolled back any more. One a collection that loses something, or one of none.

    ``changes`` are drops; ``shards`` are deleted, unless they were adopted.
    """

    kind: ClassVar[str] = "end_hold"
    generation: Generation
    collection: CollectionName | None = None
    changes: tuple[DropColumn, ...] = ()
    shards: tuple[ShardId, ...] = ()


@dataclass(frozen=True, slots=True)
class FillInput:
    """A collection that a fill reads, with a SELECT list. The list shows its table in the shape the query was written for."""

    collection: CollectionName
    projection: str


@dataclass(frozen=True, slots=True)
class Build:
    """Before promotion: make a shard under (collection, version, generation), filled by ``fill`` or empty. It replaces the collection's, if
    there is one."""

    kind: ClassVar[str] = "build"
    changes: ClassVar[tuple[Change, ...]] = ()
    collection: CollectionName
    declaration: Declaration
    fill: str | None = None
    inputs: tuple[FillInput, ...] = ()
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """Before promotion: make the shard of a rewrite, copy into it through ``up``, and follow the old one until the cut-over.

    ``up`` sees ``{source}`` as ``projection`` shows it; ``down`` (None: there is no way back for rows, ``no_way_back`` says why) sees
    ``{collection}`` as declared, and gives the columns of the old one. ``lookups`` are read at one version and not followed.
    """

    kind: ClassVar[str] = "copy"
    changes: ClassVar[tuple[Change, ...]] = ()
    collection: CollectionName
    source: CollectionName
    declaration: Declaration
    up: str
    down: str | None
    projection: str
    lookups: tuple[FillInput, ...] = ()
    any_cardinality: bool = False
    no_way_back: str | None = None
    #: Old columns that ``down`` can give as NULL only.
    lost_on_way_back: tuple[ColumnPath, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateShard:
    """An empty table for a new collection; nobody sees it before the commit."""

    kind: ClassVar[str] = "create"
    changes: ClassVar[tuple[Change, ...]] = ()
    collection: CollectionName
    declaration: Declaration


@dataclass(frozen=True, slots=True)
class Expand:
    """One metadata commit with everything that readers and writers of the source release do not notice."""

    kind: ClassVar[str] = "expand"
    collection: CollectionName
    #: What the table is called before.
    source: CollectionName
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Online:
    """Changes that rows have to be looked at or written for, while others read and write: each to PUBLIC before the cut-over;
    columns that change places, and rules over them, by it."""

    kind: ClassVar[str] = "change"
    collection: CollectionName
    #: What the table is called before.
    source: CollectionName
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Seal:
    """No write enters the shard any more: it is replaced or removed by the commit."""

    kind: ClassVar[str] = "seal"
    changes: ClassVar[tuple[Change, ...]] = ()
    collection: CollectionName


@dataclass(frozen=True, slots=True)
class CutOver:
    """One metadata commit with the renames and the order of the target release, in which columns of another type take their places."""

    kind: ClassVar[str] = "cutover"
    collection: CollectionName
    #: What the table is called before.
    source: CollectionName
    changes: tuple[Change, ...]
    #: The columns that do, by their names before it.
    swaps: tuple[ColumnPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """ONE ledger append: objects, fingerprints and the version flip together."""

    kind: ClassVar[str] = "commit"
    collection: ClassVar[None] = None
    changes: ClassVar[tuple[Change, ...]] = ()
    source: Version | None
    target: Version
    #: Declarations that differ only in comments or order: recorded, no table is touched for them.
    restated: tuple[Declaration, ...] = ()


@dataclass(frozen=True, slots=True)
class Contract:
    """When the hold is over: drop what the release dropped, in one metadata commit."""

    kind: ClassVar[str] = "contract"
    collection: CollectionName
    #: What the table is called before.
    source: CollectionName
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Retire:
    """When the hold is over: delete the replaced or removed shard's files (never those of an adopted table)."""

    kind: ClassVar[str] = "retire"
    changes: ClassVar[tuple[Change, ...]] = ()
    collection: CollectionName


#: What a phase of an evolution is.
EvolutionStage = Expand | Online | CutOver | Contract
Stage = Settle | EndHold | Build | Copy | CreateShard | Expand | Online | Seal | CutOver | Commit | Contract | Retire
union({stage.kind: stage for stage in get_args(Stage)})

#: Kinds a plan lists, in the order they run.
PLAN_KINDS = ("settle", "end_hold", "build", "copy", "create", "expand", "change", "seal", "cutover", "commit", "contract", "retire")
#: Kinds that only a run reports: refilling, following and checking a copy, work of online changes, cleanup, the steps of a rollback.
RUN_KINDS = ("fill", "tail", "digest", "validate", "backfill", "cluster", "cleanup", "revert", "unseal", "undo", "rollback", "compact")
STAGE_KINDS = PLAN_KINDS + RUN_KINDS
