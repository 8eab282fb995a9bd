"""Unchanged foreign keys to names that other columns have after the change.

A rename in one collection changes no text of another one, so the key would be in force over values that nobody has asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.schema.diff.constraints import kept_foreign_keys
from airflow_provider_schemamig.core.schema.model import Declaration, ForeignKey


@dataclass(frozen=True, slots=True)
class Kept:
    """A collection that keeps its table. ``renames``: old path -> new last name."""

    old: Declaration
    new: Declaration
    renames: Mapping[ColumnPath, str]


def moved_references(kept: Mapping[CollectionName, Kept]) -> Iterator[tuple[CollectionName, ForeignKey, str]]:
    """Yield each such key with its collection and the first name in it that another column has after the change."""
    for name, own in kept.items():
        for key in kept_foreign_keys(own.old, own.new, own.renames):
            referred = kept.get(key.references)
            if referred is None:
                continue
            origins = match(referred.old, referred.new, referred.renames)
            moved = [column for column in key.referenced_columns if origins.get(ColumnPath(column)) != column]
            if moved:
                yield name, key, moved[0]
