"""The grammar of CREATE TABLE: a draft of what the statement says, with the place of everything that is checked later.

Strict on purpose: sqlglot's own parser accepts the CREATE TABLE of every dialect, and a clause it keeps but we do not read would be
ignored. Here whatever is not understood is refused (nothing is changed by accident). Expressions are sqlglot's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.release.sql.cursor import Cursor
from airflow_provider_schemamig.core.release.sql.errors import UnsupportedClause
from airflow_provider_schemamig.core.release.sql.types import data_type
from airflow_provider_schemamig.core.schema.clauses import CLAUSES, Clause
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, TokenKind
from airflow_provider_schemamig.core.schema.model import DataType


@dataclass
class DraftColumn:
    token: Token
    type: DataType
    nullable: bool = True
    comment: str | None = None
    #: Each with its expression, and where that begins.
    clauses: dict[Clause, tuple[str, Token]] = field(default_factory=dict)


@dataclass
class DraftCheck:
    name: Token | None
    expression: str
    token: Token


@dataclass
class DraftKey:
    name: Token | None
    columns: list[Token]
    primary: bool
    token: Token


@dataclass
class DraftForeignKey:
    name: Token | None
    columns: list[Token]
    references: Token
    referenced_columns: list[Token]
    token: Token


@dataclass
class TableDraft:
    name: Token
    columns: list[DraftColumn] = field(default_factory=list)
    checks: list[DraftCheck] = field(default_factory=list)
    keys: list[DraftKey] = field(default_factory=list)
    foreign_keys: list[DraftForeignKey] = field(default_factory=list)
    partitioned_by: list[Token] = field(default_factory=list)
    #: One list a column: the parts of its path.
    clustered_by: list[list[Token]] = field(default_factory=list)
    properties: list[tuple[Token, str, str]] = field(default_factory=list)
    comment: str | None = None


_ONLY = "a schema holds CREATE TABLE statements only"
_REFUSED_CLAUSES: dict[tuple[str, ...], str] = {
    ("LOCATION",): "the environment decides where a collection lies",
    ("OPTIONS",): "a Delta table has none; use TBLPROPERTIES",
    ("AS",): "a declaration has no rows; declare replacement(..., fill=...) in the release's migration",
    ("SELECT",): "a declaration has no rows; declare replacement(..., fill=...) in the release's migration",
    ("LIKE",): "write the columns out, so that the declaration does not change with another one",
    ("CLUSTERED", "BY"): "Delta has no buckets; use CLUSTER BY",
    ("SKEWED", "BY"): "Delta does not have it",
    ("ROW", "FORMAT"): "it belongs to Hive tables",
    ("STORED",): "it belongs to Hive tables",
    ("DEFAULT", "COLLATION"): "schemamig does not manage collations",
}
REFUSED_OPTIONS: dict[tuple[str, ...], str] = {
    ("GENERATED",): "schemamig manages no identity columns, and of the generated ones only what docs/schema-changes.md lists",
    ("COLLATE",): "schemamig does not manage collations",
    ("NULL",): "Spark SQL does not have it; a column is nullable unless it is NOT NULL",
    ("ENFORCED",): "schemamig validates and enforces every constraint it manages",
    ("NOT", "ENFORCED"): "schemamig validates and enforces every constraint it manages",
    ("RELY",): "schemamig validates and enforces every constraint it manages",
    ("NORELY",): "schemamig validates and enforces every constraint it manages",
}


def create_table(cursor: Cursor) -> TableDraft:
    """Read one statement. Raises SqlSyntax, UnsupportedClause; other findings are noted on the cursor."""
    draft = TableDraft(_header(cursor))
    cursor.expect("(")
    _element(cursor, draft)
    while cursor.accept(","):
        _element(cursor, draft)
    cursor.expect(")")
    _clauses(cursor, draft)
    return draft


def _header(cursor: Cursor) -> Token:
    first = cursor.peek()
    if not cursor.accept("CREATE", "TABLE"):
        words = f"{first.text} {cursor.peek(1).text}".upper()
        if first.upper == "CREATE":
            raise unsupported(cursor, first, words, _ONLY)
        if first.upper in ("ALTER", "DROP", "INSERT", "UPDATE", "DELETE", "MERGE", "SELECT", "USE", "SET", "COMMENT", "WITH", "REPLACE"):
            raise unsupported(cursor, first, first.upper, _ONLY)
        raise cursor.unexpected("CREATE TABLE")
    cursor.accept("IF", "NOT", "EXISTS")  # says nothing about the table
    name = cursor.name()
    if cursor.looks_at("."):
        raise unsupported(cursor, name, "a schema or catalog before the name", "a collection's name is one word")
    return name


#: A column may be called so, too.
_BEGIN_CONSTRAINTS = frozenset({"CONSTRAINT", "CHECK", "UNIQUE", "PRIMARY", "FOREIGN"})


def _element(cursor: Cursor, draft: TableDraft) -> None:
    """Read a column or a table constraint."""
    if cursor.peek().upper not in _BEGIN_CONSTRAINTS:
        _column(cursor, draft)
    elif cursor.looks_at("CONSTRAINT") and cursor.peek(1).kind in (TokenKind.WORD, TokenKind.QUOTED) and constraint_follows(cursor, 2):
        cursor.next()
        table_constraint(cursor, draft, cursor.name())
    elif constraint_follows(cursor, 0):
        table_constraint(cursor, draft, None)
    else:
        _column(cursor, draft)


def constraint_follows(cursor: Cursor, offset: int) -> bool:
    """Return whether a table constraint, without its name, begins at this token."""
    pair = (cursor.peek(offset).upper, cursor.peek(offset + 1).text.upper())
    return pair in (("CHECK", "("), ("UNIQUE", "("), ("PRIMARY", "KEY"), ("FOREIGN", "KEY"))


def table_constraint(cursor: Cursor, draft: TableDraft, name: Token | None) -> None:
    """Add ``CHECK (...)``, ``PRIMARY KEY (...)``, ``UNIQUE (...)`` or ``FOREIGN KEY (...) REFERENCES ...`` to the draft."""
    token = cursor.peek()
    if cursor.accept("CHECK"):
        expression, _ = cursor.parenthesized_expression()
        draft.checks.append(DraftCheck(name, expression, token))
    elif cursor.accept("FOREIGN", "KEY"):
        columns = cursor.names()
        references(cursor, draft, name, columns, token)
    else:
        primary = cursor.accept("PRIMARY", "KEY")
        if not primary:
            cursor.expect("UNIQUE")
        draft.keys.append(DraftKey(name, cursor.names(), primary, token))
    refuse(cursor, REFUSED_OPTIONS)


def references(cursor: Cursor, draft: TableDraft, name: Token | None, columns: list[Token], token: Token) -> None:
    """Add ``REFERENCES t [(...)]`` of these columns to the draft."""
    cursor.expect("REFERENCES")
    target = cursor.name()
    referenced_columns = cursor.names() if cursor.looks_at("(") else []
    draft.foreign_keys.append(DraftForeignKey(name, columns, target, referenced_columns, token))


def _column(cursor: Cursor, draft: TableDraft) -> None:
    column = DraftColumn(cursor.column_name(), data_type(cursor))
    draft.columns.append(column)
    seen: set[str] = set()
    while not cursor.at_end_of_element:
        token = cursor.peek()
        option = _column_option(cursor, draft, column)
        if option in seen:
            raise cursor.syntax(f"{option} stands twice", token)
        if option is not None:
            seen.add(option)


def _column_option(cursor: Cursor, draft: TableDraft, column: DraftColumn) -> str | None:
    """Read one option; gives the name of one that may stand only once."""
    if cursor.accept("NOT", "NULL"):
        column.nullable = False
        return "NOT NULL"
    for clause in CLAUSES:
        if cursor.looks_at(*clause.words, *(["("] if clause.in_parentheses else [])):
            cursor.expect(*clause.words)
            column.clauses[clause] = cursor.parenthesized_expression() if clause.in_parentheses else cursor.expression()
            return clause.name
    if cursor.accept("COMMENT"):
        column.comment = cursor.string()
        return "COMMENT"
    _column_constraint(cursor, draft, column)
    return None


def _column_constraint(cursor: Cursor, draft: TableDraft, column: DraftColumn) -> None:
    name = cursor.name() if cursor.accept("CONSTRAINT") else None
    token = cursor.peek()
    if cursor.accept("CHECK"):
        expression, _ = cursor.parenthesized_expression()
        draft.checks.append(DraftCheck(name, expression, token))
    elif cursor.looks_at("REFERENCES"):
        references(cursor, draft, name, [column.token], token)
    elif cursor.accept("PRIMARY", "KEY"):
        draft.keys.append(DraftKey(name, [column.token], True, token))
    elif cursor.accept("UNIQUE"):
        draft.keys.append(DraftKey(name, [column.token], False, token))
    else:
        refuse(cursor, REFUSED_OPTIONS)
        raise cursor.unexpected("a comma, ) or a column option (NOT NULL, DEFAULT, COMMENT, CHECK, PRIMARY KEY, UNIQUE, REFERENCES)")


def _clauses(cursor: Cursor, draft: TableDraft) -> None:
    seen: set[str] = set()
    while not cursor.at_end:
        refuse(cursor, _REFUSED_CLAUSES)
        token = cursor.peek()
        clause = next((words for words in _CLAUSES if cursor.accept(*words)), None)
        if clause is None:
            raise cursor.unexpected("USING, PARTITIONED BY, CLUSTER BY, COMMENT, TBLPROPERTIES or the end")
        if clause[0] in seen:
            raise cursor.syntax(f"{' '.join(clause)} stands twice", token)
        seen.add(clause[0])
        _CLAUSES[clause](cursor, draft)


def _using(cursor: Cursor, draft: TableDraft) -> None:
    token = cursor.name()
    if token.text.lower() != "delta":
        raise unsupported(cursor, token, f"USING {token.text}", "collections are Delta tables")


def _partitioned_by(cursor: Cursor, draft: TableDraft) -> None:
    cursor.expect("(")
    while True:
        token = cursor.name()
        if cursor.looks_at("("):
            raise unsupported(cursor, token, f"PARTITIONED BY {token.text}(...)", "Delta partitions by columns, not by expressions")
        if not (cursor.looks_at(",") or cursor.looks_at(")")):
            raise cursor.syntax(f"the partition column {token.text} is declared among the columns, without its type here", cursor.peek())
        draft.partitioned_by.append(token)
        if not cursor.accept(","):
            break
    cursor.expect(")")


def cluster_by(cursor: Cursor, draft: TableDraft) -> None:
    """Read ``(a, b.c, ...)`` and add it to the draft."""
    if not cursor.looks_at("("):
        reason = "name the columns, so that the declaration says how the table is clustered"
        raise unsupported(cursor, cursor.peek(), f"CLUSTER BY {cursor.peek().text}", reason)
    cursor.expect("(")
    while True:
        path = [cursor.name()]
        while cursor.accept("."):
            path.append(cursor.name())
        draft.clustered_by.append(path)
        if not cursor.accept(","):
            break
    cursor.expect(")")


def _comment(cursor: Cursor, draft: TableDraft) -> None:
    draft.comment = cursor.string()


def table_properties(cursor: Cursor, draft: TableDraft) -> None:
    """Read ``(key = value, ...)`` and add it to the draft."""
    cursor.expect("(")
    while True:
        token = cursor.peek()
        key = property_key(cursor)
        cursor.expect("=")
        draft.properties.append((token, key, _property_value(cursor)))
        if not cursor.accept(","):
            break
    cursor.expect(")")


def property_key(cursor: Cursor) -> str:
    """Read ``'a.b'`` or ``a.b``."""
    if cursor.peek().kind is TokenKind.STRING:
        return cursor.next().text
    key = cursor.name().text
    while cursor.accept("."):
        key += "." + cursor.name().text
    return key


def _property_value(cursor: Cursor) -> str:
    token = cursor.peek()
    if token.kind in (TokenKind.STRING, TokenKind.NUMBER):
        return cursor.next().text
    if token.upper in ("TRUE", "FALSE"):
        return cursor.next().text.lower()
    raise cursor.unexpected("a string, a number, true or false")


_CLAUSES: dict[tuple[str, ...], Callable[[Cursor, TableDraft], None]] = {
    ("USING",): _using,
    ("PARTITIONED", "BY"): _partitioned_by,
    ("CLUSTER", "BY"): cluster_by,
    ("COMMENT",): _comment,
    ("TBLPROPERTIES",): table_properties,
}


def refuse(cursor: Cursor, refused: Mapping[tuple[str, ...], str]) -> None:
    """Raise UnsupportedClause if one of these words comes next; ``refused`` gives the reason for each."""
    for words, reason in refused.items():
        if cursor.looks_at(*words):
            raise unsupported(cursor, cursor.peek(), " ".join(words), reason)


def unsupported(cursor: Cursor, token: Token, clause: str, reason: str) -> UnsupportedClause:
    """Return the refusal of something that Spark SQL has and we do not, at its place."""
    return cursor.refusal(UnsupportedClause, token, clause=clause, reason=reason)
