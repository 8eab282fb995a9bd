"""Delta's table features, one row each: what reads and writes a table with it, what it asks for, and what it forbids.

Everything that depends on a feature asks this table, and no other file of the product has a feature's name as text (a test). The list
is that of Delta 4.4 and a few names of before; a feature that is not in it is treated as one whose commits are ``UNKNOWN``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: Features that other files have to name.
ALLOW_COLUMN_DEFAULTS = "allowColumnDefaults"
GENERATED_COLUMNS = "generatedColumns"
CHECK_CONSTRAINTS = "checkConstraints"
CLUSTERING = "clustering"
COLUMN_MAPPING = "columnMapping"
INVARIANTS = "invariants"
ROW_TRACKING = "rowTracking"
TIMESTAMP_NTZ = "timestampNtz"
TYPE_WIDENING = "typeWidening"

#: Table properties that features are switched on by, or that do not stand beside one.
APPEND_ONLY = "delta.appendOnly"
CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
CHECKPOINT_POLICY = "delta.checkpointPolicy"
DELETION_VECTORS = "delta.enableDeletionVectors"
ENABLE_TYPE_WIDENING = "delta.enableTypeWidening"
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
MAPPING_MODE = "delta.columnMapping.mode"
ROW_IDS = "delta.enableRowTracking"
ROW_IDS_SUSPENDED = "delta.rowTrackingSuspended"
SYMLINK_MANIFEST = "delta.compatibility.symlinkFormatManifest.enabled"

#: Keys of a column's metadata that need a feature.
DEFAULT_KEY = "CURRENT_DEFAULT"
GENERATED = "delta.generationExpression"
IDENTITY = "delta.identity.start"
#: How far an identity column has counted. Each INSERT changes it, and no RESTORE takes it back.
IDENTITY_REACHED = "delta.identity.highWaterMark"
#: Of an identity column: whether a writer may give it values (BY DEFAULT) or not (ALWAYS).
IDENTITY_GIVEN = "delta.identity.allowExplicitInsert"
#: Keys of a column's metadata by which Delta computes its values.
COMPUTED_BY = frozenset({GENERATED, IDENTITY})
INVARIANT = "delta.invariants"
TYPE_CHANGES = "delta.typeChanges"

#: Metadata domains in which a feature keeps a state of its own.
CLUSTERING_DOMAIN = "delta.clustering"
ROW_IDS_DOMAIN = "delta.rowTracking"


class Commits(enum.Enum):
    """Who commits to a table with the feature."""

    #: We do, too: our commits keep what it asks of a writer.
    OURS = "schemamig"
    #: Not we: the table is adopted, read and watched, and refused for changes (``unsupported_feature``).
    UNKNOWN = "others"
    #: Its catalog alone: a file put into the log would not even be seen, so it is not read either (``catalog_managed``).
    CATALOG = "its catalog"


@dataclass(frozen=True, slots=True)
class ForbiddenBeside:
    """A property that may not be on while ``own`` is; ``reason`` ends a sentence, ``lost``: rows would be lost, so adopt refuses it too.

    ``had``: why it may not be switched on any more where the table has the feature, whatever ``own`` says by now.
    """

    own: str
    other: str
    reason: str
    lost: bool = False
    had: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFeature:
    """One feature. ``reader``, ``writer``: the lowest protocol versions that have it; reader 0: who only reads need not know it.

    ``called``: its name in words, ``requires``: features that come with it. Our commits add it with whatever needs it: ``properties``
    (key, value in lower case), any property that begins with ``property_prefix``, a key of a column's metadata, or a type.
    """

    name: str
    called: str
    reader: int = 0
    writer: int = 7
    commits: Commits = Commits.OURS
    requires: tuple[str, ...] = ()
    #: A name of before that stands for it in a protocol.
    preview: str | None = None

    # --- what needs it
    properties: tuple[tuple[str, str], ...] = ()
    property_prefix: str | None = None
    field_key: str | None = None
    type_name: str | None = None
    #: A declaration may have its property.
    declarable: bool = False
    domain: str | None = None

    # --- what it forbids
    forbids: tuple[ForbiddenBeside, ...] = ()
    #: Why a file cannot be written anew by Spark in a table without the feature, and moved over; None if it can.
    not_rewritten: str | None = None

    # --- who else reads and writes
    #: delta-rs' ``scan`` gives the rows that Spark gives.
    delta_rs_reads: bool = False
    #: delta-rs keeps its rules when it appends, and it is proven.
    delta_rs_appends: bool = False
    #: An append of whole rows keeps it, their NULLs counted, under the names that the files have.
    plain_append: bool = False
    #: Who loses access when it comes: the end of a lint's sentence.
    locks_out: str | None = None
    #: The same in a plan.
    switched_on: str | None = None

    @property
    def is_legacy(self) -> bool:
        """Return whether a protocol's numbers alone can say it."""
        return self.writer < FEATURE_WRITER


