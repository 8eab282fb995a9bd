"""What given-up attempts left in a column, told by a table's log: values which the next attempt's fill has to replace."""

from __future__ import annotations

import json
from collections.abc import Mapping

from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction, file_id
from airflow_provider_schemamig.core.delta.log.commits import commits, null_count
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.names import stored_field
from airflow_provider_schemamig.core.online.unfilled import filled_column, lays_out
from airflow_provider_schemamig.core.schema.delta_rules.table_features import DEFAULT_KEY
from airflow_provider_schemamig.core.transfer.file_subset import rows_in_files
from airflow_provider_schemamig.core.upgrade.verify.table import VerifiedTable


def given_up(table: VerifiedTable, start: int, began: int, physical: str, called: str) -> Mapping[str, str]:
    """Return the files whose rows all got their value from fills before ``began``: path -> the DEFAULT of then.

    ``start``: a version without the column ``physical``, which the fills named ``called``. Files that are in doubt are left out: with
    values of other writers, with rows of several kinds, filled by an attempt that the ledger does not know. Raises LogTruncated.
    """
    trail = _Trail(table, began, physical, called)
    trail.gave = dict.fromkeys(file_id(add)[0] for add in active_files(table.store, start).values())
    for commit in commits(table.store, start, table.head.version):
        trail.take(commit)
    return {path: default for path, default in trail.gave.items() if default is not None}


class _Trail:
    """``gave``: what a fill gave the rows of a file; None: they have no value yet."""

    def __init__(self, table: VerifiedTable, began: int, physical: str, called: str) -> None:
        self.gave: dict[str, str | None] = {}
        self._table, self._began, self._physical, self._called = table, began, physical, called
        self._is_there = False
        self._default: str | None = None

    def take(self, commit: LogCommit) -> None:
        if commit.metadata is not None:
            field = stored_field(json.loads(commit.metadata["schemaString"]), self._physical)
            self._is_there = field is not None
            self._default = None if field is None else (field.get("metadata") or {}).get(DEFAULT_KEY)
        gone = {file_id(remove)[0] for remove in commit.removes}
        for add in commit.adds:
            path = file_id(add)[0]
            if path in self.gave:
                continue  # the same file, with another deletion vector or brought back
            if not gone:
                if self._lacks(commit, add):
                    self.gave[path] = None
            elif gone <= self.gave.keys():
                self._follow(commit, add, {self.gave[one] for one in gone})

    def _lacks(self, commit: LogCommit, add: RawAction) -> bool:
        """Return whether rows came with no value and owe one."""
        if not self._is_there:
            return True
        rows = rows_in_files([add])
        is_empty = rows is not None and null_count(add, (self._physical,)) == rows
        return self._default is None and commit.version <= self._began and is_empty

    def _follow(self, commit: LogCommit, add: RawAction, values: set[str | None]) -> None:
        """Follow a file that was made of others with these ``values``."""
        path, filled = file_id(add)[0], filled_column(commit)
        if filled == self._called:
            known = (commit.about or {}).get("generation") in self._table.state.deployments
            if commit.version < self._began and known and self._default is not None:
                self.gave[path] = self._default
        elif len(values) == 1:
            is_copy = filled is not None or lays_out(commit) or commit.info.get("operation") == "DELETE"
            if is_copy or not add.get("dataChange", True):
                self.gave[path] = values.pop()
