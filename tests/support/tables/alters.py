"""One change of a table's metadata as an ALTER TABLE or CREATE TABLE of Spark and as a commit of ours (``alter_cases`` has the list)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_schemamig.core.delta.features import needed_features, with_features
from airflow_provider_schemamig.core.delta.metadata.clustering import FEATURES, Clustering, clustering_domain
from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.model import Array, Check, DataType, Declaration, Field, Primitive, Struct
from airflow_provider_schemamig.core.schema.sql import type_sql
from tests.unit.delta.tables import flights, path, raw

INT, STRING, BIGINT = Primitive("int"), Primitive("string"), Primitive("bigint")
#: Our commit does by itself what Spark asks for first.
MAP = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
WIDEN = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
DEFAULTS = "SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
FEED = {"delta.enableChangeDataFeed": "true"}
MANIFEST_KEY, VECTORS_KEY = "delta.compatibility.symlinkFormatManifest.enabled", "delta.enableDeletionVectors"
MANIFEST, VECTORS = {MANIFEST_KEY: "true"}, {VECTORS_KEY: "true"}
ROW_IDS = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-x",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-x",
}
LOG, FILES = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
STATS = "delta.dataSkippingStatsColumns"


def column(name: str, kind: DataType | str = STRING, **more: Any) -> Field:
    return Field(name, Primitive(kind) if isinstance(kind, str) else kind, **more)


ID, N, PART = column("id", BIGINT), column("n", INT), column("p")
PAIR = Struct((column("a", INT), column("b")))
NESTED = (ID, column("s", PAIR))
WIDE = tuple(column(f"c{number}", INT) for number in range(34))
FIVE = tuple(column(name, INT) for name in "abcde")


def type_text(kind: DataType) -> str:
    """With the NOT NULL of fields."""
    match kind:
        case Struct(fields=fields):
            inside = (f"{quote(f.name)}: {type_text(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in fields)
            return f"STRUCT<{', '.join(inside)}>"
        case Array(element=element):
            return f"ARRAY<{type_text(element)}>"
        case _:
            return type_sql(kind)


@dataclass(frozen=True)
class Base:
    """A table as its version 0 says. ``metadata``: of columns; ``features``: besides those that it needs."""

    fields: tuple[Field, ...] = (ID, N)
    properties: Mapping[str, str] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    features: frozenset[str] = frozenset()

    @property
    def clustering(self) -> Clustering:
        return tuple(tuple(name.split(".")) for name in self.clustered_by)

    def actions(self) -> list[dict[str, Any]]:
        protocol, found = raw(flights(*self.fields, partitioned_by=self.partitioned_by, checks=self.checks))
        schema = json.loads(found["schemaString"])
        for known in schema["fields"]:
            known["metadata"] |= self.metadata.get(known["name"], {})
        configuration = {**found["configuration"], **self.properties}
        needed = needed_features(schema, configuration) | self.features | (FEATURES if self.clustered_by else frozenset())
        metadata = {**found, "schemaString": json.dumps(schema), "configuration": configuration}
        del metadata["unknownKey"]
        domains = [{"domainMetadata": clustering_domain(self.clustering)}] if self.clustered_by else []
        return [{"protocol": with_features(protocol, needed)}, {"metaData": metadata}, *domains]


@dataclass(frozen=True)
class Altered:
    """``statements``: what follows ALTER TABLE t, one after the other."""

    name: str
    base: Base
    statements: tuple[str, ...]
    changes: tuple[c.Change, ...]


@dataclass(frozen=True)
class Created:
    """``ddl``: what follows CREATE TABLE t, with USING delta behind the columns."""

    name: str
    ddl: str
    declaration: Declaration


class Cases:
    def __init__(self) -> None:
        self.found: list[Altered | Created] = []

    def alter(self, name: str, base: Base, what: tuple[Sequence[str], Sequence[c.Change]]) -> None:
        self.found.append(Altered(name, base, tuple(what[0]), tuple(what[1])))

    def create(self, name: str, *fields: Field, rest: str = "", **more: Any) -> None:
        columns = ", ".join(f"{quote(f.name)} {type_text(f.type)}" for f in fields)
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in more.get("properties", ()))
        by = "".join(
            f" {words} ({', '.join(more[key])})"
            for key, words in (("partitioned_by", "PARTITIONED BY"), ("clustered_by", "CLUSTER BY"))
            if key in more
        )
        tail = f"{by}{f' TBLPROPERTIES ({properties})' if properties else ''}{rest}"
        self.found.append(Created(f"create: {name}", f"({columns}) USING delta{tail}", flights(*fields, **more)))


# --- one change, both ways -----------------------------------------------------------------------------------------------------------

What = tuple[Sequence[str], Sequence[c.Change]]


def setting(*pairs: tuple[str, str]) -> What:
    text = ", ".join(f"'{key}' = '{value}'" for key, value in pairs)
    return [f"SET TBLPROPERTIES ({text})"], [c.SetProperty(key, None, value) for key, value in pairs]


def adding(name: str, kind: DataType | str = STRING, parent: str = "", *, nullable: bool = True) -> What:
    new = column(name, kind, nullable=nullable)
    where = f"{parent}.{quote(name)}" if parent else quote(name)
    rest = "" if nullable else " NOT NULL"
    return [f"ADD COLUMN {where} {type_text(new.type)}{rest}"], [c.AddColumn(path(f"{parent}.{name}" if parent else name), new)]


def renaming(old: str, new: str) -> What:
    return [MAP, f"RENAME COLUMN {old} TO {quote(new)}"], [c.RenameColumn(path(old), new)]


def dropping(name: str) -> What:
    return [MAP, f"DROP COLUMN {name}"], [c.DropColumn(path(name))]


def retyping(name: str, old: str, new: str) -> What:
    """As if somebody had taken it for a widening: the committer is asked, not who calls it."""
    change = c.ChangeType(path(name), Primitive(old), Primitive(new), widening=True, shadowable=True)
    return [WIDEN, f"ALTER COLUMN {name} TYPE {new}"], [change]


def defaulting(name: str, value: str) -> What:
    return [DEFAULTS, f"ALTER COLUMN {name} SET DEFAULT {value}"], [c.SetDefault(path(name), None, value)]


def checking(name: str, expression: str) -> What:
    return [f"ADD CONSTRAINT {quote(name)} CHECK ({expression})"], [c.AddCheck(Check(name, expression))]


def clustering(*names: str) -> What:
    return [f"CLUSTER BY ({', '.join(names)})"], [c.ChangeClustering((), names)]
