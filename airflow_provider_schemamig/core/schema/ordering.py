"""The order of a declaration's parts without one of their own, so that equal declarations are equal values; its key columns."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_schemamig.core.schema.model import Check, Declaration, ForeignKey, Key


def sorted_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    return tuple(sorted(checks, key=lambda check: (check.name, check.expression)))


def sorted_keys(keys: Iterable[Key]) -> tuple[Key, ...]:
    return tuple(sorted(keys, key=lambda key: (key.columns, key.name or "")))


def sorted_foreign_keys(foreign_keys: Iterable[ForeignKey]) -> tuple[ForeignKey, ...]:
    return tuple(sorted(foreign_keys, key=lambda key: (key.columns, key.references, key.referenced_columns, key.name or "")))


def sorted_properties(properties: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(properties))


def key_columns(declaration: Declaration) -> frozenset[str]:
    """Return every column of the primary key, a UNIQUE or a foreign key."""
    columns = {column for key in declaration.uniques for column in key.columns}
    columns |= {column for foreign_key in declaration.foreign_keys for column in foreign_key.columns}
    return frozenset(columns if declaration.primary_key is None else columns | set(declaration.primary_key.columns))
