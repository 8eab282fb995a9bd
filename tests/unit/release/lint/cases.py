"""One release that each rule finds something in, and a near one in which it finds nothing."""

from __future__ import annotations

from dataclasses import dataclass

T = "CREATE TABLE t ({});".format
LONG = "x" * 64


@dataclass(frozen=True)
class Head:
    """The schemas of versions before (the oldest first) and the head's, its module's steps, and those of the versions between."""

    schemas: tuple[str, ...]
    steps: str = ""
    doc: str = "What.\n\nWhy: so."
    between: str = ""


def head(old: str, new: str, steps: str = 'evolution("t")', doc: str = "What.\n\nWhy: so.") -> Head:
    return Head((old, new), steps, doc)


def first(schema: str) -> Head:
    """A release that has one version only."""
    return Head((schema,))


ADD = (T("a INT"), T("a INT, b INT"))
PLANES = "CREATE TABLE p (k INT, v INT{}){};".format
LOOKED_UP = 'rewrite("t", up="SELECT t.a, p.v AS b FROM {t} AS t LEFT JOIN {p} AS p ON t.a = p.k", down="SELECT a FROM {t}", lookups=["p"])'
UP = 'rewrite("t", up="SELECT CAST(a AS INT) AS a FROM {t}"'


def lookup(key: str = "", layout: str = "") -> Head:
    return head(T("a INT") + PLANES(key, layout), T("a INT, b INT") + PLANES(key, layout), LOOKED_UP)


def leaves(count: int, by: str) -> Head:
    columns = ", ".join(f"c{n} INT" for n in range(count))
    return first(f"CREATE TABLE t ({columns}, s STRUCT<x: INT, y: INT>) CLUSTER BY ({by});")


