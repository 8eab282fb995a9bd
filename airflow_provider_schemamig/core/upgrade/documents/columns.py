"""The columns of a table before and after, beside each other, as a diff shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider_schemamig.core.schema.changes import Change, RenameColumn
from airflow_provider_schemamig.core.schema.describe import column_sql
from airflow_provider_schemamig.core.schema.model import Declaration, Field


def paired_columns(old: Declaration | None, new: Declaration | None, changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Return a line a top-level column: ``change`` (same, added, dropped, changed), ``before`` and ``after`` (name and SQL; null: none).

    In the order of the new table, with what goes at the end. A renamed column is one line.
    """
    renamed = {change.name: str(change.path) for change in changes if isinstance(change, RenameColumn) and "." not in change.path}
    before = {field.name: field for field in (old.fields if old is not None else ())}
    found, used = [], set()
    for field in new.fields if new is not None else ():
        name = renamed.get(field.name, field.name)
        was = before.get(name)
        if was is not None:
            used.add(name)
        found.append(_line(was, field))
    gone = (_line(field, None) for name, field in before.items() if name not in used)
    return [*found, *gone]


def _line(before: Field | None, after: Field | None) -> dict[str, Any]:
    old, new = _side(before), _side(after)
    change = "added" if old is None else "dropped" if new is None else "same" if old == new else "changed"
    return {"change": change, "before": old, "after": new}


def _side(field: Field | None) -> dict[str, str] | None:
    return None if field is None else {"name": field.name, "sql": column_sql(field)}
