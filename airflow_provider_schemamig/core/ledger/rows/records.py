"""The ledger's typed rows: one frozen dataclass a collection of the ledger.

A row knows its ledger collection (``COLLECTION``) and its ``key``; ``ledger.codec`` turns it into canonical JSON and back. This is the
newest format: after every change ``format/objects_v1.py`` is written anew (docs/ledger-format.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

import pendulum

from airflow_provider_schemamig.core.ledger.rows.controls import Control, Pin, Progress, Use
from airflow_provider_schemamig.core.ledger.rows.holds import Hold
from airflow_provider_schemamig.core.ledger.rows.intents import Intent
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Fingerprint, Generation, SchemaId, ShardId, Version
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage.own_places import is_shard_folder

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """Who the environment is, and the format its ledger is written in."""

    COLLECTION: ClassVar[str] = "config"
    env_id: str
    format_version: int
    created_at: pendulum.DateTime
    key: ClassVar[str] = "environment"


@dataclass(frozen=True, slots=True)
class EnvironmentRelease:
    """The release the environment is at; flipped by the one append of a commit."""

    COLLECTION: ClassVar[str] = "config"
    name: str
    version: Version
    fingerprint: Fingerprint
    #: The versions that deployments led through, each with the digest of its steps (``release.steps.digest_of``).
    steps: tuple[tuple[Version, str], ...] = ()
    key: ClassVar[str] = "release"

    def is_same(self, other: EnvironmentRelease | None) -> bool:
        """Return whether both declare the same, whatever led there."""
        return other is not None and replace(self, steps=()) == replace(other, steps=())


@dataclass(frozen=True, slots=True)
class LedgerSince:
    """Where the ledger's own history begins: what is older was consolidated away, as-of below it is refused."""

    COLLECTION: ClassVar[str] = "config"
    since: int
    key: ClassVar[str] = "since"


@dataclass(frozen=True, slots=True)
class GivenOut:
    """Generations and epochs up to these count as given out: a lost history may have given them to processes that still run.

    ``by_hand``: generations whose holds only a person ends, as the lost history may have rolled them back.
    """

    COLLECTION: ClassVar[str] = "config"
    generation: Generation
    epoch: Epoch
    by_hand: tuple[Generation, ...] = ()
    key: ClassVar[str] = "given_out"


@dataclass(frozen=True, slots=True)
class Leader:
    COLLECTION: ClassVar[str] = "leader"
    generation: Generation
    epoch: Epoch
    since: pendulum.DateTime
    key: ClassVar[str] = "leader"


class DeploymentState(StrEnum):
    CLAIMED = "claimed"
    PROMOTED = "promoted"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A person's no to the plan of a generation; ``why``: None where nobody asked for a reason. ``met``: a gate has ended by it, so that
    one which asks again was told to by a person."""

    by: str
    at: pendulum.DateTime
    why: str | None = None
    met: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """One attempt to take the environment to a release. The plan itself lies at ``_schemamig/plans/<plan_digest>.json``."""

    COLLECTION: ClassVar[str] = "deploys"
    generation: Generation
    claim_id: str
    source: Version | None
    target: Version
    plan_digest: str
    state: DeploymentState
    created_at: pendulum.DateTime
    hold_seconds: int
    #: Holds that its plan lists are ended before their time.
    end_hold: bool = False
    #: The same although live nodes work with a release before theirs.
    ignore_nodes: bool = False
    #: The claims of the rollbacks that took it back, or have begun to: another one may go on where one was killed.
    rolled_back_by: tuple[str, ...] = ()
    #: A rollback of it has begun before its commit: none of its tasks runs, unless it is promoted again.
    rolling_back: bool = False
    #: In whose name it was promoted (who approved it, where somebody did), and by which version of schemamig.
    promoted_by: str | None = None
    promoted_with: str | None = None
    #: The bundle of DAG files, with its version where it has one, whose run did it; None outside of Airflow.
    promoted_from: str | None = None
    #: Nobody promotes it unless the gate asks anew and gets a yes.
    rejected: Rejection | None = None
    #: In whose name a person cancelled it; None also where a cleanup did, or a claim of another plan.
    cancelled_by: str | None = None

    @property
    def key(self) -> str:
        return str(self.generation)

    @property
    def may_be_promoted(self) -> bool:
        """Return whether it is claimed, and nobody has rejected its plan."""
        return self.state is DeploymentState.CLAIMED and self.rejected is None


@dataclass(frozen=True, slots=True)
class BuildingShard:
    """The migration shard: (collection, version, generation) -> shard. ``fill_inputs``: input shard -> table version read.

    ``attempt``: how many shards a copy gave up for this one. ``fill_number``: of the last fill's transaction; one that is repeated has it,
    too.
    """

    COLLECTION: ClassVar[str] = "replacements"
    collection: CollectionName
    version: Version
    generation: Generation
    shard: ShardId
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
    generation: Generation
    plan_digest: str
    approved_by: str
    approved_at: pendulum.DateTime

    @property
    def key(self) -> str:
        return str(self.generation)


@dataclass(frozen=True, slots=True)
class Object:
    """The shard of a collection's rows, and their schema."""

    COLLECTION: ClassVar[str] = "objects"
    collection: CollectionName
    shard: ShardId
    schema_id: SchemaId
    fingerprint: Fingerprint

    @property
    def key(self) -> str:
        return self.collection


