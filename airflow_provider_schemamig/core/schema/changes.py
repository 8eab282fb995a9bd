"""The closed list of schema changes: one small value a kind.

``op`` is the stable name used in plans, JSON and docs. ``cost`` says how a change is made, ``phase`` when an
instant one is committed: what old readers and writers do not notice at *expand*, what changes names or order at
*cutover*, what takes something away at *contract*. docs/schema-changes.md is the table for people; a test holds it to this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, get_args

from airflow_provider_schemamig.core.jsonable import union
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.model import Check, DataType, Field, ForeignKey, Key, Struct


class Cost(StrEnum):
    """How a change reaches a table, cheapest first: ``Cost.NONE < INSTANT < ONLINE < REWRITE`` by ``rank``."""

    NONE = "none"
    INSTANT = "instant"
    ONLINE = "online"
    REWRITE = "rewrite"

    @property
    def rank(self) -> int:
        return _RANKS[self]


#: Looked up: an upgrade asks for 26 a table.
_RANKS = {cost: rank for rank, cost in enumerate(Cost)}


class Phase(StrEnum):
    EXPAND = "expand"
    CUTOVER = "cutover"
    CONTRACT = "contract"


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column or struct field, appended last in its struct. Order is set by ``ReorderColumns``."""

    op: ClassVar[str] = "add_column"
    phase: ClassVar[Phase] = Phase.EXPAND
    path: ColumnPath
    field: Field

    @property
    def cost(self) -> Cost:
        if self.field.generated is not None:
            return Cost.REWRITE  # Delta adds none: older rows would break the rule, and every DELETE that copies one of them would fail
        # A default has to be filled into older files, NOT NULL has nothing to put there: both are online.
        return Cost.INSTANT if self.field.default is None and _may_be_missing(self.field) else Cost.ONLINE


def _may_be_missing(field: Field) -> bool:
    """Return whether a row without the field is valid. Delta checks a NOT NULL inside a struct even where the struct itself is NULL."""
    return field.nullable and not (isinstance(field.type, Struct) and not all(map(_may_be_missing, field.type.fields)))


@dataclass(frozen=True, slots=True)
class DropColumn:
    op: ClassVar[str] = "drop_column"
    phase: ClassVar[Phase] = Phase.CONTRACT
    path: ColumnPath
    cost: ClassVar[Cost] = Cost.INSTANT


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """``path`` is the old path, ``name`` the new last part."""

    op: ClassVar[str] = "rename_column"
    phase: ClassVar[Phase] = Phase.CUTOVER
    path: ColumnPath
    name: str
    cost: ClassVar[Cost] = Cost.INSTANT


@dataclass(frozen=True, slots=True)
class ChangeType:
    """Another type at ``path`` (also ``a.element``, ``m.key``, ``m.value``). ``widening``: Delta reads old files as the new type."""

    op: ClassVar[str] = "change_type"
    phase: ClassVar[Phase] = Phase.EXPAND
    path: ColumnPath
    old: DataType
    new: DataType
    widening: bool
    #: A shadow column can do it (of a column outside partitioning, keys and clustering, or inside one), else only a rewrite.
    shadowable: bool

    @property
    def cost(self) -> Cost:
        if self.widening:
            return Cost.INSTANT
        return Cost.ONLINE if self.shadowable else Cost.REWRITE


@dataclass(frozen=True, slots=True)
class Relax:
    """Drop NOT NULL at ``path`` (a column, a struct field, an array's element, a map's value)."""

    op: ClassVar[str] = "drop_not_null"
    phase: ClassVar[Phase] = Phase.EXPAND
    path: ColumnPath
    cost: ClassVar[Cost] = Cost.INSTANT


