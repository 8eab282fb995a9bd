"""The ledger's rows in format 1.

Until a version of the package is published with it, what is below the line "rows" follows ``ledger/rows/``: it is written anew by
``python -m tests.unit.ledger.format.draft``. From then on it is frozen, and ``objects.lock`` guards this file (docs/ledger-format.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from airflow_provider_schemamig.core.jsonable import union

# --- declarations --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Primitive:
    name: str


@dataclass(frozen=True, slots=True)
class Array:
    element: DataType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Map:
    key: DataType
    value: DataType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...]


DataType = Primitive | Array | Map | Struct
union({"primitive": Primitive, "array": Array, "map": Map, "struct": Struct})


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: DataType
    nullable: bool = True
    default: str | None = None
    comment: str | None = None
    generated: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Key:
    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    columns: tuple[str, ...]
    references: str
    referenced_columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    name: str
    fields: tuple[Field, ...]
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    primary_key: Key | None = None
    uniques: tuple[Key, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None


class ElementState(StrEnum):
    ABSENT = "absent"
    CREATED = "created"
    CHECK = "check"
    DELETE = "delete"
    WRITE = "write"
    VALIDATE = "validate"
    REORG = "reorg"
    PUBLIC = "public"


# --- rows; times and versions are the text they are stored as ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Control:
    COLLECTION: ClassVar[str] = "pauses"
    scope: str
    paused: bool = False
    rows_per_second: int | None = None
    max_files: int | None = None
    commits_per_minute: int | None = None
    window: tuple[int, int] | None = None
    paused_by: str | None = None
    paused_at: str | None = None
    reason: str | None = None
    last_step: bool = False

    @property
    def key(self) -> str:
        return f"last_step/{self.scope}" if self.last_step else self.scope


@dataclass(frozen=True, slots=True)
class Progress:
    COLLECTION: ClassVar[str] = "checkpoints"
    collection: str
    generation: int
    stage: str
    unit: str
    done: int
    total: int
    rows: int
    started_at: str
    updated_at: str
    done_before: int = 0
    rows_before: int = 0

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.stage}/{self.generation}"


@dataclass(frozen=True, slots=True)
class Pin:
    COLLECTION: ClassVar[str] = "pins"
    shard: str
    holder: str
    hours: int
    properties: tuple[tuple[str, str | None], ...]
    asked: tuple[int, ...]
    pinned_by: str
    pinned_at: str
    given_up: bool

    @property
    def key(self) -> str:
        return f"{self.shard}/{self.holder}"


@dataclass(frozen=True, slots=True)
class Use:
    column: str
    after: int
    upto: int


class HoldState(StrEnum):
    OPEN = "open"
    ROLLING_BACK = "rolling_back"
    KEEPING = "keeping"
    CONTRACTING = "contracting"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class HeldTable:
    collection: str
    schema_id: int
    shard: str
    table_id: str
    before: int | None
    dropped: tuple[tuple[str, ...], ...] = ()
    retyped: tuple[tuple[str, ...], ...] = ()
    swapped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hold:
    COLLECTION: ClassVar[str] = "holds"
    generation: int
    source: str
    target: str
    until: str
    state: HoldState
    tables: tuple[HeldTable, ...] = ()
    restated: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> str:
        return str(self.generation)


class IntentKind(StrEnum):
    CREATE = "create"
    EVOLVE = "evolve"
    EXPAND = "expand"
    CHANGE = "change"
    SEAL = "seal"
    CUTOVER = "cutover"
    CONTRACT = "contract"
    ROLLBACK = "rollback"
    UNSEAL = "unseal"
    TAKE_BACK = "take_back"
    REVERT = "revert"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    COLLECTION: ClassVar[str] = "intents"
    collection: str
    shard: str
    generation: int
    epoch: int
    kind: IntentKind
    base_version: int
    done_version: int | None = None

    @property
    def key(self) -> str:
        return f"{self.shard}/{self.kind}/{self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIntent(Intent):
    after: Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionIntent(Intent):
    before: Declaration
    after: Declaration
    reached: Declaration | None = None
    renames: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapIntent(TransitionIntent):
    deadline: str
    is_given_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SealIntent(Intent):
    deadline: str
    is_given_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSwapIntent(Intent):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRevertIntent(Intent):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionIntent(Intent):
    pass


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


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    COLLECTION: ClassVar[str] = "config"
    env_id: str
    format_version: int
    created_at: str
    key: ClassVar[str] = "environment"


@dataclass(frozen=True, slots=True)
class EnvironmentRelease:
    COLLECTION: ClassVar[str] = "config"
    name: str
    version: str
    fingerprint: str
    steps: tuple[tuple[str, str], ...] = ()
    key: ClassVar[str] = "release"


@dataclass(frozen=True, slots=True)
class LedgerSince:
    COLLECTION: ClassVar[str] = "config"
    since: int
    key: ClassVar[str] = "since"


@dataclass(frozen=True, slots=True)
class GivenOut:
    COLLECTION: ClassVar[str] = "config"
    generation: int
    epoch: int
    by_hand: tuple[int, ...] = ()
    key: ClassVar[str] = "given_out"


@dataclass(frozen=True, slots=True)
class Leader:
    COLLECTION: ClassVar[str] = "leader"
    generation: int
    epoch: int
    since: str
    key: ClassVar[str] = "leader"


class DeploymentState(StrEnum):
    CLAIMED = "claimed"
    PROMOTED = "promoted"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Rejection:
    by: str
    at: str
    why: str | None = None
    met: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    COLLECTION: ClassVar[str] = "deploys"
    generation: int
    claim_id: str
    source: str | None
    target: str
    plan_digest: str
    state: DeploymentState
    created_at: str
    hold_seconds: int
    end_hold: bool = False
    ignore_nodes: bool = False
    rolled_back_by: tuple[str, ...] = ()
    rolling_back: bool = False
    promoted_by: str | None = None
    promoted_with: str | None = None
    promoted_from: str | None = None
    rejected: Rejection | None = None
    cancelled_by: str | None = None

    @property
    def key(self) -> str:
        return str(self.generation)


@dataclass(frozen=True, slots=True)
class BuildingShard:
    COLLECTION: ClassVar[str] = "replacements"
    collection: str
    version: str
    generation: int
    shard: str
    attempt: int = 0
    fill_number: int = 0
    fill_inputs: tuple[tuple[str, int], ...] = ()
    filled_rows: int | None = None

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.version}/{self.generation}"


@dataclass(frozen=True, slots=True)
class Approval:
    COLLECTION: ClassVar[str] = "approvals"
    generation: int
    plan_digest: str
    approved_by: str
    approved_at: str

    @property
    def key(self) -> str:
        return str(self.generation)


@dataclass(frozen=True, slots=True)
class Object:
    COLLECTION: ClassVar[str] = "objects"
    collection: str
    shard: str
    schema_id: int
    fingerprint: str

    @property
    def key(self) -> str:
        return self.collection


class ShardState(StrEnum):
    BUILDING = "building"
    LIVE = "live"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Shard:
    COLLECTION: ClassVar[str] = "shards"
    shard: str
    collection: str
    uri: str
    table_id: str
    generation: int
    state: ShardState
    adopted: bool = False
    retired_by: int | None = None
    successor: str | None = None
    sealed_version: int | None = None
    fenced_by: int | None = None

    @property
    def key(self) -> str:
        return self.shard


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    COLLECTION: ClassVar[str] = "schemas"
    collection: str
    schema_id: int
    shard: str
    declared: Declaration
    physical: Declaration
    since_table_version: int
    release: str | None
    stored_names: tuple[tuple[str, str], ...]
    uses: tuple[Use, ...] = ()
    rolled_back: int | None = None

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.schema_id}"


@dataclass(frozen=True, slots=True)
class UnreleasedChange:
    COLLECTION: ClassVar[str] = "ahead"
    collection: str
    schema_id: int
    epoch: int
    declared: Declaration
    released: Declaration
    released_fingerprint: str

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.schema_id}"


@dataclass(frozen=True, slots=True)
class Element:
    COLLECTION: ClassVar[str] = "elements"
    collection: str
    name: str
    spec: str
    op: str
    state: ElementState
    adding: bool
    shard: str
    generation: int
    epoch: int
    since: str
    table_version: int | None
    checked_version: int | None
    columns: tuple[str, ...]
    refers: str | None
    refers_columns: tuple[str, ...]
    error: str | None

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.name}/{self.spec}"


TYPES: tuple[type, ...] = (
    EnvironmentConfig,
    EnvironmentRelease,
    LedgerSince,
    GivenOut,
    Leader,
    Deployment,
    BuildingShard,
    Approval,
    Object,
    Shard,
    SchemaEntry,
    Intent,
    Hold,
    Control,
    Progress,
    Pin,
    UnreleasedChange,
    Element,
)
