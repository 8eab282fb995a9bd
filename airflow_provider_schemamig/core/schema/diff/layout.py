"""What differs in how files are laid out, in table properties and in the collection's comment."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import Change, ChangeClustering, ChangePartitioning, SetComment, SetProperty
from airflow_provider_schemamig.core.schema.diff.constraints import Names
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.paths import translate


def layout(now: Declaration, old: Declaration, new: Declaration, names: Names) -> Iterator[Change]:
    """Yield partitioning and clustering, with columns under the names that the table has now. Raises NameTaken."""
    if _renamed(old.partitioned_by, names) != new.partitioned_by:
        columns = tuple(names.now(column, "PARTITIONED BY") for column in new.partitioned_by)
        if columns != now.partitioned_by:
            yield ChangePartitioning(now.partitioned_by, columns)
    if _renamed(old.clustered_by, names) != new.clustered_by:
        columns = tuple(names.now(column, "CLUSTER BY") for column in new.clustered_by)
        if columns != now.clustered_by:
            yield ChangeClustering(now.clustered_by, columns)


def properties(now: Declaration, old: Declaration, new: Declaration) -> Iterator[Change]:
    """Yield declared properties that are set, changed or no longer declared, unless the table has them so already."""
    live, before, after = dict(now.properties), dict(old.properties), dict(new.properties)
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key) and live.get(key) != after.get(key):
            yield SetProperty(key, live.get(key), after.get(key))


def comment(now: Declaration, old: Declaration, new: Declaration) -> Iterator[Change]:
    """Yield the collection's comment; a comment on the table that nobody declared is left alone."""
    if now.comment != new.comment and (old.comment != new.comment or new.comment is not None):
        yield SetComment(ColumnPath(""), now.comment, new.comment)


def _renamed(columns: tuple[str, ...], names: Names) -> tuple[str, ...]:
    return tuple(translate(column, names.old_to_new) for column in columns)
