"""Drift: how a live table differs from what the ledger recorded as its physical schema.

Compared are columns at any depth (names, types, NOT NULL, defaults), partitioning, CHECKs and the values of declared properties: what a
foreign ALTER can break; and that the table remembers transaction identifiers for ever, because the fence is one. That a name is still the
same column's is compared where the ledger's names in the data files are (``live_tables.exchanged``). History kept longer than declared, as
``pin`` makes it, breaks nothing. Not compared are order and comments, which nobody depends on, and keys and clustering, which
are not in metaData.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.schema.clauses import CLAUSES
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.schema.delta_rules.retention import DEFAULT_HOURS, hours_of
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Struct
from airflow_provider_schemamig.core.schema.paths import Fields, join
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.visible import visible

ABSENT = "nothing"


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference. ``path``: a column's, or ``CHECK name``, ``property key``, ``partitioning``. ``is_spare``: a column that only the
    table has, and that nobody has to fill."""

    path: str
    expected: str
    found: str
    is_spare: bool = False

    def __str__(self) -> str:
        return visible(f"{self.path}: expected {self.expected}, found {self.found}")


def live_differences(physical: Declaration, live: Declaration) -> tuple[Drift, ...]:
    """Return how ``live`` (by the table) differs from ``physical`` (by the ledger), outer before inner."""
    return (
        *_fields(physical.fields, live.fields, ""),
        *_partitioning(physical, live),
        *_checks(physical, live),
        *_properties(physical, live),
    )


def _fields(expected: Fields, found: Fields, prefix: str) -> Iterator[Drift]:
    if expected == found:
        return
    live = {f.name: f for f in found}
    for field in expected:
        path = join(prefix, field.name)
        other = live.pop(field.name, None)
        if other is None:
            yield Drift(path, _text(field), ABSENT)
        elif other != field:
            yield from _field(field, other, path)
    for field in live.values():
        yield Drift(join(prefix, field.name), ABSENT, _text(field), is_spare=field.nullable)


def _field(expected: Field, found: Field, path: str) -> Iterator[Drift]:
    yield from _nullability(expected.nullable, found.nullable, path)
    for clause in CLAUSES:
        if clause.of(expected) != clause.of(found):
            yield Drift(path, clause.sql(clause.of(expected)), clause.sql(clause.of(found)))
    yield from _type(expected.type, found.type, path)


def _nullability(expected: bool, found: bool, path: str) -> Iterator[Drift]:
    if expected != found:
        words = {True: "nullable", False: "NOT NULL"}
        yield Drift(path, words[expected], words[found])


def _type(expected: DataType, found: DataType, path: str) -> Iterator[Drift]:
    match expected, found:
        case Struct(), Struct():
            yield from _fields(expected.fields, found.fields, path)
        case Array(), Array():
            inner = join(path, "element")
            yield from _nullability(expected.contains_null, found.contains_null, inner)
            yield from _type(expected.element, found.element, inner)
        case Map(), Map():
            inner = join(path, "value")
            yield from _type(expected.key, found.key, join(path, "key"))
            yield from _nullability(expected.value_contains_null, found.value_contains_null, inner)
            yield from _type(expected.value, found.value, inner)
        case _ if expected != found:
            yield Drift(path, type_sql(expected), type_sql(found))


def _text(field: Field) -> str:
    return type_sql(field.type) + ("" if field.nullable else " NOT NULL")


def _partitioning(physical: Declaration, live: Declaration) -> Iterator[Drift]:
    if physical.partitioned_by != live.partitioned_by:
        yield Drift("partitioning", ", ".join(physical.partitioned_by) or ABSENT, ", ".join(live.partitioned_by) or ABSENT)


def _checks(physical: Declaration, live: Declaration) -> Iterator[Drift]:
    expected = {check.name: check.expression for check in physical.checks}
    found = {check.name: check.expression for check in live.checks}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            yield Drift(f"CHECK {name}", expected.get(name, ABSENT), found.get(name, ABSENT))


def _properties(physical: Declaration, live: Declaration) -> Iterator[Drift]:
    found = dict(live.properties)
    yield from forgets(found)
    for key, value in physical.properties:
        if found.get(key) != value and not keeps_enough(key, found.get(key), value):
            yield Drift(f"property {key}", value, found.get(key, ABSENT))


def keeps_enough(key: str, found: str | None, declared: str) -> bool:
    """Return whether a property is one that keeps history, and for as long as declared or longer, as ``pin`` makes it."""
    return key in DEFAULT_HOURS and hours_of(key, found) >= hours_of(key, declared)


def forgets(properties: Mapping[str, str]) -> tuple[Drift, ...]:
    """Return the drift of a table that forgets transaction identifiers after a while; none of any other."""
    if FORGETS not in properties:
        return ()
    return (Drift(f"property {FORGETS}", ABSENT, f"{properties[FORGETS]}, so that schemamig's fence on the table would be forgotten"),)
