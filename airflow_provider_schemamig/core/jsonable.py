"""Frozen dataclasses to JSON values and back, by their type hints.

One codec for everything that is stored: ledger rows, plans, chains. A dataclass becomes an object of its fields (those equal to their
default are left out, so a field added later with a default reads old rows); a member of a union of dataclasses carries its tag under
``@``, which is no name of a class. Enums, ids, versions and UTC times have one text form each. Coders are compiled once per
class: opening a ledger of thousands of rows rests on it. Measured beside msgspec, which is faster: docs/decisions/codec.md.
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
from json.encoder import encode_basestring
from typing import Any, TypeVar

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.exceptions import SchemamigError

T = TypeVar("T")

TAG = "@"
Coder = Callable[[Any], Any]


def canonical(value: Any) -> str:
    """Return the one JSON text of a JSON value: sorted keys, no spaces, no escapes beyond JSON's own. Digests and ledger rows rest on
    it."""
    return encode_basestring(value) if type(value) is str else _CANONICAL.encode(value)


#: Made once: ``json.dumps`` with options makes an encoder at each call, and the key of every row that is looked up is a text.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def to_text(value: Any) -> str:
    """Return the canonical text of a dataclass, or of anything made of dataclasses, tuples, mappings and atoms.

    Straight, with no JSON value in between: the plan of 10,000 collections would be 130 MiB of dictionaries.
    """
    return _ENCODERS[type(value)](value)


def to_json(value: Any) -> Any:
    """Return a JSON value of what ``to_text`` takes."""
    return json.loads(to_text(value))


def from_json(kind: Any, data: Any) -> Any:
    """Return the value of type ``kind`` (a class or a type hint). Raises ValueError, KeyError or TypeError if ``data`` has another
    shape."""
    return decoder(kind)(data)


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """Why bytes are no value."""

    reason: str


def parsed(kind: type[T], data: bytes, decode: Callable[[Any], T] | None = None) -> T | Unreadable:
    """Return the value of an object that others may have damaged, or newer software written. ``decode``: instead of the codec's own."""
    try:
        value = json.loads(data)
        found: T = from_json(kind, value) if decode is None else decode(value)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, SchemamigError) as error:
        return Unreadable(f"it is no {kind.__name__} ({type(error).__name__}: {error})")
    return found


class _Encoders(dict[type[Any], Callable[[Any], str]]):
    """The encoder of each class, chosen when the first of its values comes."""

    def __missing__(self, kind: type[Any]) -> Callable[[Any], str]:
        found = self[kind] = _choose_encoder(kind)
        return found


def _choose_encoder(kind: type[Any]) -> Callable[[Any], str]:
    if dataclasses.is_dataclass(kind) and kind is not Version:
        return _dataclass_encoder(kind)
    if kind is Version:
        return lambda value: encode_basestring(str(value))
    if issubclass(kind, Enum):
        return lambda value: to_text(value.value)
    if issubclass(kind, datetime):
        return lambda value: encode_basestring(value.astimezone(UTC).isoformat())
    if issubclass(kind, tuple | list | frozenset):
        return lambda value: f"[{','.join([_ENCODERS[type(item)](item) for item in value])}]"
    if issubclass(kind, Mapping):
        return _mapping_text
    return canonical


def _mapping_text(value: Mapping[Any, Any]) -> str:
    items = {str(key): item for key, item in value.items()}
    return f"{{{','.join(f'{encode_basestring(key)}:{to_text(items[key])}' for key in sorted(items))}}}"


_ENCODERS = _Encoders({str: encode_basestring, bool: lambda value: "true" if value else "false", type(None): lambda _: "null"})


def _dataclass_encoder(kind: type[Any]) -> Callable[[Any], str]:
    fields = [(f.name, f.default, f'"{f.name}":') for f in sorted(dataclasses.fields(kind), key=lambda f: f.name)]

    def encode(value: Any) -> str:
        tag = TAGS.get(kind)  # at each value: the module that declares the union may be imported later than this was made
        parts = [] if tag is None else [f'"{TAG}":{encode_basestring(tag)}']  # it sorts before all names of fields
        for name, default, begin in fields:
            item = getattr(value, name)
            if item is not default and (default is dataclasses.MISSING or item != default):
                parts.append(begin + _ENCODERS[type(item)](item))
        return f"{{{','.join(parts)}}}"

    return encode