@dataclass(frozen=True, slots=True)
class SetNotNull:
    op: ClassVar[str] = "set_not_null"
    phase: ClassVar[Phase] = Phase.EXPAND
    path: ColumnPath
    cost: ClassVar[Cost] = Cost.ONLINE


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Another default for rows written from now on; ``new`` None drops it."""

    op: ClassVar[str] = "set_default"
    phase: ClassVar[Phase] = Phase.EXPAND
    path: ColumnPath
    old: str | None
    new: str | None
    cost: ClassVar[Cost] = Cost.INSTANT


@dataclass(frozen=True, slots=True)
class SetGenerated:
    """Another expression that the column is computed by; ``new`` None makes it one that writers give. Delta changes none of it."""

    op: ClassVar[str] = "set_generated"
    phase: ClassVar[Phase] = Phase.EXPAND
    path: ColumnPath
    old: str | None
    new: str | None
    cost: ClassVar[Cost] = Cost.REWRITE


#: Changes that set or drop a clause of a column (``clauses``).
SetClause = SetDefault | SetGenerated


@dataclass(frozen=True, slots=True)
class SetComment:
    """A column's comment, or with an empty path the collection's. Needs no step; rides on the next real commit."""

    op: ClassVar[str] = "set_comment"
    phase: ClassVar[Phase] = Phase.EXPAND
    path: ColumnPath
    old: str | None
    new: str | None
    cost: ClassVar[Cost] = Cost.NONE


@dataclass(frozen=True, slots=True)
class ReorderColumns:
    """The order of the fields of the struct at ``path`` (empty: the columns). Needs no step; rides on the next real commit."""

    op: ClassVar[str] = "reorder_columns"
    phase: ClassVar[Phase] = Phase.CUTOVER
    path: ColumnPath
    old: tuple[str, ...]
    new: tuple[str, ...]
    cost: ClassVar[Cost] = Cost.NONE


@dataclass(frozen=True, slots=True)
class SetProperty:
    """A declared table property; ``new`` None unsets it, or gives the table back what it ``had`` before the property was declared."""

    op: ClassVar[str] = "set_property"
    phase: ClassVar[Phase] = Phase.EXPAND
    key: str
    old: str | None
    new: str | None
    had: str | None = None
    cost: ClassVar[Cost] = Cost.INSTANT


@dataclass(frozen=True, slots=True)
class AddCheck:
    op: ClassVar[str] = "add_check"
    phase: ClassVar[Phase] = Phase.EXPAND
    check: Check
    cost: ClassVar[Cost] = Cost.ONLINE


@dataclass(frozen=True, slots=True)
class DropCheck:
    op: ClassVar[str] = "drop_check"
    phase: ClassVar[Phase] = Phase.EXPAND
    check: Check
    cost: ClassVar[Cost] = Cost.INSTANT


@dataclass(frozen=True, slots=True)
class AddKey:
    """PRIMARY KEY (``primary``) or UNIQUE: a registry element, nothing on the table; must be validated."""

    op: ClassVar[str] = "add_key"
    phase: ClassVar[Phase] = Phase.EXPAND
    key: Key
    primary: bool
    cost: ClassVar[Cost] = Cost.ONLINE


@dataclass(frozen=True, slots=True)
class DropKey:
    op: ClassVar[str] = "drop_key"
    phase: ClassVar[Phase] = Phase.EXPAND
    key: Key
    primary: bool
    cost: ClassVar[Cost] = Cost.INSTANT


@dataclass(frozen=True, slots=True)
class AddForeignKey:
    op: ClassVar[str] = "add_foreign_key"
    phase: ClassVar[Phase] = Phase.EXPAND
    foreign_key: ForeignKey
    cost: ClassVar[Cost] = Cost.ONLINE


@dataclass(frozen=True, slots=True)
class DropForeignKey:
    op: ClassVar[str] = "drop_foreign_key"
    phase: ClassVar[Phase] = Phase.EXPAND
    foreign_key: ForeignKey
    cost: ClassVar[Cost] = Cost.INSTANT


@dataclass(frozen=True, slots=True)
class ChangePartitioning:
    op: ClassVar[str] = "change_partitioning"
    phase: ClassVar[Phase] = Phase.EXPAND
    old: tuple[str, ...]
    new: tuple[str, ...]
    cost: ClassVar[Cost] = Cost.REWRITE


@dataclass(frozen=True, slots=True)
class ChangeClustering:
    """``new`` empty: CLUSTER BY NONE."""

    op: ClassVar[str] = "change_clustering"
    phase: ClassVar[Phase] = Phase.EXPAND
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def cost(self) -> Cost:
        return Cost.ONLINE if self.new else Cost.INSTANT  # what lies in order may lie so


Change = (
    AddColumn
    | DropColumn
    | RenameColumn
    | ChangeType
    | Relax
    | SetNotNull
    | SetDefault
    | SetGenerated
    | SetComment
    | ReorderColumns
    | SetProperty
    | AddCheck
    | DropCheck
    | AddKey
    | DropKey
    | AddForeignKey
    | DropForeignKey
    | ChangePartitioning
    | ChangeClustering
)

union({change.op: change for change in get_args(Change)})
