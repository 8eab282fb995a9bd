"""Why a Delta log cannot be read."""

from __future__ import annotations

from airflow_provider_schemamig.exceptions import Refusal


class TableMissing(Refusal):
    code = "table_missing"
    message = "there is no Delta table at {uri}."
    next_action = "Check the URI, or restore the table's folder."
    uri: str


class AnotherTable(Refusal):
    """Somebody dropped the table and made another one in its place: no version that is known of the one is a version of the other."""

    code = "another_table"
    message = "the table at {uri} is another one than before: its log begins again, with the id {found} and not {expected}."
    next_action = (
        "Restore the folder of the table that was there from a backup; or give the collection back and take the new table under management "
        "(`unmanage`, then `adopt`)."
    )
    uri: str
    expected: str
    found: str


class LogTruncated(Refusal):
    """Commits that are needed were cleaned up (or lost): the log's JSON files live ``delta.logRetentionDuration``, 30 days by default."""

    code = "log_truncated"
    message = "version {version} of the log of {uri} is gone."
    next_action = (
        "Raise delta.logRetentionDuration on tables that streams or copies read late; if nobody cleaned the log, restore _delta_log from "
        "a backup."
    )
    uri: str
    version: int


class LogDamaged(Refusal):
    code = "log_damaged"
    message = "the log of {uri} cannot be read: {reason}."
    next_action = "Check the table with Spark; restore _delta_log from a backup if it cannot read it either."
    uri: str
    reason: str
