"""What a part of an expression gives, as far as one can tell without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.expressions.operands import operators, result_of
from airflow_provider_schemamig.core.schema.expressions.paths import follow_column
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import spark_text
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Primitive, Struct

if TYPE_CHECKING:
    from sqlglot import exp

_NUMBERS = dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integral") | dict.fromkeys(("float", "double"), "double")
_TIME_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")
_ATOMS = ("boolean", "binary", "date", "timestamp", "timestamp_ntz")


def column_type(node: exp.Expr, fields: tuple[Field, ...]) -> DataType | None:
    from sqlglot import exp

    column = node.find(exp.Column)
    if column is None:
        return None
    followed = follow_column(column, fields)
    return followed.type if followed.node is node and not followed.lost and not followed.arrays else None


def kind_of(node: exp.Expr, fields: tuple[Field, ...]) -> str | None:
    """Return what a part gives: ``boolean``, ``number``, ``string``, ``date``, ..., ``null``; None if it cannot be told."""
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return kind_of(node.this, fields)
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else _number_kind(node.name)
    if isinstance(node, exp.Null):
        return "null"
    if isinstance(node, exp.Interval):
        return "interval" if str(node.unit).rstrip("Ss").upper() in _TIME_UNITS else None
    if isinstance(
        node, exp.Boolean | exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.NullSafeEQ | exp.Is | exp.In | exp.Between
    ):
        return "boolean"
    if isinstance(node, exp.Connector | exp.Not):
        return "boolean"  # whatever stands beside it: of many ORs each is looked at by itself
    if type(node) in operators():
        return result_of(node, lambda side: kind_of(side, fields))
    if isinstance(node, exp.Cast):
        return cast_kind(node)
    found = column_type(node, fields) if isinstance(node, exp.Column | exp.Dot | exp.Bracket) else None
    return None if found is None else atom(found)


def _number_kind(number: str) -> str:
    if number.isdigit():
        return "integral"
    return "double" if "e" in number.lower() else "decimal" if number.replace(".", "", 1).isdigit() else "number"


def cast_kind(node: exp.Cast) -> str | None:
    from sqlglot import exp

    of = exp.DataType.Type
    kinds = {
        "boolean": (of.BOOLEAN,),
        "integral": (of.TINYINT, of.SMALLINT, of.INT, of.BIGINT),
        "decimal": (of.DECIMAL,),
        "double": (of.FLOAT, of.DOUBLE),
        "number": tuple(exp.DataType.NUMERIC_TYPES),
        "string": tuple(exp.DataType.TEXT_TYPES),
        "binary": (of.BINARY, of.VARBINARY),
        "date": (of.DATE,),
        "timestamp": (of.TIMESTAMP, of.TIMESTAMPTZ, of.TIMESTAMPLTZ),
        "timestamp_ntz": (of.TIMESTAMPNTZ,),
    }
    return next((kind for kind, types in kinds.items() if node.to.this in types), None)


_FROM_NUMBERS = ("integral", "decimal", "double", "number")
#: What Spark casts to each kind, in any row; to a text it casts everything.
_CASTS = {
    **dict.fromkeys(_FROM_NUMBERS, (*_FROM_NUMBERS, "string", "boolean", "timestamp")),
    "boolean": (*_FROM_NUMBERS, "string", "boolean"),
    "binary": ("string", "binary"),
    "date": ("string", "date", "timestamp", "timestamp_ntz"),
    "timestamp": (*_FROM_NUMBERS, "string", "date", "timestamp", "timestamp_ntz"),
    "timestamp_ntz": ("string", "date", "timestamp", "timestamp_ntz"),
}


def cast_faults(parsed: exp.Expr, fields: tuple[Field, ...]) -> Iterator[str]:
    """Yield the casts that Spark does not make of any value."""
    from sqlglot import exp

    for node in parsed.find_all(exp.Cast):
        given, wanted = kind_of(node.this, fields), cast_kind(node)
        if given in (*_CASTS, "array", "map", "struct") and wanted in _CASTS and given not in _CASTS[wanted]:
            yield f"Spark casts no {given.upper()} to {spark_text(node.to)}"


def atom(data_type: DataType) -> str:
    match data_type:
        case Primitive(name=name) if name in _ATOMS:
            return name
        case Primitive(name=name) if name == "string" or name.startswith("varchar("):
            return "string"
        case Primitive(name=name):
            return "decimal" if name.startswith("decimal(") else _NUMBERS.get(name, name)
        case Array():
            return "array"
        case Map():
            return "map"
        case Struct():
            return "struct"
