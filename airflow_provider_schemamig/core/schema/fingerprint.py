"""The fingerprint of a declaration: equal exactly where two declarations need no step between them.

Column order and comments do not count, at any depth; everything else does: names with their case, types, NOT NULL, defaults, checks,
keys, partitioning, clustering, properties, the collection's name. The hash is over canonical JSON, so no choice of names can make two
different declarations look alike, and it does not depend on Python's own hashing.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core import jsonable
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint
from airflow_provider_schemamig.core.schema.clauses import DEFAULT, clauses_of
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Key, Map, Primitive, Struct

#: Names the algorithm, in the fingerprint's text and inside what is hashed. Another canonical form is another number.
ALGORITHM = "sf1"


@functools.lru_cache(maxsize=32768)  # two releases of 10,000 collections: an upgrade asks for each of theirs twice
def fingerprint(declaration: Declaration) -> Fingerprint:
    """Return ``sf1:<sha256 in hex>`` of one declaration."""
    return _digest(canonical(declaration))


def set_fingerprint(fingerprints: Mapping[CollectionName, Fingerprint]) -> Fingerprint:
    """Return the fingerprint of a set of collections: over its (collection, fingerprint) pairs, sorted."""
    return _digest(["set", sorted(fingerprints.items())])


def canonical(declaration: Declaration) -> dict[str, Any]:
    """Return what is hashed, as a JSON value: the declaration without comments, fields by name."""
    return {
        "name": declaration.name,
        "fields": _fields(declaration.fields),
        "partitioned_by": list(declaration.partitioned_by),
        "clustered_by": list(declaration.clustered_by),
        "checks": [[check.name, check.expression] for check in declaration.checks],
        "primary_key": None if declaration.primary_key is None else _key(declaration.primary_key),
        "uniques": [_key(key) for key in declaration.uniques],
        "foreign_keys": [[key.name, list(key.columns), key.references, list(key.referenced_columns)] for key in declaration.foreign_keys],
        "properties": [list(pair) for pair in declaration.properties],
    }


def _digest(value: Any) -> Fingerprint:
    text = jsonable.canonical([ALGORITHM, value])
    return Fingerprint(f"{ALGORITHM}:{hashlib.sha256(text.encode()).hexdigest()}")


def _fields(fields: Sequence[Field]) -> list[list[Any]]:
    return [[f.name, canonical_type(f.type), f.nullable, f.default, *_others(f)] for f in sorted(fields, key=lambda f: f.name)]


def _others(field: Field) -> list[list[str]]:
    """Return the clauses besides DEFAULT, which has had a place of its own from the beginning: a column without any hashes as it did."""
    return [[clause.attribute, text] for clause, text in clauses_of(field) if clause is not DEFAULT]


def canonical_type(data_type: DataType) -> Any:
    """Return a type as it is hashed: without comments, struct fields by name."""
    match data_type:
        case Primitive(name=name):
            return name
        case Array(element=element, contains_null=contains_null):
            return ["array", canonical_type(element), contains_null]
        case Map(key=key, value=value, value_contains_null=contains_null):
            return ["map", canonical_type(key), canonical_type(value), contains_null]
        case Struct(fields=fields):
            return ["struct", _fields(fields)]


def _key(key: Key) -> list[Any]:
    return [key.name, list(key.columns)]
