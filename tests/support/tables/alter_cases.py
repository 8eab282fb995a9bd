"""Delta's checks of what is written as a table's metadata, case by case, each as Spark's statement and as a change of ours.

The list follows what Delta 4.4 looks at when metadata is written (``OptimisticTransaction.updateMetadata`` and ``assertMetadata``, ALTER
and CREATE commands, ``DeltaConfigs``, ``CDCReader.checkMetadataChange``, ``DeltaColumnMapping``, ``StatisticsCollection``, row tracking,
clustering, identity and generated columns). What each said is in ``tests/unit/delta/metadata/alter_verdicts.txt``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.model import Array, Check, Field, Map, Primitive, Struct
from tests.support.tables.alters import (
    BIGINT,
    DEFAULTS,
    FEED,
    FILES,
    FIVE,
    ID,
    INT,
    LOG,
    MANIFEST,
    MANIFEST_KEY,
    NESTED,
    PAIR,
    PART,
    ROW_IDS,
    STATS,
    STRING,
    VECTORS,
    VECTORS_KEY,
    WIDE,
    Altered,
    Base,
    Cases,
    Created,
    N,
    adding,
    checking,
    clustering,
    column,
    defaulting,
    dropping,
    renaming,
    retyping,
    setting,
)
from tests.unit.delta.tables import path


def cases() -> Iterator[Altered | Created]:
    found = Cases()
    for part in (_feed, _pairs, _names, _statistics, _columns, _types, _generated, _drops_and_renames, _properties, _clustering, _created):
        part(found)
    names = [case.name for case in found.found]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    return iter(found.found)


def _feed(to: Cases) -> None:
    for name in ("_change_type", "_commit_version", "_commit_timestamp", "_Change_Type", "__is_cdc"):
        to.alter(f"feed on over {name}", Base((ID, column(name))), setting(("delta.enableChangeDataFeed", "true")))
        to.alter(f"add {name} under the feed", Base(properties=FEED), adding(name))
        to.alter(f"rename to {name} under the feed", Base(properties=FEED), renaming("n", name))
        to.alter(f"add s.{name} under the feed", Base(NESTED, FEED), adding(name, parent="s"))
        to.alter(f"add {name} without the feed", Base(), adding(name))
    legacy = Base(properties={"delta.enableChangeDataCapture": "true"}, features=frozenset({"changeDataFeed"}))
    to.alter("add _change_type under the feed's old property", legacy, adding("_change_type"))


def _pairs(to: Cases) -> None:
    to.alter("deletion vectors on under a manifest", Base(properties=MANIFEST), setting((VECTORS_KEY, "true")))
    to.alter("manifest on under deletion vectors", Base(properties=VECTORS), setting((MANIFEST_KEY, "true")))
    to.alter("manifest on where deletion vectors were", Base(features=frozenset({"deletionVectors"})), setting((MANIFEST_KEY, "true")))
    to.alter("any property where both are on", Base(properties={**MANIFEST, **VECTORS}), setting(("user.x", "1")))
    to.alter("rename under a manifest", Base(properties=MANIFEST), renaming("n", "m"))
    to.alter(
        "add the name of the row ids", Base(properties=ROW_IDS, features=frozenset({"rowTracking", "domainMetadata"})), adding("_row-id-x")
    )
    rows = Base(properties=ROW_IDS, features=frozenset({"rowTracking", "domainMetadata"}))
    to.alter("rename to the name of the row versions", rows, renaming("n", "_row-version-x"))
    to.alter("add under row tracking", rows, adding("z"))
    suspended = Base(properties={**ROW_IDS, "delta.rowTrackingSuspended": "true"}, features=rows.features)
    to.alter("add under row tracking that is on and suspended", suspended, adding("z"))
    left = Base(metadata={"n": {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-x"}})
    to.alter("rename where a mapping was left", left, renaming("n", "m"))
    to.alter("property where a mapping was left", left, setting(("user.x", "1")))


def _names(to: Cases) -> None:
    for character in " ,;{}()\n\t=":
        to.alter(f"add a{character!r}b", Base(), adding(f"a{character}b"))
    for name in ("a`b", "a/b", 'a"b', "a:b"):
        to.alter(f"add {name}", Base(), adding(name))
    to.alter("add s.`x y`", Base(NESTED), adding("x y", parent="s"))
    to.alter("add a struct with `x y`", Base(), adding("q", Struct((column("x y"),))))
    to.alter("rename to `a b`", Base(), renaming("n", "a b"))
    to.alter("add a name in another case", Base(), adding("N"))
    to.alter("rename to another's name in another case", Base((ID, N, column("m"))), renaming("n", "M"))
    to.alter("rename to its own name in another case", Base(), renaming("n", "N"))
    to.alter("check of the reserved name", Base(), checking("__CHAR_VARCHAR_STRING_LENGTH_CHECK__", "n > 0"))
    to.alter("check of a name that is there", Base(checks=(Check("c", "n > 0"),)), checking("C", "n > 1"))


def _statistics(to: Cases) -> None:
    touch = setting(("user.x", "1"))
    to.alter("stats columns: drop one", Base(properties={STATS: "id,n"}), dropping("n"))
    to.alter("stats columns: rename one", Base(properties={STATS: "id,n"}), renaming("n", "a-b"))
    to.alter("stats columns: widen one", Base(properties={STATS: "id,n"}), retyping("n", "int", "bigint"))
    for text in ("zz", "id,id", "ID"):
        to.alter(f"stats columns: {text}", Base(properties={STATS: text}), touch)
    to.alter("stats columns: of the partition", Base((ID, PART), {STATS: "p"}, ("p",)), touch)
    for name, kind in (("boolean", Primitive("boolean")), ("array", Array(INT)), ("struct", PAIR)):
        to.alter(f"stats columns: of type {name}", Base((ID, column("f", kind)), {STATS: "f"}), touch)
    flag = Struct((column("f", "boolean"),))
    for text in ("s", "s.f"):
        to.alter(f"stats columns: {text} of a struct with a BOOLEAN", Base((ID, column("s", flag)), {STATS: text}), touch)
    to.alter("stats columns: a struct and its field", Base(NESTED, {STATS: "s,s.a"}), touch)
    to.alter("stats columns: inside an array", Base((ID, column("f", Array(PAIR))), {STATS: "f.a"}), touch)


def _columns(to: Cases) -> None:
    inner = Struct((column("a", INT, nullable=False),))
    to.alter("add NOT NULL", Base(), adding("x", nullable=False))
    to.alter("add a struct with NOT NULL inside", Base(), adding("x", inner))
    to.alter("add an array with NOT NULL inside", Base(), adding("x", Array(inner)))
    to.alter("set NOT NULL", Base(), (["ALTER COLUMN n SET NOT NULL"], [c.SetNotNull(path("n"))]))
    to.alter("drop NOT NULL", Base((ID, column("n", INT, nullable=False))), (["ALTER COLUMN n DROP NOT NULL"], [c.Relax(path("n"))]))
    to.alter("default", Base(), defaulting("n", "7"))
    to.alter("default of the partition", Base((ID, PART), partitioned_by=("p",)), defaulting("p", "'x'"))
    add = c.AddColumn(path("z"), column("z", INT, default="7"))
    to.alter("add with a default", Base(), ([DEFAULTS, "ADD COLUMN z INT DEFAULT 7"], [add]))
    for kind in ("interval day", "time(6)", "void", "variant", "timestamp_ntz", "string collate UTF8_LCASE"):
        to.alter(f"add of type {kind}", Base(), ([f"ADD COLUMN x {kind}"], [c.AddColumn(path("x"), column("x", kind))]))


def _types(to: Cases) -> None:
    pairs = """tinyint>int smallint>bigint int>bigint float>double int>double bigint>double date>timestamp_ntz date>timestamp
        timestamp_ntz>timestamp timestamp>timestamp_ntz int>decimal(10,0) int>decimal(9,0) tinyint>decimal(5,0) bigint>decimal(20,0)
        bigint>decimal(19,0) decimal(10,2)>decimal(12,3) decimal(10,2)>decimal(11,3) decimal(10,2)>decimal(10,3) varchar(5)>varchar(9)
        varchar(9)>varchar(5) varchar(5)>string string>varchar(5) int>string bigint>int binary>string float>decimal(20,5) int>float"""
    for pair in pairs.split():
        old, new = pair.split(">")
        to.alter(f"{old} to {new}", Base((ID, column("x", old))), retyping("x", old, new))
    for where, base, name in (
        ("partition", Base((ID, column("x", INT)), partitioned_by=("x",)), "x"),
        ("clustering column", Base((ID, column("x", INT)), clustered_by=("x",)), "x"),
        ("element", Base((ID, column("x", Array(INT)))), "x.element"),
        ("map's key", Base((ID, column("x", Map(INT, INT)))), "x.key"),
        ("struct's field", Base(NESTED), "s.a"),
        ("column under a CHECK", Base((ID, column("x", INT)), checks=(Check("c", "x > 0"),)), "x"),
    ):
        to.alter(f"int to bigint: {where}", base, retyping(name, "int", "bigint"))


def _generated(to: Cases) -> None:
    def generated(kind: str) -> Base:
        return Base((column("id", kind), N, column("g", kind)), metadata={"g": {"delta.generationExpression": "id + 1"}})

    start = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}

    def identity(*fields: Field) -> Base:
        return Base(fields, metadata={"id": start})

    to.alter("generated: source's type", generated("int"), retyping("id", "int", "bigint"))
    to.alter("generated: own type", generated("int"), retyping("g", "int", "bigint"))
    to.alter("generated: drop source", generated("bigint"), dropping("id"))
    to.alter("generated: rename source", generated("bigint"), renaming("id", "i2"))
    to.alter("generated: drop", generated("bigint"), dropping("g"))
    to.alter("generated: rename", generated("bigint"), renaming("g", "g2"))
    to.alter("identity: default", identity(ID, N), defaulting("id", "7"))
    to.alter("identity: rename", identity(ID, N), renaming("id", "i2"))
    to.alter("identity: drop", identity(ID, N), dropping("id"))
    to.alter("identity: comment", identity(ID, N), (["ALTER COLUMN id COMMENT 'x'"], [c.SetComment(path("id"), None, "x")]))
    to.alter("identity: type", identity(column("id", INT), N), retyping("id", "int", "bigint"))
    strict = identity(column("id", BIGINT, nullable=False), N)
    to.alter("identity: drop NOT NULL", strict, (["ALTER COLUMN id DROP NOT NULL"], [c.Relax(path("id"))]))


def _drops_and_renames(to: Cases) -> None:
    parted, clustered = Base((ID, PART), partitioned_by=("p",)), Base((ID, PART), clustered_by=("p",))
    checked = Base(checks=(Check("c", "n > 0"),))
    to.alter("drop the only column", Base((ID,)), dropping("id"))
    to.alter("drop the partition", parted, dropping("p"))
    to.alter("drop all but the partition", parted, dropping("id"))
    to.alter("drop the clustering column", clustered, dropping("p"))
    to.alter("drop the struct of the clustering column", Base(NESTED, clustered_by=("s.a",)), dropping("s"))
    to.alter("drop the only field", Base((ID, column("s", Struct((column("a", INT),))))), dropping("s.a"))
    to.alter("drop under a CHECK", checked, dropping("n"))
    to.alter("drop inside an array", Base((ID, column("x", Array(PAIR)))), dropping("x.element.a"))
    to.alter("rename under a CHECK", checked, renaming("n", "m"))
    to.alter("rename inside a map", Base((ID, column("x", Map(STRING, PAIR)))), renaming("x.value.a", "q"))
    to.alter("rename the partition", parted, renaming("p", "q"))
    to.alter("rename the clustering column", clustered, renaming("p", "q"))


_VALUES = {
    "delta.autoOptimize": ("true", "TRUE", " true", "yes", ""),
    "delta.autoOptimize.autoCompact": ("true", "auto", "legacy", "Enabled", " true"),
    "delta.autoOptimize.optimizeWrite": ("true", "yes"),
    "delta.checkpoint.writeStatsAsJson": ("false", "no"),
    "delta.checkpoint.writeStatsAsStruct": ("false", "no"),
    "delta.checkpointInterval": ("10", "010", "0", "-1", " 10", "999999999", "9999999999", "+5"),
    "delta.checkpointRetentionDuration": (
        *("interval 2 days", "2 days", "2 DAYS", "2 weeks", "1 month", "1 year", "-1 days", "2.5 days", "1.5 seconds", "1 day 3 hours"),
        *("interval  2  days", " 2 days ", "0 days", "2 microseconds", "9223372036854775807 days", "999999999999 weeks", "x"),
    ),
    "delta.checkpointPolicy": ("classic", "v2", "V2"),
    "delta.dataSkippingNumIndexedCols": ("-1", "-2", "0", "32", "5 ", "99999999999"),
    "delta.dataSkippingStringPrefixLength": ("0", "-1", " 1"),
    "delta.enableChangeDataFeed": ("true", " true", "yes"),
    "delta.enableDeletionVectors": ("true", " true", "yes"),
    "delta.enableExpiredLogCleanup": ("false", "no"),
    "delta.enableFullRetentionRollback": ("false", "no"),
    "delta.isolationLevel": ("Serializable", "serializable", "WriteSerializable"),
    "delta.parquet.compression.codec": ("zstd",),
    "delta.randomizeFilePrefixes": ("true", "x"),
    "delta.randomPrefixLength": ("2", "0"),
    "delta.sampleRetentionDuration": ("7 days",),
    "delta.targetFileSize": ("100mb",),
    "delta.tuneFileSizesForRewrites": ("true",),
    "delta.universalformat.config.iceberg.x": ("y",),
    "delta.foo": ("x",),
    "Delta.appendOnly": ("true",),
    LOG: ("60 days", "7 days", "3 days", "6 days 23 hours"),
    FILES: ("3 days", "30 days", "31 days", "720 hours"),
    "clusteringColumns": ('[["n"]]',),
    "collation": ("UTF8_BINARY",),
    "comment": ("x",),
    "external": ("true",),
    "is_managed_location": ("true",),
    "location": ("x",),
    "owner": ("x",),
    "provider": ("x",),
    "table_type": ("x",),
    "x": ("y",),
}


def _properties(to: Cases) -> None:
    for key, values in _VALUES.items():
        for value in values:
            to.alter(f"{key} = {value!r}", Base(), setting((key, value)))
    to.alter("log 60 days, files 40 at once", Base(), setting((LOG, "60 days"), (FILES, "40 days")))
    to.alter("log 40 days, files 60 at once", Base(), setting((LOG, "40 days"), (FILES, "60 days")))
    to.alter("files 40 days where the log has 60", Base(properties={LOG: "60 days"}), setting((FILES, "40 days")))
    unset = ([f"UNSET TBLPROPERTIES ('{LOG}')"], [c.SetProperty(LOG, "60 days", None)])
    to.alter("log back to 30 days where files have 40", Base(properties={LOG: "60 days", FILES: "40 days"}), unset)


def _clustering(to: Cases) -> None:
    to.alter("cluster by 4", Base(FIVE), clustering("a", "b", "c", "d"))
    to.alter("cluster by 5", Base(FIVE), clustering("a", "b", "c", "d", "e"))
    to.alter("cluster by one twice", Base(FIVE), clustering("a", "a"))
    for kind in ("boolean", "binary", "date", "timestamp", "timestamp_ntz", "decimal(10,2)", "string", "double", "varchar(5)", "variant"):
        to.alter(f"cluster by {kind}", Base((ID, column("x", kind))), clustering("x"))
    for name, shape in (("array", Array(INT)), ("map", Map(INT, INT)), ("struct", PAIR)):
        to.alter(f"cluster by {name}", Base((ID, column("x", shape))), clustering("x"))
    to.alter("cluster by a field", Base(NESTED), clustering("s.a"))
    to.alter("cluster by the 33rd column", Base(WIDE), clustering("c33"))
    to.alter("cluster without statistics", Base(properties={"delta.dataSkippingNumIndexedCols": "0"}), clustering("n"))
    to.alter("cluster beside the stats columns", Base(properties={STATS: "id"}), clustering("n"))
    to.alter("cluster what is partitioned", Base((ID, PART), partitioned_by=("p",)), clustering("id"))
    fewer = setting(("delta.dataSkippingNumIndexedCols", "2"))
    to.alter("fewer statistics than clustering columns", Base(FIVE, clustered_by=("e",)), fewer)


def _created(to: Cases) -> None:
    a, b = column("a", INT), column("b")
    to.create("plain", a, b)
    to.create("partitioned by all", a, b, partitioned_by=("a", "b"))
    to.create("partitioned by its only column", a, partitioned_by=("a",))
    to.create("partitioned by one twice", a, b, partitioned_by=("a", "a"))
    to.create("partitioned in another case", a, b, partitioned_by=("A",))
    to.create("partitioned by what is not there", a, b, partitioned_by=("z",))
    for kind in ["boolean", "binary", "float", "double", "decimal(10,2)", "date", "timestamp", "variant", "varchar(5)", "tinyint"]:
        to.create(f"partitioned by {kind}", a, column("x", kind), partitioned_by=("x",))
    for name, shape in (("array", Array(INT)), ("map", Map(INT, INT)), ("struct", PAIR)):
        to.create(f"partitioned by {name}", a, column("x", shape), partitioned_by=("x",))
        to.create(f"clustered by {name}", a, column("x", shape), clustered_by=("x",))
    to.create("partitioned by a field", a, column("s", PAIR), partitioned_by=("s.a",))
    to.create("clustered by a field", a, column("s", PAIR), clustered_by=("s.a",))
    to.create("clustered by 5", *FIVE, clustered_by=tuple("abcde"))
    to.create("clustered by one twice", a, b, clustered_by=("a", "a"))
    to.create("clustered by what is not there", a, b, clustered_by=("z",))
    to.create("clustered and partitioned", a, b, partitioned_by=("b",), clustered_by=("a",))
    to.create("clustered by the 33rd column", *WIDE, clustered_by=("c33",))
    to.create("clustered without statistics", a, b, clustered_by=("a",), properties=(("delta.dataSkippingNumIndexedCols", "0"),))
    for kind in ("boolean", "binary", "variant", "date"):
        to.create(f"clustered by {kind}", a, column("x", kind), clustered_by=("x",))
    for name in ("_change_type", "_commit_version", "_commit_timestamp", "__is_cdc"):
        to.create(f"feed and {name}", a, column(name), properties=tuple(FEED.items()))
    to.create("deletion vectors and a manifest", a, properties=(*VECTORS.items(), *MANIFEST.items()))
    to.create("`x y`", a, column("x y"))
    to.create("`x y` in a struct", a, column("s", Struct((column("x y"),))))
    to.create("two names", a, column("A"))
    to.create("two names in a struct", a, column("s", Struct((column("b"), column("B")))))
    inner = Struct((column("b", INT, nullable=False),))
    to.create("NOT NULL in an array", a, column("s", Array(inner)))
    to.create("NOT NULL in a struct", a, column("s", inner))
    for key, value in ((LOG, "3 days"), (FILES, "60 days"), ("delta.checkpointInterval", " 10"), *_reserved()):
        to.create(f"{key} = {value!r}", a, properties=((key, value),))


def _reserved() -> Iterable[tuple[str, str]]:
    keys = ("clusteringColumns", "comment", "external", "is_managed_location", "location", "owner", "provider", "delta.targetFileSize")
    return [(key, _VALUES[key][0]) for key in keys]
