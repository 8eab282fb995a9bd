"""What a table had before a way out, beside its declaration: properties and comments that somebody set by hand, clustering.

None of that is drift, so a release may declare the very thing that is there already. Its way back gives the table what it had, by the
table's own log: the declaration of before would take it away.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.delta.metadata.clustering import Clustering
from airflow_provider_schemamig.core.ledger.rows import IntentKind
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.changes import Change, SetComment, SetProperty
from airflow_provider_schemamig.core.schema.delta_rules.retention import DEFAULT_HOURS
from airflow_provider_schemamig.core.schema.model import walk
from airflow_provider_schemamig.core.schema.paths import path_in_files
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.pool import cached_request

#: The action of commits that keep history for longer (``pins``).
PINNED = "pin"
#: Who gives a table what is its own: somebody, and a way back.
_GIVES_OWN = (None, IntentKind.ROLLBACK.value, IntentKind.TAKE_BACK.value)


class UndeclaredBefore:
    """The table at ``since``, from before the way out. Of a log that was cleaned up to there nothing is known."""

    def __init__(self, store: ReadStore, head: Head, collection: CollectionName, since: int) -> None:
        self._store, self._head, self._collection, self._since = store, head, collection, since

    @cached_request
    def _then(self) -> Head | None:
        try:
            return read_head(self._store, self._since)
        except LogTruncated:
            return None

    @property
    def clustering(self) -> Clustering | None:
        """Return what the table was clustered by; None if nobody knows."""
        return None if self._then is None else self._then.clustering

    def given_back(self, change: Change) -> Change:
        """Return a change of the way back, with the value that the table had before the way out."""
        match change:
            case SetProperty(key=key, new=None) if self._then is not None:
                return replace(change, had=self._own(self._then, key))
            case SetComment(path=path) if self._then is not None:
                return replace(change, new=self._comment(self._then, path, change.new))
            case _:
                return change

    def _own(self, then: Head, key: str) -> str | None:
        """Return what the property was; of a retention neither what a pin made of it, nor what a release had declared, as both may have
        gone since: what is the table's own came with a commit that is not ours."""
        found = then.properties.get(key)
        if found is None or key not in DEFAULT_HOURS:
            return found
        made_by: str | None = None  # what gave it this value, going back; None: somebody's commit
        try:
            for version in range(then.version, -1, -1):
                commit = read_commit(self._store, version)
                if commit.metadata is None:
                    continue
                before = (commit.metadata.get("configuration") or {}).get(key)
                if before != found:
                    if made_by != PINNED or before is None:
                        break
                    found = before
                made_by = (commit.about or {}).get("action")
        except LogTruncated:
            return found  # rather too much history than too little
        return found if made_by in _GIVES_OWN else None

    def _comment(self, then: Head, path: ColumnPath, declared: str | None) -> str | None:
        before = then.declaration(self._collection)
        if not path:
            return before.comment
        in_files, names = path_in_files(path, self._head.stored_names), then.stored_names
        return next((field.comment for there, field in walk(before.fields) if path_in_files(there, names) == in_files), declared)
