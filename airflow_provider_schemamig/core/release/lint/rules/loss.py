"""SM1xx: what loses rows, values or the way back."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Version
from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.model import Severity, rule
from airflow_provider_schemamig.core.release.lint.subject import Changed, Subject
from airflow_provider_schemamig.core.release.steps import Evolution, Removal, Replacement, Rewrite
from airflow_provider_schemamig.core.schema.changes import AddColumn, ChangeType, Cost
from airflow_provider_schemamig.core.schema.delta_rules.widening import decimal_of, varchar_length
from airflow_provider_schemamig.core.schema.model import Primitive, walk
from airflow_provider_schemamig.core.schema.sql import type_sql

_TIMES = {"timestamp", "timestamp_ntz"}
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


@rule("SM101", "column-dropped", Severity.WARNING, "a column is dropped: its values are gone when the hold is over")
def column_dropped(subject: Subject) -> Iterator[Hit]:
    for changed in subject.changed:
        if isinstance(changed.step, Evolution) and changed.step.drop:
            yield subject.at_step(changed, f"{', '.join(changed.step.drop)} is dropped, its values are gone when the hold is over")


@rule("SM102", "collection-removed", Severity.WARNING, "a collection is removed: its rows are gone when the hold is over")
def collection_removed(subject: Subject) -> Iterator[Hit]:
    for step, line in subject.steps:
        if isinstance(step, Removal):
            yield subject.in_module(line, step.collection, "the collection is removed, its rows are gone when the hold is over")


@rule("SM103", "replacement-without-fill", Severity.WARNING, "a replacement without a fill begins empty")
def replacement_without_fill(subject: Subject) -> Iterator[Hit]:
    for step, line in subject.steps:
        if isinstance(step, Replacement) and step.fill is None:
            yield subject.in_module(line, step.collection, "the replacement has no fill, so the collection begins empty")


@rule("SM104", "type-change-may-fail", Severity.WARNING, "values may not fit the new type; one that does not stops the upgrade")
def type_change_may_fail(subject: Subject) -> Iterator[Hit]:
    for changed, change in _conversions(subject):
        old, new = _name(change.old), _name(change.new)
        silent = _loses_digits(old, new) or {old, new} == _TIMES or varchar_length(new) is not None
        if not silent and new != "string" and not change.widening:
            yield subject.at_step(changed, f"{_kinds(change)}: a value that does not fit stops the upgrade")


@rule("SM105", "decimal-digits-lost", Severity.ERROR, "decimals are rounded silently: digits after the point are lost")
def decimal_digits_lost(subject: Subject) -> Iterator[Hit]:
    for changed, change in _conversions(subject):
        if _loses_digits(_name(change.old), _name(change.new)):
            yield subject.at_step(changed, f"{_kinds(change)}: digits are rounded away without an error")


@rule("SM106", "varchar-shrunk", Severity.WARNING, "a VARCHAR gets shorter; a longer value stops the upgrade and every later write")
def varchar_shrunk(subject: Subject) -> Iterator[Hit]:
    for changed, change in _conversions(subject):
        length, before = varchar_length(_name(change.new)), varchar_length(_name(change.old))
        if length is not None and (before is not None or _name(change.old) == "string"):
            yield subject.at_step(changed, f"{_kinds(change)}: longer values do not fit any more")


@rule("SM107", "timestamp-zone-changed", Severity.ERROR, "TIMESTAMP and TIMESTAMP_NTZ are mixed: values shift by the session's time zone")
def timestamp_zone_changed(subject: Subject) -> Iterator[Hit]:
    for changed, change in _conversions(subject):
        if {_name(change.old), _name(change.new)} == _TIMES:
            yield subject.at_step(changed, f"{_kinds(change)}: every value is read in the time zone of the converting session")


@rule("SM108", "rewrite-without-down", Severity.WARNING, "a rewrite without down: rollback loses what was written since")
def rewrite_without_down(subject: Subject) -> Iterator[Hit]:
    for step, line in subject.steps:
        if isinstance(step, Rewrite) and step.down is None:
            yield subject.in_module(line, step.collection, "the rewrite has no down, so a rollback loses the rows written since")


@rule("SM109", "any-cardinality", Severity.WARNING, 'cardinality="any": no check that every row arrived')
def any_cardinality(subject: Subject) -> Iterator[Hit]:
    for step, line in subject.steps:
        if isinstance(step, Rewrite) and step.cardinality == "any":
            yield subject.in_module(line, step.collection, 'cardinality="any" turns off the check that every row becomes one row')


@rule("SM110", "collection-name-comes-back", Severity.WARNING, "a new collection has the name of one that was removed")
def collection_name_comes_back(subject: Subject) -> Iterator[Hit]:
    for declaration in subject.created:
        last = _last_with(subject, declaration.name)
        if last is not None:
            yield subject.in_schema(declaration.name, f"{declaration.name} was another collection until {last}")


@rule("SM111", "column-name-comes-back", Severity.WARNING, "a new column has the name of one that was dropped")
def column_name_comes_back(subject: Subject) -> Iterator[Hit]:
    for changed in subject.changed:
        for change in changed.changes if isinstance(changed.step, Evolution) else ():
            last = _last_with(subject, changed.old.name, change.path) if isinstance(change, AddColumn) else None
            if last is not None and isinstance(change, AddColumn):
                yield subject.at_step(changed, f"{change.path} was another column until {last}")


@rule("SM112", "needless-replacement", Severity.WARNING, "a replacement loses every row for what an evolution does in one commit")
def needless_replacement(subject: Subject) -> Iterator[Hit]:
    for changed in subject.changed:
        needless = changed.difference.outcome is Cost.INSTANT and not changed.difference.drops_data
        if isinstance(changed.step, Replacement) and changed.step.fill is None and needless:
            yield subject.at_step(changed, f'evolution("{changed.name}") would keep the rows, and is one commit')


def _conversions(subject: Subject) -> Iterator[tuple[Changed, ChangeType]]:
    """Yield changes of atomic types that touch values somebody keeps."""
    for changed in subject.changed:
        for change in changed.changes if changed.keeps_rows else ():
            if isinstance(change, ChangeType) and not change.widening:
                yield changed, change


def _name(data_type: object) -> str:
    return data_type.name if isinstance(data_type, Primitive) else ""


def _kinds(change: ChangeType) -> str:
    return f"{change.path} goes from {type_sql(change.old)} to {type_sql(change.new)}"


def _loses_digits(old: str, new: str) -> bool:
    """Return whether a decimal gets fewer digits after the point, or none: Spark rounds or cuts without an error."""
    before = decimal_of(old)
    if before is None or before[1] == 0:
        return new in ("float", "double") and before is not None and before[0] > 15
    after = decimal_of(new)
    return new in _INTEGER_DIGITS or new in ("float", "double") or (after is not None and after[1] < before[1])


def _last_with(subject: Subject, collection: CollectionName, path: ColumnPath | None = None) -> Version | None:
    """Return the last supported version before the one before this that has a collection, or a column in it."""
    for version in reversed(subject.release.versions):
        declaration = subject.release.declarations(version).get(collection)
        if subject.before is None or version >= subject.before or declaration is None:
            continue
        if path is None or path in {found for found, _ in walk(declaration.fields)}:
            return version
    return None


RULES = (
    column_dropped,
    collection_removed,
    replacement_without_fill,
    type_change_may_fail,
    decimal_digits_lost,
    varchar_shrunk,
    timestamp_zone_changed,
    rewrite_without_down,
    any_cardinality,
    collection_name_comes_back,
    column_name_comes_back,
    needless_replacement,
)
