"""Another type, where older files cannot be read as it: a shadow column, filled, and put in the place of the column in one commit.

Nobody but us fills the shadow, and nobody keeps it right: who changes a value of the column leaves an old one in the shadow. So every file
that is not our own batch's is due, and the swap is committed as exactly the version after one at which none was: by the cut-over, whose
release knows the new type. The column of the old type steps aside and stays until the hold ends: with it a rollback brings every old value
back as it was, also one that the cast changed. A CHECK or NOT NULL that comes with the new type is asked of each value as it is filled,
and stands on the table from the swap on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.properties import STATS_COLUMNS
from airflow_provider_schemamig.core.names import ColumnPath, quote
from airflow_provider_schemamig.core.online.dependent_checks import KeptCheck, guarded, kept_checks
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.nested_types import (
    asks_again,
    cast_by_name,
    declared_where_text,
    held,
    kept_or_cast,
    leaves,
    relaxed,
    relaxes,
    why_not,
)
from airflow_provider_schemamig.core.online.operation import Chain, Enter, Files, Note, Operation, Question, Reorg, Swap
from airflow_provider_schemamig.core.online.operations.set_not_null import guard_of
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    Change,
    ChangeType,
    DropCheck,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetComment,
    SetDefault,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.delta_rules.table_features import COMPUTED_BY
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_text, varchar_length
from airflow_provider_schemamig.core.schema.diff.renames import is_stand_in, outdated_name, shadow_name
from airflow_provider_schemamig.core.schema.element_states import ElementClass, ElementState
from airflow_provider_schemamig.core.schema.expressions.parse import NotFollowed, column_references
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Check, DataType, Declaration, Field, Primitive
from airflow_provider_schemamig.core.schema.sql import type_sql

#: Primitive types by what values they have.
_KINDS = {
    **dict.fromkeys(("string", "varchar"), "text"),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "time"),
}


def operations(change: ChangeType, table: Declaration, beside: Sequence[Change] = (), declared: Declaration | None = None) -> Chain:
    """Return the steps of a change of type. Raises NotOnline.

    ``beside``: all online changes of the table; columns of one CHECK change places in one commit. ``declared``: what the release before
    declares, of which a rollback may have left the table wider.
    """
    reason = _why_not(change, table)
    if reason is not None:
        raise NotOnline(collection=table.name, op=change.op, path=change.path, reason=reason)
    column = table.field(change.path)
    assert column is not None  # it is to be changed
    shadow = _shadow(change, table)
    outdated = ColumnPath(outdated_name(column.name, (field.name.lower() for field in table.fields)))
    values = _Values(table, table if declared is None else declared)
    new, kept = relaxed(change.new), _kept(change, values, beside, "CAST", table.checks)
    held = (*kept, *_kept(change, values, beside, "CAST", _coming(beside)))
    fill = Reorg(shadow, guarded(values.of(change, "CAST"), held, quote(column.name)), Files.ALL)
    steps = (
        Note(ElementState.DELETE),
        Enter(ElementState.WRITE, (AddColumn(ColumnPath(shadow), Field(shadow, new)),)),
        fill,
        Swap(_swap(change, table, shadow, outdated, kept), filled=fill),
    )
    name, asks = f"type:{change.path}", (*_questions(change, values), *_kept_questions(change, values, beside))
    return (Operation(name, ElementClass.REORG, change, steps, (change.path,), asks=asks, leaves=(outdated,)),)


def retyped(beside: Sequence[Change]) -> frozenset[str]:
    """Return the columns that change places among ``beside``, as Spark compares names."""
    return frozenset(change.path.lower() for change in beside if isinstance(change, ChangeType))


def check_on_head(head: Head, change: ChangeType) -> None:
    """Raise NotOnline for what no declaration tells of and a swap would leave at the wrong column."""
    reason = None
    if STATS_COLUMNS in head.properties:
        reason = f"{STATS_COLUMNS} says for which columns statistics are kept"
    for column in head.schema["fields"]:
        if column["name"] == change.path and COMPUTED_BY & (column.get("metadata") or {}).keys():
            reason = "it is computed by Delta"
    if reason is not None:
        raise NotOnline(op=change.op, path=change.path, reason=reason)


def _why_not(change: ChangeType, table: Declaration) -> str | None:
    if not change.shadowable:
        return "its column is not free, but lays out the rows or is in a key; or it is a key of a map, of which two may become one"
    reason, column = why_not(change.old, change.new), table.field(change.path)
    if reason is not None or column is None or column.default is None:
        return reason
    if not isinstance(change.old, Primitive):
        return f"it has a DEFAULT, {column.default}, which is a value of one type"
    if _is_text_literal(column.default) and not is_text(change.old.name):
        return f"its DEFAULT {column.default} is nothing for a column of type {type_sql(change.old)}, which it has until the swap"
    return None


def _is_text_literal(default: str) -> bool:
    return default.lstrip().startswith(("'", '"'))


def _shadow(change: ChangeType, table: Declaration) -> str:
    """Return the name of the shadow column; one that an earlier attempt left behind is used again."""
    there, wanted = {field.name: field.type for field in table.fields}, relaxed(change.new)
    taken: set[str] = set()
    while True:
        name = shadow_name(change.path, taken)
        # A CAST goes by position, which a canonical type does not tell.
        if name not in there or (canonical_type(there[name]), type_sql(there[name])) == (canonical_type(wanted), type_sql(wanted)):
            return name
        taken.add(name.lower())


def _questions(change: ChangeType, values: _Values) -> tuple[Question, ...]:
    casts = tuple(
        Question("cast", (("column", path), ("type", type_sql(found)), ("rule", f"{path} as {type_sql(found)}")))
        for path, _, found in leaves(change.old, change.new, change.path)
    )
    limit = varchar_length(change.new.name) if isinstance(change.new, Primitive) else None
    if limit is not None:
        fits = f"{quote(change.path)} IS NULL OR length({values.text(change)}) <= {limit}"
    elif (kept := values.kept(change)) is not None:
        fits = kept
    else:
        return casts
    return *casts, Question("check", (("expression", fits), ("rule", f"{change.path} as {type_sql(change.new)}")))


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of rows of ``table`` in the columns that come. ``declared``: what the release before declares."""

    table: Declaration
    declared: Declaration

    def of(self, change: ChangeType, how: str) -> str:
        """Return what a row gets; an earlier release's shadow may have a value already."""
        return self._kept_or(change, self.cast(change, how))

    def text(self, change: ChangeType) -> str:
        """Return the text that a row gets in a VARCHAR, of any length."""
        return self._kept_or(change, self.cast(replace(change, new=Primitive("string")), "CAST"))

    def _kept_or(self, change: ChangeType, cast: str) -> str:
        hidden = self.table.field(_shadow(change, self.table))
        if hidden is None or not all(_has_inverse_cast(old, new) for _, old, new in leaves(change.old, change.new, "")):
            return cast
        return kept_or_cast(hidden, Field(change.path, relaxed(change.old)), cast)

    def cast(self, change: ChangeType, how: str) -> str:
        """Return the cast of a value; to text as of its declared type, if that holds it: 7 of an INT that is DOUBLE since a rollback."""
        value, column = quote(change.path), self.declared.field(change.path)
        cast, there = cast_by_name(how, value, change.old, change.new), relaxed(change.old)
        meant = there if column is None else declared_where_text(there, column.type, change.new)
        fits = held(value, change.old, meant)
        if fits is None:
            return cast
        narrow = cast_by_name("TRY_CAST", value, change.old, meant)
        return f"CASE WHEN {fits} THEN {cast_by_name(how, narrow, meant, change.new)} ELSE {cast} END"

    def kept(self, change: ChangeType) -> str | None:
        """Return the condition, in SQL, that a value in a column left wide fits its declared type or the new one; None for all others.

        It is the cast of the declared type that was asked for.
        """
        column = self.declared.field(change.path)
        return None if column is None else held(quote(change.path), change.old, column.type, or_by=change.new)


