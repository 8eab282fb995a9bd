"""The rows of a program's Arrow table, in the types of a Delta table.

Arrow has more types than Delta. Each way of writing would make its own of them: PySpark cuts nanoseconds off and takes a time without a
zone for one of the session's, delta-rs stops at zones that are not UTC. So they are converted here, before both, and no value is changed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.access.arrow.read import show
from airflow_provider_schemamig.core.access.errors import UnusableColumns
from airflow_provider_schemamig.core.access.read_mapping import Fit
from airflow_provider_schemamig.core.access.write_mapping import WriteFit
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.delta_json import field_to_delta
from airflow_provider_schemamig.core.spark.errors import BadValue

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_MOST_DIGITS = 38


def plain_rows(rows: pa.Table, collection: CollectionName, doing: str) -> pa.Table:
    """Return ``rows`` in types that a Delta table has; columns of type NULL stay.

    Raises BadValue for a value that does not fit these types, UnusableColumns for a type that has no counterpart.
    """
    import pyarrow as pa

    columns, fields = [], []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        target = field.type if pa.types.is_null(field.type) else _plain(field.type)
        try:
            if target is None:
                raise pa.ArrowNotImplementedError(str(field.type))
            column.validate(full=True)
            columns.append(column if target == field.type else column.cast(target))
        except pa.ArrowNotImplementedError as error:
            given = f"a column {field.name} of the Arrow type {field.type}, which no table has"
            raise UnusableColumns(collection=collection, doing=doing, given=given) from error
        except pa.ArrowInvalid as error:
            detail = f"column {field.name} is {field.type}: {error}"
            raise BadValue(collection=collection, condition="Arrow", detail=detail) from error
        fields.append(field.with_type(target))
    return pa.table(columns, schema=pa.schema(fields))


def _plain(found: Any) -> Any:
    """Return a table's type that holds all values of an Arrow type, or as many of them as a table can hold; None if there is none."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(found):
        return _plain(found.value_type)
    if kinds.is_struct(found):
        types = [_plain(field.type) for field in found]
        is_one_each = len({field.name.lower() for field in found}) == len(types)
        return (
            None if None in types or not is_one_each else pa.struct([field.with_type(new) for field, new in zip(found, types, strict=True)])
        )
    if kinds.is_map(found):
        key, item = _plain(found.key_type), _plain(found.item_type)
        return None if key is None or item is None else pa.map_(key, found.item_field.with_type(item))
    if kinds.is_list(found) or kinds.is_large_list(found) or kinds.is_fixed_size_list(found):
        element = _plain(found.value_type)
        return None if element is None else pa.list_(found.value_field.with_type(element))
    return _plain_atom(found)


def _plain_atom(found: Any) -> Any:
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_timestamp(found):
        return pa.timestamp("us", tz=None if found.tz is None else "UTC")
    if kinds.is_decimal(found):
        digits, scale = found.precision - min(found.scale, 0), max(found.scale, 0)
        return pa.decimal128(digits, scale) if scale <= digits <= _MOST_DIGITS else None
    unsigned = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}
    if kinds.is_unsigned_integer(found):
        return unsigned[found]
    if kinds.is_string(found) or kinds.is_large_string(found) or kinds.is_string_view(found):
        return pa.string()
    if kinds.is_binary(found) or kinds.is_large_binary(found) or kinds.is_binary_view(found) or kinds.is_fixed_size_binary(found):
        return pa.binary()
    if kinds.is_date(found):
        return pa.date32()
    if kinds.is_float16(found):
        return pa.float32()
    return found if kinds.is_integer(found) or kinds.is_floating(found) or kinds.is_boolean(found) else None


def frame_of(spark: SparkSession, rows: pa.Table, fit: WriteFit) -> tuple[DataFrame, WriteFit]:
    """Return ``rows`` as a DataFrame with the release's columns, and the fit for the rest of their way. Raises BadValue."""
    from pyspark.sql.types import StructType

    given = fit.given.target
    schema = StructType.fromJson(json.loads(json.dumps({"type": "struct", "fields": [field_to_delta(field) for field in given.fields]})))
    return spark.createDataFrame(show(rows, fit.given), schema), replace(fit, given=Fit(given, given, given, {}))
