"""The grammar of ALTER TABLE's actions: Spark SQL 4's and Delta's, each applied as soon as it is read (``table``).

As strict as ``sql.create_table``: whatever is not understood is refused. Constraints without a name are dropped as Databricks writes it,
``DROP PRIMARY KEY``, ``DROP FOREIGN KEY (a)``, and alike ``DROP UNIQUE (a, b)``; each takes IF EXISTS before the columns.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_schemamig.core.release.sql.alter import columns, table
from airflow_provider_schemamig.core.release.sql.alter.columns import ColumnPosition
from airflow_provider_schemamig.core.release.sql.alter.table import Altered
from airflow_provider_schemamig.core.release.sql.create_table import (
    REFUSED_OPTIONS,
    DraftColumn,
    TableDraft,
    cluster_by,
    constraint_follows,
    property_key,
    refuse,
    table_constraint,
    table_properties,
    unsupported,
)
from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.types import data_type
from airflow_provider_schemamig.core.schema.clauses import DEFAULT
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, TokenKind

_PARTITIONS = "a Delta table knows its partitions by its files"
_HIVE = "it belongs to Hive tables"
_COLLATION = "schemamig does not manage collations"
_GENERATED = "schemamig manages no identity columns, and of the generated ones only what docs/schema-changes.md lists"
_OWN_STATEMENT = "add the column, then the constraint by ADD CONSTRAINT"
_REFUSED_ACTIONS: dict[tuple[str, ...], str] = {
    ("REPLACE", "COLUMNS"): "it says what stays and not what goes; use ADD, DROP, RENAME and ALTER COLUMN",
    ("REPLACE", "COLUMN"): "it says what stays and not what goes; use ADD, DROP, RENAME and ALTER COLUMN",
    ("ADD", "PARTITION"): _PARTITIONS,
    ("ADD", "IF", "NOT", "EXISTS", "PARTITION"): _PARTITIONS,
    ("DROP", "PARTITION"): _PARTITIONS,
    ("DROP", "IF", "EXISTS", "PARTITION"): _PARTITIONS,
    ("PARTITION",): _PARTITIONS,
    ("RECOVER", "PARTITIONS"): _PARTITIONS,
    ("SET", "LOCATION"): "the environment decides where a collection lies",
    ("SET", "SERDE"): _HIVE,
    ("SET", "SERDEPROPERTIES"): _HIVE,
    ("SET", "FILEFORMAT"): _HIVE,
    ("CLUSTERED", "BY"): "Delta has no buckets; use CLUSTER BY",
    ("DEFAULT", "COLLATION"): _COLLATION,
    ("DROP", "FEATURE"): "schemamig keeps the protocol version that the declared schema needs",
}
_REFUSED_COLUMN_OPTIONS: dict[tuple[str, ...], str] = {
    **REFUSED_OPTIONS,
    ("CONSTRAINT",): _OWN_STATEMENT,
    ("CHECK",): _OWN_STATEMENT,
    ("PRIMARY", "KEY"): _OWN_STATEMENT,
    ("UNIQUE",): _OWN_STATEMENT,
    ("REFERENCES",): _OWN_STATEMENT,
}
_REFUSED_COLUMN_ACTIONS: dict[tuple[str, ...], str] = {
    ("COLLATE",): _COLLATION,
    ("SYNC", "IDENTITY"): _GENERATED,
    ("SET", "GENERATED"): _GENERATED,
    ("ADD", "GENERATED"): _GENERATED,
    ("DROP", "IDENTITY"): _GENERATED,
}
_COLUMN_ACTIONS = "TYPE, SET NOT NULL, DROP NOT NULL, SET DEFAULT, DROP DEFAULT, COMMENT, FIRST or AFTER"


def alter_actions(altered: Altered) -> None:
    """Read what comes after ``ALTER TABLE name`` and apply it. Raises SqlSyntax, UnsupportedClause; other findings are noted."""
    cursor = altered.cursor
    refuse(cursor, _REFUSED_ACTIONS)
    place = cursor.peek()
    words = next((words for words in _ACTIONS if cursor.accept(*words)), None)
    if words is None:
        raise cursor.unexpected(
            "ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, ADD CONSTRAINT (or CHECK, PRIMARY KEY, UNIQUE, FOREIGN KEY), "
            "DROP CONSTRAINT (or PRIMARY KEY, UNIQUE, FOREIGN KEY), CLUSTER BY, SET TBLPROPERTIES, UNSET TBLPROPERTIES or RENAME TO"
        )
    _ACTIONS[words](altered, place)


def _each(cursor: Cursor, read: Callable[[], None]) -> None:
    """Read ``a, b`` or ``(a, b)``."""
    opened = cursor.accept("(")
    read()
    while cursor.accept(","):
        read()
    if opened:
        cursor.expect(")")


def _path(cursor: Cursor) -> list[Token]:
    """Read ``a.b.c``."""
    parts = [cursor.name()]
    while cursor.accept("."):
        parts.append(cursor.name())
    return parts


def _if_exists(cursor: Cursor) -> bool:
    return cursor.accept("IF", "EXISTS")


def _position(cursor: Cursor) -> ColumnPosition | None:
    if cursor.accept("FIRST"):
        return ColumnPosition(None)
    return ColumnPosition(cursor.name()) if cursor.accept("AFTER") else None


def _add_columns(altered: Altered, place: Token) -> None:
    _each(altered.cursor, lambda: _add_column(altered))


def _add_column(altered: Altered) -> None:
    cursor = altered.cursor
    parents: list[Token] = []
    while cursor.peek(1).kind is TokenKind.SYMBOL and cursor.peek(1).text == ".":
        parents.append(cursor.name())
        cursor.expect(".")
    column = DraftColumn(cursor.column_name(), data_type(cursor, depth=len(parents)))
    position: ColumnPosition | None = None
    seen: set[str] = set()
    while not (cursor.at_end or cursor.looks_at(",") or cursor.looks_at(")")):
        token = cursor.peek()
        found = _position(cursor)
        option = "FIRST or AFTER" if found is not None else _column_option(cursor, column)
        if option in seen:
            raise cursor.syntax(f"{option} stands twice", token)
        seen.add(option)
        position = found or position
    columns.add_column(altered, parents, column, position)


def _column_option(cursor: Cursor, column: DraftColumn) -> str:
    """Read one option of a new column; gives its name."""
    if cursor.accept("NOT", "NULL"):
        column.nullable = False
        return "NOT NULL"
    if cursor.accept("DEFAULT"):
        column.clauses[DEFAULT] = cursor.expression("FIRST", "AFTER")
        return "DEFAULT"
    if cursor.accept("COMMENT"):
        column.comment = cursor.string()
        return "COMMENT"
    refuse(cursor, _REFUSED_COLUMN_OPTIONS)
    raise cursor.unexpected("a comma, the end or a column option (NOT NULL, DEFAULT, COMMENT, FIRST, AFTER)")


def _drop_columns(altered: Altered, place: Token) -> None:
    if_exists = _if_exists(altered.cursor)
    _each(altered.cursor, lambda: columns.drop_column(altered, _path(altered.cursor), if_exists))


def _rename_column(altered: Altered, place: Token) -> None:
    path = _path(altered.cursor)
    altered.cursor.expect("TO")
    columns.rename_column(altered, path, altered.cursor.column_name())


def _alter_columns(altered: Altered, place: Token) -> None:
    _alter_column(altered)
    while altered.cursor.accept(","):
        _alter_column(altered)


def _alter_column(altered: Altered) -> None:
    cursor = altered.cursor
    path, token = _path(cursor), cursor.peek()
    if cursor.accept("TYPE"):
        token = cursor.peek()
        columns.set_type(altered, path, data_type(cursor, depth=len(path) - 1), token)
    elif cursor.accept("SET", "NOT", "NULL"):
        columns.set_nullable(altered, path, False, token)
    elif cursor.accept("DROP", "NOT", "NULL"):
        columns.set_nullable(altered, path, True, token)
    elif cursor.accept("SET", "DEFAULT"):
        columns.set_default(altered, path, cursor.expression(), token)
    elif cursor.accept("DROP", "DEFAULT"):
        columns.set_default(altered, path, None, token)
    elif cursor.accept("COMMENT"):
        columns.set_comment(altered, path, cursor.string())
    elif (position := _position(cursor)) is not None:
        columns.move_column(altered, path, position)
    else:
        raise _no_column_action(cursor, path)


def _no_column_action(cursor: Cursor, path: list[Token]) -> Exception:
    refuse(cursor, _REFUSED_COLUMN_ACTIONS)
    hive = (TokenKind.WORD, TokenKind.QUOTED)
    if cursor.peek().kind in hive and cursor.peek(1).kind in hive and cursor.peek().upper not in ("SET", "DROP", "ADD"):
        reason = "a name and a type at once are Hive's; use RENAME COLUMN, and ALTER COLUMN ... TYPE"
        return unsupported(cursor, cursor.peek(), f"CHANGE COLUMN {path[-1].text} {cursor.peek().text} {cursor.peek(1).text}", reason)
    return cursor.unexpected(_COLUMN_ACTIONS)


def _add_constraint(altered: Altered, place: Token) -> None:
    """Read a constraint, with or without ``CONSTRAINT name``, and add it."""
    cursor = altered.cursor
    name = cursor.name() if cursor.accept("CONSTRAINT") else None
    if not constraint_follows(cursor, 0):
        kinds = "CHECK (...), PRIMARY KEY (...), UNIQUE (...) or FOREIGN KEY (...)"
        raise cursor.unexpected(kinds if name is not None else f"COLUMN, CONSTRAINT name, {kinds}")
    part = TableDraft(place)
    table_constraint(cursor, part, name)
    table.add_constraint(altered, place, part)


def _drop_constraint(altered: Altered, place: Token) -> None:
    if_exists = _if_exists(altered.cursor)
    table.drop_constraint(altered, altered.cursor.name(), if_exists)


def _drop_primary_key(altered: Altered, place: Token) -> None:
    table.drop_primary_key(altered, place, _if_exists(altered.cursor))


def _drop_unique(altered: Altered, place: Token) -> None:
    if_exists = _if_exists(altered.cursor)
    table.drop_unique(altered, place, altered.cursor.names(), if_exists)


def _drop_foreign_key(altered: Altered, place: Token) -> None:
    cursor = altered.cursor
    if_exists = _if_exists(cursor)
    names = cursor.names()
    target = cursor.name() if cursor.accept("REFERENCES") else None
    table.drop_foreign_key(altered, place, names, target, if_exists)


def _cluster_by(altered: Altered, place: Token) -> None:
    part = TableDraft(place)
    if not altered.cursor.accept("NONE"):
        cluster_by(altered.cursor, part)
    table.set_clustering(altered, place, part.clustered_by)


def _set_properties(altered: Altered, place: Token) -> None:
    part = TableDraft(place)
    table_properties(altered.cursor, part)
    table.set_properties(altered, place, part.properties)


def _unset_properties(altered: Altered, place: Token) -> None:
    cursor = altered.cursor
    if_exists = _if_exists(cursor)
    cursor.expect("(")
    while True:
        token = cursor.peek()
        table.unset_property(altered, token, property_key(cursor), if_exists)
        if not cursor.accept(","):
            break
    cursor.expect(")")


#: Longer ones before those they begin with.
_ACTIONS: dict[tuple[str, ...], Callable[[Altered, Token], None]] = {
    ("ADD", "COLUMNS"): _add_columns,
    ("ADD", "COLUMN"): _add_columns,
    ("ADD",): _add_constraint,
    ("DROP", "COLUMNS"): _drop_columns,
    ("DROP", "COLUMN"): _drop_columns,
    ("DROP", "CONSTRAINT"): _drop_constraint,
    ("DROP", "PRIMARY", "KEY"): _drop_primary_key,
    ("DROP", "UNIQUE"): _drop_unique,
    ("DROP", "FOREIGN", "KEY"): _drop_foreign_key,
    ("RENAME", "COLUMN"): _rename_column,
    ("ALTER", "COLUMN"): _alter_columns,
    ("ALTER",): _alter_columns,
    ("CHANGE", "COLUMN"): _alter_columns,
    ("CHANGE",): _alter_columns,
    ("CLUSTER", "BY"): _cluster_by,
    ("SET", "TBLPROPERTIES"): _set_properties,
    ("UNSET", "TBLPROPERTIES"): _unset_properties,
}
