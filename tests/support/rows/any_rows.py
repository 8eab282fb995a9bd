"""Rows of random nested types, and what tells their values apart, in plain Python: written without a look at what Spark is asked.

Types are pyspark's. There are few primitive values, so that many rows differ by nothing but where a NULL is or where an array ends.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Hashable, Sequence
from datetime import date, datetime
from typing import Any

from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

_NUMBERS = (0.0, -0.0, math.nan, 1.5)
#: A type with the values that there are of it.
_PRIMITIVES: Sequence[tuple[DataType, Sequence[Any]]] = (
    (IntegerType(), (0, 1)),
    (LongType(), (0, 1)),
    (ShortType(), (0, 1)),
    (BooleanType(), (False, True)),
    (StringType(), ("", "a")),
    (BinaryType(), (b"", b"a")),
    (DateType(), (date(1970, 1, 1), date(1970, 1, 2))),
    (TimestampNTZType(), (datetime(1970, 1, 1), datetime(1970, 1, 1, microsecond=1))),  # noqa: DTZ001  (it has none)
    (DecimalType(9, 2), (decimal.Decimal("0.00"), decimal.Decimal("0.01"))),
    (DecimalType(38, 2), (decimal.Decimal("0.00"), decimal.Decimal("0.01"))),
    (DoubleType(), _NUMBERS),
    (FloatType(), _NUMBERS),
)
_VALUES = {found.typeName() + str(found): values for found, values in _PRIMITIVES}
_MOST = 3


def types(depth: int = 3) -> st.SearchStrategy[DataType]:
    """Any type that Delta stores; the key of a map is no map, nor has one in it."""
    primitive = st.sampled_from([found for found, _ in _PRIMITIVES])
    key = primitive | st.lists(primitive, min_size=1, max_size=2).map(_struct)

    def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
        fields = st.lists(inner, min_size=1, max_size=_MOST).map(_struct)
        return st.one_of(inner.map(ArrayType), fields, st.builds(MapType, key, inner))

    return st.recursive(primitive, nested, max_leaves=depth * 2)


def values(found: DataType, *, inside_key: bool = False) -> st.SearchStrategy[Any]:
    """Values as ``createDataFrame`` takes them, NULL among them unless in a key."""
    match found:
        case StructType():
            value: st.SearchStrategy[Any] = st.tuples(*(values(field.dataType, inside_key=inside_key) for field in found.fields))
        case ArrayType():
            value = st.lists(values(found.elementType), max_size=_MOST)
        case MapType():
            value = st.dictionaries(values(found.keyType, inside_key=True), values(found.valueType), max_size=_MOST - 1)
        case _:
            # Spark makes 0.0 of -0.0 in a key, and Python takes two NaN in one map for two keys.
            known = [v for v in _VALUES[found.typeName() + str(found)] if not (inside_key and (v != v or str(v) == "-0.0"))]
            value = st.sampled_from(known)
    return value if inside_key else st.none() | value


def schemas(columns: int) -> st.SearchStrategy[StructType]:
    return st.lists(types(), min_size=columns, max_size=columns).map(_struct)


def rows(schema: StructType, count: int) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    row = st.tuples(*(values(field.dataType) for field in schema.fields))
    return st.lists(row, min_size=count, max_size=count)


def told_apart(value: Any, found: DataType) -> Hashable:
    """Equal for values that are the same: all NaN are one, -0.0 is not 0.0, a map has no order. Takes what Spark gives, too."""
    if value is None:
        return None
    match found:
        case StructType():
            return "struct", tuple(told_apart(item, field.dataType) for item, field in zip(value, found.fields, strict=True))
        case ArrayType():
            return "array", tuple(told_apart(item, found.elementType) for item in value)
        case MapType():
            return "map", frozenset((told_apart(key, found.keyType), told_apart(item, found.valueType)) for key, item in value.items())
        case DoubleType() | FloatType():
            return "nan" if math.isnan(value) else struct.pack(">d", value)
        case _:
            return "value", bytes(value) if isinstance(value, bytearray) else value


def whole_row(row: Sequence[Any], schema: StructType) -> Hashable:
    return tuple(told_apart(value, field.dataType) for value, field in zip(row, schema.fields, strict=True))


def _struct(inner: Sequence[DataType]) -> StructType:
    return StructType([StructField(f"f{number}", found) for number, found in enumerate(inner)])


#: (type, one value, another one) that differ by a NULL inside, a border or a sign, and by nothing else.
NEIGHBOURS: Sequence[tuple[str, str, str]] = (
    ("STRUCT<a: INT, b: INT>", "named_struct('a', 1, 'b', NULL)", "named_struct('a', NULL, 'b', 1)"),
    ("STRUCT<a: INT, b: INT>", "named_struct('a', NULL, 'b', NULL)", "NULL"),
    ("STRUCT<a: STRUCT<b: INT>>", "named_struct('a', NULL)", "named_struct('a', named_struct('b', NULL))"),
    ("ARRAY<INT>", "array(1)", "array(NULL, 1, NULL)"),
    ("ARRAY<INT>", "NULL", "array()"),
    ("ARRAY<ARRAY<INT>>", "array(array(1, 2), array(3))", "array(array(1), array(2, 3))"),
    ("ARRAY<STRUCT<a: INT, b: STRING>>", "array(named_struct('a', 1, 'b', NULL))", "array(named_struct('a', 1, 'b', NULL), NULL)"),
    ("MAP<STRING, INT>", "map('a', 1)", "map('a', 1, 'b', NULL)"),
    ("MAP<STRING, ARRAY<INT>>", "map('a', array(1), 'b', array())", "map('a', array(), 'b', array(1))"),
    ("DOUBLE", "0.0D", "-0.0D"),
    ("FLOAT", "-0.0F", "0.0F"),
    ("ARRAY<DOUBLE>", "array(0.0D)", "array(-0.0D)"),
    ("MAP<INT, STRUCT<a: FLOAT>>", "map(1, named_struct('a', -0.0F))", "map(1, named_struct('a', 0.0F))"),
)
