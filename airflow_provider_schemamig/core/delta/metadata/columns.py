"""Column changes made to a table's metadata, at any depth; each function is one kind of change.

They do to Delta's JSON what ``schema.apply.columns`` does to a declaration (tests hold the two together), and refuse what Delta refuses.
"""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_schemamig.core.delta.metadata.dependents import (
    check_users,
    computed_users,
    layout_user,
    only_compares,
)
from airflow_provider_schemamig.core.delta.metadata.editor import MetadataDraft, set_type_at, taken_name, type_at
from airflow_provider_schemamig.core.delta.metadata.errors import ColumnInUse, NotInstant
from airflow_provider_schemamig.core.delta.metadata.forbidden import not_nulls_in
from airflow_provider_schemamig.core.delta.names import JsonField, unenforced_not_nulls
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT, STATS_COLUMNS, name_parts, stats_columns
from airflow_provider_schemamig.core.names import ColumnPath, quote
from airflow_provider_schemamig.core.schema.changes import (
    AddColumn,
    ChangeType,
    DropColumn,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetClause,
    SetComment,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.clauses import CLAUSES, clause_of
from airflow_provider_schemamig.core.schema.delta_json import (
    COMMENT_KEY,
    VARCHAR_KEY,
    field_to_delta,
    fields_from_delta,
    type_to_delta,
)
from airflow_provider_schemamig.core.schema.delta_rules.table_features import COMPUTED_BY, ENABLE_TYPE_WIDENING, IDENTITY, TYPE_CHANGES
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.expressions.canonical import may_stand_bare
from airflow_provider_schemamig.core.schema.expressions.parse import InvalidExpression, canonical_expression
from airflow_provider_schemamig.core.schema.expressions.renames import rename_columns
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Field
from airflow_provider_schemamig.core.schema.paths import join, parent_and_name


def add(draft: MetadataDraft, change: AddColumn) -> None:
    """Add a column as the last in its struct.

    One that is there already (hidden, say) with this type gets default, comment and nullability.
    """
    parent, name = parent_and_name(change.path)
    struct = draft.struct(change, parent)
    taken = taken_name(struct, name)
    if not change.field.nullable and (taken is None or taken["nullable"]):
        raise NotInstant(op=change.op, path=change.path, reason="existing rows have no value for a NOT NULL column")
    new = field_to_delta(change.field)
    if next(unenforced_not_nulls(new), None) is not None:
        raise draft.refused(change, "Delta does not enforce NOT NULL inside arrays and maps")
    inside = next(not_nulls_in(new["type"]), None)
    if taken is None and inside is not None:
        raise NotInstant(op=change.op, path=change.path, reason=f"Delta adds no column with NOT NULL inside ({inside})")
    if taken is None:
        draft.map_new(new)
        struct["fields"].append(new)
        return
    if taken["name"] != name or canonical_type(_field(taken).type) != canonical_type(change.field.type):
        raise draft.refused(change, f"there is a column {taken['name']} of another type or spelling")
    taken["nullable"] = change.field.nullable
    for key in (COMMENT_KEY, *(clause.key for clause in CLAUSES)):
        _set(taken, key, new["metadata"].get(key))


def drop(draft: MetadataDraft, change: DropColumn) -> None:
    """Drop a column; one that is not there is dropped already. If files carry it, column mapping is needed to forget it."""
    place = draft.find(change.path)
    if place is None:
        return
    if place.inside:
        raise draft.refused(change, "it is no column or struct field")
    # On a way back, or at the end of a hold, what uses all of the column around the field has never asked for that, unless it names it.
    word = parent_and_name(change.path)[1] if draft.is_way_back and "." in change.path else None
    user = layout_user(draft, change.path) or _expression_user(draft, place.root, word)
    if user is not None:
        raise ColumnInUse(op=change.op, path=change.path, user=user)
    if len(place.struct["fields"]) == 1:
        raise draft.refused(change, "it is the only one in its struct")
    if change.path not in draft.forget:
        draft.map_columns()
    place.struct["fields"].remove(place.field)
    _drop_from_stats(draft, change.path)


def rename(draft: MetadataDraft, change: RenameColumn) -> None:
    """Rename a column in the schema, in partitioning and in CHECKs; files keep the physical name.

    Partition and clustering columns can be renamed, too.
    """
    parent, _ = parent_and_name(change.path)
    place = draft.find(change.path)
    if place is None:
        struct = draft.struct(change, parent)
        if any(f["name"] == change.name for f in struct["fields"]):
            return
        raise draft.refused(change, "there is no such column")
    if place.inside:
        raise draft.refused(change, "it is no column or struct field")
    if taken_name(place.struct, change.name, besides=place.field) is not None:
        raise draft.refused(change, f"the name {change.name} is taken")
    user = next(computed_users(draft, place.root), None)
    if user is not None:
        raise ColumnInUse(op=change.op, path=change.path, user=user)
    _rename_in_checks(draft, change, place.root)
    draft.map_columns()
    place.field["name"] = change.name
    draft.partition_columns[:] = [change.name if column == change.path else column for column in draft.partition_columns]
    _rename_in_stats(draft, change.path, join(parent, change.name))


def change_type(draft: MetadataDraft, change: ChangeType) -> None:
    """Widen a column's type, and record the change on the nearest field, so that readers convert older files (feature typeWidening)."""
    place = draft.place(change, change.path)
    found = _slot_type(place.field, place.inside)
    if found == change.new:
        return
    if found != change.old:
        raise draft.refused(change, "it has another type")
    if not change.widening or not is_widening(found, change.new):
        raise NotInstant(op=change.op, path=change.path, reason="Delta cannot read older files as the new type")
    before, after = type_to_delta(change.old), type_to_delta(change.new)
    if before != after:
        _refuse_retyping(draft, change, place.field, place.root)
        entry = {"toType": after, "fromType": before} | ({"fieldPath": ".".join(place.inside)} if place.inside else {})
        metadata = place.field["metadata"]
        metadata[TYPE_CHANGES] = [*metadata.get(TYPE_CHANGES, ()), entry]
        draft.configuration[ENABLE_TYPE_WIDENING] = "true"
    set_type_at(place.field, place.inside, after)
    if not place.inside:
        declared = field_to_delta(Field(place.field["name"], change.new))
        _set(place.field, VARCHAR_KEY, declared["metadata"].get(VARCHAR_KEY))


def relax(draft: MetadataDraft, change: Relax) -> None:
    _set_nullable(draft, change, True)


def set_not_null(draft: MetadataDraft, change: SetNotNull) -> None:
    """Set NOT NULL, which every writer enforces from this commit on; the caller has to look after what is in the files already."""
    _set_nullable(draft, change, False)


def set_clause(draft: MetadataDraft, change: SetClause) -> None:
    """Set the default of rows written from now on; files stay as they are (never EXISTS_DEFAULT: only Spark would see it)."""
    clause, found = clause_of(change), draft.field(change, change.path)
    _refuse_identity(change, found)
    text = found["metadata"].get(clause.key)
    current = None if text is None else clause.stored(text)
    if current not in (change.old, change.new):
        raise draft.refused(change, f"its {clause.noun} is {current}")
    if current != change.new:
        _set(found, clause.key, change.new)


def set_comment(draft: MetadataDraft, change: SetComment) -> None:
    if not change.path:
        draft.description = change.new
    else:
        _set(draft.field(change, change.path), COMMENT_KEY, change.new)


def reorder(draft: MetadataDraft, change: ReorderColumns) -> None:
    """Put the fields listed first, in that order; others keep their order behind them."""
    position = {name: number for number, name in enumerate(change.new)}
    draft.struct(change, change.path)["fields"].sort(key=lambda f: position.get(f["name"], len(position)))


# --- helpers -------------------------------------------------------------------------------------------------------------------------


def _field(found: JsonField) -> Field:
    return fields_from_delta(json.dumps({"type": "struct", "fields": [found]}))[0]


def _slot_type(found: JsonField, inside: tuple[str, ...]) -> Any:
    """Return the model's type at a place; a varchar's limit stands in its field's metadata."""
    if not inside:
        return _field(found).type
    return _field({"name": "x", "type": type_at(found["type"], inside), "nullable": True, "metadata": {}}).type


def _set(found: JsonField, key: str, value: Any) -> None:
    metadata = dict(found.get("metadata") or {})
    metadata.pop(key, None)
    found["metadata"] = metadata if value is None else {**metadata, key: value}


def _set_nullable(draft: MetadataDraft, change: Relax | SetNotNull, nullable: bool) -> None:
    place = draft.place(change, change.path)
    if not place.inside:
        _refuse_identity(change, place.field)
        place.field["nullable"] = nullable
        return
    holder, last = type_at(place.field["type"], place.inside[:-1]), place.inside[-1]
    if last == "key":
        raise draft.refused(change, "a map's key is never NULL")
    if not nullable:
        raise NotInstant(op=change.op, path=change.path, reason="Delta does not enforce NOT NULL inside arrays and maps")
    holder["containsNull" if last == "element" else "valueContainsNull"] = True


def _refuse_identity(change: Relax | SetNotNull | SetClause, found: JsonField) -> None:
    if IDENTITY in (found.get("metadata") or {}):
        raise ColumnInUse(op=change.op, path=change.path, user="its own generation")


def _expression_user(draft: MetadataDraft, path: str, word: str | None = None) -> str | None:
    check = next(check_users(draft, path, word), None)
    return f"CHECK {check}" if check is not None else next(computed_users(draft, path, word), None)


def _refuse_retyping(draft: MetadataDraft, change: ChangeType, found: JsonField, root: str) -> None:
    """Raise ColumnInUse if an expression depends on the column, because Delta refuses to change its type then.

    A CHECK that only compares is no hindrance, as it gives the same answers for a wider type.
    """
    user = next((f"CHECK {name}" for name in check_users(draft, root) if not only_compares(draft.configuration[CONSTRAINT + name])), None)
    user = next(computed_users(draft, root), "its own generation" if COMPUTED_BY & found["metadata"].keys() else user)
    if user is not None:
        raise ColumnInUse(op=change.op, path=change.path, user=user)


def _rename_in_checks(draft: MetadataDraft, change: RenameColumn, root: str) -> None:
    """Rename the column in the CHECKs that use it. Raises ColumnInUse where the expression cannot be followed, RenameInLambda."""
    for name in list(check_users(draft, root)):
        key = CONSTRAINT + name
        text = draft.configuration[key]
        try:
            fields = fields_from_delta(json.dumps(draft.schema))
            renamed = rename_columns(text, {ColumnPath(change.path): change.name}, fields)
            if renamed != canonical_expression(text):
                draft.configuration[key] = renamed
        except InvalidExpression:
            raise ColumnInUse(op=change.op, path=change.path, user=f"CHECK {name}") from None


def _rename_in_stats(draft: MetadataDraft, old: str, new: str) -> None:
    if STATS_COLUMNS in draft.configuration:
        columns = [_moved(column, old, new) for column in stats_columns(draft.configuration)]
        draft.configuration[STATS_COLUMNS] = ",".join(columns)


def _moved(column: str, old: str, new: str) -> str:
    """Return a column of a list under its new name, in backticks where it needs them.

    Without them no statement on the table could read the list any more.
    """
    if not _is_at(column, old):
        return column
    names = [*new.split("."), *name_parts(column)[len(old.split(".")) :]]
    return ".".join(name if may_stand_bare(name) else quote(name) for name in names)


def _drop_from_stats(draft: MetadataDraft, path: str) -> None:
    if STATS_COLUMNS in draft.configuration:
        columns = [column for column in stats_columns(draft.configuration) if not _is_at(column, path)]
        draft.configuration[STATS_COLUMNS] = ",".join(columns)


def _is_at(column: str, path: str) -> bool:
    """Return whether a column of the list is the one at ``path`` or inside of it."""
    wanted = path.lower().split(".")
    return [name.lower() for name in name_parts(column)[: len(wanted)]] == wanted
