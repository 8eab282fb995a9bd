"""Changes of properties, constraints and layout made to a table's metadata. Each function is one kind of change."""

from __future__ import annotations

from airflow_provider_schemamig.core.delta.metadata.clustering import check_clustering
from airflow_provider_schemamig.core.delta.metadata.editor import MetadataDraft
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster, NotInstant
from airflow_provider_schemamig.core.delta.names import logical_path
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddForeignKey,
    AddKey,
    Change,
    ChangeClustering,
    ChangePartitioning,
    DropCheck,
    DropForeignKey,
    DropKey,
    SetProperty,
)
from airflow_provider_schemamig.core.schema.delta_rules.property_values import UnsupportedProperty, check_property
from airflow_provider_schemamig.core.schema.delta_rules.retention import DEFAULT_HOURS, hours_of, longer
from airflow_provider_schemamig.core.schema.expressions.canonical import canonical_text
from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText
from airflow_provider_schemamig.exceptions import Refusal


def set_property(draft: MetadataDraft, change: SetProperty) -> None:
    check_property(change.key, change.new)
    found, new = draft.configuration.get(change.key), change.new if change.had is None else change.had
    if found not in (change.old, new):
        if change.key in DEFAULT_HOURS and hours_of(change.key, found) >= hours_of(change.key, change.old):
            new = longer(change.key, new, found)  # a pin or somebody keeps more history than is declared, which is no drift: so it stays
        elif not draft.is_way_back:
            raise _other_value(draft, change, found)
    draft.configuration.pop(change.key, None)
    if new is not None:
        draft.configuration[change.key] = new


def _other_value(draft: MetadataDraft, change: SetProperty, found: str | None) -> Refusal:
    if change.old is None and change.new is not None:
        remedy = f"Declare {found!r}, or set it to {change.new!r} (or unset it) by an ALTER TABLE of Spark, and run this again."
        reason = f"somebody has set it to {found!r} on the table"
        return UnsupportedProperty(key=change.key, value=change.new, reason=reason, remedy=remedy)
    return draft.refused(change, f"its value is {found}")


def add_check(draft: MetadataDraft, change: AddCheck) -> None:
    """Add a CHECK, which every writer enforces from this commit on, without a scan; old rows are validated afterwards."""
    key = _key_of(draft, change.check.name)
    found = draft.configuration.get(key)
    if found is None:
        draft.configuration[key] = change.check.expression
    elif not _same(found, change.check.expression):
        raise draft.refused(change, f"there is a CHECK {change.check.name} of that name: {found}")


def drop_check(draft: MetadataDraft, change: DropCheck) -> None:
    key = _key_of(draft, change.check.name)
    found = draft.configuration.get(key)
    if found is None:
        return
    if not _same(found, change.check.expression):
        raise draft.refused(change, f"the CHECK {change.check.name} is {found}")
    del draft.configuration[key]


def nothing(draft: MetadataDraft, change: AddKey | DropKey | AddForeignKey | DropForeignKey) -> None:
    """Leave the table as it is: keys are elements of the registry, and nothing of them is on the table."""


def change_clustering(draft: MetadataDraft, change: ChangeClustering) -> None:
    """Change the clustering of the files that come whenever somebody runs OPTIMIZE; older ones are laid out anew afterwards."""
    before, after = (tuple(draft.physical(path) for path in columns) for columns in (change.old, change.new))
    if draft.clustering == after:
        return
    if draft.clustering != before:
        found = ", ".join(logical_path(draft.schema, column) for column in draft.clustering) or "nothing"
        raise draft.refused(change, f"the table is clustered by {found}")
    for path in change.new:
        draft.field(change, path)
        if draft.partition_columns:
            reason = f"the table is partitioned by {', '.join(draft.partition_columns)}, and Delta knows one of the two"
            raise CannotCluster(op=change.op, path=path, reason=reason)
    check_clustering(draft.schema, draft.configuration, after)
    draft.clustering = after


def not_instant(draft: MetadataDraft, change: Change) -> None:
    """Raise NotInstant: what costs a rewrite is never made by a commit of metadata."""
    if isinstance(change, ChangePartitioning):
        raise NotInstant(op=change.op, path=", ".join(change.old or change.new), reason="existing files are laid out the old way")
    raise NotInstant(op=change.op, path=getattr(change, "path", ""), reason="existing files hold other values")


def _key_of(draft: MetadataDraft, name: str) -> str:
    """Return the property a constraint has or gets. Delta writes names in lower case and finds them ignoring case."""
    wanted = (CONSTRAINT + name).lower()
    return next((key for key in draft.configuration if key.lower() == wanted), wanted)


def _same(found: str, expression: str) -> bool:
    """Return whether two texts are one expression, also where nobody can read it."""
    try:
        return found == expression or canonical_text(found) == canonical_text(expression)
    except BrokenText:
        return False
