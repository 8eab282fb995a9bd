"""CREATE TABLE as declarations: everything that may be said, and every refusal with its place."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings

from airflow_provider_schemamig.core.release.sql import parse
from airflow_provider_schemamig.core.release.sql.errors import (
    DuplicateCollection,
    DuplicateName,
    InvalidSqlName,
    InvalidUse,
    SqlRefusal,
    SqlSyntax,
    UndeclaredColumn,
    UnknownType,
    UnsafeProperty,
    UnsupportedClause,
)
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, tokens
from airflow_provider_schemamig.core.schema.model import Array, Check, Declaration, Field, ForeignKey, Key, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.sql import quote
from airflow_provider_schemamig.exceptions import Refusal, Refused
from tests.support.examples import examples
from tests.unit.schema.strategies import declarations

INT, STRING = Primitive("int"), Primitive("string")


def one(columns: str, clauses: str = "") -> Declaration:
    return parse_schema(f"CREATE TABLE t ({columns}) {clauses}", "schema.sql")[0]


def refusals(text: str) -> list[SqlRefusal]:
    with pytest.raises(Refusal) as caught:
        parse_schema(text, "schema.sql")
    found = caught.value.refusals if isinstance(caught.value, Refused) else [caught.value]
    assert all(isinstance(refusal, SqlRefusal) and refusal.file == "schema.sql" for refusal in found)
    return [refusal for refusal in found if isinstance(refusal, SqlRefusal)]


# --- what may be said ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "name"),
    [
        *[
            (name, name.lower())
            for name in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE")
        ],
        *[("TIMESTAMP", "timestamp"), ("TIMESTAMP_LTZ", "timestamp"), ("TIMESTAMP_NTZ", "timestamp_ntz")],
        ("timestamp without time zone", "timestamp_ntz"),
        *[("byte", "tinyint"), ("short", "smallint"), ("integer", "int"), ("long", "bigint"), ("real", "float")],
        *[("DECIMAL", "decimal(10,0)"), ("DEC(5)", "decimal(5,0)"), ("numeric( 38 , 38 )", "decimal(38,38)")],
        *[("VARCHAR(20)", "varchar(20)"), ("varchar ( 1 )", "varchar(1)")],
    ],
)
def test_parse_atomic_types(written: str, name: str) -> None:
    assert one(f"a {written}").fields == (Field("a", Primitive(name)),)


def test_parse_nested_types() -> None:
    columns = "s STRUCT<a: INT NOT NULL COMMENT 'x', `b` ARRAY<MAP<STRING, STRUCT<c: INT>>>> NOT NULL"
    inner = Array(Map(STRING, Struct((Field("c", INT),))))
    fields = (Field("a", INT, nullable=False, comment="x"), Field("b", inner))
    assert one(columns).fields == (Field("s", Struct(fields), nullable=False),)


def test_a_column_with_everything() -> None:
    found = one("`größe` INT COMMENT 'it''s' DEFAULT -1 NOT NULL CONSTRAINT Positive CHECK (größe>0) UNIQUE")
    assert found.fields == (Field("größe", INT, nullable=False, default="-1", comment="it's"),)
    assert found.checks == (Check("positive", "`größe` > 0"),)
    assert found.uniques == (Key(("größe",)),)


@pytest.mark.parametrize(
    ("written", "default"),
    [
        ("DEFAULT 1", "1"),
        ("DEFAULT 'a, b) NOT NULL'", "'a, b) NOT NULL'"),
        ("DEFAULT (1 + 2) * 3", "(1 + 2) * 3"),
        ("DEFAULT concat('a', 'b') COMMENT 'x'", "CONCAT('a', 'b')"),
        ("DEFAULT current_date() NOT NULL", "CURRENT_DATE()"),
        ("DEFAULT current_date", "CURRENT_DATE"),
        ("DEFAULT 1 IS NOT NULL", "1 IS NOT NULL"),
        ("DEFAULT array(1, 2)[0]", "ARRAY(1, 2)[0]"),
        ("DEFAULT NULL", None),
        ("DEFAULT (null)", None),
    ],
)
def test_parse_defaults(written: str, default: str | None) -> None:
    assert one(f"a STRING {written}, b INT").fields[0].default == default


def test_parse_table_constraints() -> None:
    found = one("A INT, b INT, CONSTRAINT k PRIMARY KEY (a, B), UNIQUE (b), CHECK (a > b), CONSTRAINT Small CHECK (a < 10)")
    assert found.primary_key == Key(("A", "b"), "k")
    assert found.uniques == (Key(("b",)),)
    assert [f.nullable for f in found.fields] == [False, False]
    assert [(check.name, check.expression) for check in found.checks] == [("check_1c6424d9a7", "a > b"), ("small", "a < 10")]


def test_an_unnamed_check_keeps_its_name_however_it_is_written() -> None:
    assert one("a INT, CHECK (a>0)").checks == one("a INT, CHECK ( (`a` > 0) )").checks


def test_constraint_words_may_be_columns() -> None:
    assert [f.name for f in one("check INT, unique INT, primary INT, constraint INT, foreign INT, comment STRING").fields] == [
        *("check", "unique", "primary", "constraint", "foreign", "comment")
    ]


def test_parse_foreign_keys() -> None:
    sql = """
    CREATE TABLE flights (a INT REFERENCES planes, b INT, CONSTRAINT f FOREIGN KEY (b) REFERENCES planes (ID));
    CREATE TABLE planes (id INT PRIMARY KEY)
    """
    flights, planes = parse_schema(sql, "schema.sql")
    assert flights.foreign_keys == (ForeignKey(("a",), planes.name, ("id",)), ForeignKey(("b",), planes.name, ("id",), "f"))


def test_parse_clauses() -> None:
    clauses = (
        "COMMENT 'x' PARTITIONED BY (B, c) USING Delta TBLPROPERTIES (owned_by = 'me', a.b = 1, on = TRUE, delta.checkpointInterval = '5')"
    )
    found = one("a INT, b INT, c INT", clauses)
    assert (found.comment, found.partitioned_by) == ("x", ("b", "c"))
    assert found.properties == (("a.b", "1"), ("delta.checkpointInterval", "5"), ("on", "true"), ("owned_by", "me"))
    assert one("a INT, s STRUCT<x: STRUCT<y: INT>>", "CLUSTER BY (A, s.X.y)").clustered_by == ("a", "s.x.y")


def test_statements_comments_and_what_looks_like_them() -> None:
    sql = """
    -- first; CREATE TABLE no (a INT);
    /* nested /* comments; */ */
    ;;
    create table if not exists a (x STRING COMMENT 'y;''z\\';--' /* in; between */, -- end
      `y` INT);
    CREATE TABLE `b` (x INT DEFAULT length(r'\\'))"""
    a, b = parse_schema(sql, "schema.sql")
    assert (a.name, b.name) == ("a", "b")
    assert a.fields[0].comment == "y;'z';--"
    assert b.fields[0].default == "LENGTH(r'\\')"


def test_an_empty_schema() -> None:
    assert parse_schema("-- nothing yet\n", "schema.sql") == ()


# --- refusals ------------------------------------------------------------------------------------------------------------------------

#: (error, what it says, SQL; the place it must name is marked by ^)
REFUSED: list[tuple[type[SqlRefusal], str, str]] = [
    (SqlSyntax, "expected CREATE TABLE, found CREAT", "^CREAT TABLE t (a INT)"),
    (SqlSyntax, r"expected \(, found the end", "CREATE TABLE t^"),
    (SqlSyntax, "expected a name, found 1", "CREATE TABLE t (^1 INT)"),
    (SqlSyntax, "expected a data type, found ,", "CREATE TABLE t (a^, b INT)"),
    (SqlSyntax, "expected a comma", "CREATE TABLE t (a INT ^b INT)"),
    (SqlSyntax, r"expected a comma.*found \(", "CREATE TABLE t (a INT^(11))"),
    (SqlSyntax, "NOT NULL stands twice", "CREATE TABLE t (a INT NOT NULL ^NOT NULL)"),
    (SqlSyntax, "expected a string", "CREATE TABLE t (a INT COMMENT ^x)"),
    (SqlSyntax, "expected an expression", "CREATE TABLE t (a INT DEFAULT ^, b INT)"),
    (SqlSyntax, "no valid expression", "CREATE TABLE t (a INT CHECK (a ^>))"),
    (SqlSyntax, "cannot read a table", "CREATE TABLE t (a INT, CHECK (^a IN (SELECT 1)))"),
    (SqlSyntax, "stands twice", "CREATE TABLE t (a INT) COMMENT 'x' ^COMMENT 'y'"),
    (SqlSyntax, "expected USING", "CREATE TABLE t (a INT) ^ENGINE = x"),
    (SqlSyntax, "declared among the columns", "CREATE TABLE t (a INT) PARTITIONED BY (b ^DATE)"),
    (SqlSyntax, "expected a string, a number", "CREATE TABLE t (a INT) TBLPROPERTIES (x = ^y)"),
    (SqlSyntax, "expected a string, a number", "CREATE TABLE t (a INT) TBLPROPERTIES (x = ^-1)"),
    (SqlSyntax, "found y", "CREATE TABLE t (a INT COMMENT 'x' ^'y')"),
    (SqlSyntax, "never closed", "CREATE TABLE t (a INT COMMENT ^'x)"),
    (SqlSyntax, "never closed", "CREATE TABLE t (^`a INT)"),
    (SqlSyntax, "never closed", "CREATE TABLE t (a INT) ^/* x"),
    (UnknownType, "NUMBER", "CREATE TABLE t (a ^NUMBER(10, 2))"),
    (UnknownType, "TEXT.*no such type", "CREATE TABLE t (a ^TEXT)"),
    (UnknownType, "CHAR.*VARCHAR", "CREATE TABLE t (a ^CHAR(3))"),
    (UnknownType, "INTERVAL", "CREATE TABLE t (a ^INTERVAL)"),
    (UnknownType, "TIME", "CREATE TABLE t (a ^TIME)"),
    (UnknownType, "VOID", "CREATE TABLE t (a ^VOID)"),
    (UnknownType, "VARIANT", "CREATE TABLE t (a ^VARIANT)"),
    (UnknownType, "needs a length", "CREATE TABLE t (a ^VARCHAR)"),
    (UnknownType, "at least 1", "CREATE TABLE t (a ^VARCHAR(0))"),
    (UnknownType, "top-level columns only", "CREATE TABLE t (a ARRAY<^VARCHAR(3)>)"),
    (UnknownType, "precision", "CREATE TABLE t (a ^DECIMAL(39,0))"),
    (UnknownType, "precision", "CREATE TABLE t (a ^DECIMAL(2,3))"),
    (UnknownType, "empty", "CREATE TABLE t (a ^STRUCT<>)"),
    (UnknownType, "geo", "CREATE TABLE t (s STRUCT<a: INT, b: ^geo<x>>, c INT)"),
    (UnsupportedClause, "ALTER", "^ALTER TABLE t ADD COLUMN a INT"),
    (UnsupportedClause, "CREATE VIEW", "^CREATE VIEW v AS SELECT 1"),
    (UnsupportedClause, "CREATE OR", "^CREATE OR REPLACE TABLE t (a INT)"),
    (UnsupportedClause, "CREATE EXTERNAL", "^CREATE EXTERNAL TABLE t (a INT)"),
    (UnsupportedClause, "schema or catalog", "CREATE TABLE ^db.t (a INT)"),
    (UnsupportedClause, "USING parquet", "CREATE TABLE t (a INT) USING ^parquet"),
    (UnsupportedClause, "LOCATION", "CREATE TABLE t (a INT) ^LOCATION '/x'"),
    (UnsupportedClause, "OPTIONS", "CREATE TABLE t (a INT) ^OPTIONS (x = 1)"),
    (UnsupportedClause, "AS.*fill=", "CREATE TABLE t (a INT) ^AS SELECT 1"),
    (UnsupportedClause, "buckets", "CREATE TABLE t (a INT) ^CLUSTERED BY (a) INTO 4 BUCKETS"),
    (UnsupportedClause, "STORED", "CREATE TABLE t (a INT) ^STORED AS PARQUET"),
    (UnsupportedClause, "GENERATED", "CREATE TABLE t (a INT ^GENERATED ALWAYS AS IDENTITY)"),
    (UnsupportedClause, "GENERATED", "CREATE TABLE t (a INT DEFAULT 1 ^GENERATED BY DEFAULT AS IDENTITY)"),
    (UnsupportedClause, "COLLATE", "CREATE TABLE t (a STRING ^COLLATE UTF8_LCASE)"),
    (UnsupportedClause, "NULL", "CREATE TABLE t (a STRING ^NULL)"),
    (UnsupportedClause, "NOT ENFORCED", "CREATE TABLE t (a INT, PRIMARY KEY (a) ^NOT ENFORCED)"),
    (UnsupportedClause, "RELY", "CREATE TABLE t (a INT UNIQUE ^RELY)"),
    (UnsupportedClause, "inside an array or map", "CREATE TABLE t (a ARRAY<STRUCT<x: INT ^NOT NULL>>)"),
    (UnsupportedClause, "by columns", "CREATE TABLE t (a DATE, b INT) PARTITIONED BY (^years(a))"),
    (UnsupportedClause, "name the columns", "CREATE TABLE t (a DATE) CLUSTER BY ^AUTO"),
    (UnsafeProperty, "columnMapping", "CREATE TABLE t (a INT) TBLPROPERTIES (^'delta.columnMapping.mode' = 'name')"),
    (UnsafeProperty, "minReaderVersion", "CREATE TABLE t (a INT) TBLPROPERTIES ('a' = 1, ^delta.minReaderVersion = 3)"),
    (InvalidSqlName, "collection name", "CREATE TABLE ^Flights (a INT)"),
    (InvalidSqlName, "collection name", "CREATE TABLE ^`../x` (a INT)"),
    (InvalidSqlName, "collection name", "CREATE TABLE ^schemamig_x (a INT)"),
    (InvalidSqlName, "column name", "CREATE TABLE t (^`a b` INT)"),
    (InvalidSqlName, "column name", "CREATE TABLE t (s STRUCT<^`a.b`: INT>)"),
    (InvalidSqlName, "its own", "CREATE TABLE t (^schemamig_x INT)"),
    (InvalidSqlName, "constraint name", "CREATE TABLE t (a INT, CONSTRAINT ^schemamig_moved_to_x CHECK (a > 0))"),
    (DuplicateName, "column A", "CREATE TABLE t (a INT, ^A INT)"),
    (DuplicateName, "column \u017f", "CREATE TABLE t (s INT, ^\u017f INT)"),
    (DuplicateName, "field \u03c2", "CREATE TABLE t (s STRUCT<\u03c3: INT, ^\u03c2: INT>)"),
    (DuplicateName, "field A", "CREATE TABLE t (s STRUCT<a: INT, ^A: INT>)"),
    (DuplicateName, "field a", "CREATE TABLE t (m MAP<INT, STRUCT<a: INT, b: INT, ^a: INT>>)"),
    (DuplicateName, "constraint K", "CREATE TABLE t (a INT, CONSTRAINT k UNIQUE (a), CONSTRAINT ^K CHECK (a > 0))"),
    (DuplicateName, "CHECK", "CREATE TABLE t (a INT, CHECK (a > 0), ^CHECK (a>0))"),
    (DuplicateName, "UNIQUE", "CREATE TABLE t (a INT UNIQUE, ^UNIQUE (a))"),
    (DuplicateName, "table property", "CREATE TABLE t (a INT) TBLPROPERTIES (x = 1, ^x = 2)"),
    (DuplicateName, "PARTITIONED BY column", "CREATE TABLE t (a INT, b INT) PARTITIONED BY (a, ^A)"),
    (DuplicateName, "CLUSTER BY column", "CREATE TABLE t (a INT, b INT) CLUSTER BY (a, ^A)"),
    (UndeclaredColumn, "PRIMARY KEY uses b", "CREATE TABLE t (a INT, PRIMARY KEY (^b))"),
    (UndeclaredColumn, "PARTITIONED BY uses b", "CREATE TABLE t (a INT) PARTITIONED BY (^b)"),
    (UndeclaredColumn, "CLUSTER BY uses s.y", "CREATE TABLE t (s STRUCT<x: INT>) CLUSTER BY (s.^y)"),
    (UndeclaredColumn, "CHECK uses b", "CREATE TABLE t (a INT, ^CHECK (b > 0))"),
    (UndeclaredColumn, r"CHECK uses s\.y", "CREATE TABLE t (s STRUCT<x: INT>, ^CHECK (s.y > 0))"),
    (InvalidUse, "made of constants", "CREATE TABLE t (a INT, b INT DEFAULT ^a)"),
    (InvalidUse, "second PRIMARY KEY", "CREATE TABLE t (a INT PRIMARY KEY, b INT ^PRIMARY KEY)"),
    (InvalidUse, "atomic columns", "CREATE TABLE t (a ARRAY<INT>, UNIQUE (^a))"),
    (InvalidUse, "none of its partitioning", "CREATE TABLE t (a INT) PARTITIONED BY (^a)"),
    (InvalidUse, "atomic type", "CREATE TABLE t (a MAP<INT, INT>, b INT) PARTITIONED BY (^a)"),
    (InvalidUse, "one of the two", "CREATE TABLE t (a INT, b INT) PARTITIONED BY (a) CLUSTER BY (^b)"),
    (InvalidUse, "at most 4", "CREATE TABLE t (a INT, b INT, c INT, d INT, e INT) CLUSTER BY (^a, b, c, d, e)"),
    (InvalidUse, "minimum and maximum", "CREATE TABLE t (a BINARY) CLUSTER BY (^a)"),
    (InvalidUse, "no such collection", "CREATE TABLE t (a INT ^REFERENCES x (a))"),
    (InvalidUse, "no column x", "CREATE TABLE t (a INT ^REFERENCES t (x))"),
    (InvalidUse, r"0 column\(s\) with 1", "CREATE TABLE t (a INT ^REFERENCES t)"),
    (InvalidUse, "different types", "CREATE TABLE t (a INT, b BIGINT, ^FOREIGN KEY (a) REFERENCES t (b))"),
]


@pytest.mark.parametrize(("error", "says", "marked"), REFUSED, ids=[sql for _, _, sql in REFUSED])
def test_refused_at_its_place(error: type[SqlRefusal], says: str, marked: str) -> None:
    (found,) = refusals(marked.replace("^", ""))
    assert type(found) is error
    assert (found.line, found.column) == (1, marked.index("^") + 1)
    with pytest.raises(error, match=says):
        raise found
    assert f"schema.sql:{found.line}:{found.column}" in str(found)
    assert found.next_action in str(found)


def test_the_place_in_a_longer_file() -> None:
    sql = "-- one\nCREATE TABLE a (x INT);\n\n  CREATE TABLE b (x NUMBER,\n    y\tTEXT)"
    first, second = refusals(sql)
    assert (first.line, first.column, first.collection) == (4, 21, "b")
    assert (second.line, second.column) == (5, 7)


def test_an_error_deep_in_an_expression() -> None:
    (found,) = refusals("CREATE TABLE t (a INT,\n  CHECK (a > 0\n    AND AND b))")
    assert (found.line, type(found)) == (3, SqlSyntax)


def test_all_errors_of_all_statements_at_once() -> None:
    sql = """
    CREATE TABLE a (x TEXT, x INT, `b c` INT);
    nonsense;
    CREATE TABLE b (x INT, CHECK (y > 0)) LOCATION 'x';
    CREATE TABLE c (x CHAR(1))
    """
    kinds = [UnknownType, InvalidSqlName, DuplicateName, SqlSyntax, UnsupportedClause, UnknownType]
    assert [type(found) for found in refusals(sql)] == kinds


def test_a_collection_declared_twice() -> None:
    (found,) = refusals("CREATE TABLE a (x INT);\nCREATE TABLE b (x INT);\n CREATE TABLE a (y INT)")
    assert isinstance(found, DuplicateCollection)
    assert (found.line, found.column, found.first_line, found.collection) == (3, 2, 1, "a")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a " + "ARRAY<" * 5000 + "INT" + ">" * 5000 + ")",
        "CREATE TABLE t (a INT CHECK (" + "(" * 5000 + "a" + ")" * 5000 + "))",
        "CREATE TABLE t (a INT DEFAULT " + "-" * 5000 + "1)",
    ],
    ids=["types", "parentheses", "signs"],
)
def test_nesting_without_end_is_an_error_like_others(sql: str) -> None:
    assert {type(found) for found in refusals(sql)} == {SqlSyntax}


# --- there and back, and cost --------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(20), deadline=None)
@given(declarations(sql=True))
def test_parse_what_is_written_out_reads_back_the_same(declaration: Declaration) -> None:
    assert parse_schema(create_table(declaration), "schema.sql") == (declaration,)


def test_a_statement_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parse_schema("CREATE TABLE once_a (a INT); CREATE TABLE once_b (a INT)", "one.sql")
    read: list[str] = []

    def counted(text: str) -> tuple[Token, ...]:
        read.append(text)
        return tokens(text)

    monkeypatch.setattr(parse, "tokens", counted)
    parse_schema("-- moved\nCREATE TABLE once_b (a INT)  ;\nCREATE TABLE once_c (a INT)", "two.sql")
    assert read == ["CREATE TABLE once_c (a INT)"]


def test_a_thousand_statements_are_quick() -> None:
    columns = ", ".join(f"column_{number} BIGINT NOT NULL COMMENT 'nr {number}'" for number in range(10))
    sql = ";\n".join(f"CREATE TABLE quick_{number} ({columns}) USING delta" for number in range(1000))
    started = time.process_time()
    assert len(parse_schema(sql, "schema.sql")) == 1000
    assert time.process_time() - started < 5  # measured: 0.4 s


def create_table(declaration: Declaration) -> str:
    """The statement that declares it."""
    lines = [_column(f) for f in declaration.fields]
    lines += [f"CONSTRAINT {check.name} CHECK ({check.expression})" for check in declaration.checks]
    if declaration.primary_key is not None:
        lines.append(_named(declaration.primary_key.name) + f"PRIMARY KEY {_list(declaration.primary_key.columns)}")
    lines += [_named(key.name) + f"UNIQUE {_list(key.columns)}" for key in declaration.uniques]
    for key in declaration.foreign_keys:
        target = f"REFERENCES {key.references} {_list(key.referenced_columns)}"
        lines.append(_named(key.name) + f"FOREIGN KEY {_list(key.columns)} {target}")
    clauses = ["USING delta"]
    if declaration.partitioned_by:
        clauses.append(f"PARTITIONED BY {_list(declaration.partitioned_by)}")
    if declaration.clustered_by:
        clauses.append(f"CLUSTER BY {_list(declaration.clustered_by)}")
    if declaration.comment is not None:
        clauses.append(f"COMMENT {_string(declaration.comment)}")
    if declaration.properties:
        pairs = ", ".join(f"{_string(key)} = {_string(value)}" for key, value in declaration.properties)
        clauses.append(f"TBLPROPERTIES ({pairs})")
    return f"CREATE TABLE {declaration.name} (\n  " + ",\n  ".join(lines) + "\n) " + "\n".join(clauses)


def _column(field: Field) -> str:
    default = "" if field.default is None else f" DEFAULT {field.default}"
    return f"{quote(field.name)} {_type(field.type)}{'' if field.nullable else ' NOT NULL'}{default}{_comment(field.comment)}"


def _type(data_type: Primitive | Array | Map | Struct) -> str:
    match data_type:
        case Primitive(name=name):
            return name.upper()
        case Array(element=element):
            return f"ARRAY<{_type(element)}>"
        case Map(key=key, value=value):
            return f"MAP<{_type(key)}, {_type(value)}>"
        case Struct(fields=fields):
            inner = (f"{quote(f.name)}: {_type(f.type)}{'' if f.nullable else ' NOT NULL'}{_comment(f.comment)}" for f in fields)
            return f"STRUCT<{', '.join(inner)}>"


def _comment(text: str | None) -> str:
    return "" if text is None else f" COMMENT {_string(text)}"


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _list(columns: tuple[str, ...]) -> str:
    return f"({', '.join(map(quote, columns))})"


def _named(name: str | None) -> str:
    return "" if name is None else f"CONSTRAINT {name} "
