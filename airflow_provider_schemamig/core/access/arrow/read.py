"""A fit over Arrow arrays, without a JVM: the same columns, types and rows as ``select`` gives in Spark.

delta-rs reads and writes only what it reads and writes rightly: the closed lists below (rows and names of mapped, nested and
deletion-vector tables are compared with Spark's in the tests).
"""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.access.errors import NeedsSpark
from airflow_provider_schemamig.core.access.read_mapping import Fit
from airflow_provider_schemamig.core.access.write_mapping import BEYOND_FLOAT
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.schema.delta_json import field_to_delta
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.paths import Fields, join
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.spark.errors import BadValue

if TYPE_CHECKING:
    import pyarrow as pa


def check_honest(head: Head, collection: CollectionName, known: frozenset[str], doing: str) -> None:
    """Raise NeedsSpark if the table has a feature that delta-rs may get wrong."""
    other = sorted(head.features - known)
    if other:
        raise NeedsSpark(collection=collection, doing=doing, because=f"the table has the features {', '.join(other)}")


def check_readable(fit: Fit, collection: CollectionName) -> None:
    """Raise NeedsSpark for a map of structs: delta-rs fails on files from before a field was added to the structs."""
    for field in fit.source.fields:
        if _has_map_of_structs(field.type):
            raise NeedsSpark(collection=collection, doing="reading", because=f"column {field.name} is a map of structs")


def _has_map_of_structs(data_type: DataType) -> bool:
    match data_type:
        case Primitive():
            return False
        case Array(element=element):
            return _has_map_of_structs(element)
        case Map(key=key, value=value):
            return _has_struct(key) or _has_struct(value)
        case Struct(fields=fields):
            return any(_has_map_of_structs(field.type) for field in fields)


def _has_struct(data_type: DataType) -> bool:
    """Return whether there is a struct in it."""
    match data_type:
        case Primitive():
            return False
        case Array(element=element):
            return _has_struct(element)
        case Map(key=key, value=value):
            return _has_struct(key) or _has_struct(value)
        case Struct():
            return True


def arrow_schema(fields: Fields) -> pa.Schema:
    """Return the columns in Arrow's types, as delta-rs maps them from Delta's. Spark does the same for all types that a declaration may
    have."""
    import pyarrow as pa
    from deltalake import Schema

    document = {"type": "struct", "fields": [field_to_delta(Field(f.name, f.type, f.nullable)) for f in fields]}
    schema: pa.Schema = pa.schema(Schema.from_json(json.dumps(document)).to_arrow())
    return pa.schema([pa.field(f.name, _plain(f.type), f.nullable) for f in schema])


def show(table: pa.Table, fit: Fit) -> pa.Table:
    """Return ``table``, which has the columns of ``fit.source`` by name, as ``fit.target``.

    Raises BadValue where a value does not fit; with a reader's fit every value does.
    """
    import pyarrow as pa

    schema = arrow_schema(fit.target.fields)
    shower = _Shower(match(fit.source, fit.shown, fit.renames))
    length = table.num_rows
    columns = []
    for field, target in zip(fit.shown.fields, schema, strict=True):
        path = join("", field.name)
        origin = shower.origins.get(path)
        if origin is None:
            columns.append(pa.nulls(length, target.type))
            continue
        source = fit.source.field(origin)
        assert source is not None  # origins are paths of the source
        column = table[origin].combine_chunks()
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        try:
            found = shower.value(array, source.type, field.type, origin, path, target.type)
            columns.append(found if found.type == target.type else found.cast(target.type))
        except pa.ArrowInvalid as error:
            wanted = fit.target.field(field.name)
            assert wanted is not None  # it has the columns of ``shown``
            raise BadValue(condition="Arrow", detail=f"column {path} is {type_sql(wanted.type)}: {error}") from error
    return pa.table(columns, schema=schema) if columns else pa.table({})


def _plain(data_type: Any) -> Any:
    """Return the type without field metadata (Delta's varchar marker and the like), which would make equal tables unequal."""
    import pyarrow as pa

    if pa.types.is_struct(data_type):
        inner = [data_type.field(number) for number in range(data_type.num_fields)]
        return pa.struct([pa.field(f.name, _plain(f.type), f.nullable) for f in inner])
    if pa.types.is_list(data_type):
        return pa.list_(pa.field("element", _plain(data_type.value_type), data_type.value_field.nullable))
    if pa.types.is_map(data_type):
        return pa.map_(_plain(data_type.key_type), pa.field("value", _plain(data_type.item_type), data_type.item_field.nullable))
    return data_type


