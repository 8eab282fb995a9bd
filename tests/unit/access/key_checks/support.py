"""Collections with keys, and elements of them as the ledger has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.rows import Element
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Generation
from airflow_provider_schemamig.core.schema.element_states import ElementState
from tests.support.lake import Lake
from tests.support.upgrades import deployed, releases

T = CollectionName("t")
PLANES = "CREATE TABLE planes (tail STRING, n INT, PRIMARY KEY (tail));\n"


def lake_of(folder: Path, schema: str) -> Lake:
    return deployed(folder, *releases(folder, (schema, "")) * 2)


def element(lake: Lake, state: ElementState, **fields: Any) -> Element:
    shard = lake.state.shard_of(T).shard
    values: dict[str, Any] = {
        "collection": T, "name": "unique:n", "spec": "0" * 16, "op": "add_key", "state": state, "adding": True, "shard": shard,
        "generation": Generation(1), "epoch": Epoch(1), "since": pendulum.now("UTC"), "table_version": None, "checked_version": None,
        "columns": (ColumnPath("n"),), "refers": None, "refers_columns": (), "error": None,
    }  # fmt: skip
    return Element(**(values | fields))