#: How many values are kept of such a class (``share``): of so many columns 4 MiB.
_SHARED_AT_ONCE = 1 << 14
#: Equal value -> the one that is kept, by class.
_SHARED: dict[type[Any], Callable[[Any], Any]] = {}


def share(kind: type[T]) -> Callable[[T], T]:
    """Keep the newest values of a class, of which equal ones are decoded and encoded again and again, and their texts. Return what gives
    the kept one for an equal one.

    An upgrade reads and writes each column of a table ten times, and most of them are in many tables. A declaration of 14 columns is
    encoded in 12 us so, instead of 59.
    """
    _ENCODERS[kind] = functools.lru_cache(_SHARED_AT_ONCE)(_dataclass_encoder(kind))
    found: Callable[[T], T] = functools.lru_cache(_SHARED_AT_ONCE)(lambda value: value)
    _SHARED[kind] = found
    return found


#: The tag of each member of a union.
TAGS: dict[type[Any], str] = {}


#: The members of a union whose type is a class of its own.
_MEMBERS: dict[type[Any], Mapping[str, type[Any]]] = {}


def members_of(kind: type[Any]) -> tuple[type[Any], ...]:
    """Return the classes whose objects a type hint stands for: the members of its union, or itself."""
    return tuple(_MEMBERS.get(kind, {"": kind}).values())


def union(members: Mapping[str, type[Any]], of: type[Any] | None = None) -> None:
    """Declare classes as members of a tagged union: their objects carry the tag, wherever they stand. A class may get another name.

    ``of``: what all of them are, as a type hint; it has no objects of its own.
    """
    TAGS.update({kind: tag for tag, kind in members.items()})
    if of is not None:
        _MEMBERS[of] = members


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
    if kind in _MEMBERS:
        return _tagged_decoder(_MEMBERS[kind])
    if dataclasses.is_dataclass(kind):
        return _dataclass_decoder(typing.cast(type[Any], kind))
    if kind is str:
        return _text
    if kind in (int, bool, float):
        return functools.partial(_atom, kind)
    return lambda data: data


def _atom(kind: type[Any], data: Any) -> Any:
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise TypeError(f"expected {kind.__name__}, found {type(data).__name__}")
    return data


def _text(data: Any) -> Any:
    """Return a text, one object for equal ones: thousands of tables have the same names and types of columns."""
    text = _atom(str, data)
    return _one_text(text) if len(text) <= _LONGEST_SHARED else text


_LONGEST_SHARED = 64
#: Not ``sys.intern``: Python 3.12 keeps what is interned for ever.
_one_text = functools.lru_cache(1 << 16)(str)


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
    item = _tagged_decoder({TAGS[member]: member for member in members})
    return lambda data: None if data is None else item(data)


def _tagged_decoder(by_tag: Mapping[str, type[Any]]) -> Coder:
    kinds: Mapping[str, Any] = by_tag
    return lambda data: decoder(kinds[data[TAG]])(data)


def _tuple_decoder(arguments: tuple[Any, ...]) -> Coder:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = decoder(arguments[0])
        return lambda data: tuple(item(value) for value in data)
    items = [decoder(argument) for argument in arguments]
    return lambda data: tuple(item(value) for item, value in zip(items, data, strict=True))


def _dataclass_decoder(kind: type[Any]) -> Coder:
    coders: dict[str, Coder] = {}
    shared = _SHARED.get(kind)

    def decode(data: Any) -> Any:
        if not coders:  # on first use, so that a recursive type (DataType) does not recurse here
            hints = typing.get_type_hints(kind)
            coders.update({f.name: decoder(hints[f.name]) for f in dataclasses.fields(kind)})
        found = kind(**{name: coders[name](value) for name, value in data.items() if name != TAG})
        return found if shared is None else shared(found)

    return decode
