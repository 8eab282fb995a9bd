"""Names and types as Spark SQL text. Everything that builds a statement quotes through here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import KEPT_AS_NULL
from airflow_provider_schemamig.core.schema.model import Array, DataType, Map, Primitive, Struct

__all__ = ["kept_text", "quote", "string_sql", "type_sql", "without_texts_kept_as_null"]


def string_sql(text: str) -> str:
    """Write a text as a string literal of Spark SQL, on one line."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def without_texts_kept_as_null(query: str, columns: Sequence[str], text_partitions: Collection[str]) -> str:
    """Return the query of these columns, failing for a text in one of ``text_partitions`` that Spark would write NULL for."""
    if not set(columns) & set(text_partitions):
        return query
    values = (f"{kept_text(name, quote(name))} AS {quote(name)}" if name in text_partitions else quote(name) for name in columns)
    return f"SELECT {', '.join(values)} FROM (\n{query}\n)"


def kept_text(column: str, value: str) -> str:
    """Return the ``value`` of a partition column, failing for a text that Spark would write NULL for."""
    texts = ", ".join(map(string_sql, KEPT_AS_NULL))
    message = string_sql(f"{column}, by which the table is partitioned, is {' or '.join(map(repr, KEPT_AS_NULL))}: Delta keeps NULL for it")
    return f"IF({value} IN ({texts}), raise_error({message}), {value})"


def type_sql(data_type: DataType) -> str:
    """Write a type as Spark SQL, without nested NOT NULL and comments (a CAST takes neither): ``STRUCT<`a`: INT>``."""
    return _type_sql(data_type, str.upper)


def exact_type_sql(data_type: DataType) -> str:
    """Write a type as ``type_sql`` does, so that it is the same on every session: what TIMESTAMP means is a setting."""
    return _type_sql(data_type, lambda name: "TIMESTAMP_LTZ" if name == "timestamp" else name.upper())


def _type_sql(data_type: DataType, named: Callable[[str], str]) -> str:
    match data_type:
        case Primitive(name=name):
            return named(name)
        case Array(element=element):
            return f"ARRAY<{_type_sql(element, named)}>"
        case Map(key=key, value=value):
            return f"MAP<{_type_sql(key, named)}, {_type_sql(value, named)}>"
        case Struct(fields=fields):
            return f"STRUCT<{', '.join(f'{quote(f.name)}: {_type_sql(f.type, named)}' for f in fields)}>"