class ShardState(StrEnum):
    BUILDING = "building"
    LIVE = "live"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Shard:
    """A physical Delta table. ``uri`` is relative to the environment's root unless the table was adopted from elsewhere."""

    COLLECTION: ClassVar[str] = "shards"
    shard: ShardId
    collection: CollectionName
    uri: str
    #: Delta's id of the table: every version in the ledger is one of the table with this id, not of another one made in its place.
    table_id: str
    generation: Generation
    state: ShardState
    adopted: bool = False
    #: The generation whose commit (or rollback) retired it; its contract removes the files.
    retired_by: Generation | None = None
    #: Of a retired one: the shard that has its collection's rows since; None: none has, the collection was removed.
    successor: ShardId | None = None
    #: The table version that retired it: a later one means that somebody got through the seal (RESTORE does).
    sealed_version: int | None = None
    #: The epoch whose fence was put on the table: statements of older ones may still be on their way to it.
    fenced_by: Epoch | None = None

    @property
    def key(self) -> str:
        return self.shard

    @property
    def is_at_own_place(self) -> bool:
        """Return whether it lies in the folder that we made for this very shard."""
        return is_shard_folder(self.uri, self.shard)


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema a shard has or had. ``declared``: what the release says; ``physical``: what the table has (hidden columns included)."""

    COLLECTION: ClassVar[str] = "schemas"
    collection: CollectionName
    schema_id: SchemaId
    shard: ShardId
    declared: Declaration
    physical: Declaration
    since_table_version: int
    #: The release that declared it; None for a schema from outside of a release.
    release: Version | None
    #: Fields of ``physical`` that have another name in the data files (column mapping): path -> that name. It is what a field is known by
    #: for ever, so a reader of this release finds it under any later name, and never takes another field of the same name for it.
    stored_names: tuple[tuple[ColumnPath, str], ...]
    #: Of columns of ``physical``: what rows got then is theirs, whatever an upgrade after the rollback fills (``online.unfilled``).
    uses: tuple[Use, ...] = ()
    #: The deployment that brought its release, where a rollback took that back: no release after it stands on this schema. A number may
    #: have been rolled back more than once, with another schema each time.
    rolled_back: Generation | None = None

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.schema_id}"

    def may_precede(self, other: SchemaEntry) -> bool:
        """Return whether the table may have had this schema before the ``other``.

        Ids count within one name of a collection, and renaming one needs no commit to its table.
        """
        at, other_at = self.since_table_version, other.since_table_version
        if at != other_at:
            return at < other_at
        return self.collection != other.collection or self.schema_id < other.schema_id

    def stored_name(self, column: str) -> str:
        """Return what the data files call a top-level column."""
        return dict(self.stored_names).get(ColumnPath(column), column)


def oldest_first(entries: Iterable[SchemaEntry], named: Mapping[ShardId, CollectionName]) -> list[SchemaEntry]:
    """Return schemas by the version of their table that began them. ``named``: what the collection of a table is called now.

    At one version those under another name come first, by the first release that had it: renaming a collection needs no commit.
    """
    known = list(entries)
    first: dict[tuple[ShardId, CollectionName], Version] = {}
    for entry in known:
        if entry.release is not None:
            first[entry.shard, entry.collection] = min(entry.release, first.get((entry.shard, entry.collection), entry.release))

    def place(entry: SchemaEntry) -> tuple[int, bool, bool, Version, SchemaId]:
        began = first.get((entry.shard, entry.collection))
        is_newest = named.get(entry.shard) == entry.collection
        return entry.since_table_version, is_newest, began is None, began or Version(0, 0, 0), entry.schema_id

    return sorted(known, key=place)


@dataclass(frozen=True, slots=True)
class UnreleasedChange:
    """A schema that a collection got outside of a release: the next release has to contain it.

    A declaration without columns is no table: ``released`` of a collection that was created outside of a release, ``declared`` of one that
    was dropped. The released one's name is the release's, so a renamed collection has two.

    Written before the table is touched, so that whoever finds it can finish it: until ``schemas`` has an entry of this id it is a claim,
    void once ``epoch`` is over. It is in force while the collection's object has this schema id; for a dropped collection, which has no
    object, until the next release's commit.
    """

    COLLECTION: ClassVar[str] = "ahead"
    collection: CollectionName
    schema_id: SchemaId
    epoch: Epoch
    declared: Declaration
    #: What the environment's release declares, and its fingerprint.
    released: Declaration
    released_fingerprint: Fingerprint

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.schema_id}"


@dataclass(frozen=True, slots=True)
class Element:
    """What an online change adds to, drops from or changes on a live table, with its state (``schema.element_states``)."""

    COLLECTION: ClassVar[str] = "elements"
    #: As the source release calls it.
    collection: CollectionName
    #: What it is: ``check:positive``, ``not_null:a.b``, ``column:c``, ``type:c``, ``unique:a,b``, ``primary_key``, ``foreign_key:a``,
    #: ``clustering``.
    name: str
    #: The first 16 hex digits of the sha256 of the change's canonical JSON, and its op (schema/changes.py).
    spec: str
    op: str
    state: ElementState
    #: False: on its way out.
    adding: bool
    shard: ShardId
    generation: Generation
    epoch: Epoch
    #: When the state was reached.
    since: pendulum.DateTime
    #: The metadata commit that made the state; None: it took none.
    table_version: int | None
    #: Rows up to this table version are known to be right: validated, or backfilled.
    checked_version: int | None
    #: Those of a key or foreign key, else what is concerned.
    columns: tuple[ColumnPath, ...]
    #: Foreign keys only.
    refers: CollectionName | None
    refers_columns: tuple[ColumnPath, ...]
    #: Why it went back.
    error: str | None

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.name}/{self.spec}"


#: The closed list of what is in this format.
ROW_TYPES: tuple[type[Any], ...] = (
    EnvironmentConfig, EnvironmentRelease, LedgerSince, GivenOut, Leader, Deployment, BuildingShard, Approval, Object, Shard, SchemaEntry,
    Intent, Hold, Control, Progress, Pin, UnreleasedChange, Element,
)  # fmt: skip

#: The same in every format: no step may touch them. The first five are readable before any migration; the
#: others are what else is written before promotion, while preflight builds and copies, so that newer software can prepare a release on an
#: older format and give it up again, and older software still works there.
FROZEN_COLLECTIONS = frozenset({"config", "leader", "deploys", "replacements", "approvals", "shards", "checkpoints", "pauses", "pins"})
