"""What can be wrong with one DDL statement, besides the faults of a schema's SQL (``sql.errors``); places are the same."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.release.sql.errors import SqlRefusal, SqlSyntax, UnsupportedClause


class AlterSyntax(SqlSyntax):
    """``SqlSyntax`` of a statement that is no part of a schema."""

    next_action = "Correct the statement: one ALTER TABLE, CREATE TABLE or DROP TABLE of Spark SQL."


class UnsupportedAlter(UnsupportedClause):
    """Valid Spark SQL that no change of a declaration can say."""

    next_action = (
        "Take it out. ALTER TABLE takes ADD, DROP, RENAME and ALTER COLUMN, ADD and DROP of CONSTRAINT, PRIMARY KEY, UNIQUE and FOREIGN "
        "KEY, CLUSTER BY, SET and UNSET TBLPROPERTIES, RENAME TO."
    )


class UnknownName(SqlRefusal):
    """The statement names something that is not there. ``near``: names that are, the most similar first."""

    code = "unknown_name"
    message = "{where}: there is no {what}."
    what: str
    near: Sequence[str] = ()

    @property
    def next_action(self) -> str:
        return f"Correct the name; there is {', '.join(self.near)}." if self.near else "Correct the name, or take it out."


class NameInUse(SqlRefusal):
    """The thing to be dropped or renamed is used by something that would be wrong afterwards."""

    code = "name_in_use"
    message = "{where}: {action} is not allowed: it is used by {users}."
    next_action = "Drop or change that first, by a statement of its own."
    action: str
    users: Sequence[str]
