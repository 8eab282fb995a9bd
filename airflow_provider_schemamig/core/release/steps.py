"""The four steps a migration module may declare: pure values and the functions that make them.

Imported by every migration module and by Airflow's DAG parsing, so this file stays cheap: no parser, no Delta, no Spark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from airflow_provider_schemamig.core.jsonable import canonical, to_json
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, collection_name, column_name
from airflow_provider_schemamig.exceptions import Refusal


class InvalidStep(Refusal):
    """A step whose arguments make no sense by themselves. The schemas do not matter."""

    code = "invalid_step"
    next_action = "Correct the step's arguments."
    reason: str
    #: Where it stands, once a module's reader knows: relative to the release folder, counted from 1.
    file: str | None = None
    line: int | None = None

    @property
    def message(self) -> str:
        where = "" if self.file is None else f"{self.file}:{self.line}: "
        return f"{where}this step is not allowed: {self.reason}."


@dataclass(frozen=True, slots=True)
class Evolution:
    """Keep the table and every row; what is added or relaxed follows from the snapshots, what is dropped or renamed is named here."""

    kind: ClassVar[str] = "evolution"
    collection: CollectionName
    rename: tuple[tuple[ColumnPath, str], ...] = ()
    drop: tuple[ColumnPath, ...] = ()
    renamed_from: CollectionName | None = None

    @property
    def renames(self) -> dict[ColumnPath, str]:
        """Map old paths to new last names, as ``schema.diff`` takes them."""
        return dict(self.rename)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Copy the table through ``up`` (a query over the release before); ``down`` is the way back (a query over this release).

    Both are row-local: ``queries.row_local`` says what that means. ``lookups`` are the other collections they may join; those are read at
    one version and what is written to them later does not come in.
    """

    kind: ClassVar[str] = "rewrite"
    collection: CollectionName
    up: str
    down: str | None = None
    #: "same": each row becomes one row, which is checked before promotion; "any": a row may become none or several.
    cardinality: str = "same"
    lookups: tuple[CollectionName, ...] = ()


@dataclass(frozen=True, slots=True)
class Replacement:
    """A new table in place of the old one, whose rows are lost: empty, or filled by a query over the release before."""

    kind: ClassVar[str] = "replacement"
    collection: CollectionName
    fill: str | None = None
    #: The rows of the moment of the preflight are enough: inputs that moved until the cut-over do not make it run again.
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """The collection and its rows are taken away."""

    kind: ClassVar[str] = "removal"
    collection: CollectionName


CARDINALITIES = ("same", "any")

Step = Evolution | Rewrite | Replacement | Removal


def digest_of(steps: Sequence[Step]) -> str:
    """Return the sha256 (hex) of what the steps of one version say. The rest of its module does not count."""
    return hashlib.sha256(canonical([[step.kind, to_json(step)] for step in steps]).encode()).hexdigest()


def evolution(
    collection: str, *, rename: Mapping[str, str] | None = None, drop: Sequence[str] = (), renamed_from: str | None = None
) -> Evolution:
    """Evolve a collection in place.

    ``rename`` maps old dotted paths to new last names (``{"origin.code": "iata"}``), ``drop`` lists old dotted paths, ``renamed_from`` is
    the collection's name in the release before. All paths are those of the release before. Raises InvalidStep, InvalidName.
    """
    name = _collection(collection)
    pairs = tuple(sorted((_path(old, name), _new_name(new, name)) for old, new in _mapping(rename or {}, "rename", name).items()))
    drops = tuple(sorted(_path(path, name) for path in _strings(drop, "drop", name)))
    before = None if renamed_from is None else _collection(renamed_from)
    _no_contradiction(name, pairs, drops)
    if before == name:
        raise InvalidStep(reason="renamed_from is the collection itself", collection=name)
    return Evolution(name, pairs, drops, before)


