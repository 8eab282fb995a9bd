"""A new table without rows: version 0 from a declaration, no Spark needed; Spark and delta-rs use it at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.commit.append import Entry, append
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.features import needed_features, new_protocol
from airflow_provider_schemamig.core.delta.log.head import Head, TableMissing, look_at_head, remember
from airflow_provider_schemamig.core.delta.log.listing import LOG
from airflow_provider_schemamig.core.delta.metadata.clustering import FEATURES, check_clustering, clustering_domain
from airflow_provider_schemamig.core.delta.metadata.forbidden import RefusedByDelta, check_allowed, layout_faults
from airflow_provider_schemamig.core.delta.metadata.validate import TableState, validate
from airflow_provider_schemamig.core.delta.names import unenforced_not_nulls
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT
from airflow_provider_schemamig.core.schema.delta_json import field_to_delta
from airflow_provider_schemamig.core.schema.delta_rules.property_values import check_property, check_retentions
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.unusable import unusable_in
from airflow_provider_schemamig.core.storage import Store, require_safe_log_store
from airflow_provider_schemamig.core.times import now_millis
from airflow_provider_schemamig.exceptions import Refusal, raise_refusals


class TableExists(Refusal):
    """The place is taken by a table that is not ours."""

    code = "table_exists"
    message = "there is a Delta table at {uri} already (id {table_id}), and it is not the one to be made."
    next_action = "Move that table away, or take it under management with `schemamig adopt`."
    uri: str
    table_id: str


class _Taken(Exception):
    """Somebody else made version 0 first."""


def create_table(store: Store, declaration: Declaration, table_id: str, tag: Tag) -> Head:
    """Write version 0 of a table of ours; a table with the same id (an earlier try, a twin) is taken as it stands.

    Raises TableExists, UnsafeLogStore, and what ``checked`` raises.
    """
    require_safe_log_store(store)
    actions = checked(declaration, table_id, store.location.uri)
    if store.names(LOG):  # one request where there is none, as is the rule
        with contextlib.suppress(TableMissing):
            return _same_table(look_at_head(store), table_id)
    protocol, metadata = actions[0]["protocol"], actions[1]["metaData"]
    entry = Entry(tag, actions, _parameters(declaration), operation="CREATE TABLE")
    try:
        made = append(store, -1, entry, _refuse, in_commit_timestamps=False)
    except _Taken:
        return _same_table(look_at_head(store), table_id)
    domains = {action["domainMetadata"]["domain"]: action["domainMetadata"] for action in actions[2:]}
    head = Head(store.location, 0, protocol, metadata, domains)
    remember(store, head, made.receipt.tag, is_conditional=True)
    return head


def checked(declaration: Declaration, table_id: str, uri: str) -> Sequence[Mapping[str, Any]]:
    """Return the actions of version 0 of a table at ``uri``, as ``create_table`` writes them.

    Raises RefusedByDelta, CannotCluster, UnsupportedProperty, UnusableExpression, NotApplicable (NOT NULL inside an array or map),
    InvalidCommit.
    """
    actions = _actions(declaration, table_id)
    protocol, metadata = actions[0]["protocol"], actions[1]["metaData"]
    schema = json.loads(metadata["schemaString"])
    check_allowed(schema, metadata)
    faults = tuple(layout_faults(schema, metadata["partitionColumns"]))
    if faults:
        raise RefusedByDelta(reasons=faults)
    clustering = tuple(tuple(path.split(".")) for path in declaration.clustered_by)
    validate(uri, None, TableState(protocol, metadata, clustering))
    check_clustering(schema, metadata["configuration"], clustering)
    return actions


def _refuse(_: object) -> None:
    raise _Taken


def _same_table(head: Head, table_id: str) -> Head:
    if head.table_id != table_id:
        raise TableExists(uri=head.location.uri, table_id=head.table_id)
    return head


def _actions(declaration: Declaration, table_id: str) -> Sequence[Mapping[str, Any]]:
    schema = {"type": "struct", "fields": [field_to_delta(field) for field in declaration.fields]}
    _refuse_nested_not_null(declaration, schema)
    raise_refusals(list(unusable_in(declaration)))
    for key, value in declaration.properties:
        check_property(key, value)
    check_retentions(dict(declaration.properties))
    configuration = dict(declaration.properties) | {CONSTRAINT + c.name.lower(): c.expression for c in declaration.checks}
    features = needed_features(schema, configuration) | (FEATURES if declaration.clustered_by else set())
    metadata: dict[str, Any] = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema, separators=(",", ":"), ensure_ascii=False),
        "partitionColumns": list(declaration.partitioned_by),
        "configuration": configuration,
        "createdTime": now_millis(),
    }
    if declaration.comment is not None:
        metadata["description"] = declaration.comment
    actions: list[RawAction] = [{"protocol": new_protocol(features)}, {"metaData": metadata}]
    if declaration.clustered_by:
        # Without column mapping logical names are the physical ones.
        actions.append({"domainMetadata": clustering_domain([path.split(".") for path in declaration.clustered_by])})
    return actions


def _parameters(declaration: Declaration) -> Mapping[str, str]:
    return {
        "partitionBy": json.dumps(list(declaration.partitioned_by)),
        "clusterBy": json.dumps(list(declaration.clustered_by)),
        "isManaged": "false",
        "properties": json.dumps(dict(declaration.properties)),
    }


def _refuse_nested_not_null(declaration: Declaration, schema: Mapping[str, Any]) -> None:
    for path in (path for top in schema["fields"] for path in unenforced_not_nulls(top)):
        reason = "Delta does not enforce NOT NULL inside arrays and maps"
        raise NotApplicable(collection=declaration.name, op="create", path=path, reason=reason)