#: Code -> (what is found, where and in which words; what is not).
CASES: dict[str, tuple[Head, str, Head]] = {
    "SM001": (
        head(*ADD, doc="What."),
        "migrations/v1_1_0.py:1: the docstring has no paragraph that begins with `Why:`",
        head(*ADD, doc="What.\n\nWhy:\n    so."),
    ),
    "SM002": (
        head(*ADD, '# schemamig: allow SM101\n    evolution("t")'),
        "migrations/v1_1_0.py:9: SM101 is allowed, and nothing says why",
        head(*ADD, '# schemamig: allow SM101 because so\n    evolution("t")'),
    ),
    "SM003": (
        head(*ADD, '# schemamig: allow SM999 because so\n    evolution("t")'),
        "migrations/v1_1_0.py:9: there is no rule SM999",
        head(*ADD, '# schemamig is fine\n    evolution("t")'),
    ),
    "SM004": (
        head(*ADD, '# schemamig: allow SM101 because so\n    evolution("t")'),
        "migrations/v1_1_0.py:9: SM101 is allowed, and finds nothing here",
        head(ADD[1], ADD[0], '# schemamig: allow SM101 because so\n    evolution("t", drop=["b"])'),
    ),
    "SM101": (
        head(ADD[1], ADD[0], 'evolution("t", drop=["b"])'),
        "migrations/v1_1_0.py:9: t: b is dropped, its values are gone when the hold is over",
        head(ADD[1], T("a INT, c INT"), 'evolution("t", rename={"b": "c"})'),
    ),
    "SM102": (
        head(T("a INT") + PLANES("", ""), T("a INT"), 'removal("p")'),
        "migrations/v1_1_0.py:9: p: the collection is removed, its rows are gone when the hold is over",
        head(PLANES("", ""), PLANES("", "").replace("TABLE p", "TABLE q"), 'evolution("q", renamed_from="p")'),
    ),
    "SM103": (
        head(T("a STRING"), T("a INT"), 'replacement("t")'),
        "migrations/v1_1_0.py:9: t: the replacement has no fill, so the collection begins empty",
        head(T("a STRING"), T("a INT"), 'replacement("t", fill="SELECT CAST(a AS INT) AS a FROM {t}")'),
    ),
    "SM104": (
        head(T("a BIGINT"), T("a INT")),
        "migrations/v1_1_0.py:9: t: a goes from BIGINT to INT: a value that does not fit stops the upgrade",
        head(T("a INT, b INT"), T("a BIGINT, b STRING")),
    ),
    "SM105": (
        head(T("a DECIMAL(12,4)"), T("a DECIMAL(12,2)")),
        "migrations/v1_1_0.py:9: t: a goes from DECIMAL(12,4) to DECIMAL(12,2): digits are rounded away without an error",
        head(T("a DECIMAL(12,4), b DECIMAL(12,4)"), T("a DECIMAL(14,6), b DECIMAL(11,4)")),
    ),
    "SM106": (
        head(T("a VARCHAR(20)"), T("a VARCHAR(10)")),
        "migrations/v1_1_0.py:9: t: a goes from VARCHAR(20) to VARCHAR(10): longer values do not fit any more",
        head(T("a VARCHAR(20)"), T("a VARCHAR(30)")),
    ),
    "SM107": (
        head(T("a TIMESTAMP"), T("a TIMESTAMP_NTZ")),
        "migrations/v1_1_0.py:9: t: a goes from TIMESTAMP to TIMESTAMP_NTZ: every value is read in the time zone of the converting session",
        head(T("a TIMESTAMP"), T("a TIMESTAMP_NTZ"), 'replacement("t")'),
    ),
    "SM108": (
        head(T("a STRING"), T("a INT"), f"{UP})"),
        "migrations/v1_1_0.py:9: t: the rewrite has no down, so a rollback loses the rows written since",
        head(T("a STRING"), T("a INT"), f'{UP}, down="SELECT CAST(a AS STRING) AS a FROM {{t}}")'),
    ),
    "SM109": (
        head(T("a STRING"), T("a INT"), f'{UP}, cardinality="any")'),
        'migrations/v1_1_0.py:9: t: cardinality="any" turns off the check that every row becomes one row',
        head(T("a STRING"), T("a INT"), f'{UP}, cardinality="same")'),
    ),
    "SM110": (
        Head((T("a INT") + PLANES("", ""), T("a INT"), T("a INT") + PLANES("", ""))),
        "schema.sql:1: p: p was another collection until 1.0.0",
        Head((T("a INT"), T("a INT"), T("a INT") + PLANES("", ""))),
    ),
    "SM111": (
        Head((ADD[1], ADD[0], ADD[1]), 'evolution("t")'),
        "migrations/v1_2_0.py:9: t: b was another column until 1.0.0",
        Head((ADD[0], ADD[0], ADD[1]), 'evolution("t")'),
    ),
    "SM112": (
        head(*ADD, 'replacement("t")'),
        'migrations/v1_1_0.py:9: t: evolution("t") would keep the rows, and is one commit',
        head(T("a STRING"), T("a INT"), 'replacement("t")'),
    ),
    "SM201": (
        head(T("a INT"), T("a INT, b INT NOT NULL")),
        "migrations/v1_1_0.py:9: t: b is new and NOT NULL, and older rows have no value for it",
        head(T("a INT"), T("a INT, b INT NOT NULL DEFAULT 1")),
    ),
    "SM202": (
        head(ADD[1], T("a INT, c INT"), 'evolution("t", rename={"b": "c"})'),
        "migrations/v1_1_0.py:9: t: rename b to c: where it is new, readers and writers below protocol (3,7) of Delta lose"
        " access, and so do streams that read it",
        head(*ADD),
    ),
    "SM203": (
        head(T("a INT"), T("a BIGINT")),
        "migrations/v1_1_0.py:9: t: widen a from INT to BIGINT: where it is new, readers and writers without the feature"
        " typeWidening lose access",
        Head((T("a SMALLINT"), T("a INT"), T("a BIGINT")), 'evolution("t")', between='evolution("t")'),
    ),
    "SM204": (
        head(T("a INT"), T("a INT DEFAULT 1")),
        "migrations/v1_1_0.py:9: t: set default of a to 1: where it is new, writers without the feature"
        " allowColumnDefaults lose access",
        head(T("a INT DEFAULT 1"), T("a INT DEFAULT 1, b INT DEFAULT 2")),
    ),
    "SM205": (
        head(T("a INT"), T("a INT, b ARRAY<TIMESTAMP_NTZ>")),
        "migrations/v1_1_0.py:9: t: add b ARRAY<TIMESTAMP_NTZ>: where it is new, readers and writers without the feature"
        " timestampNtz lose access",
        head(T("c TIMESTAMP_NTZ"), T("c TIMESTAMP_NTZ, b TIMESTAMP_NTZ")),
    ),
    "SM206": (
        head(T("a INT, b INT") + "", T("a INT, b INT").replace(";", " PARTITIONED BY (b);"),
             'rewrite("t", up="SELECT a, b FROM {t}", down="SELECT a, b FROM {t}")'),
        "migrations/v1_1_0.py:9: t: partition by (b): paths, filters and writers of others name the partition columns",
        head(T("a INT, b INT").replace(";", " PARTITIONED BY (b);"), T("a INT, b INT, c INT").replace(";", " PARTITIONED BY (b);")),
    ),
    "SM207": (
        head(T("a INT"), T("a INT NOT NULL, CHECK (a > 0)")),
        "migrations/v1_1_0.py:9: t: set NOT NULL on a; add CHECK check_4ead0c05f2 (a > 0): every row is read, and one that"
        " violates it stops the upgrade",
        head(T("a INT NOT NULL"), T("a INT")),
    ),
    "SM208": (
        lookup(", PRIMARY KEY (k)", " CLUSTER BY (k)"),
        "migrations/v1_1_0.py:9: t: p is clustered, as big tables are, and is joined again for every batch of the copy and of the tail",
        lookup(", PRIMARY KEY (k)"),
    ),
    "SM209": (
        lookup(),
        "migrations/v1_1_0.py:9: t: p has neither PRIMARY KEY nor UNIQUE: two rows that match make two rows of one",
        lookup(", UNIQUE (k)"),
    ),
    "SM210": (
        head(T("a INT, b INT"), T("b INT, a INT"), ""),
        "migrations/v1_1_0.py:1: t: reorder the columns: an INSERT without column names writes into other columns",
        head(T("a INT, b INT"), T("a INT, c INT, b INT")),
    ),
    "SM211": (
        head(T("a INT"), T("a INT, b DATE DEFAULT CURRENT_DATE()")),
        "migrations/v1_1_0.py:9: t: older rows get the current_date of the moment they are filled as b",
        head(T("a INT"), T("a INT, b DATE DEFAULT DATE '2020-01-01'")),
    ),
    "SM212": (
        head(T("a STRING"), T("a INT"), 'replacement("t", fill="SELECT * FROM {t}")'),
        "migrations/v1_1_0.py:9: t: fill says SELECT *: name the columns",
        head(T("a STRING"), T("a INT"), 'replacement("t", fill="SELECT count(*) AS a FROM {t}")'),
    ),
    "SM213": (
        head(T("a STRING"), T("a DOUBLE"), 'replacement("t", fill="SELECT rand() AS a FROM {t}")'),
        "migrations/v1_1_0.py:9: t: fill calls rand, and runs again if its inputs move before the promotion",
        head(T("a STRING"), T("a DOUBLE"), 'replacement("t", fill="SELECT sum(a) AS a FROM {t}")'),
    ),
    "SM301": (
        first(T("a DATE, CONSTRAINT past CHECK (a < current_date())")),
        "schema.sql:1: t: CHECK past calls current_date: a row that passed may fail the next UPDATE or OPTIMIZE",
        first(T("a DATE, CONSTRAINT past CHECK (a < DATE '2020-01-01')")),
    ),
    "SM302": (
        first(T("a STRING, CONSTRAINT ok CHECK (is_iban(a))")),
        "schema.sql:1: t: CHECK ok calls is_iban: a writer without this function cannot write at all",
        first(T("a STRING, CONSTRAINT ok CHECK (upper(a) IN ('x') AND CAST(a AS VARCHAR(3)) > 'x' AND a LIKE ANY ('b'))")),
    ),
    "SM303": (
        first(T("a INT, CONSTRAINT c CHECK (max(a) > 1)")),
        "schema.sql:1: t: CHECK c calls max, and a CHECK sees one row at a time",
        first(T("a INT, CONSTRAINT c CHECK (greatest(a, 1) > 1)")),
    ),
    "SM304": (
        first("CREATE TABLE t (\n  a INT,\n  b DOUBLE,\n  PRIMARY KEY (a, b));"),
        "schema.sql:3: t: b is DOUBLE and part of a key: equal numbers are not equal bits",
        first("CREATE TABLE t (\n  a INT,\n  b DOUBLE,\n  PRIMARY KEY (a));"),
    ),
    "SM305": (
        first(T("a INT, UNIQUE (a)")),
        "schema.sql:1: t: a is UNIQUE and may be NULL, as often as anybody likes",
        first(T("a INT NOT NULL, UNIQUE (a)")),
    ),
    "SM306": (
        first(T("`order` INT")),
        "schema.sql:1: t: order needs backticks wherever it is used",
        first(T("ordered INT, s STRUCT<day: INT>")),
    ),
    "SM307": (
        first(T("a INT, _Change_Type STRING")),
        "schema.sql:1: t: _Change_Type is a column of the change data feed or of Spark's metadata, and the two cannot be told apart",
        first(T("a INT, change_type STRING, s STRUCT<_metadata: INT>")),
    ),
    "SM308": (
        first(T(f"a INT, {LONG} INT")),
        f"schema.sql:1: t: {LONG} has 64 characters, others keep 63",
        first(T(f"a INT, {LONG[1:]} INT")),
    ),
    "SM309": (
        leaves(31, "s.y"),
        "schema.sql:1: t: s.y is column 33, Delta keeps statistics of 32 and refuses to cluster by it",
        leaves(31, "s.x"),
    ),
    "SM310": (
        first(T("a INT, CONSTRAINT x CHECK (a > 0), CONSTRAINT y CHECK ((`a`>0))")),
        "schema.sql:1: t: CHECK y says what x says",
        first(T("a INT, b INT NOT NULL, CONSTRAINT x CHECK (a > 0), CONSTRAINT y CHECK (a > 1), PRIMARY KEY (a), UNIQUE (b)")),
    ),
    "SM311": (
        first("CREATE TABLE t (a INT, b DECIMAL(10,2)) PARTITIONED BY (b);"),
        "schema.sql:1: t: partitions by b of type DECIMAL(10,2): a folder for each value, and a small file in each",
        first("CREATE TABLE t (a INT, b DATE) PARTITIONED BY (b);"),
    ),
    "SM312": (
        first(T("a INT, FOREIGN KEY (a) REFERENCES p (k)") + PLANES("", "")),
        "schema.sql:1: t: a FOREIGN KEY refers to p (k), which is neither PRIMARY KEY nor UNIQUE",
        first(T("a INT, FOREIGN KEY (a) REFERENCES p (k)") + PLANES(", UNIQUE (k)", "")),
    ),
    "SM313": (
        first("CREATE TABLE t (a INT) TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 6 days');"),
        "schema.sql:1: t: delta.logRetentionDuration = interval 6 days: a rewrite that takes longer loses the history it follows",
        first("CREATE TABLE t (a INT) TBLPROPERTIES ('delta.logRetentionDuration' = '1 week');"),
    ),
    "SM314": (
        head(T("a INT"), T("a INT") + "\n\n" + PLANES("", ""), ""),
        "schema.sql:3: p: the new collection has no PRIMARY KEY: rows are told apart by all of their values",
        head(T("a INT"), T("a INT") + PLANES(", PRIMARY KEY (k)", ""), ""),
    ),
    "SM315": (
        head(T("a INT"), T("a INT") + "CREATE TABLE p (a INT COMMENT 'x', b INT);", ""),
        "schema.sql:1: p: no COMMENT on the collection, b",
        head(T("a INT"), T("a INT") + "CREATE TABLE p (a INT COMMENT 'x') COMMENT 'y';", ""),
    ),
}  # fmt: skip
