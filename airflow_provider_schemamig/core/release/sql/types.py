"""Spark SQL's data types, read strictly: what Delta cannot store as declared is refused with its place."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import name_key
from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.errors import DuplicateName, UnknownType, UnsupportedClause
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, TokenKind
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Primitive, Struct

_NAMES = {
    **{name: name for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date")},
    **{name: name for name in ("timestamp", "timestamp_ntz")},
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "timestamp_ltz": "timestamp",
}
#: One object a type, so that columns of equal types are compared in no time.
_ATOMIC = {name: Primitive(canonical) for name, canonical in _NAMES.items()}
_DECIMAL = ("decimal", "dec", "numeric")
_REFUSED = {
    "char": "Delta stores it padded and cannot widen it; use VARCHAR(n) or STRING",
    "character": "Delta stores it padded and cannot widen it; use VARCHAR(n) or STRING",
    "interval": "Delta tables cannot store it",
    "time": "schemamig does not manage it",
    "void": "a column needs a type that can hold values",
    "variant": "schemamig does not manage it",
}
#: Stands in for a type that was refused, so that reading goes on.
_PLACEHOLDER = Primitive("string")
_MAX_NESTING = 50
_MAX_PRECISION = 38


def data_type(cursor: Cursor, *, depth: int = 0, in_collection: bool = False) -> DataType:
    """Read one type. ``in_collection``: inside an array or map. Raises SqlSyntax; notes UnknownType, UnsupportedClause, DuplicateName."""
    token = cursor.peek()
    if depth > _MAX_NESTING:
        raise cursor.syntax(f"types are nested deeper than {_MAX_NESTING}", token)
    if token.kind is not TokenKind.WORD:
        raise cursor.unexpected("a data type")
    name = cursor.next().text.lower()
    if name in _ATOMIC:  # nearly all are
        is_without_zone = name == "timestamp" and cursor.accept("WITHOUT", "TIME", "ZONE")
        return _ATOMIC["timestamp_ntz" if is_without_zone else name]
    match name:
        case "array" | "map" | "struct":
            return _complex(cursor, token, name, depth, in_collection)
        case "varchar":
            return _varchar(cursor, token, depth)
        case _ if name in _DECIMAL:
            return _decimal(cursor, token)
    _skip_parameters(cursor)
    return _refuse(cursor, token, token.text, _REFUSED.get(name, "Spark has no such type"))


def _complex(cursor: Cursor, token: Token, name: str, depth: int, in_collection: bool) -> DataType:
    if cursor.accept("<>"):
        return _refuse(cursor, token, f"{token.text}<>", "it is empty")
    cursor.expect("<")
    if name == "struct":
        fields = _fields(cursor, depth, in_collection)
        cursor.expect(">")
        return Struct(fields)
    first = data_type(cursor, depth=depth + 1, in_collection=True)
    if name == "array":
        cursor.expect(">")
        return Array(first)
    cursor.expect(",")
    second = data_type(cursor, depth=depth + 1, in_collection=True)
    cursor.expect(">")
    return Map(first, second)


def _fields(cursor: Cursor, depth: int, in_collection: bool) -> tuple[Field, ...]:
    seen: set[str] = set()
    fields = [_field(cursor, depth, in_collection, seen)]
    while cursor.accept(","):
        fields.append(_field(cursor, depth, in_collection, seen))
    return tuple(fields)


def _field(cursor: Cursor, depth: int, in_collection: bool, seen: set[str]) -> Field:
    token = cursor.column_name()
    key = name_key(token.text)
    if key in seen:
        cursor.note(DuplicateName, token, kind="field", name=token.text)
    seen.add(key)
    cursor.accept(":")
    found = data_type(cursor, depth=depth + 1, in_collection=in_collection)
    option = cursor.peek()
    required = cursor.accept("NOT", "NULL")
    if required and in_collection:
        note_not_null_inside(cursor, option)
    comment = cursor.string() if cursor.accept("COMMENT") else None
    return Field(token.text, found, nullable=not required, comment=comment)


def note_not_null_inside(cursor: Cursor, token: Token) -> None:
    """Note a NOT NULL inside an array or map, at its place."""
    reason = "Delta enforces it in structs only and refuses writes to such a table"
    cursor.note(UnsupportedClause, token, clause="NOT NULL inside an array or map", reason=reason)


def _varchar(cursor: Cursor, token: Token, depth: int) -> DataType:
    if not cursor.accept("("):
        return _refuse(cursor, token, token.text, "it needs a length: VARCHAR(n)")
    length = cursor.integer()
    cursor.expect(")")
    if length < 1:
        return _refuse(cursor, token, f"VARCHAR({length})", "its length is at least 1")
    if depth:
        return _refuse(cursor, token, f"VARCHAR({length})", "Delta keeps the limit of top-level columns only; use STRING here")
    return Primitive(f"varchar({length})")


def _decimal(cursor: Cursor, token: Token) -> DataType:
    precision, scale = 10, 0
    if cursor.accept("("):
        precision = cursor.integer()
        scale = cursor.integer() if cursor.accept(",") else 0
        cursor.expect(")")
    if not (1 <= precision <= _MAX_PRECISION and scale <= precision):
        reason = f"the precision is 1 to {_MAX_PRECISION}, the scale at most the precision"
        return _refuse(cursor, token, f"DECIMAL({precision},{scale})", reason)
    return Primitive(f"decimal({precision},{scale})")


def _refuse(cursor: Cursor, token: Token, type_name: str, reason: str) -> DataType:
    cursor.note(UnknownType, token, type_name=type_name, reason=reason)
    return _PLACEHOLDER


def _skip_parameters(cursor: Cursor) -> None:
    """Skip what follows an unknown type: ``(10)``, ``<...>``, or the words of an interval."""
    closing = {"(": ")", "<": ">"}
    opened = cursor.peek().text if cursor.peek().kind is TokenKind.SYMBOL and cursor.peek().text in closing else None
    if opened is None:
        return
    depth = 0
    while not cursor.at_end:
        token = cursor.next()
        depth += (token.text == opened) - (token.text == closing[opened]) if token.kind is TokenKind.SYMBOL else 0
        if depth == 0:
            return
