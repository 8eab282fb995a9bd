"""What an environment has to go through, merged over any number of releases: at most one step a collection.

This is what the upgrade layer plans from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, get_args

from airflow_provider_schemamig.core.jsonable import union
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Version
from airflow_provider_schemamig.core.schema.model import Declaration


@dataclass(frozen=True, slots=True)
class Create:
    """A collection the source release does not have, made as the target declares it: empty, or filled as a ``Replace`` is."""

    kind: ClassVar[str] = "create"
    collection: CollectionName
    new: Declaration
    fill: str | None = None
    snapshot: bool = False
    fill_version: Version | None = None


@dataclass(frozen=True, slots=True)
class PassedName:
    """A column ``path`` of the releases from ``since`` on, and before ``until``. A new column of ``Evolve.new``, ``now``, has its name, and
    is another one."""

    path: ColumnPath
    now: ColumnPath
    since: Version
    until: Version


@dataclass(frozen=True, slots=True)
class Evolve:
    """The table stays. ``renames`` is old path -> new last name and ``drops`` are old paths (outermost), both of ``old``.

    ``old`` bears the collection's old name; ``renamed_from`` is that name where it differs. ``passed_names``: of releases leapt over.
    """

    kind: ClassVar[str] = "evolve"
    collection: CollectionName
    renamed_from: CollectionName | None
    old: Declaration
    new: Declaration
    renames: Mapping[ColumnPath, str]
    drops: tuple[ColumnPath, ...]
    passed_names: tuple[PassedName, ...] = ()


@dataclass(frozen=True, slots=True)
class Replace:
    """A new table of shape ``new``; the rows of the old one are lost.

    ``fill`` gives the columns of ``new``. It was written for release ``fill_version`` and sees its collections in the shape of the release
    before that; its placeholders are already the *source* release's names. ``fills.fill_inputs`` gives the projections.
    """

    kind: ClassVar[str] = "replace"
    collection: CollectionName
    old: Declaration
    new: Declaration
    fill: str | None
    snapshot: bool
    fill_version: Version | None


@dataclass(frozen=True, slots=True)
class RewriteStep:
    """A copy of the table through ``up``, and back through ``down``: all rewrites and evolutions on the way as one.

    ``up`` is written for the release before ``version``, the first that rewrites, and its placeholders are the source release's names;
    its own one is ``old.name``. ``fills.rewrite_inputs`` gives the projections. ``down`` sees the target release's tables as they are;
    its own placeholder is ``collection``. Both are row-local (``queries.row_local``), read their own collection once, without semicolon.
    """

    kind: ClassVar[str] = "rewrite"
    collection: CollectionName
    old: Declaration
    new: Declaration
    up: str
    down: str | None
    version: Version
    #: "any" if a row may become none or several.
    cardinality: str = "same"
    #: The other collections that ``up`` joins, by their names at the source.
    lookups: tuple[CollectionName, ...] = ()
    #: The old name, where it differs.
    renamed_from: CollectionName | None = None
    #: Why there is no ``down``; None if there is one.
    no_way_back: str | None = None
    #: Columns, as named where they were dropped on the way, that ``down`` can give as NULL only.
    lost_on_way_back: tuple[ColumnPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Remove:
    """The target does not have the collection; its rows are lost."""

    kind: ClassVar[str] = "remove"
    collection: CollectionName
    old: Declaration


MergedStep = Create | Evolve | Replace | RewriteStep | Remove
union({step.kind: step for step in get_args(MergedStep)})


@dataclass(frozen=True, slots=True)
class Chain:
    """From ``source`` (None: a new environment) to ``target``. ``steps`` are sorted by collection, at most one each.

    A collection that differs only in comments or order has no step.
    """

    source: Version | None
    target: Version
    steps: tuple[MergedStep, ...]