def _has_inverse_cast(old: DataType, new: DataType) -> bool:
    """Return whether Spark is known to cast ``new`` to ``old``: from and to text, among numbers and truth values, among times."""
    kinds = [_KINDS.get(found.name.partition("(")[0]) if isinstance(found, Primitive) else None for found in (old, new)]
    return None not in kinds and ("text" in kinds or kinds[0] == kinds[1])


def _coming(beside: Sequence[Change]) -> tuple[Check, ...]:
    """Return the rules that come with the release; a NOT NULL as the CHECK that says the same."""
    checks = [change.check for change in beside if isinstance(change, AddCheck)]
    return (*checks, *(guard_of(change.path) for change in beside if isinstance(change, SetNotNull)))


def _kept(change: ChangeType, values: _Values, beside: Sequence[Change], how: str, checks: Sequence[Check]) -> tuple[KeptCheck, ...]:
    """Return those of ``checks`` that use the column, over the values of all columns retyped with it. Raises NotOnline."""
    found = {str(other.path): values.of(other, how) for other in (*beside, change) if isinstance(other, ChangeType)}
    try:
        return kept_checks(checks, change.path, found)
    except NotFollowed as lost:
        reason = f"it cannot be told how ({lost}), a CHECK, uses it"
        raise NotOnline(collection=values.table.name, op=change.op, path=change.path, reason=reason) from lost


