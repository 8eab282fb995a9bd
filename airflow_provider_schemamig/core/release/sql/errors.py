"""What can be wrong with a schema's SQL. Every error says where: file, line and column, counted from 1."""

from __future__ import annotations

from airflow_provider_schemamig.exceptions import Refusal


class SqlRefusal(Refusal):
    """Base: something at one place of a SQL file."""

    file: str
    line: int
    column: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class SqlSyntax(SqlRefusal):
    code = "sql_syntax"
    message = "{where}: {reason}."
    next_action = "Correct the statement; a schema holds CREATE TABLE statements of Spark SQL, separated by semicolons."
    reason: str


class UnknownType(SqlRefusal):
    code = "unknown_type"
    message = "{where}: the type {type_name} cannot be used: {reason}."
    next_action = (
        "Use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, VARCHAR(n), BINARY, DATE, TIMESTAMP, "
        "TIMESTAMP_NTZ, ARRAY<>, MAP<,> or STRUCT<>."
    )
    type_name: str
    reason: str


class UnsupportedClause(SqlRefusal):
    """Valid Spark SQL that a declaration cannot hold; it is never ignored."""

    code = "unsupported_clause"
    message = "{where}: {clause} is not supported: {reason}."
    next_action = "Take it out of the declaration, or correct how it is written."
    clause: str
    reason: str


class UnsafeProperty(SqlRefusal):
    code = "unsafe_property"
    message = "{where}: the table property {key} may not be declared: {reason}."
    next_action = "Take it out of TBLPROPERTIES."
    key: str
    reason: str


class InvalidSqlName(SqlRefusal):
    """A name that may not reach a path or SQL (``core.names``), with its place."""

    code = "invalid_name"
    message = "{where}: {name!r} is not a valid {kind} name: {rule}."
    next_action = "Choose another {kind} name."
    kind: str
    name: str
    rule: str


class DuplicateName(SqlRefusal):
    code = "duplicate_name"
    message = "{where}: the {kind} {name} is there already (names are compared without case)."
    next_action = "Give each {kind} a name of its own."
    kind: str
    name: str


class DuplicateCollection(SqlRefusal):
    code = "duplicate_collection"
    message = "{where}: the collection is declared already, in line {first_line}."
    next_action = "Declare each collection once."
    first_line: int


class UndeclaredColumn(SqlRefusal):
    code = "unknown_column"
    message = "{where}: {used_by} uses {name}, and there is no such column."
    next_action = "Declare the column, or correct the name."
    name: str
    used_by: str


class InvalidUse(SqlRefusal):
    """A column or an expression where it cannot be used."""

    code = "invalid_use"
    message = "{where}: {used_by} is not allowed: {reason}."
    next_action = "Correct this part of the declaration."
    used_by: str
    reason: str
