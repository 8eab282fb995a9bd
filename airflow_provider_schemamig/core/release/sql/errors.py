"""What can be wrong with a schema's SQL. Every error says where: file, line and column, counted from 1."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class SqlRefusal(Refusal):
    """Base: something at one place of a SQL file."""

    file: str
    line: int
    column: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(eq=False)
class SqlSyntax(SqlRefusal):
    code = "sql_syntax"
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where}: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Correct the statement; a schema holds CREATE TABLE statements of Spark SQL, separated by semicolons."


@dataclass(eq=False)
class UnknownType(SqlRefusal):
    code = "unknown_type"
    type_name: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where}: the type {self.type_name} cannot be used: {self.reason}."

    @property
    def next_action(self) -> str:
        return (
            "Use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, VARCHAR(n), BINARY, DATE, TIMESTAMP, "
            "TIMESTAMP_NTZ, ARRAY<>, MAP<,> or STRUCT<>."
        )


@dataclass(eq=False)
class UnsupportedClause(SqlRefusal):
    """Valid Spark SQL that a declaration cannot hold; it is never ignored."""

    code = "unsupported_clause"
    clause: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where}: {self.clause} is not supported: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Take it out of the declaration."


@dataclass(eq=False)
class UnsafeProperty(SqlRefusal):
    code = "unsafe_property"
    key: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where}: the table property {self.key} may not be declared: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Take it out of TBLPROPERTIES."


@dataclass(eq=False)
class InvalidSqlName(SqlRefusal):
    """A name that may not reach a path or SQL (``core.names``), with its place."""

    code = "invalid_name"
    kind: str
    name: str
    rule: str

    @property
    def message(self) -> str:
        return f"{self.where}: {self.name!r} is not a valid {self.kind} name: {self.rule}."

    @property
    def next_action(self) -> str:
        return f"Choose another {self.kind} name."


@dataclass(eq=False)
class DuplicateName(SqlRefusal):
    code = "duplicate_name"
    kind: str
    name: str

    @property
    def message(self) -> str:
        return f"{self.where}: the {self.kind} {self.name} is there already (names are compared without case)."

    @property
    def next_action(self) -> str:
        return f"Give each {self.kind} a name of its own."


@dataclass(eq=False)
class DuplicateCollection(SqlRefusal):
    code = "duplicate_collection"
    first_line: int

    @property
    def message(self) -> str:
        return f"{self.where}: the collection is declared already, in line {self.first_line}."

    @property
    def next_action(self) -> str:
        return "Declare each collection once."


@dataclass(eq=False)
class UndeclaredColumn(SqlRefusal):
    code = "unknown_column"
    name: str
    used_by: str

    @property
    def message(self) -> str:
        return f"{self.where}: {self.used_by} uses {self.name}, and there is no such column."

    @property
    def next_action(self) -> str:
        return "Declare the column, or correct the name."


@dataclass(eq=False)
class InvalidUse(SqlRefusal):
    """A column or an expression where it cannot be used."""

    code = "invalid_use"
    used_by: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where}: {self.used_by} cannot be: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Correct this part of the declaration."