#: Protocol versions from which features are listed by name.
FEATURE_READER, FEATURE_WRITER = 3, 7

_ROWS = (
    TableFeature(
        name="appendOnly",
        called="append-only",
        writer=2,
        properties=((APPEND_ONLY, "true"),),
        delta_rs_reads=True,
        delta_rs_appends=True,
        plain_append=True,
    ),
    TableFeature(
        name=INVARIANTS,
        called="NOT NULL of columns",
        writer=2,
        field_key=INVARIANT,  # and every NOT NULL (``delta.features``)
        delta_rs_reads=True,
        delta_rs_appends=True,
        plain_append=True,
    ),
    TableFeature(
        name=CHECK_CONSTRAINTS,
        called="CHECKs",
        writer=3,
        property_prefix="delta.constraints.",
        delta_rs_reads=True,
        delta_rs_appends=True,
        plain_append=True,
    ),
    TableFeature(
        name="changeDataFeed",
        called="change data feed",
        writer=4,
        properties=((CHANGE_DATA_FEED, "true"),),
        declarable=True,
        delta_rs_reads=True,
        delta_rs_appends=True,
        plain_append=True,
    ),
    TableFeature(name=GENERATED_COLUMNS, called="generated columns", writer=4, field_key=GENERATED, delta_rs_reads=True),
    TableFeature(
        name=COLUMN_MAPPING,
        called="column mapping",
        reader=2,
        writer=5,
        properties=((MAPPING_MODE, "id"), (MAPPING_MODE, "name")),
        forbids=(
            ForbiddenBeside(
                MAPPING_MODE,
                SYMLINK_MANIFEST,
                f"{SYMLINK_MANIFEST} is on, and a manifest's readers know no column mapping, which renamed and dropped columns need",
            ),
        ),
        delta_rs_reads=True,  # it knows how to append, too; such tables are left to Spark until that is proven
        plain_append=True,
        locks_out="readers and writers below protocol (3,7) of Delta lose access, and so do streams that read it",
        switched_on="column mapping is switched on (protocol 3,7): older readers, and delta-rs' to_pandas/to_pyarrow, are refused from "
        "then on",
    ),
    TableFeature(name="identityColumns", called="identity columns", writer=6, field_key=IDENTITY, delta_rs_reads=True),
    TableFeature(
        name=ALLOW_COLUMN_DEFAULTS,
        called="defaults",
        field_key=DEFAULT_KEY,
        delta_rs_reads=True,
        plain_append=True,
        locks_out="writers without the feature allowColumnDefaults lose access",
        switched_on="column defaults are switched on: delta-rs cannot write the table any more",
    ),
    TableFeature(name="checkpointProtection", called="checkpoint protection", delta_rs_reads=True),
    TableFeature(
        name="deletionVectors",
        called="deletion vectors",
        reader=FEATURE_READER,
        properties=((DELETION_VECTORS, "true"),),
        declarable=True,
        forbids=(
            ForbiddenBeside(
                DELETION_VECTORS,
                SYMLINK_MANIFEST,
                f"{DELETION_VECTORS} and {SYMLINK_MANIFEST} are on, and a manifest's readers would see deleted rows",
                lost=True,
                had=f"{SYMLINK_MANIFEST} would be on, and some of its files may have deletion vectors",
            ),
        ),
        delta_rs_reads=True,
        delta_rs_appends=True,
        plain_append=True,
    ),
    TableFeature(name="domainMetadata", called="metadata domains", delta_rs_reads=True, plain_append=True),
    TableFeature(
        name=CLUSTERING,
        called="clustering",
        requires=("domainMetadata",),
        domain=CLUSTERING_DOMAIN,
        delta_rs_reads=True,
        plain_append=True,
        switched_on="clustering is switched on: delta-rs cannot write the table any more, also not after CLUSTER BY NONE",
    ),
    TableFeature(
        name="inCommitTimestamp",
        called="in-commit timestamps",
        properties=((IN_COMMIT_TIMESTAMPS, "true"),),
        delta_rs_reads=True,
        plain_append=True,
    ),
    TableFeature(
        name="materializePartitionColumns",
        called="partition columns in files",
        not_rewritten="its files must hold the partition columns too",
        delta_rs_reads=True,
    ),
    TableFeature(
        name=ROW_TRACKING,  # ROW_IDS does not bring it: rows that are there would need ids
        called="row tracking",
        requires=("domainMetadata",),
        domain=ROW_IDS_DOMAIN,
        forbids=(ForbiddenBeside(ROW_IDS, ROW_IDS_SUSPENDED, f"{ROW_IDS} and {ROW_IDS_SUSPENDED} are on"),),
        not_rewritten="its rows have ids that a rewritten file would have to carry on",
        delta_rs_reads=True,
    ),
    TableFeature(
        name=TIMESTAMP_NTZ,
        called="TIMESTAMP_NTZ",
        reader=FEATURE_READER,
        type_name="timestamp_ntz",
        delta_rs_reads=True,
        delta_rs_appends=True,
        plain_append=True,
        locks_out="readers and writers without the feature timestampNtz lose access",
    ),
    TableFeature(
        name=TYPE_WIDENING,
        called="type widening",
        reader=FEATURE_READER,
        preview="typeWidening-preview",
        properties=((ENABLE_TYPE_WIDENING, "true"),),
        field_key=TYPE_CHANGES,
        plain_append=True,
        locks_out="readers and writers without the feature typeWidening lose access",
        switched_on="type widening is switched on: delta-rs cannot read the table any more; the wider type stays",
    ),
    TableFeature(name="typeWidening-preview", called="type widening, preview", reader=FEATURE_READER),
    TableFeature(
        name="v2Checkpoint",
        called="V2 checkpoints",
        reader=FEATURE_READER,
        properties=((CHECKPOINT_POLICY, "v2"),),
        delta_rs_reads=True,
        delta_rs_appends=True,
        plain_append=True,
    ),
    TableFeature(name="vacuumProtocolCheck", called="VACUUM's check of the protocol", reader=FEATURE_READER),
    TableFeature(name="variantShredding", called="shredded variants", reader=FEATURE_READER, requires=("variantType",)),
    TableFeature(name="variantShredding-preview", called="shredded variants, preview", reader=FEATURE_READER),
    TableFeature(name="variantType", called="variants", reader=FEATURE_READER, preview="variantType-preview", type_name="variant"),
    TableFeature(name="variantType-preview", called="variants, preview", reader=FEATURE_READER),
    # --- by a catalog
    TableFeature(
        name="catalogManaged",
        called="commits by a catalog",
        reader=FEATURE_READER,
        commits=Commits.CATALOG,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
    ),
    TableFeature(name="catalogOwned-preview", called="commits by a catalog, preview", reader=FEATURE_READER, commits=Commits.CATALOG),
    TableFeature(name="catalog-owned-preview", called="commits by a catalog, preview", reader=FEATURE_READER, commits=Commits.CATALOG),
    TableFeature(
        name="coordinatedCommits-preview",
        called="commits by a coordinator, preview",
        commits=Commits.CATALOG,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
    ),
    # --- by others alone
    TableFeature(
        name="adaptiveMetadata-preview",
        called="adaptive metadata, preview",
        reader=FEATURE_READER,
        commits=Commits.UNKNOWN,
        requires=("catalogManaged", COLUMN_MAPPING, "deletionVectors", "domainMetadata", ROW_TRACKING),
    ),
    TableFeature(name="geospatial", called="geometries", reader=FEATURE_READER, commits=Commits.UNKNOWN),
    TableFeature(name="geospatial-dev", called="geometries, preview", reader=FEATURE_READER, commits=Commits.UNKNOWN),
    TableFeature(name="icebergCompatV1", called="Iceberg V1", commits=Commits.UNKNOWN, requires=(COLUMN_MAPPING,)),
    TableFeature(name="icebergCompatV2", called="Iceberg V2", commits=Commits.UNKNOWN, requires=(COLUMN_MAPPING,)),
    TableFeature(name="icebergCompatV3", called="Iceberg V3", commits=Commits.UNKNOWN, requires=(COLUMN_MAPPING, ROW_TRACKING)),
)

FEATURES: Mapping[str, TableFeature] = {row.name: row for row in _ROWS}


def named(rows: Iterable[TableFeature]) -> frozenset[str]:
    return frozenset(row.name for row in rows)


#: What Arrow handles read, and append to, without Spark.
DELTA_RS_READS = named(row for row in _ROWS if row.delta_rs_reads)
DELTA_RS_APPENDS = named(row for row in _ROWS if row.delta_rs_appends)
PLAIN_APPEND = named(row for row in _ROWS if row.plain_append)
#: Properties that a declaration may have although they bring a feature.
DECLARABLE = frozenset(key for row in _ROWS if row.declarable for key, _ in row.properties)


def with_required(name: str) -> frozenset[str]:
    """Return a feature with all the features that it requires, directly or through others."""
    return frozenset({name}).union(*(with_required(other) for other in FEATURES[name].requires))
