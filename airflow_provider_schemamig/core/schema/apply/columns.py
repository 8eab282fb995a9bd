"""Column changes applied to a declaration, at any depth. Each function is one kind of change; see ``declaration``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from airflow_provider_schemamig.core.names import ColumnPath, name_key
from airflow_provider_schemamig.core.schema.changes import (
    AddColumn,
    Change,
    ChangeType,
    DropColumn,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetClause,
    SetComment,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.clauses import clause_of, readers_of, renamed
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.expressions.parse import column_references
from airflow_provider_schemamig.core.schema.expressions.renames import rename_columns
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Declaration, Field
from airflow_provider_schemamig.core.schema.ordering import key_columns, sorted_foreign_keys, sorted_keys
from airflow_provider_schemamig.core.schema.paths import (
    Fields,
    PathNotFound,
    Slot,
    edit_slot,
    edit_struct,
    parent_and_name,
    struct_at,
    translate,
)


def add(declaration: Declaration, change: AddColumn) -> Declaration:
    """Add a column as the last in its struct.

    If a column of this type is there already (hidden, for example), it gets what else the change says of it.
    """
    parent, name = parent_and_name(change.path)

    def edit(fields: Fields) -> Fields:
        taken = _taken(fields, name)
        if taken is None:
            return (*fields, change.field)
        if taken.name != name or canonical_type(taken.type) != canonical_type(change.field.type):
            raise _refused(declaration, change, f"there is a column {taken.name} of another type or spelling")
        return tuple(replace(change.field, type=taken.type) if f.name == name else f for f in fields)

    return _in_struct(declaration, change, parent, edit)


def drop(declaration: Declaration, change: DropColumn) -> Declaration:
    """Drop a column; a column that is not there is dropped already."""
    parent, name = parent_and_name(change.path)
    fields = struct_at(declaration.fields, parent)
    if fields is None or all(f.name != name for f in fields):
        return declaration
    user = _user_of(declaration, change.path)
    if user is not None:
        raise _refused(declaration, change, f"{user} uses it")
    return _in_struct(declaration, change, parent, lambda found: tuple(f for f in found if f.name != name))


def rename(declaration: Declaration, change: RenameColumn) -> Declaration:
    """Rename a column, also wherever its name is used: partitioning, clustering, keys, references to itself, CHECKs.

    Raises RenameInLambda for a nested field that a CHECK uses inside a lambda.
    """
    parent, name = parent_and_name(change.path)
    fields = struct_at(declaration.fields, parent)
    here = None if fields is None else next((f for f in fields if f.name == name), None)
    there = None if fields is None else _taken([f for f in fields if f.name != name], change.name)
    if here is None and there is not None and there.name == change.name:
        return declaration
    if here is None or there is not None:
        reason = "there is no such column" if here is None else f"the name {change.name} is taken"
        raise _refused(declaration, change, reason)
    renamed = _rename_uses(declaration, {change.path: change.name})
    return _in_struct(renamed, change, parent, lambda found: tuple(replace(f, name=change.name) if f.name == name else f for f in found))


def change_type(declaration: Declaration, change: ChangeType) -> Declaration:
    def edit(slot: Slot) -> Slot:
        if slot.type not in (change.old, change.new):
            raise _refused(declaration, change, "it has another type")
        return replace(slot, type=change.new)

    return _in_slot(declaration, change, change.path, edit)


def relax(declaration: Declaration, change: Relax) -> Declaration:
    return _in_slot(declaration, change, change.path, lambda slot: replace(slot, nullable=True))


def set_not_null(declaration: Declaration, change: SetNotNull) -> Declaration:
    return _in_slot(declaration, change, change.path, lambda slot: replace(slot, nullable=False))


def set_clause(declaration: Declaration, change: SetClause) -> Declaration:
    clause = clause_of(change)

    def edit(field: Field) -> Field:
        if clause.of(field) not in (change.old, change.new):
            raise _refused(declaration, change, f"its {clause.noun} is {clause.of(field)}")
        return clause.put(field, change.new)

    return _in_field(declaration, change, change.path, edit)


def set_comment(declaration: Declaration, change: SetComment) -> Declaration:
    """Set a comment, whatever it was before: nothing depends on it."""
    if not change.path:
        return replace(declaration, comment=change.new)
    return _in_field(declaration, change, change.path, lambda field: replace(field, comment=change.new))


def reorder(declaration: Declaration, change: ReorderColumns) -> Declaration:
    """Put the listed fields first, in that order; others keep their order behind them. Listed names that are not there do not matter."""
    position = {name: number for number, name in enumerate(change.new)}

    def edit(fields: Fields) -> Fields:
        return tuple(sorted(fields, key=lambda f: position.get(f.name, len(position))))  # sorted() is stable

    return _in_struct(declaration, change, change.path, edit)


def _rename_uses(declaration: Declaration, renames: dict[ColumnPath, str]) -> Declaration:
    def new(columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(translate(column, renames) for column in columns)

    key = declaration.primary_key
    checks = declaration.checks
    return replace(
        declaration,
        fields=renamed(declaration.fields, renames),
        partitioned_by=new(declaration.partitioned_by),
        clustered_by=new(declaration.clustered_by),
        checks=tuple(replace(check, expression=rename_columns(check.expression, renames, declaration.fields)) for check in checks),
        primary_key=None if key is None else replace(key, columns=new(key.columns)),
        uniques=sorted_keys(replace(unique, columns=new(unique.columns)) for unique in declaration.uniques),
        foreign_keys=sorted_foreign_keys(
            replace(
                foreign_key,
                columns=new(foreign_key.columns),
                referenced_columns=(
                    new(foreign_key.referenced_columns) if foreign_key.references == declaration.name else foreign_key.referenced_columns
                ),
            )
            for foreign_key in declaration.foreign_keys
        ),
    )


def _user_of(declaration: Declaration, path: str) -> str | None:
    """Return what would break if the column went, in words; None if nothing would."""
    if path in declaration.partitioned_by:
        return "PARTITIONED BY"
    if any(column == path or column.startswith(f"{path}.") for column in declaration.clustered_by):
        return "CLUSTER BY"
    if path in key_columns(declaration):
        return "a key"
    if "." in path:
        return None
    users = (check.name for check in declaration.checks if path.lower() in map(str.lower, column_references(check.expression)))
    found = next(users, None)
    reader = next((field.name for _, field in readers_of(declaration.fields, path)), None)
    return f"the CHECK {found}" if found is not None else None if reader is None else f"the column {reader}"


def _taken(fields: Fields | list[Field], name: str) -> Field | None:
    wanted = name_key(name)
    return next((f for f in fields if name_key(f.name) == wanted), None)


def _in_struct(declaration: Declaration, change: Change, path: str, edit: Callable[[Fields], Fields]) -> Declaration:
    try:
        return replace(declaration, fields=edit_struct(declaration.fields, path, edit))
    except PathNotFound:
        raise _refused(declaration, change, "there is no such struct") from None


def _in_slot(declaration: Declaration, change: Change, path: str, edit: Callable[[Slot], Slot]) -> Declaration:
    try:
        return replace(declaration, fields=edit_slot(declaration.fields, path, edit))
    except PathNotFound:
        raise _refused(declaration, change, "there is no such column") from None


def _in_field(declaration: Declaration, change: Change, path: str, edit: Callable[[Field], Field]) -> Declaration:
    parent, name = parent_and_name(path)

    def edit_one(fields: Fields) -> Fields:
        if all(f.name != name for f in fields):
            raise _refused(declaration, change, "there is no such column")
        return tuple(edit(f) if f.name == name else f for f in fields)

    return _in_struct(declaration, change, parent, edit_one)


def _refused(declaration: Declaration, change: Change, reason: str) -> NotApplicable:
    path = getattr(change, "path", None) or declaration.name
    return NotApplicable(collection=declaration.name, op=change.op, path=path, reason=reason)