def _kept_questions(change: ChangeType, values: _Values, beside: Sequence[Change]) -> Iterator[Question]:
    """Yield what to ask about CHECKs; the cast's own question finds a row without a value of the new type."""
    lost = f"({quote(change.path)} IS NOT NULL AND {values.of(change, 'TRY_CAST')} IS NULL)"
    there = {field.name.lower() for field in values.table.fields} - {other.path.lower() for other in beside if isinstance(other, AddColumn)}
    coming = [check for check in _coming(beside) if there.issuperset(map(_root, column_references(check.expression)))]
    for item in _kept(change, values, beside, "TRY_CAST", (*values.table.checks, *coming)):
        rule = f"{item.rule} with {change.path} as {type_sql(change.new)}"
        yield Question("check", (("expression", f"{lost} OR ({item.expression})"), ("rule", rule)))


def _root(path: str) -> str:
    return path.partition(".")[0].lower()


def _swap(change: ChangeType, table: Declaration, shadow: str, outdated: ColumnPath, kept: Sequence[KeptCheck]) -> tuple[Change, ...]:
    """Return the column steps aside, free of all that it asks of a writer; the shadow gets its name, its place and what it asked.

    A rename would take CHECKs along with the column of the old type: they are of its name."""
    column, hidden, path = table.field(change.path), table.field(shadow), change.path
    assert column is not None  # it is to be changed
    order = tuple(field.name for field in table.fields if not is_stand_in(field.name))
    swap: list[Change] = [DropCheck(item.check) for item in kept]
    swap += [] if column.nullable else [Relax(path)]
    swap += [] if column.default is None else [SetDefault(path, column.default, None)]
    swap += relaxes(column)
    swap += [RenameColumn(path, outdated), RenameColumn(ColumnPath(shadow), column.name)]
    swap += [] if column.default is None else [SetDefault(path, None, column.default)]
    swap += [] if column.nullable else [SetNotNull(path)]
    swap += [] if column.comment is None else [SetComment(path, None, column.comment)]
    swap += asks_again(replace(column, type=change.new), relaxed(change.new) if hidden is None else hidden.type)
    swap += [AddCheck(item.check) for item in kept]
    return (*swap, ReorderColumns(ColumnPath(""), (*order, outdated), order))
