"""Names and types as Spark SQL text. Everything that builds a statement quotes through here."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.schema.model import Array, DataType, Map, Primitive, Struct

__all__ = ["quote", "string_sql", "type_sql"]


def string_sql(text: str) -> str:
    """Write a text as a string literal of Spark SQL, on one line."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def type_sql(data_type: DataType) -> str:
    """Write a type as Spark SQL, without nested NOT NULL and comments (a CAST takes neither): ``STRUCT<`a`: INT>``."""
    match data_type:
        case Primitive(name=name):
            return name.upper()
        case Array(element=element):
            return f"ARRAY<{type_sql(element)}>"
        case Map(key=key, value=value):
            return f"MAP<{type_sql(key)}, {type_sql(value)}>"
        case Struct(fields=fields):
            return f"STRUCT<{', '.join(f'{quote(f.name)}: {type_sql(f.type)}' for f in fields)}>"
