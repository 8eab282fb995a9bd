"""Frozen dataclasses to JSON values and back, by their type hints.

One codec for everything that is stored: ledger rows, plans, chains. A dataclass becomes an object of its fields (those equal to their
default are left out, so a field added later with a default reads old rows); a member of a union of dataclasses carries its tag under
``@``, which is no name of a class. Enums, ids, versions and UTC times have one text form each. Hand-written because coders are compiled
once per class and opening a ledger of thousands of rows rests on it; the general libraries measured several times slower on nested unions.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.exceptions import SchemamigError

T = TypeVar("T")

TAG = "@"
Coder = Callable[[Any], Any]


def canonical(value: Any) -> str:
    """The one JSON text of a JSON value: sorted keys, no spaces, no escapes beyond JSON's own. Digests and ledger rows rest on it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def to_json(value: Any) -> Any:
    """A JSON value of a dataclass, or of anything made of dataclasses, tuples, mappings and atoms."""
    return encoder(type(value))(value)


def from_json(kind: Any, data: Any) -> Any:
    """The value of type ``kind`` (a class or a type hint). Raises ValueError, KeyError or TypeError if ``data`` has another shape."""
    return decoder(kind)(data)


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """Why bytes are no value."""

    reason: str


def parsed(kind: type[T], data: bytes) -> T | Unreadable:
    """Return the value of an object that others may have damaged, or newer software written."""
    try:
        found: T = from_json(kind, json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, SchemamigError) as error:
        return Unreadable(f"it is no {kind.__name__} ({type(error).__name__}: {error})")
    return found


_ENCODERS: dict[Any, Coder] = {}


def encoder(kind: type[Any]) -> Coder:
    """Return the encoder of a class, chosen once."""
    found = _ENCODERS.get(kind)
    if found is None:
        found = _ENCODERS[kind] = _choose_encoder(kind)
    return found


def _choose_encoder(kind: type[Any]) -> Coder:
    if dataclasses.is_dataclass(kind) and kind is not Version:
        return _encode_dataclass
    if kind is Version:
        return str
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, datetime):
        return lambda value: value.astimezone(UTC).isoformat()
    if issubclass(kind, tuple | list | frozenset):
        return lambda value: [to_json(item) for item in value]
    if issubclass(kind, Mapping):
        return lambda value: {str(key): to_json(item) for key, item in value.items()}
    return lambda value: value


def _encode_dataclass(value: Any) -> dict[str, Any]:
    kind = type(value)
    tag = TAGS.get(kind)
    data: dict[str, Any] = {} if tag is None else {TAG: tag}
    for name, default in _field_defaults(kind):
        item = getattr(value, name)
        if default is dataclasses.MISSING or item != default:
            data[name] = item if item is None or type(item) in (str, int, bool, float) else to_json(item)
    return data


_FIELD_DEFAULTS: dict[Any, tuple[tuple[str, Any], ...]] = {}


def _field_defaults(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    found = _FIELD_DEFAULTS.get(kind)
    if found is None:
        found = _FIELD_DEFAULTS[kind] = tuple((f.name, f.default) for f in dataclasses.fields(kind))
    return found


#: The tag of each member of a union.
TAGS: dict[type[Any], str] = {}


def union(members: Mapping[str, type[Any]]) -> None:
    """Declare classes as members of a tagged union: their objects carry the tag, wherever they stand. A class may get another name."""
    TAGS.update({kind: tag for tag, kind in members.items()})


@functools.cache
def decoder(kind: Any) -> Coder:
    """Return the decoder of a type hint, compiled once."""
    if isinstance(kind, typing.NewType):
        return decoder(kind.__supertype__)
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union_decoder(arguments)
    if origin is tuple:
        return _tuple_decoder(arguments)
    if origin is not None and issubclass(origin, Mapping):
        item = decoder(arguments[1])
        return lambda data: {key: item(value) for key, value in data.items()}
    if origin is not None and issubclass(origin, Sequence):
        item = decoder(arguments[0])
        return lambda data: tuple(item(value) for value in data)
    return _class_decoder(kind)


def _class_decoder(kind: Any) -> Coder:
    if kind is Version:
        return Version.parse
    if isinstance(kind, type) and issubclass(kind, datetime):
        return _time
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if dataclasses.is_dataclass(kind):
        return _dataclass_decoder(typing.cast(type[Any], kind))
    if kind in (str, int, bool, float):
        return functools.partial(_atom, kind)
    return lambda data: data


def _atom(kind: type[Any], data: Any) -> Any:
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise TypeError(f"expected {kind.__name__}, found {type(data).__name__}")
    return data


def _time(data: str) -> datetime:
    import pendulum  # here, because Spark jobs on a cluster use the schema layer without it

    value = pendulum.parse(data)
    if not isinstance(value, pendulum.DateTime):
        raise TypeError(f"not a time: {data!r}")
    return value


def _union_decoder(arguments: tuple[Any, ...]) -> Coder:
    members = [argument for argument in arguments if argument is not type(None)]
    if len(members) == 1:
        item = decoder(members[0])
        return lambda data: None if data is None else item(data)
    by_tag = {TAGS[member]: member for member in members}

    def decode(data: Any) -> Any:
        return None if data is None else decoder(by_tag[data[TAG]])(data)

    return decode


def _tuple_decoder(arguments: tuple[Any, ...]) -> Coder:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = decoder(arguments[0])
        return lambda data: tuple(item(value) for value in data)
    items = [decoder(argument) for argument in arguments]
    return lambda data: tuple(item(value) for item, value in zip(items, data, strict=True))


def _dataclass_decoder(kind: type[Any]) -> Coder:
    coders: dict[str, Coder] = {}

    def decode(data: Any) -> Any:
        if not coders:  # on first use, so that a recursive type (DataType) does not recurse here
            hints = typing.get_type_hints(kind)
            coders.update({f.name: decoder(hints[f.name]) for f in dataclasses.fields(kind)})
        return kind(**{name: coders[name](value) for name, value in data.items() if name != TAG})

    return decode
