"""Delta tables of somebody else, made by delta-rs or by hand, outside and inside of an environment that is to adopt them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.names import PHYSICAL_NAME
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade.adopt.adopt import Adoption, adopt
from tests.support.lake import no_spark
from tests.support.tables import foreign

ROWS = {"id": pa.array([1, 2], pa.int64()), "day": pa.array(["a", "b"])}
MAPPED = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"]}


@dataclass(frozen=True)
class Site:
    """A folder with an empty environment in ``lake``, a release folder to be in ``release``, and tables in ``out``."""

    folder: Path

    @property
    def env(self) -> Environment:
        return Environment.open(str(self.folder / "lake"))

    @property
    def release(self) -> Path:
        return self.folder / "release"

    @property
    def state(self) -> State:
        return LedgerReader(self.env).state()

    def table(self, name: str, rows: Mapping[str, Any] | None = None, **options: Any) -> Path:
        """A table of delta-rs with two rows."""
        from deltalake import write_deltalake

        path = self.folder / "out" / name
        write_deltalake(str(path), pa.table(dict(rows or ROWS)), **options)
        return path

    def by_hand(self, name: str, fields: list[dict[str, Any]], protocol: Mapping[str, Any] | None = None, **configuration: str) -> Path:
        """A table of one commit without rows; ``__`` in a property's name is a dot."""
        path = self.folder / "out" / name
        (path / "_delta_log").mkdir(parents=True)
        settings = {key.replace("__", "."): value for key, value in configuration.items()}
        metadata = {
            "id": name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": settings,
        }
        foreign.commit(path, {"protocol": dict(protocol or {"minReaderVersion": 1, "minWriterVersion": 2})}, {"metaData": metadata})
        return path

    def adopt(self, env: Environment | None = None, **tables: Path) -> Adoption:
        return adopt(env or self.env, self.release, [(name, str(path)) for name, path in tables.items()], create=True)

    def upgrade(self, **options: Any) -> Any:
        return commands.upgrade(self.env, self.release, **{"jobs": no_spark, "create": True, **options})

    def check(self, version: str) -> None:
        """At ``version``, without drift, open intents or a damaged ledger."""
        found = commands.status(self.env)
        assert (found.document["version"], found.drifted) == (version, ())
        assert list(self.state.intents) == []
        assert verify(LedgerReader(self.env)) == ()

    def uri(self, collection: str) -> str:
        return self.env.table_location(self.state.shard_of(CollectionName(collection)).uri).uri


def field(name: str, kind: Any = "string", *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    """A column as Delta's JSON has it."""
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def mapped(name: str, identity: int, stored: str | None = None, kind: Any = "string", *, nullable: bool = True) -> dict[str, Any]:
    """A column of a table with column mapping; ``stored``: its name in the files."""
    return field(name, kind, nullable=nullable, **{"delta.columnMapping.id": identity, PHYSICAL_NAME: stored or name})


def alter(path: Path, fields: list[dict[str, Any]] | None = None, **configuration: str | None) -> int:
    """A foreign commit that gives the table other columns, or other properties (None: unset)."""
    found = foreign.metadata(path)
    settings = {**found["configuration"], **{key.replace("__", "."): value for key, value in configuration.items()}}
    changed = found | {"configuration": {key: value for key, value in settings.items() if value is not None}}
    if fields is not None:
        changed |= {"schemaString": json.dumps({"type": "struct", "fields": fields})}
    return foreign.commit(path, {"metaData": changed})
