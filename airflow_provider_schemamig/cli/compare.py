"""``schemamig diff``: two schema files into one document. Thin: reading and pairing; the comparison is ``commands.diff``.

A ``.sql`` file holds CREATE TABLE statements, a ``.json`` file one Spark StructType. A StructType knows neither its collection's name
nor constraints, keys, layout or properties, so against one only the columns of the other side are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.schema.describe import change_json
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.exceptions import Refusal

#: What only ``diff`` reports besides the ops of ``core.schema.changes``: in a release these are a new collection and a ``removal``.
CREATE_COLLECTION = "create_collection"
DROP_COLLECTION = "drop_collection"

_NAMELESS = CollectionName("")
Schemas = Mapping[CollectionName, Declaration]


class UnreadableSchema(Refusal):
    code = "unreadable_schema"
    message = "{file} cannot be read as a schema: {reason}."
    next_action = "Give a .sql file of CREATE TABLE statements, or a .json file with what Spark's df.schema.json() returns."
    file: str
    reason: str


class NotOneCollection(Refusal):
    """A StructType names no collection, so what it is compared with must hold exactly one."""

    code = "not_one_collection"
    next_action = "Put that one CREATE TABLE into a file of its own."
    file: str
    found: tuple[str, ...]

    @property
    def message(self) -> str:
        return (
            f"{self.file} declares {len(self.found)} collections ({', '.join(self.found)}), and a StructType can be compared with one only."
        )


def compare_files(old: Path, new: Path) -> dict[str, Any]:
    """Return ``{"outcome", "drops_data", "changes": [{"collection", "op", "path", ...}]}``; ``collection`` is null between two
    StructTypes."""
    return compare(*_aligned(_read(old), _read(new), str(old), str(new)))


def compare(before: Schemas, after: Schemas) -> dict[str, Any]:
    """Return the same of two sets of declarations."""
    costs, drops_data = [Cost.NONE], False
    changes: list[dict[str, Any]] = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            gone = name not in after
            op, text = (DROP_COLLECTION, "drop the collection") if gone else (CREATE_COLLECTION, "create the collection")
            changes.append({"collection": name, "op": op, "path": None, "cost": Cost.INSTANT.value, "text": text})
            costs.append(Cost.INSTANT)
            drops_data = drops_data or gone
            continue
        found = commands.diff(before[name], after[name])
        costs.append(found.outcome)
        drops_data = drops_data or found.drops_data
        changes.extend({"collection": name or None, **change_json(change)} for change in found.changes)
    return {"outcome": max(costs, key=lambda cost: cost.rank).value, "drops_data": drops_data, "changes": changes}


def _read(path: Path) -> Schemas:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableSchema(file=str(path), reason=getattr(error, "strerror", None) or "it is not UTF-8 text") from error
    if path.suffix == ".json":
        return {_NAMELESS: _struct_type(path, text)}
    if path.suffix != ".sql":
        raise UnreadableSchema(file=str(path), reason="its name ends neither in .sql nor in .json")
    from airflow_provider_schemamig.core.release.sql.parse import parse_schema  # sqlglot costs 100 ms

    return {declaration.name: declaration for declaration in parse_schema(text, str(path))}


def _struct_type(path: Path, text: str) -> Declaration:
    from airflow_provider_schemamig.core.schema.delta_json import InvalidSchemaJson, fields_from_delta

    try:
        return Declaration(_NAMELESS, fields_from_delta(text))
    except InvalidSchemaJson as error:
        raise UnreadableSchema(file=str(path), reason=f"it is no StructType ({error.reason})") from error


def _aligned(before: Schemas, after: Schemas, old: str, new: str) -> tuple[Schemas, Schemas]:
    """Give both sides the same name and reduce both to their columns where one of them is a StructType."""
    if _NAMELESS not in before and _NAMELESS not in after:
        return before, after
    name = next((name for name in (_only(before, old), _only(after, new)) if name != _NAMELESS), _NAMELESS)
    return _columns_only(before, name), _columns_only(after, name)


def _columns_only(schemas: Schemas, name: CollectionName) -> Schemas:
    (declaration,) = schemas.values()
    return {name: Declaration(name, declaration.fields)}


def _only(schemas: Schemas, file: str) -> CollectionName:
    if len(schemas) != 1:
        raise NotOneCollection(file=file, found=tuple(sorted(schemas)))
    return next(iter(schemas))
