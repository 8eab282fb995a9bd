"""Whether a release has all of a change that was made outside of one: at the same place alone it may be less."""

from __future__ import annotations

from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, ChangeType
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Map, Struct


def contains(released: Change, made: Change) -> bool:
    """Return whether the release's change of a place keeps all that was ``made`` there: values, rules and defaults."""
    match released, made:
        case AddColumn(field=field), AddColumn(field=there):
            return _has_all_of(field, there)
        case ChangeType(new=new), ChangeType(new=there):
            return _is_as_wide(new, there)
        case _:
            return True


def _has_all_of(field: Field, there: Field) -> bool:
    is_as_strict = there.nullable or not field.nullable
    return is_as_strict and field.default == there.default and _is_as_wide(field.type, there.type)


def _is_as_wide(new: DataType, there: DataType) -> bool:
    match new, there:
        case Struct(fields=fields), Struct(fields=known):
            by_name = {field.name: field for field in fields}
            return all(field.name in by_name and _has_all_of(by_name[field.name], field) for field in known)
        case Array(), Array():
            return (there.contains_null or not new.contains_null) and _is_as_wide(new.element, there.element)
        case Map(), Map():
            is_as_strict = there.value_contains_null or not new.value_contains_null
            return is_as_strict and _is_as_wide(new.key, there.key) and _is_as_wide(new.value, there.value)
        case _:
            return canonical_type(new) == canonical_type(there) or is_widening(there, new)