def rewrite(collection: str, *, up: str, down: str | None = None, cardinality: str = "same", lookups: Sequence[str] = ()) -> Rewrite:
    """Copy a collection into a new shape. ``up`` and ``down`` are row-local Spark SQL queries with ``{name}`` placeholders.

    ``cardinality="any"`` says that a row may become none or several; ``lookups`` names the other collections that the queries join.
    Raises InvalidStep, InvalidName.
    """
    name = _collection(collection)
    if cardinality not in CARDINALITIES:
        raise InvalidStep(reason=f'cardinality is "same" or "any", not {cardinality!r}', collection=name)
    if not _is_strings(lookups):
        raise InvalidStep(reason=f"lookups is a list of collections, not {lookups!r}", collection=name)
    others = tuple(sorted(_collection(other) for other in lookups))
    if name in others:
        raise InvalidStep(reason="lookups names the collection itself, which is read anyway", collection=name)
    if len(set(others)) < len(others):
        raise InvalidStep(reason="lookups names a collection twice", collection=name)
    return Rewrite(name, _query(up, "up", name), None if down is None else _query(down, "down", name), cardinality, others)


def replacement(collection: str, *, fill: str | None = None, snapshot: bool = False) -> Replacement:
    """Replace a collection by a new table, empty or filled by the Spark SQL query ``fill``. Raises InvalidStep."""
    name = _collection(collection)
    if not isinstance(snapshot, bool):
        raise InvalidStep(reason="snapshot is True or False", collection=name)
    if snapshot and fill is None:
        raise InvalidStep(reason="snapshot=True says how old the fill may be, and there is no fill", collection=name)
    return Replacement(name, None if fill is None else _query(fill, "fill", name), snapshot)


def removal(collection: str) -> Removal:
    """Remove a collection. Raises InvalidStep."""
    return Removal(_collection(collection))


def _collection(value: object) -> CollectionName:
    if not isinstance(value, str):
        raise InvalidStep(reason=f"a collection is named by a string, not {value!r}")
    return collection_name(value)


def _query(value: object, argument: str, collection: CollectionName) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidStep(reason=f"{argument} is a query in Spark SQL, not {value!r}", collection=collection)
    return value


def _path(text: str, collection: CollectionName) -> ColumnPath:
    for part in text.split("."):
        column_name(part, collection)
    return ColumnPath(text)


def _new_name(text: str, collection: CollectionName) -> str:
    if "." in text:
        reason = f"{text!r} is a path; rename takes the new last name only, a field cannot move into another struct"
        raise InvalidStep(reason=reason, collection=collection)
    return column_name(text, collection)


def _is_strings(values: object) -> TypeGuard[Sequence[str]]:
    return isinstance(values, list | tuple) and all(isinstance(v, str) for v in values)


def _strings(values: object, argument: str, collection: CollectionName) -> Sequence[str]:
    if not _is_strings(values):
        raise InvalidStep(reason=f"{argument} is a list of column paths, not {values!r}", collection=collection)
    return values


def _mapping(values: object, argument: str, collection: CollectionName) -> Mapping[str, str]:
    if not isinstance(values, Mapping) or not all(isinstance(x, str) for pair in values.items() for x in pair):
        raise InvalidStep(reason=f"{argument} maps old column paths to new names, not {values!r}", collection=collection)
    return values


def _no_contradiction(collection: CollectionName, pairs: Sequence[tuple[ColumnPath, str]], drops: Sequence[ColumnPath]) -> None:
    targets = [(old.rpartition(".")[0], new) for old, new in pairs]
    twice = next((t for t in targets if targets.count(t) > 1), None) or next((d for d in drops if drops.count(d) > 1), None)
    if twice is not None:
        what = twice if isinstance(twice, str) else ".".join(filter(None, twice))
        raise InvalidStep(reason=f"{what!r} is named twice", collection=collection)
    for old, new in pairs:
        if old.rpartition(".")[2] == new:
            raise InvalidStep(reason=f"{old!r} is renamed to itself", collection=collection)
        if any(old == drop or old.startswith(f"{drop}.") for drop in drops):
            raise InvalidStep(reason=f"{old!r} is renamed and dropped", collection=collection)
