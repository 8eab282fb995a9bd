"""Changes of constraints, properties and layout applied to a declaration. Each function is one kind of change; see ``declaration``."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddForeignKey,
    AddKey,
    Change,
    ChangeClustering,
    ChangePartitioning,
    DropCheck,
    DropForeignKey,
    DropKey,
    SetProperty,
)
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.ordering import sorted_checks, sorted_foreign_keys, sorted_keys, sorted_properties


def add_check(declaration: Declaration, change: AddCheck) -> Declaration:
    same_name = next((check for check in declaration.checks if check.name == change.check.name), None)
    if same_name is not None and same_name != change.check:
        raise _refused(declaration, change, change.check.name, f"there is a CHECK of that name: {same_name.expression}")
    return replace(declaration, checks=sorted_checks({*declaration.checks, change.check}))


def drop_check(declaration: Declaration, change: DropCheck) -> Declaration:
    same_name = next((check for check in declaration.checks if check.name == change.check.name), None)
    if same_name is not None and same_name != change.check:
        raise _refused(declaration, change, change.check.name, f"the CHECK of that name is {same_name.expression}")
    return replace(declaration, checks=tuple(check for check in declaration.checks if check != change.check))


def add_key(declaration: Declaration, change: AddKey) -> Declaration:
    if not change.primary:
        return replace(declaration, uniques=sorted_keys({*declaration.uniques, change.key}))
    if declaration.primary_key not in (None, change.key):
        raise _refused(declaration, change, ", ".join(change.key.columns), "there is another PRIMARY KEY")
    return replace(declaration, primary_key=change.key)


def drop_key(declaration: Declaration, change: DropKey) -> Declaration:
    if not change.primary:
        return replace(declaration, uniques=tuple(key for key in declaration.uniques if key != change.key))
    if declaration.primary_key not in (None, change.key):
        raise _refused(declaration, change, ", ".join(change.key.columns), "the PRIMARY KEY is another one")
    return replace(declaration, primary_key=None)


def add_foreign_key(declaration: Declaration, change: AddForeignKey) -> Declaration:
    return replace(declaration, foreign_keys=sorted_foreign_keys({*declaration.foreign_keys, change.foreign_key}))


def drop_foreign_key(declaration: Declaration, change: DropForeignKey) -> Declaration:
    return replace(declaration, foreign_keys=tuple(key for key in declaration.foreign_keys if key != change.foreign_key))


def set_property(declaration: Declaration, change: SetProperty) -> Declaration:
    properties = dict(declaration.properties)
    found = properties.pop(change.key, None)
    if found not in (change.old, change.new):
        raise _refused(declaration, change, change.key, f"its value is {found}")
    if change.new is not None:
        properties[change.key] = change.new
    return replace(declaration, properties=sorted_properties(properties.items()))


def change_partitioning(declaration: Declaration, change: ChangePartitioning) -> Declaration:
    if declaration.partitioned_by not in (change.old, change.new):
        raise _refused(declaration, change, ", ".join(change.old), "the collection is partitioned otherwise")
    return replace(declaration, partitioned_by=change.new)


def change_clustering(declaration: Declaration, change: ChangeClustering) -> Declaration:
    if declaration.clustered_by not in (change.old, change.new):
        raise _refused(declaration, change, ", ".join(change.old), "the collection is clustered otherwise")
    return replace(declaration, clustered_by=change.new)


def _refused(declaration: Declaration, change: Change, what: str, reason: str) -> NotApplicable:
    return NotApplicable(collection=declaration.name, op=change.op, path=what, reason=reason)
