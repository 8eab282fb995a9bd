"""Rows as JSON text and back, by the types of a declaration: the one form in which fixtures are stored and rows are compared.

Equal rows have equal text: decimals carry exactly their scale, maps are sorted pairs, times are ISO 8601 in UTC. So what is decoded and
encoded again is the very same text, and a value that was widened on the way compares as what it is declared to be now.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.schema.delta_rules.widening import decimal_of, varchar_length
from airflow_provider_schemamig.core.schema.model import Array, DataType, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.paths import Fields

Row = dict[str, Any]
"""Values by column name, as pyarrow's ``to_pylist`` gives them: a map is a list of pairs, a timestamp an aware datetime."""

#: Whole numbers and the bits of their values.
_INTEGER = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_MIDNIGHT = datetime.min.time()
#: As many as a decimal of Delta has; Python's own context knows 28.
_DIGITS = Context(prec=38)


def row_text(row: Row, fields: Fields) -> str:
    """Return the canonical text of a row. Raises ValueError for a value that its column cannot hold, and for NULL where none may be."""
    return canonical(_encode_fields(row, fields))


def row_of(text: str, fields: Fields) -> Row:
    """Return the row of a JSON text. Raises ValueError (also where a column is missing, unknown, or NULL and may not be)."""
    data = json.loads(text)
    row = _decode_fields(data, fields)
    _encode_fields(row, fields)  # NOT NULL, ranges, scales
    return row


def value_json(value: Any, data_type: DataType) -> Any:
    """Convert one value to JSON; None stays None."""
    if value is None:
        return None
    match data_type:
        case Primitive(name=name):
            return _encode_atom(value, name)
        case Array(element=element):
            return [value_json(item, element) for item in value]
        case Map(key=key, value=item):
            pairs = value.items() if isinstance(value, Mapping) else value
            return sorted(([value_json(k, key), value_json(v, item)] for k, v in pairs), key=canonical)
        case Struct(fields=fields):
            return _encode_fields(value, fields)


def _encode_fields(row: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    found = {}
    for field in fields:
        value = row[field.name]
        if value is None and not field.nullable:
            raise ValueError(f"{field.name} is NULL, and declared NOT NULL")
        found[field.name] = value_json(value, field.type)
    return found


def _encode_atom(value: Any, name: str) -> Any:
    decimal = decimal_of(name)
    if decimal is not None:
        return _decimal_text(value, *decimal)
    if name in _INTEGER:
        if int(value) != value or isinstance(value, bool) or not -(2 ** _INTEGER[name]) <= value < 2 ** _INTEGER[name]:
            raise ValueError(f"{value!r} is no {name}")
        return int(value)
    return _encode_other(value, name)


def _encode_other(value: Any, name: str) -> Any:
    match name:
        case "boolean":
            return _is(value, bool)
        case "float":
            return _float(value)
        case "double":
            return float(value)
        case "binary":
            return _is(value, bytes).hex()
        case "date":
            return _is(value, date).isoformat()
        case "timestamp":
            return _is(value, datetime).astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case "timestamp_ntz":
            moment = value if isinstance(value, datetime) else datetime.combine(_is(value, date), _MIDNIGHT)
            return moment.isoformat(timespec="microseconds")
    text = _is(value, str)
    length = varchar_length(name)
    if length is not None and len(text) > length:
        raise ValueError(f"{text!r} is longer than {name}")
    return text


def _decimal_text(value: Any, precision: int, scale: int) -> str:
    exact = Decimal(value)
    try:
        rounded = exact.quantize(Decimal(1).scaleb(-scale), context=_DIGITS)
    except InvalidOperation as error:  # no number, or of too many digits
        raise ValueError(f"{value} does not fit into decimal({precision},{scale})") from error
    if rounded != exact or len(rounded.as_tuple().digits) > precision:
        raise ValueError(f"{value} does not fit into decimal({precision},{scale})")
    return f"{rounded:f}"


def _float(value: Any) -> float:
    """Return the number if 32 bits hold it. Raises ValueError, OverflowError."""
    (nearest,) = struct.unpack("f", struct.pack("f", value))
    if nearest != value and not math.isnan(nearest):
        raise ValueError(f"{value!r} is no float, which has 32 bits: {nearest!r} is the nearest")
    return float(value)


def _is(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _decode_fields(data: Any, fields: Fields) -> Row:
    names = [field.name for field in fields]
    if not isinstance(data, dict) or sorted(data) != sorted(names):
        raise ValueError(f"its columns are not {', '.join(names)}")
    return {field.name: _decode(data[field.name], field.type) for field in fields}


def _decode(data: Any, data_type: DataType) -> Any:
    if data is None:
        return None
    match data_type:
        case Primitive(name=name):
            return _decode_atom(data, name)
        case Array(element=element):
            return [_decode(item, element) for item in _is(data, list)]
        case Map(key=key, value=value):
            return [(_decode(k, key), _decode(v, value)) for k, v in _pairs(data)]
        case Struct(fields=fields):
            return _decode_fields(data, fields)


def _pairs(data: Any) -> Sequence[Any]:
    if not isinstance(data, list) or any(not isinstance(pair, list) or len(pair) != 2 for pair in data):
        raise ValueError("a map is a list of [key, value]")
    if any(key is None for key, _ in data):
        raise ValueError("a key of a map is NULL")
    return data


def _decode_atom(data: Any, name: str) -> Any:
    if decimal_of(name) is not None:
        try:
            return Decimal(_is(data, str))
        except ArithmeticError as error:
            raise ValueError(f"{data!r} is no {name}") from error
    match name:
        case "boolean":
            return _is(data, bool)
        case "float" | "double":
            return float(data if isinstance(data, int) else _is(data, float))
        case "binary":
            return bytes.fromhex(_is(data, str))
        case "date":
            return date.fromisoformat(_is(data, str))
        case "timestamp" | "timestamp_ntz":
            return datetime.fromisoformat(_is(data, str))
    return _is(data, int) if name in _INTEGER else _is(data, str)
