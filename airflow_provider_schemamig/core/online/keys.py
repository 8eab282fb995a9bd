"""Which keys hold for a collection's rows now: those that are declared, and those that are just being added.

Nothing of them stands on the table, so who writes has to look here. Pure values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.names import physical_name
from airflow_provider_schemamig.core.ledger.rows import Element
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.changes import AddForeignKey, AddKey
from airflow_provider_schemamig.core.schema.diff.renames import is_stand_in
from airflow_provider_schemamig.core.schema.element_states import DUTIES, Duty
from airflow_provider_schemamig.core.schema.model import Declaration


@dataclass(frozen=True, slots=True)
class Unique:
    """No two rows have the same values in ``columns``; a row with a NULL among them is not compared, as in SQL."""

    columns: tuple[str, ...]
    primary: bool

    @property
    def rule(self) -> str:
        """Return the key in SQL's words."""
        return f"{'PRIMARY KEY' if self.primary else 'UNIQUE'} ({', '.join(self.columns)})"

    @property
    def element(self) -> str:
        """Return the key's name in the ledger's ``elements``."""
        return f"{'primary_key' if self.primary else 'unique'}:{','.join(self.columns)}"

    @property
    def breach(self) -> str:
        """Return in words how rows break it."""
        return f"rows have a key of others: {self.rule}"


@dataclass(frozen=True, slots=True)
class Reference:
    """The values of ``columns``, if none is NULL, are those of ``to`` in some row of ``collection``."""

    columns: tuple[str, ...]
    collection: CollectionName
    to: tuple[str, ...]

    @property
    def rule(self) -> str:
        """Return the key in SQL's words."""
        return f"FOREIGN KEY ({', '.join(self.columns)}) REFERENCES {self.collection} ({', '.join(self.to)})"

    @property
    def element(self) -> str:
        """Return the key's name in the ledger's ``elements``."""
        return f"foreign_key:{','.join(self.columns)}"

    @property
    def breach(self) -> str:
        """Return in words how rows break it."""
        return f"rows refer to nothing: {self.rule}"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one collection, each once."""

    uniques: tuple[Unique, ...] = ()
    references: tuple[Reference, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.uniques or self.references)

    def __iter__(self) -> Iterator[Unique | Reference]:
        yield from self.uniques
        yield from self.references


def keys_in_force(state: State, collection: CollectionName) -> Keys:
    """Return the keys that every row written to ``collection`` has to keep, by the ledger's names of columns.

    A key that an open upgrade drops is among them until the upgrade is committed: until then there is a way back to it.
    """
    return _keys(state, collection, lambda duty: duty.written)


def trusted_keys(state: State, collection: CollectionName) -> Keys:
    """Return the keys that all rows of ``collection`` are said to keep: those in force, without the ones that are just being added."""
    return _keys(state, collection, lambda duty: duty.read)


def _keys(state: State, collection: CollectionName, asks: Callable[[Duty], bool]) -> Keys:
    declared = _declared(state.entry(collection).declared)
    shard = state.objects[collection].shard
    added = [key_of(element) for element in state.elements_of(shard) if asks(DUTIES[element.state])]
    found = dict.fromkeys([*declared, *added])
    return Keys(tuple(key for key in found if isinstance(key, Unique)), tuple(key for key in found if isinstance(key, Reference)))


def key_of(element: Element) -> Unique | Reference | None:
    """Return None for an element that is no key."""
    if element.op == AddKey.op:
        return Unique(element.columns, primary=element.name.startswith("primary_key"))
    if element.op == AddForeignKey.op and element.refers is not None:
        return Reference(element.columns, element.refers, element.refers_columns)
    return None


def live_names(state: State, collection: CollectionName, schema: Mapping[str, Any]) -> Mapping[str, str]:
    """Map each column's name in the ledger to its name in the table with this schema.

    The two differ between a rename's commit and the ledger's. Columns that the table no longer has are left out.
    """
    by_stored = {physical_name(field): str(field["name"]) for field in schema["fields"]}
    names = {name: name for name in by_stored.values()}  # what the ledger has no record of goes by its name
    stored = dict(state.entry(collection).stored_names)
    plain = {name: by_stored[name] for name in by_stored if name not in stored.values()}
    known = {str(path): by_stored[name] for path, name in stored.items() if "." not in path and name in by_stored}
    # What stood aside for a column of another type is no longer the column.
    return {**names, **{name: live for name, live in {**plain, **known}.items() if not is_stand_in(live)}}


def _declared(declaration: Declaration) -> Iterator[Unique | Reference]:
    if declaration.primary_key is not None:
        yield Unique(declaration.primary_key.columns, primary=True)
    for key in declaration.uniques:
        yield Unique(key.columns, primary=False)
    for foreign_key in declaration.foreign_keys:
        yield Reference(foreign_key.columns, foreign_key.references, foreign_key.referenced_columns)
