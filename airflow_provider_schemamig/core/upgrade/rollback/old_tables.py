"""The table that a rollback goes back to: whether it still is what the release left, or others changed it. RESTORE gets through a seal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.delta.actions import FileId, LogCommit, file_id
from airflow_provider_schemamig.core.delta.commit.seal import opens
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import look_at_head
from airflow_provider_schemamig.core.storage import ReadStore


def version_to_restore(store: ReadStore, sealed_version: int) -> int | None:
    """Return the version at which a retired table had its rows and columns, if others changed that since; None if it has them.

    What others only added counts for nothing, nor what they undid, nor files that were rearranged. While a rollback has the table open its
    writers may do as they like, but for a RESTORE: that takes out what the rollback brought back, too. Raises LogTruncated.
    """
    table = _OldTable(store, sealed_version)
    for commit in commits(store, sealed_version):
        table.take(commit)
    return table.good if table.is_changed else None


class _OldTable:
    """The table as its commits since the seal are replayed. ``good``: the newest version of ours to which nothing was changed."""

    def __init__(self, store: ReadStore, sealed_version: int) -> None:
        self.good = sealed_version
        self._files = frozenset(active_files(store, sealed_version))
        #: All that have the rows of ``good``.
        self._same_rows: set[frozenset[FileId]] = {self._files}
        self._schema = self._good_schema = _columns(look_at_head(store, sealed_version).metadata)
        self._rows_moved = False
        self._is_open = False

    @property
    def is_changed(self) -> bool:
        """Return whether rows were taken out or brought back since ``good``, or columns changed."""
        return self._schema != self._good_schema or (self._rows_moved and self._files not in self._same_rows)

    def take(self, commit: LogCommit) -> None:
        was_changed, had_same_rows = self.is_changed, self._files in self._same_rows
        self._files = (self._files - {file_id(file) for file in commit.removes}) | {file_id(file) for file in commit.adds}
        if commit.metadata is not None:
            self._schema = _columns(commit.metadata)
        is_ours, opened = commit.about is not None, opens(commit)
        self._is_open = self._is_open if opened is None else opened
        if is_ours or (self._is_open and not commit.restores):
            if not was_changed:
                self._keep(commit.version if is_ours else self.good)
        elif commit.changes_rows:
            self._rows_moved |= bool(commit.removes or commit.restores)
        elif had_same_rows:
            self._same_rows.add(self._files)

    def _keep(self, version: int) -> None:
        self.good, self._good_schema = version, self._schema
        self._same_rows, self._rows_moved = {self._files}, False


def _columns(metadata: Mapping[str, Any]) -> Any:
    """Return the schema of a ``metaData`` action, however a writer spells its JSON."""
    return json.loads(metadata["schemaString"])
