"""A table's protocol, metaData and clustering after changes: pure functions over Delta's actions.

All changes of a collection are edited together and go into ONE commit. Rows are never touched. The protocol is raised by exactly the
table features that the new metadata needs; column mapping is switched on when a rename or drop first needs it, and only at (3,7).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.features import effective_features, needed_features, with_features
from airflow_provider_schemamig.core.delta.metadata import columns, table
from airflow_provider_schemamig.core.delta.metadata.clustering import FEATURES, Clustering
from airflow_provider_schemamig.core.delta.metadata.editor import MetadataDraft, open_draft
from airflow_provider_schemamig.core.delta.metadata.forbidden import RefusedByDelta, check_allowed, forbids_now
from airflow_provider_schemamig.core.delta.metadata.validate import TableState
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, SEAL_PREFIX, ColumnPath
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.clauses import CLAUSES
from airflow_provider_schemamig.core.schema.delta_json import fields_from_delta
from airflow_provider_schemamig.core.schema.delta_rules.property_values import check_retentions
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG, forgets_too_early
from airflow_provider_schemamig.core.schema.delta_rules.table_features import APPEND_ONLY
from airflow_provider_schemamig.core.schema.unusable import refuse_check, refuse_default

_EDITORS: Mapping[type[Any], Callable[[MetadataDraft, Any], None]] = {
    c.AddColumn: columns.add,
    c.DropColumn: columns.drop,
    c.RenameColumn: columns.rename,
    c.ChangeType: columns.change_type,
    c.Relax: columns.relax,
    c.SetNotNull: columns.set_not_null,
    **{clause.change: columns.set_clause for clause in CLAUSES},
    c.SetComment: columns.set_comment,
    c.ReorderColumns: columns.reorder,
    c.SetProperty: table.set_property,
    c.AddCheck: table.add_check,
    c.DropCheck: table.drop_check,
    c.AddKey: table.nothing,
    c.DropKey: table.nothing,
    c.AddForeignKey: table.nothing,
    c.DropForeignKey: table.nothing,
    c.ChangePartitioning: table.not_instant,
    c.ChangeClustering: table.change_clustering,
}

#: Where a seal keeps what it replaced, so that lifting it gives the table back as it was.
_BEFORE_SEAL = f"{RESERVED_PREFIX}.beforeSeal."


def edit(
    protocol: RawAction,
    metadata: RawAction,
    changes: Iterable[c.Change],
    *,
    forget: Sequence[ColumnPath] = (),
    clustering: Clustering = (),
    stood_before: bool = False,
) -> TableState:
    """Return protocol, metaData and clustering after ``changes``, one after the other; the arguments are not touched.

    A change that is in place changes nothing. ``forget``: columns among the drops that no file carries; removing those does not switch
    column mapping on. ``clustering``: the table's clustering columns (``Head.clustering``), which must not be dropped. ``stood_before``:
    the changes are a way back to what the table was, or the end of a hold, neither of which is judged.

    Raises RefusedByDelta, NotApplicable, NotInstant, CannotCluster, ColumnInUse, UnsupportedProperty, UnknownDeltaType, RenameInLambda,
    UnusableExpression.
    """
    draft = open_draft(metadata, forget, clustering, is_way_back=stood_before)
    changes = tuple(changes)
    for change in changes:
        is_rewrite = change.cost is c.Cost.REWRITE and not isinstance(change, c.ChangeType)
        editor = table.not_instant if is_rewrite else _EDITORS[type(change)]
        editor(draft, change)
        if not stood_before:
            _refuse_unusable(draft, change)
    if not stood_before:
        set_now = (change for change in changes if isinstance(change, c.SetProperty) and change.key in (LOG, FILES))
        _judge_retentions(draft, {change.key: change.new if change.had is None else change.had for change in set_now})
    before = metadata
    protocol, metadata = _closed(protocol, metadata, draft)
    if not stood_before:
        check_allowed(draft.schema, metadata)
        reasons = tuple(forbids_now(before, metadata, effective_features(protocol)))
        if reasons:
            raise RefusedByDelta(reasons=reasons)
    if draft.clustering != clustering:  # taken back, its features stay
        protocol = with_features(protocol, FEATURES)
    return TableState(protocol, metadata, draft.clustering)


def _judge_retentions(draft: MetadataDraft, asked: Mapping[str, str | None]) -> None:
    """Raise UnsupportedProperty where the log would be kept for less time than the files: of both at once, as each by itself may be wrong
    on the way. Where a pin or somebody has the files kept longer than the changes ask for, the log is kept as long.

    ``asked``: what the changes make of the two properties, or of one of them.
    """
    files = draft.configuration.get(FILES)
    if asked and files is not None and asked.get(FILES) != files:
        if forgets_too_early(draft.configuration):
            draft.configuration[LOG] = files
    elif asked:
        check_retentions(draft.configuration)


def _refuse_unusable(draft: MetadataDraft, change: c.Change) -> None:
    """Raise UnusableExpression for a CHECK or DEFAULT that would stop every writer."""
    match change:
        case c.AddCheck(check=check):
            refuse_check(check.name, check.expression, fields_from_delta(json.dumps(draft.schema)))
        case c.SetDefault(path=path, new=str() as text):
            (found,) = fields_from_delta(json.dumps({"type": "struct", "fields": [draft.field(change, path)]}))
            refuse_default(path, text, found.type)
        case c.AddColumn(path=path, field=field):
            refuse_default(path, field.default, field.type)


def sealed(protocol: RawAction, metadata: RawAction, moved_to: str) -> tuple[RawAction, RawAction]:
    """Return protocol and metaData with the seal, which every writer, Spark or delta-rs, obeys.

    The seal is a CHECK ``schemamig_moved_to_<shard>`` (1 = 0) and appendOnly.
    """
    protocol, metadata = unsealed(protocol, metadata)
    draft = open_draft(metadata, (), ())
    if APPEND_ONLY in draft.configuration:
        draft.configuration[_BEFORE_SEAL + APPEND_ONLY] = draft.configuration[APPEND_ONLY]
    draft.configuration[APPEND_ONLY] = "true"
    draft.configuration[f"{CONSTRAINT}{SEAL_PREFIX}{moved_to}"] = "1 = 0"
    return _closed(protocol, metadata, draft)


def unsealed(protocol: RawAction, metadata: RawAction) -> tuple[RawAction, RawAction]:
    """Return protocol and metaData without any seal of ours; features stay. A table that is not sealed comes back as it is."""
    draft = open_draft(metadata, (), ())
    seals = [key for key in draft.configuration if key.startswith(CONSTRAINT + SEAL_PREFIX)]
    if not seals:
        return protocol, metadata
    for key in seals:
        del draft.configuration[key]
    draft.configuration.pop(APPEND_ONLY, None)
    before = draft.configuration.pop(_BEFORE_SEAL + APPEND_ONLY, None)
    if before is not None:
        draft.configuration[APPEND_ONLY] = before
    return _closed(protocol, metadata, draft)


def _closed(protocol: RawAction, metadata: RawAction, draft: MetadataDraft) -> tuple[RawAction, RawAction]:
    edited = draft.close()
    if edited == metadata:  # nothing is worth a commit, so nothing is worth a protocol change either
        return protocol, metadata
    return with_features(protocol, needed_features(draft.schema, draft.configuration)), edited
