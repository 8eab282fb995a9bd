"""Fields of structs found by their names: a CAST goes by position, and so does an INSERT of Delta for most of what is nested.

Of no one kind of types: whoever calls says how to take them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.names import moved_name, name_key
from airflow_provider_schemamig.core.schema.model import Array, DataType, Map, Struct
from airflow_provider_schemamig.core.schema.sql import quote, string_sql

#: Of a struct its fields' types by name, of an array its element's, of a map those of its keys and values, of anything else None.
Inside = Mapping[str, Any] | tuple[Any] | tuple[Any, Any] | None


class FieldsMoved(Exception):
    """Of a struct only some names are known, and ``moved`` is in another position."""

    def __init__(self, path: str, given: Sequence[str], wanted: Sequence[str], moved: str) -> None:
        super().__init__(path, given, wanted, moved)
        self.path = path
        self.given = given
        self.wanted = wanted
        self.moved = moved


def inside(data_type: DataType) -> Inside:
    """Take a type of a declaration apart."""
    match data_type:
        case Struct(fields=fields):
            return {field.name: field.type for field in fields}
        case Array(element=element):
            return (element,)
        case Map(key=key, value=value):
            return (key, value)
        case _:
            return None


def by_name(value: str, given: DataType, wanted: DataType) -> str:
    """Return SQL of ``value``, of type ``given`` but for the order of its fields, with them in the order of ``wanted``.

    Structs of other names are taken to be of one order.
    """
    return FieldOrder(inside, is_given_known=False).of(value, given, wanted, "")


@dataclass(frozen=True, slots=True)
class FieldOrder:
    """``is_given_known``: values have their fields in the order of their type, and stay as they are where that is the wanted one; then a
    struct of which only some names are known, in other positions, is FieldsMoved."""

    inside: Callable[[Any], Inside]
    is_given_known: bool = True

    def of(self, value: str, given: Any, wanted: Any, path: str, depth: int = 0) -> str:
        """Return SQL of ``value``, of type ``given``, with the fields of its structs in the order of ``wanted``.

        A struct of other names stays as it is: whoever gives a field another name in a query means it by its position. ``depth``: of
        lambdas.
        """
        match self.inside(given), self.inside(wanted):
            case Mapping() as fields, Mapping() as others:
                return self._struct(value, fields, others, path, depth)
            case (element,), (other,):
                item = f"x{depth}"
                found = self.of(item, element, other, f"{path}.element", depth + 1)
                return value if found == item else f"transform({value}, {item} -> {found})"
            case (key, item_type), (other_key, other_item):
                name, item = f"k{depth}", f"x{depth}"
                keys = self.of(name, key, other_key, f"{path}.key", depth + 1)
                items = self.of(item, item_type, other_item, f"{path}.value", depth + 1)
                found = value if keys == name else f"transform_keys({value}, ({name}, {item}) -> {keys})"
                return found if items == item else f"transform_values({found}, ({name}, {item}) -> {items})"
            case _:
                return value

    def _struct(self, value: str, given: Mapping[str, Any], wanted: Mapping[str, Any], path: str, depth: int) -> str:
        keys = [name_key(name) for name in wanted]
        there = {name_key(name): name for name in given}
        are_known = set(keys) == set(there)
        if not are_known:
            self._check_positions(list(there), keys, path)
            there = dict(zip(keys, given, strict=False))
        if len(keys) != len(given) or len(there) != len(keys):  # Spark has its own words for that
            return value
        found = {
            there[key]: self.of(f"{value}.{quote(there[key])}", given[there[key]], other, f"{path}.{name}", depth)
            for key, (name, other) in zip(keys, wanted.items(), strict=True)
        }
        is_alike = list(found.values()) == [f"{value}.{quote(name)}" for name in given]
        if is_alike and (self.is_given_known or not are_known):
            return value
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(f'{string_sql(name)}, {item}' for name, item in found.items())}))"

    def _check_positions(self, given: Sequence[str], wanted: Sequence[str], path: str) -> None:
        moved = moved_name(given, wanted)
        if moved is not None and self.is_given_known:
            raise FieldsMoved(path, given, wanted, moved)
