"""What becomes of rows on the way from one release to another, by the declared steps alone: what every reader has to find afterwards.

It knows neither files nor Delta: a column keeps its values under its new name, one that is new is NULL, one that is dropped is gone, and a
replacement or a removal loses the rows. What a query or a default makes of rows only Spark knows: those collections are ``UNKNOWN``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.nested_types import check_beside
from airflow_provider_schemamig.core.online.operations import operations_of
from airflow_provider_schemamig.core.release.columns import Origins, match
from airflow_provider_schemamig.core.release.merge.merged import Chain, Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, ChangeType, Cost
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Map, Struct
from airflow_provider_schemamig.core.schema.paths import Fields, join
from airflow_provider_schemamig.core.testing.rows.row_codec import Row, row_of, row_text


class Unknown(Enum):
    """Rows that an expression made."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
#: Of one collection: the canonical texts of its rows, sorted.
Texts = tuple[str, ...]
Rows = Mapping[CollectionName, Texts]
Expected = Mapping[CollectionName, Texts | Unknown]


def needs_spark(chain: Chain) -> tuple[CollectionName, ...]:
    """Return the collections whose rows the chain takes through a query, validates or fills."""
    return tuple(step.collection for step in chain.steps if _reads_rows(step))


def _reads_rows(step: MergedStep) -> bool:
    match step:
        case RewriteStep():
            return True
        case Create(fill=fill) | Replace(fill=fill):
            return fill is not None
        case Evolve():
            online = _online(step)
            return bool(online) and all(_is_made(change, step) for change in online)
        case _:
            return False


def _is_made(change: Change, step: Evolve) -> bool:
    """Return False for what an upgrade refuses before it looks at any row."""
    try:
        check_beside(operations_of(change, step.old)[0].change, phases(step.old, step.old, step.new, step.renames).cutover)
    except NotOnline:
        return False
    return True


def _online(step: Evolve) -> list[Change]:
    return [change for change in diff(step.old, step.new, step.renames).changes if change.cost is Cost.ONLINE]


def rows_after(chain: Chain, before: Rows, after: Mapping[CollectionName, Declaration]) -> Expected:
    """Return the rows of every collection of ``after``, the target release's declarations."""
    found: dict[CollectionName, Texts | Unknown] = {}
    steps = {step.collection: step for step in chain.steps}
    for name, declaration in after.items():
        match steps.get(name):
            case None:
                found[name] = before[name]
            case Evolve(old=old, renames=renames) as step:
                filled = any(isinstance(change, AddColumn | ChangeType) for change in _online(step))
                found[name] = UNKNOWN if filled else _evolved(before[old.name], old, declaration, renames)
            case Create(fill=fill) | Replace(fill=fill):
                found[name] = () if fill is None else UNKNOWN
            case RewriteStep():
                found[name] = UNKNOWN
            case Remove():
                raise AssertionError(f"{name} is removed and declared")
    return found


def _evolved(texts: Sequence[str], old: Declaration, new: Declaration, renames: Mapping[ColumnPath, str]) -> Texts:
    origins = match(old, new, renames)
    rows = (show_row(row_of(text, old.fields), old.fields, new.fields, origins) for text in texts)
    return tuple(sorted(row_text(row, new.fields) for row in rows))


def show_row(row: Row, old: Fields, new: Fields, origins: Origins) -> Row:
    """Show a row with the columns ``old`` as one with the columns ``new``; ``origins``: new path -> old path."""
    return _fields(row, old, new, origins, "")


def _fields(row: Mapping[str, Any], old: Fields, new: Fields, origins: Origins, prefix: str) -> Row:
    types = {field.name: field.type for field in old}
    shown: Row = {}
    for field in new:
        path = join(prefix, field.name)
        origin = origins.get(path)
        name = "" if origin is None else origin.rpartition(".")[2]
        shown[field.name] = None if origin is None else _value(row[name], types[name], field.type, origins, path)
    return shown


def _value(value: Any, old: DataType, new: DataType, origins: Origins, path: str) -> Any:
    if value is None:
        return None
    match old, new:
        case Struct(fields=before), Struct(fields=after):
            return _fields(value, before, after, origins, path)
        case Array(element=before_type), Array(element=after_type):
            return [_value(item, before_type, after_type, origins, f"{path}.element") for item in value]
        case Map(), Map():
            pairs = value.items() if isinstance(value, Mapping) else value
            return [
                (_value(k, old.key, new.key, origins, f"{path}.key"), _value(v, old.value, new.value, origins, f"{path}.value"))
                for k, v in pairs
            ]
        case _:
            return value
