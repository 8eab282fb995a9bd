"""Any statement on any declaration: what it gives is what schema.sql would then declare, and its difference is the change asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from hypothesis import event, given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.sql.alter.draft import draft_of
from airflow_provider_schemamig.core.release.sql.alter.statement import Alter, Alteration, read_alteration
from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.declaration import Builder
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.release.sql.render import create_table_text
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import RenameColumn
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.expressions.tokens import tokens
from airflow_provider_schemamig.core.schema.model import Array, Check, DataType, Declaration, Field, ForeignKey, Key, Map, Struct, walk
from airflow_provider_schemamig.core.schema.ordering import sorted_checks, sorted_foreign_keys, sorted_keys, sorted_properties
from airflow_provider_schemamig.core.schema.paths import Fields, Slot, edit_slot, edit_struct, parent_and_name, slot_at, struct_at
from airflow_provider_schemamig.core.schema.sql import quote, type_sql
from airflow_provider_schemamig.exceptions import Refusal
from tests.support.examples import examples
from tests.unit.release.sql.alter_cases import DECLARATIONS
from tests.unit.release.sql.test_alter import CASES
from tests.unit.schema.strategies import NAMES, comments, declarations, defaults, types


@dataclass(frozen=True)
class Action:
    """A statement, the declaration one would write instead (which schema.sql may refuse), and the operations that it may take.

    ``stricter``: refused although schema.sql would take the outcome.
    """

    text: str
    outcome: Declaration
    ops: frozenset[str]
    stricter: bool = False
    renames: tuple[tuple[ColumnPath, str], ...] = ()


Draw = st.DrawFn


def ops(*names: str) -> frozenset[str]:
    return frozenset(names)


def path_sql(draw: Draw, path: str) -> str:
    """In any case, with and without backticks where that is possible."""
    parts = [part.swapcase() if part.isascii() and draw(st.booleans()) else part for part in path.split(".")]
    return ".".join(quote(part) for part in parts)


def string_sql(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def a_field(draw: Draw, old: Declaration) -> str:
    return draw(st.sampled_from([path for path, _ in walk(old.fields)]))


def a_place(draw: Draw, old: Declaration) -> str:
    """A column, field, element, key or value."""
    fields = [path for path, _ in walk(old.fields)]
    inside = [f"{path}.{part}" for path in fields for part in ("element", "key", "value") if slot_at(old.fields, f"{path}.{part}")]
    return draw(st.sampled_from([*fields, *inside]))


def a_column(draw: Draw, old: Declaration) -> str:
    return draw(st.sampled_from([f.name for f in old.fields]))


def some_columns(draw: Draw, old: Declaration) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from([f.name for f in old.fields]), min_size=1, max_size=2, unique=True)))


def sayable_type(draw: Draw) -> tuple[str, DataType]:
    text = type_sql(draw(types(1, nested_not_null=False)))
    return text, parse_schema(f"CREATE TABLE t (a {text})", "x")[0].fields[0].type


def list_sql(names: tuple[str, ...]) -> str:
    return f"({', '.join(map(quote, names))})"


def placed(draw: Draw, fields: Fields, name: str) -> tuple[str, Fields]:
    """FIRST, AFTER another one, or nothing; and the fields then."""
    others = [f for f in fields if f.name != name]
    moving = next(f for f in reversed(fields) if f.name == name)
    index = draw(st.integers(0, len(others)))
    text = "FIRST" if index == 0 else f"AFTER {quote(others[index - 1].name)}"
    return text, (*others[:index], moving, *others[index:])


# --- one function a form -------------------------------------------------------------------------------------------------------------


def add_column(draw: Draw, old: Declaration) -> Action:
    structs = ["", *(path for path in [a_place(draw, old)] if struct_at(old.fields, path))]
    parent = draw(st.sampled_from(structs))
    text, data_type = sayable_type(draw)
    name = draw(st.sampled_from([*NAMES, "new"]))
    field = Field(name, data_type, draw(st.booleans()), None if parent else draw(defaults), draw(comments))
    siblings = struct_at(old.fields, parent) or ()
    position, fields = "", (*siblings, field)
    if draw(st.booleans()) and all(f.name != name for f in siblings):
        position, fields = placed(draw, fields, name)
    options = draw(
        st.permutations(
            [
                "" if field.nullable else "NOT NULL",
                "" if field.default is None else f"DEFAULT {field.default}",
                "" if field.comment is None else f"COMMENT {string_sql(field.comment)}",
                position,
            ]
        )
    )
    prefix = f"{path_sql(draw, parent)}." if parent else ""
    outcome = replace(old, fields=edit_struct(old.fields, parent, lambda _: fields))
    return Action(f"ADD COLUMN {prefix}{quote(name)} {text} {' '.join(options)}", outcome, ops("add_column", "reorder_columns"))


def drop_column(draw: Draw, old: Declaration) -> Action:
    path = a_field(draw, old)
    parent, name = parent_and_name(path)
    outcome = replace(old, fields=edit_struct(old.fields, parent, lambda found: tuple(f for f in found if f.name != name)))
    # Inside an array schema.sql does not follow a CHECK, ALTER TABLE does.
    indexed = any("[0]" in check.expression for check in old.checks) and ".element." in path
    return Action(f"DROP COLUMN {path_sql(draw, path)}", outcome, ops("drop_column"), stricter=indexed)


def rename_column(draw: Draw, old: Declaration) -> Action:
    path = a_field(draw, old)
    parent, before = parent_and_name(path)
    name = draw(st.sampled_from([*NAMES, "new"]))
    taken = [f.name.lower() for f in struct_at(old.fields, parent) or () if f.name != before]
    renamed = (
        replace(old, fields=(*old.fields, old.fields[0])) if name.lower() in taken else apply(old, [RenameColumn(ColumnPath(path), name)])
    )
    text = f"RENAME COLUMN {path_sql(draw, path)} TO {quote(name)}"
    return Action(text, renamed, ops("rename_column"), stricter=name == before, renames=((ColumnPath(path), name),))


def set_type(draw: Draw, old: Declaration) -> Action:
    path = a_place(draw, old)
    text, data_type = sayable_type(draw)
    slot = slot_at(old.fields, path)
    assert slot is not None
    by_parts = type(slot.type) is type(data_type) and slot.type != data_type and isinstance(data_type, Struct | Array | Map)
    outcome = replace(old, fields=edit_slot(old.fields, path, lambda slot: replace(slot, type=data_type)))
    return Action(f"ALTER COLUMN {path_sql(draw, path)} TYPE {text}", outcome, ops("change_type"), stricter=by_parts)


def set_nullable(draw: Draw, old: Declaration) -> Action:
    path, nullable = a_field(draw, old), draw(st.booleans())
    primary = old.primary_key is not None and path in old.primary_key.columns
    outcome = replace(old, fields=edit_slot(old.fields, path, lambda slot: Slot(slot.type, nullable)))
    text = f"ALTER {path_sql(draw, path)} {'DROP' if nullable else 'SET'} NOT NULL"
    return Action(text, outcome, ops("drop_not_null", "set_not_null"), stricter=nullable and primary)


def set_default(draw: Draw, old: Declaration) -> Action:
    name, default = a_column(draw, old), draw(defaults)
    fields = tuple(replace(f, default=default) if f.name == name else f for f in old.fields)
    text = "DROP DEFAULT" if default is None else f"SET DEFAULT {default}"
    return Action(f"CHANGE COLUMN {path_sql(draw, name)} {text}", replace(old, fields=fields), ops("set_default"))


def set_comment(draw: Draw, old: Declaration) -> Action:
    path, comment = a_field(draw, old), draw(comments.filter(bool)) or ""
    parent, name = parent_and_name(path)
    edited = edit_struct(old.fields, parent, lambda found: tuple(replace(f, comment=comment) if f.name == name else f for f in found))
    return Action(f"ALTER COLUMN {path_sql(draw, path)} COMMENT {string_sql(comment)}", replace(old, fields=edited), ops("set_comment"))


def move_column(draw: Draw, old: Declaration) -> Action:
    path = a_field(draw, old)
    parent, name = parent_and_name(path)
    text, fields = placed(draw, struct_at(old.fields, parent) or (), name)
    outcome = replace(old, fields=edit_struct(old.fields, parent, lambda _: fields))
    return Action(f"ALTER COLUMN {path_sql(draw, path)} {text}", outcome, ops("reorder_columns"))


def add_check(draw: Draw, old: Declaration) -> Action:
    name, column = draw(st.sampled_from(["check_0", "c", "u", "pk"])), a_column(draw, old)
    expression = f"{quote(column)} IS NOT NULL"
    canonical = parse_schema(f"CREATE TABLE t ({quote(column)} INT, CHECK ({expression}))", "x")[0].checks[0].expression
    outcome = replace(old, checks=sorted_checks([*old.checks, Check(name, canonical)]))
    return Action(f"ADD CONSTRAINT {name} CHECK ({expression})", outcome, ops("add_check"))


def add_key(draw: Draw, old: Declaration) -> Action:
    columns, primary, name = some_columns(draw, old), draw(st.booleans()), draw(st.sampled_from([None, "k", "u"]))
    key = Key(columns, name)
    text = ("" if name is None else f"CONSTRAINT {name} ") + f"{'PRIMARY KEY' if primary else 'UNIQUE'} {list_sql(columns)}"
    if not primary:
        return Action(f"ADD {text}", replace(old, uniques=sorted_keys([*old.uniques, key])), ops("add_key"))
    fields = tuple(replace(f, nullable=False) if f.name in columns else f for f in old.fields)
    outcome = replace(old, fields=fields, primary_key=key)
    return Action(f"ADD {text}", outcome, ops("add_key", "set_not_null"), stricter=old.primary_key is not None)


def add_foreign_key(draw: Draw, old: Declaration) -> Action:
    columns, others = some_columns(draw, old), some_columns(draw, old)
    key = ForeignKey(columns, old.name, others)
    outcome = replace(old, foreign_keys=sorted_foreign_keys([*old.foreign_keys, key]))
    text = f"ADD FOREIGN KEY {list_sql(columns)} REFERENCES {old.name} {list_sql(others)}"
    return Action(text, outcome, ops("add_foreign_key"), stricter=key in old.foreign_keys)


def drop_constraint(draw: Draw, old: Declaration) -> Action:
    """Each constraint there is, by its name or else by its kind; or one that is not there, if it exists."""
    found = [Action("DROP CONSTRAINT IF EXISTS nothing", old, ops())]
    for check in old.checks:
        outcome = replace(old, checks=tuple(other for other in old.checks if other != check))
        found.append(Action(f"DROP CONSTRAINT {check.name.upper()}", outcome, ops("drop_check")))
    if old.primary_key is not None:
        named = "PRIMARY KEY" if old.primary_key.name is None else f"CONSTRAINT {old.primary_key.name}"
        found.append(Action(f"DROP {named}", replace(old, primary_key=None), ops("drop_key")))
    for key in old.uniques:
        named = f"UNIQUE {list_sql(key.columns)}" if key.name is None else f"CONSTRAINT {key.name}"
        found.append(Action(f"DROP {named}", replace(old, uniques=()), ops("drop_key")))
    for foreign_key in old.foreign_keys:
        text = f"DROP FOREIGN KEY {list_sql(foreign_key.columns)}"
        found.append(Action(text, replace(old, foreign_keys=()), ops("drop_foreign_key")))
    return draw(st.sampled_from(found))


def cluster_by(draw: Draw, old: Declaration) -> Action:
    columns = draw(st.just(()) | st.just(some_columns(draw, old)))
    text = f"CLUSTER BY {list_sql(columns) if columns else 'NONE'}"
    return Action(text, replace(old, clustered_by=columns), ops("change_clustering"))


def set_property(draw: Draw, old: Declaration) -> Action:
    key = draw(st.sampled_from(["owned_by", "other", "delta.checkpointInterval", "delta.appendOnly"]))
    value = draw(st.sampled_from([None, "1", "x"]))
    properties = dict(old.properties)
    properties.pop(key, None)
    if value is not None:
        properties[key] = value
    text = f"UNSET TBLPROPERTIES IF EXISTS ('{key}')" if value is None else f"SET TBLPROPERTIES ('{key}' = '{value}')"
    return Action(text, replace(old, properties=sorted_properties(properties.items())), ops("set_property"))


FORMS: tuple[Callable[[Draw, Declaration], Action], ...] = (
    *(add_column, drop_column, rename_column, set_type, set_nullable, set_default, set_comment, move_column),
    *(add_check, add_key, add_foreign_key, drop_constraint, cluster_by, set_property),
)


@st.composite
def altered(draw: Draw) -> tuple[Declaration, Action]:
    old = draw(declarations(sql=True))
    return old, draw(st.sampled_from(FORMS))(draw, old)


# --- the properties ------------------------------------------------------------------------------------------------------------------


def declared(declaration: Declaration) -> Declaration | None:
    """The declaration as schema.sql reads it; None if it refuses it."""
    try:
        return parse_schema(create_table_text(declaration), "schema.sql")[0]
    except Refusal:
        return None


def read(text: str, known: Mapping[CollectionName, Declaration]) -> Alteration | Refusal:
    try:
        return read_alteration(text, known)
    except Refusal as refusal:
        return refusal


@settings(max_examples=examples(60), deadline=None)
@given(altered())
def test_it_gives_what_schema_sql_would_declare(case: tuple[Declaration, Action]) -> None:
    old, action = case
    wanted = declared(action.outcome)
    found = read(f"ALTER TABLE {old.name} {action.text}", {old.name: old})
    event(f"{', '.join(sorted(action.ops))}: {type(found).__name__}")
    if isinstance(found, Refusal):
        assert action.stricter or wanted is None, found
        return
    assert isinstance(found, Alter)
    assert (found.new, found.renames) == (wanted, dict(action.renames))
    difference = diff(old, found.new, found.renames)
    assert {change.op for change in difference.changes} <= action.ops
    assert bool(difference.changes) == (found.new != old)
    assert apply(old, difference.changes) == found.new


@settings(max_examples=examples(35), deadline=None)
@given(declarations(sql=True))
def test_a_declaration_is_that_of_its_own_draft(declaration: Declaration) -> None:
    cursor = Cursor("ALTER", tokens("ALTER"))
    assert Builder(cursor, draft_of(declaration, cursor.peek())).build()[0] == declaration
    assert cursor.refusals == []


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_no_text_does_anything_but_mean_something_or_be_refused(data: st.DataObject) -> None:
    """Pieces of all statements, mixed."""
    pieces = data.draw(st.lists(st.sampled_from([action for action, _ in CASES]), min_size=1, max_size=3))
    words = [word for piece in pieces for word in piece.replace("(", " ( ").replace(",", " , ").split()]
    kept = data.draw(st.lists(st.sampled_from(words), max_size=4)) + words[: data.draw(st.integers(0, len(words)))]
    text = " ".join(["ALTER TABLE plain", *(kept if data.draw(st.booleans()) else words[:4] + kept)])
    found = read(text, DECLARATIONS)
    assert "statement:" in str(found) if isinstance(found, Refusal) else isinstance(found, get_args(Alteration)), found
