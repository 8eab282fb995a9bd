"""The table that a rollback goes back to: whether it still is what the release left, or others changed it. RESTORE gets through a seal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.delta.actions import FileId, LogCommit, file_id
from airflow_provider_schemamig.core.delta.commit.seal import opens
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head, look_at_head
from airflow_provider_schemamig.core.delta.log.listing import list_log, read_commit
from airflow_provider_schemamig.core.ledger.rows import Shard, ShardState
from airflow_provider_schemamig.core.schema.delta_rules.table_features import IDENTITY_REACHED
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.upgrade.plan.errors import OldTableChanged


def changed_by_others(store: ReadStore, row: Shard, head: Head) -> OldTableChanged | None:
    """Return why a table that the release retired is not as it was sealed: others took rows out of it since, or brought older ones back.

    Where the log was cleaned up so far that nobody can tell, that is refused, too.
    """
    if row.state is not ShardState.RETIRED or row.sealed_version is None or head.version <= row.sealed_version:
        return None
    version: int | None
    try:
        is_changed, version = _replayed(store, row.sealed_version)
    except LogTruncated:
        version, is_changed = None, _may_be_changed(store, row.sealed_version)
    return OldTableChanged(collection=row.collection, uri=store.location.uri, version=version) if is_changed else None


def check_unchanged(store: ReadStore, row: Shard, head: Head) -> None:
    """Raise OldTableChanged as ``changed_by_others`` returns it."""
    changed = changed_by_others(store, row, head)
    if changed is not None:
        raise changed


def _replayed(store: ReadStore, sealed_version: int) -> tuple[bool, int | None]:
    """Return whether others changed the rows or columns of a retired table, and its newest version with all of them (None: none).

    What others only added counts for nothing, nor what they undid, nor files that were rearranged. While a rollback has the table open its
    writers may do as they like, but for a RESTORE to before: that takes out what the rollback brought back, too. Raises LogTruncated.
    """
    since = list(commits(store, sealed_version))
    if all(commit.about is not None for commit in since):
        return False, None  # the usual case, for which nobody waits until a table of a million files is read
    table = _OldTable(store, sealed_version)
    for commit in since:
        table.take(commit)
    return table.is_changed, table.good


def _may_be_changed(store: ReadStore, sealed_version: int) -> bool:
    """Return whether others may have changed rows or columns of a retired table whose log does not tell how it was sealed any more.

    They have not if all commits since the seal are there and show nothing of the kind, or those since a rollback opened the table: it had
    looked before.
    """
    altered = False
    try:
        for version in range(list_log(store).version, sealed_version, -1):
            commit = read_commit(store, version)
            if opens(commit):
                return False
            if commit.about is None:
                if commit.restores:
                    return True
                altered = altered or commit.metadata is not None
            elif opens(commit) is not None and altered:  # under this seal
                return True
    except LogTruncated:
        return True
    return altered


class _OldTable:
    """The table as its commits since the seal are replayed. ``good``: the newest version with all that a way back needs, whose
    files are the least likely to be deleted by a VACUUM; None once a rollback brought rows back, which it does once, into what others had
    changed: before they are missing, and since then others."""

    def __init__(self, store: ReadStore, sealed_version: int) -> None:
        self.good: int | None = sealed_version
        self._files = frozenset(active_files(store, sealed_version))
        #: Each set of files that has all rows that a way back needs.
        self._enough: set[frozenset[FileId]] = {self._files}
        self._schema = self._good_schema = _columns(look_at_head(store, sealed_version).metadata)
        self._rows_moved = self._was_written = False
        self._is_open = False

    @property
    def is_changed(self) -> bool:
        """Return whether rows were taken out or brought back since ``good``, or columns changed."""
        return self.good is None or self._schema != self._good_schema or (self._rows_moved and self._files not in self._enough)

    def take(self, commit: LogCommit) -> None:
        was_changed, had_enough = self.is_changed, self._files in self._enough
        self._files = (self._files - {file_id(file) for file in commit.removes}) | {file_id(file) for file in commit.adds}
        if commit.metadata is not None:
            self._schema = _columns(commit.metadata)
        opened = opens(commit)
        self._is_open = self._is_open if opened is None else opened
        if commit.about is not None or (self._is_open and not commit.restores):
            self._was_written = self._was_written or commit.changes_rows
            if not was_changed:
                self._keep(only=commit.about is not None and self._was_written)
            elif commit.about is not None and commit.changes_rows:
                self.good = None
        elif commit.changes_rows and (commit.removes or commit.restores):
            self._rows_moved = True
        elif had_enough:
            self._enough.add(self._files)
        if not self.is_changed:
            self.good = commit.version

    def _keep(self, *, only: bool) -> None:
        """Take the table as it is now for good. ``only``: no longer as it was before: rows came back, or were written while it was open."""
        self._good_schema, self._rows_moved = self._schema, False
        self._enough = {self._files} | (set() if only else self._enough)
        self._was_written = self._was_written and not only


def _columns(metadata: Mapping[str, Any]) -> Any:
    """Return the schema of a ``metaData`` action, however a writer spells its JSON.

    How far an IDENTITY column has counted is left out: each INSERT changes that, and no RESTORE takes it back.
    """
    return json.loads(metadata["schemaString"], object_hook=_without_count)


def _without_count(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in found.items() if key != IDENTITY_REACHED}