class _Shower:
    """Arrays of the source's type to arrays of the shown one. ``target``: the Arrow type in the end, for what is not there."""

    def __init__(self, origins: Any) -> None:
        self.origins = origins

    def value(self, array: Any, old: DataType, new: DataType, origin: str, path: str, target: Any) -> Any:
        match old, new:
            case Struct(), Struct():
                return self._struct(array, old, new, path, target)
            case Array(), Array():
                return self._list(array, old, new, origin, path, target)
            case Map(), Map():
                return self._map(array, old, new, origin, path, target)
            case _:
                return _cast(array, target)

    def _struct(self, array: Any, old: Struct, new: Struct, path: str, target: Any) -> Any:
        import pyarrow as pa

        types = {f.name: f.type for f in old.fields}
        # Flattened: what lies below a NULL is no value, and may be anything.
        inside = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
        children = []
        for field, wanted in zip(new.fields, (target.field(n) for n in range(target.num_fields)), strict=True):
            here = join(path, field.name)
            there = self.origins.get(here)
            if there is None:
                children.append(pa.nulls(len(array), wanted.type))
                continue
            name = there.rpartition(".")[2]
            children.append(self.value(inside[name], types[name], field.type, there, here, wanted.type))
        # Below a struct that is NULL there are NULLs, whatever its fields are: Arrow's own cast would refuse those.
        fields = [field.with_nullable(field.nullable or _lacks(child, array)) for field, child in zip(target, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())

    def _list(self, array: Any, old: Array, new: Array, origin: str, path: str, target: Any) -> Any:
        import pyarrow as pa

        array = _own_values(array)
        element = target.value_field.with_nullable(True)
        values = self.value(array.values, old.element, new.element, f"{origin}.element", f"{path}.element", target.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=pa.list_(element), mask=array.is_null())

    def _map(self, array: Any, old: Map, new: Map, origin: str, path: str, target: Any) -> Any:
        import pyarrow as pa

        array = _own_values(array)
        keys = self.value(array.keys, old.key, new.key, f"{origin}.key", f"{path}.key", target.key_type)
        items = self.value(array.items, old.value, new.value, f"{origin}.value", f"{path}.value", target.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())


def _lacks(child: Any, parent: Any) -> bool:
    """Return whether a field has no value in a struct that is there."""
    import pyarrow.compute as pc

    return bool(pc.any(pc.and_(child.is_null(), parent.is_valid())).as_py())


def _cast(array: Any, target: Any) -> Any:
    """Cast an array. Raises ArrowInvalid where a value would become another one: Arrow itself sees no overflow of a FLOAT."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = array.cast(target)
    narrows = pa.types.is_float32(target) and pa.types.is_float64(array.type)
    if narrows and pc.any(pc.and_not(pc.is_inf(found), pc.is_inf(array))).as_py():
        raise pa.ArrowInvalid(BEYOND_FLOAT)
    return found


def _own_values(array: Any) -> Any:
    """Return a list or map array as no slice of a longer one, and without values under its NULLs. Those could be anything."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.offset:  # a slice's offsets are relative to the whole array
        array = pa.concat_arrays([array])  # ``take`` knows no views, as which delta-rs scans texts
    lengths = pc.subtract(array.offsets[1:], array.offsets[:-1])
    if not pc.any(pc.and_(array.is_null(), pc.greater(lengths, 0))).as_py():
        return array
    spans, valid = lengths.to_pylist(), array.is_valid().to_pylist()
    begin = array.offsets[0].as_py()
    kept = pa.array([is_value for span, is_value in zip(spans, valid, strict=True) for _ in range(span)], pa.bool_())
    offsets = pa.array(accumulate((span * is_value for span, is_value in zip(spans, valid, strict=True)), initial=0), pa.int32())

    def of(values: Any) -> Any:
        return values.slice(begin, len(kept)).filter(kept)

    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(offsets, of(array.keys), of(array.items), type=array.type, mask=array.is_null())
    return pa.ListArray.from_arrays(offsets, of(array.values), type=array.type, mask=array.is_null())
