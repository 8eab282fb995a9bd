"""Liquid clustering in a table's log: a metadata domain of physical paths, and which columns Delta can cluster by.

It is not in ``metaData``, so a commit of it aborts no Spark writer. The two table features that it needs lock delta-rs out as a writer,
and stay when the table is not clustered any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster
from airflow_provider_schemamig.core.delta.names import logical_path, physical_name
from airflow_provider_schemamig.core.delta.properties import STATS_COLUMNS, name_parts, stats_columns
from airflow_provider_schemamig.core.schema.delta_rules.properties import INDEXED_COLUMNS
from airflow_provider_schemamig.core.schema.delta_rules.property_values import STATS_COUNT
from airflow_provider_schemamig.core.schema.delta_rules.table_features import CLUSTERING, CLUSTERING_DOMAIN, with_required

FEATURES = with_required(CLUSTERING)

#: Types of which Delta keeps a minimum and a maximum; DECIMAL besides.
WITH_BOUNDS = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz"},
)
_MOST = 4

#: Physical paths, in the order of CLUSTER BY.
Clustering = tuple[tuple[str, ...], ...]


def clustering_domain(columns: Sequence[Sequence[str]]) -> RawAction:
    """Return the ``domainMetadata`` action of a table clustered by these physical paths; CLUSTER BY NONE has none of them."""
    configuration = {"clusteringColumns": [list(path) for path in columns], "domainName": CLUSTERING_DOMAIN}
    return {
        "domain": CLUSTERING_DOMAIN,
        "configuration": json.dumps(configuration, separators=(",", ":"), ensure_ascii=False),
        "removed": False,
    }


def clustering_of(domain: RawAction | None) -> Clustering:
    """Return what a ``domainMetadata`` action says; nothing if there is none, or it was removed."""
    if domain is None or domain.get("removed"):
        return ()
    return tuple(tuple(path) for path in json.loads(domain["configuration"])["clusteringColumns"])


def has_statistics(schema: Mapping[str, Any], configuration: Mapping[str, str], path: Sequence[str]) -> bool:
    """Return whether Delta keeps minimum and maximum of the column at a physical path; it clusters by no others.

    It keeps them of the columns that a property names, else of the first 32 leaves, or of as many as another property says (-1: of all).
    """
    if STATS_COLUMNS in configuration:
        logical = logical_path(schema, path).lower()
        named = [".".join(name_parts(column)).lower() for column in stats_columns(configuration)]
        return any(logical == column or logical.startswith(f"{column}.") for column in named)
    limit = int(configuration.get(STATS_COUNT, INDEXED_COLUMNS))
    counted = list(leaves(schema))
    return tuple(path) in (counted if limit < 0 else counted[:limit])


def has_bounds(data_type: Any) -> bool:
    """Return whether Delta keeps a minimum and a maximum of values of this type."""
    return isinstance(data_type, str) and (data_type in WITH_BOUNDS or data_type.startswith("decimal"))


def check_clustering(schema: Mapping[str, Any], configuration: Mapping[str, str], columns: Clustering) -> None:
    """Raise CannotCluster if Delta does not cluster by these columns, which are there."""
    names = [logical_path(schema, column) for column in columns]
    if len(columns) > _MOST:
        raise CannotCluster(op="change_clustering", path=", ".join(names), reason=f"Delta clusters by at most {_MOST} columns")
    for name, column in zip(names, columns, strict=True):
        if columns.count(column) > 1:
            raise CannotCluster(op="change_clustering", path=name, reason="it is named twice")
        if not has_bounds(_type_of(schema, column)) or not has_statistics(schema, configuration, column):
            raise CannotCluster(op="change_clustering", path=name, reason="Delta keeps no minimum and maximum of the column")


def _type_of(schema: Mapping[str, Any], path: Sequence[str]) -> Any:
    here: Any = schema
    for name in path:
        here = next(field["type"] for field in here["fields"] if physical_name(field) == name)
    return here


def leaves(struct: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the physical paths of the columns and struct fields that have no fields of their own, in Delta's order.

    An array or a map counts as one.
    """
    for field in struct["fields"]:
        path, data_type = (*prefix, physical_name(field)), field["type"]
        if isinstance(data_type, dict) and data_type.get("type") == "struct":
            yield from leaves(data_type, path)
        else:
            yield path
