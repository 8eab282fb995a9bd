"""The values of partition columns, which a table's log holds as texts: not every value has one, and some have more than one."""

from __future__ import annotations

from airflow_provider_schemamig.core.schema.model import Declaration, Primitive

#: Texts that Spark writes NULL for in a partition column, and says nothing. Delta-rs keeps them, until Spark writes the rows anew.
KEPT_AS_NULL = ("", "__HIVE_DEFAULT_PARTITION__")

#: Delta's types of which every engine writes a value with the same text, but for those.
ONE_TEXT = frozenset({"string", "byte", "short", "integer", "long", "date", "boolean"})

#: Types, as a declaration has them, whose values delta-rs writes so that all read them alike. Of the others: it escapes BINARY, puts a
#: second sign into a negative DECIMAL, makes names that no disk takes of a large DOUBLE, and leaves the time zone away.
_BY_DELTA_RS = frozenset({"string", "tinyint", "smallint", "int", "bigint", "date", "boolean", "timestamp_ntz"})
#: How the names of types of texts begin: VARCHAR and CHAR have a length behind it.
_TEXTS = ("string", "varchar", "char")


def text_partitions(declaration: Declaration) -> tuple[str, ...]:
    """Return the columns of texts that a table is partitioned by."""
    return tuple(name for name in declaration.partitioned_by if _type(declaration, name).startswith(_TEXTS))


def not_by_delta_rs(declaration: Declaration) -> str | None:
    """Return a partition column whose values delta-rs might write wrongly; None if there is none."""
    return next((name for name in declaration.partitioned_by if _type(declaration, name) not in _BY_DELTA_RS), None)


def _type(declaration: Declaration, name: str) -> str:
    field = declaration.field(name)
    return field.type.name if field is not None and isinstance(field.type, Primitive) else ""
