"""Why a Delta log cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class TableMissing(Refusal):
    code = "table_missing"
    uri: str

    @property
    def message(self) -> str:
        return f"there is no Delta table at {self.uri}."

    @property
    def next_action(self) -> str:
        return "Check the URI, or restore the table's folder."


@dataclass(eq=False)
class AnotherTable(Refusal):
    """Somebody dropped the table and made another one in its place: no version that is known of the one is a version of the other."""

    code = "another_table"
    uri: str
    expected: str
    found: str

    @property
    def message(self) -> str:
        return f"the table at {self.uri} is another one than before: its log begins anew, with the id {self.found} and not {self.expected}."

    @property
    def next_action(self) -> str:
        return (
            "Restore the folder of the table that was there from a backup; or give the collection back and take the new table under "
            "management (`schemamig unmanage`, then `schemamig adopt`)."
        )


@dataclass(eq=False)
class LogTruncated(Refusal):
    """Commits that are needed were cleaned up (or lost): the log's JSON files live ``delta.logRetentionDuration``, 30 days by default."""

    code = "log_truncated"
    uri: str
    version: int

    @property
    def message(self) -> str:
        return f"version {self.version} of the log of {self.uri} is gone."

    @property
    def next_action(self) -> str:
        return "Raise delta.logRetentionDuration on tables that wait long; if nobody cleaned the log, restore _delta_log from a backup."


@dataclass(eq=False)
class LogDamaged(Refusal):
    code = "log_damaged"
    uri: str
    reason: str

    @property
    def message(self) -> str:
        return f"the log of {self.uri} cannot be read: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Check the table with Spark; restore _delta_log from a backup if it cannot read it either."
