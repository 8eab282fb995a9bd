"""What ``verify`` asks of every row of a table: NOT NULL of the files' statistics first, CHECK of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.log.commits import null_count
from airflow_provider_schemamig.core.delta.names import physical_name, physical_path
from airflow_provider_schemamig.core.schema.expressions.parse import column_references
from airflow_provider_schemamig.core.schema.model import Check, Field, Struct
from airflow_provider_schemamig.core.upgrade.verify.findings import Condition, KeptRule, TableFinding, Unasked
from airflow_provider_schemamig.core.upgrade.verify.table import MOST_FILES, File, VerifiedTable


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """``check``: for the job ``preflight``, with a ``rule`` of its own in the collection."""

    table: VerifiedTable
    element: str
    text: str
    condition: Condition
    check: Mapping[str, Any]

    def answer(self, violation: Mapping[str, Any] | None) -> TableFinding | KeptRule:
        """Return the answer to the question. ``violation``: what the job found of it, if anything."""
        if violation is None:
            return KeptRule(self.table.collection, self.element, self.table.head.version)
        files = tuple(map(str, violation["files"]))
        shown = violation["sample"] if self.condition is Condition.RULE_VIOLATED else ()
        sample = tuple(", ".join(f"{name} = {value}" for name, value in row.items()) for row in shown)
        rows, commits = int(violation["count"]), self.table.written_by(files)
        return TableFinding(self.condition, self.table.collection, self.element, self.text, rows, sample, files, commits)


# --- CHECK ---------------------------------------------------------------------------------------------------------------------------


def checks(table: VerifiedTable) -> Iterator[RowQuestion | KeptRule | Unasked]:
    """Yield the declared CHECKs of the collection, and those that an online change made PUBLIC."""
    there = {field.name.lower() for field in table.live.fields}
    for found in _trusted_checks(table):
        element = f"check:{found.name}"
        missing = [name for name in column_references(found.expression) if name.lower() not in there]
        if missing:
            yield Unasked(table.collection, element, f"it is about {missing[0]}, which is no column of the table")
            continue
        if not table.has_rows:
            yield KeptRule(table.collection, element, table.head.version)
            continue
        check = {
            "collection": table.collection,
            "uri": table.head.location.uri,
            "version": table.head.version,
            "kind": "check",
            "rule": element,
            "expression": found.expression,
        }
        yield RowQuestion(table, element, f"rows break CHECK ({found.expression})", Condition.RULE_VIOLATED, check)


def _trusted_checks(table: VerifiedTable) -> Iterator[Check]:
    """Yield the CHECKs that rows have to keep, by the columns' names of now.

    Of one that is on its way older rows may break; one that a change under way took off is nobody's.
    """
    live = {found.name: found for found in table.live.checks}
    declared = {found.name: found for found in table.entry.declared.checks}
    public = {name.partition(":")[2] for name in table.elements if name.startswith("check:") and table.is_public(name)}
    for name in sorted(declared.keys() | public):
        if table.is_public(f"check:{name}") is False:
            continue
        taken_off = any(name not in {found.name for found in shown.checks} for shown in table.in_flight)
        if name in live:
            yield live[name]
        elif name in declared and not taken_off:
            yield declared[name]


# --- NOT NULL ------------------------------------------------------------------------------------------------------------------------


def not_nulls(table: VerifiedTable) -> Iterator[RowQuestion | TableFinding | KeptRule | Unasked]:
    """Yield a question or finding for each column that the table says is NOT NULL.

    Delta leaves ``IS NULL`` out of a query over such a column, so whether it is true is seen in the files alone: in their statistics, and
    where these do not tell in the files themselves. A field of a struct that is missing is missing, as for Delta, which refuses such a
    row. Fields inside arrays and maps are left out: Delta enforces nothing there.
    """
    for path in _required(table.live.fields):
        yield _not_null(table, path)


def _required(fields: Sequence[Field], prefix: str = "") -> Iterator[str]:
    for field in fields:
        path = f"{prefix}{field.name}"
        if not field.nullable:
            yield path
        if isinstance(field.type, Struct):
            yield from _required(field.type.fields, f"{path}.")


def _not_null(table: VerifiedTable, path: str) -> RowQuestion | TableFinding | KeptRule | Unasked:
    element, physical = f"not_null:{path}", physical_path(table.head.schema, path)
    assert physical is not None  # it is a path of this very schema
    files = [(file, null_count(file.add, physical)) for file in table.files if file.rows != 0]
    text = f"rows have no value in {path}, which is NOT NULL"
    broken = [(file, count) for file, count in files if count and not file.hides_rows]
    if broken:
        shown = tuple(file.path for file, _ in broken[:MOST_FILES])
        rows = sum(count for _, count in broken)
        return TableFinding(Condition.VALUE_MISSING, table.collection, element, text, rows, (), shown, table.written_by(shown))
    unknown = [file for file, count in files if count != 0]
    if not unknown:
        return KeptRule(table.collection, element, table.head.version)
    if any(file.hides_rows for file in unknown):
        reason = "of files with deletion vectors the statistics do not tell whether a NULL is in a row that is still there"
        return Unasked(table.collection, element, reason)
    return RowQuestion(table, element, text, Condition.VALUE_MISSING, _of_files(table, physical, element, unknown))


def _of_files(table: VerifiedTable, physical: tuple[str, ...], element: str, files: Sequence[File]) -> Mapping[str, Any]:
    column = next(field for field in table.head.schema["fields"] if physical_name(field) == physical[0])
    return {
        "collection": table.collection,
        "uri": table.head.location.uri,
        "version": table.head.version,
        "kind": "missing_values",
        "rule": element,
        "column": ".".join(physical),
        "files": [file.path if "://" in file.path else f"{table.head.location.uri}/{file.path}" for file in files],
        "schema": _as_stored({"type": "struct", "fields": [column]}),
    }


def _as_stored(data_type: Any) -> Any:
    """Return a type of the table's schema as its files have it: by physical names, and with nothing promised about NULL."""
    if not isinstance(data_type, dict):
        return data_type
    match data_type["type"]:
        case "struct":
            fields = [
                {"name": physical_name(field), "type": _as_stored(field["type"]), "nullable": True, "metadata": {}}
                for field in data_type["fields"]
            ]
            return {"type": "struct", "fields": fields}
        case "array":
            return {**data_type, "elementType": _as_stored(data_type["elementType"]), "containsNull": True}
        case "map":
            inner = {name: _as_stored(data_type[name]) for name in ("keyType", "valueType")}
            return {**data_type, **inner, "valueContainsNull": True}
        case _:
            return data_type
